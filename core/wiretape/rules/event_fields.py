"""EVT: the fields of events."""

from wiretape.contract.schemas import EVENT_SCHEMAS, Violation
from wiretape.rules.catalogue import HELD, MESSAGE, Basis, Outcome, Problem, Scope, problem, rule
from wiretape.rules.durability import id_disagrees, id_without_sequence, sequence_without_id
from wiretape.rules.events import event_name_disagrees, is_damaged
from wiretape.rules.finding import Severity
from wiretape.rules.flaws import NO_FLAWS
from wiretape.rules.instants import is_usual, is_utc_instant
from wiretape.rules.message import Message, Shape
from wiretape.rules.state import Stream
from wiretape.rules.words import described, quoted, sentence

_DURABLE = frozenset({Shape.DURABLE})
_DELTA = frozenset({Shape.DELTA})
_SUMMARY = ("tool_call_id", "name")
_OF_DURABILITY = (id_without_sequence, sequence_without_id, id_disagrees)


@rule(
    "EVT004",
    "durable-field-malformed",
    at=MESSAGE,
    plain=True,
    shapes=_DURABLE,
    clause='Durable event: the table with the columns "Field", "Type", "Notes"',
)
def durable_field_malformed(message: Message, stream: Stream) -> Outcome:
    """A durable event lacks a field, or has it with a wrong JSON type.  One finding a field.

    A sequence with a fraction, even 1.0, is no integer.
    """
    if message.flaws is NO_FLAWS and message.sequence is not None:
        return HELD
    told = {"content"} if "content" in message.document else set()
    if any(check(message, stream) for check in _OF_DURABILITY):
        told |= {"id", "sequence"}
    if event_name_disagrees(message, stream):
        told.add("type")
    found = {str(v.path[0]): v for v in message.flaws.general}
    sequence = message.document.get("sequence", ...)
    if type(sequence) is float and message.sequence is None:
        found.setdefault("sequence", Violation(("sequence",), "an integer", sequence))
    return [Problem(sentence(violation)) for name, violation in found.items() if name not in told]


@rule(
    "EVT005",
    "created-at-not-utc",
    at=MESSAGE,
    shapes=_DURABLE,
    clause='Durable event, created_at: "ISO 8601 UTC timestamp."',
)
def created_at_not_utc(message: Message, _stream: Stream) -> Outcome:
    """The `created_at` of a durable event is not an ISO 8601 instant in UTC, with `Z` or `+00:00`."""
    created_at = message.document.get("created_at")
    if type(created_at) is not str:
        return None
    if (message.created_at is not None and is_usual(created_at)) or is_utc_instant(created_at):
        return HELD
    if is_damaged(message, created_at):
        return None
    return problem(f"Expected an ISO 8601 instant in UTC as `created_at`, got {quoted(created_at)}.")


@rule(
    "EVT006",
    "content-malformed",
    at=MESSAGE,
    plain=True,
    shapes=_DURABLE,
    clause='Events 4: "Text event `content` is a list of blocks; structured event `content` is a JSON object."',
)
def content_malformed(message: Message, _stream: Stream) -> Outcome:
    """The `content` of a durable event is neither an object nor a list that holds nothing but objects."""
    if "content" not in message.document:
        return None
    if message.flaws is NO_FLAWS:
        return HELD
    wrong = [violation for violation in message.flaws.general if violation.path[0] == "content"]
    if not wrong:
        return HELD
    got = described(wrong[0].got)
    place = f", and in it {got} at {wrong[0].path[1]}" if len(wrong[0].path) > 1 else ""
    got = "an array" if place else got
    return problem(f"Expected an object or an array of objects as `content`, got {got}{place}.")


@rule(
    "EVT007",
    "tool-started-malformed",
    at=MESSAGE,
    plain=True,
    shapes=_DURABLE,
    clause='tool.started: "content.tool_call_id | string", "content.input | object", "data.name | string"',
)
def tool_started_malformed(message: Message, _stream: Stream) -> Outcome:
    """A field that a `tool.started` event has in `content` or `data` is missing or of a wrong type.

    One finding a field.
    """
    if message.type not in EVENT_SCHEMAS:
        return None
    return [Problem(sentence(violation)) for violation in message.flaws.special]


@rule(
    "EVT008",
    "tool-summary-disagrees",
    at=MESSAGE,
    shapes=_DURABLE,
    severity=Severity.WARNING,
    basis=Basis.INFERRED,
    clause='Durable event, data: "Short summary of the event."',
)
def tool_summary_disagrees(message: Message, _stream: Stream) -> Outcome:
    """`data` of a `tool.started` event names another call or tool than `content` does.  One finding a field."""
    if message.type not in EVENT_SCHEMAS:
        return None
    content, data = message.document.get("content"), message.document.get("data")
    if type(content) is not dict or type(data) is not dict:
        return None
    problems, compared = [], False
    for name in _SUMMARY:
        whole, short = content.get(name), data.get(name)
        if type(whole) is str and type(short) is str:
            compared = True
            if whole != short:
                said = f"Expected {quoted(whole)}, as in `content`, as `data.{name}`, got {quoted(short)}."
                problems.append(Problem(said))
    return problems if compared else None


@rule(
    "EVT009",
    "wrong-session",
    at=MESSAGE,
    shapes=_DURABLE,
    scope=Scope.STREAM,
    basis=Basis.INFERRED,
    clause='Endpoints: "Opens an SSE stream of the session\'s events."',
)
def wrong_session(message: Message, stream: Stream) -> Outcome:
    """The `session_id` of a durable event is not the session in the path of the request."""
    session = message.document.get("session_id")
    if type(session) is not str:
        return None
    if session == stream.session.id:
        return HELD
    if is_damaged(message, session):
        return None
    return problem(f"Expected {quoted(stream.session.id)}, the session of the request, got {quoted(session)}.")


@rule(
    "EVT010",
    "workspace-changed",
    at=MESSAGE,
    shapes=_DURABLE,
    scope=Scope.SESSION,
    basis=Basis.INFERRED,
    clause='What the service does: "All data is scoped to a tenant and a workspace."',
)
def workspace_changed(message: Message, stream: Stream) -> Outcome:
    """Durable events of one session carry different `workspace_id`.  One finding for each new one."""
    workspaces = stream.session.workspaces
    workspace = message.workspace_of(stream.session.id)
    if workspace is None or not workspaces or is_damaged(message, workspace):
        return None
    first = next(iter(workspaces))
    if workspace == first:
        return HELD
    if workspace in workspaces:
        # It was found before.
        return None
    return problem(f"Expected the workspace {quoted(first)}, as in the events before, got {quoted(workspace)}.")


@rule(
    "EVT011",
    "ephemeral-malformed",
    at=MESSAGE,
    plain=True,
    shapes=_DELTA,
    clause='Ephemeral event: "run_id | string", "delta | object | For `message.delta`: `delta.text`, …"',
)
def ephemeral_malformed(message: Message, _stream: Stream) -> Outcome:
    """A delta lacks a field or has it with a wrong type; a `message.delta` has `delta.text` too.

    One finding a field.
    """
    flaws = message.flaws
    if flaws is NO_FLAWS:
        return HELD
    # That a delta has a sequence is DUR005.
    return [Problem(sentence(v)) for v in (*flaws.general, *flaws.special) if v.path[0] != "sequence"]
