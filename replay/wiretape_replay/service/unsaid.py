"""What the specification leaves unsaid and no setting of `[assumed]` replaces, as it is told to people."""

from collections.abc import Mapping
from dataclasses import dataclass

from wiretape_replay.responses.access_settings import ASSUMED_COUNTS, ASSUMED_SCOPES


@dataclass(frozen=True, slots=True)
class Fixed:
    """An assumption that no setting of the service replaces."""

    subject: str
    assumed: str
    instead: str = "nowhere"
    """Where something else can be said, or that nowhere."""


def _told(names: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}`: `{value}`" for name, value in names.items()) + ", all others: none"


FIXED = (
    Fixed("scope that requests need", _told(ASSUMED_SCOPES), "`[scopes]`"),
    Fixed("limit that requests count towards", _told(ASSUMED_COUNTS), "`[counts]`"),
    Fixed(
        "requests that count towards a limit",
        "all whose key and scope are good, but those refused by the limit; those answered once more, too",
    ),
    Fixed("window of a limit", "any 60 s; `Retry-After` is in whole seconds, rounded up", "`[limits]`"),
    Fixed(
        "refusals when several fit",
        "the first of 401, 403, 429 and 404, then the idempotency key, then the state of session and run, then the "
        "body: who resumes a run that has ended learns that, whatever else is wrong",
    ),
    Fixed("keep-alive", "a comment whenever a stream was sent nothing for 15 s"),
    Fixed("status of a run", "`running`, `completed`, `failed`, `cancelled` beside `waiting_for_input`"),
    Fixed("status of a session", "`idle`, or `active` while a run is"),
    Fixed("body of a new session", "`workspace_id`, if any"),
    Fixed("body of a new run", "`input`, `sandbox`, `tools` (`name`, `input_schema`, `output_schema`)"),
    Fixed("body of a resume", "`tool_call_id` with `output` or `error`, or `input`"),
    Fixed("bodies of cancel and resume that come back", "the run, as when it is read", "`run-body`"),
    Fixed("deadline of application tools", "300 s", "the scenario"),
    Fixed("a deadline that passes", "the call fails, and its run with it"),
    Fixed("the end of a run", "calls under way fail first, and `session.status_idle` follows"),
    Fixed("schemas of tools", "JSON Schema 2020-12, unless `$schema` names an older draft; nothing is fetched"),
    Fixed("when `tool_input_invalid` comes", "when the run is created that would call the tool", "the scenario"),
    Fixed("durability of event types", "every type is stored but deltas and `stream.resync`", "the scenario"),
    Fixed("payloads of events", "as the shipped scenarios show them"),
    Fixed("idempotency keys", "those of a tenant, of 1 to 255 characters, kept for ever"),
    Fixed("a key bound to an answer", "only by success: what was refused can be sent again, corrected"),
    Fixed(
        "the same payload",
        "method, path, the workspace of a new session, and the body as JSON; no body is the same as `{}`",
    ),
    Fixed("a known path with another method", "400 `invalid_request`, with `Allow`; so `HEAD`, too"),
    Fixed("`OPTIONS`", "the same, but 200 for a browser's preflight; there is no CORS"),
    Fixed("a path that nobody knows", "404 `resource_not_found`"),
    Fixed("what is no HTTP", "400 `invalid_request`, and the connection ends"),
    Fixed("largest body", "4 MiB, then 400 `invalid_request`"),
    Fixed("deepest body", "nested 1024 deep, then 400 `invalid_request`"),
    Fixed(
        "what bodies can hold",
        "JSON in UTF-8, numbers as far as a double goes, no half surrogate pairs; a `workspace_id` of 1 to 255 "
        "characters, 100 `tools`, whose names are of 1 to 200 characters",
    ),
    Fixed("`Content-Type` of requests", "is not looked at: a body is JSON or refused"),
    Fixed("`Content-Encoding` of requests", "none or `identity`: others are 400 `invalid_request`"),
    Fixed("largest request line and header", "256 KiB each, and 1000 headers, then 400 `invalid_request`"),
    Fixed("`event_deltas`", "`true` or `false`, in any case, once; other parameters are ignored"),
)
