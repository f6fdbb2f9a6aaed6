"""Ways to break the second service, each with the case or the rule that finds it.

A mutation replaces methods of a Service; `replaced` wraps one of them.  Add a row to MUTATIONS: the test tries all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from second_service import RefusedError, Service


@dataclass(frozen=True)
class Mutation:
    """What a service does wrong."""

    about: str
    found_by: str
    """The case that is broken, which is the only one that is run."""
    apply: Callable[[Service], None]
    rule: str = ""
    """The broken rule, if a rule finds it."""
    traits: dict = field(default_factory=dict)
    """Traits of the service in which it shows."""


def replaced(name, change):
    """Replace a method: `change` gets the original method, and its arguments."""

    def apply(service):
        original = getattr(service, name)
        setattr(service, name, lambda *arguments, **more: change(original, *arguments, **more))

    return apply


def with_type(type_, change):
    """Change the bytes of events of a type: `change` gets them."""

    def frame(original, event, reader):
        return change(original(event, reader)) if event["type"] == type_ else original(event, reader)

    return replaced("frame", frame)


def accept_twice(_original, run, call, _result):
    if call is None:
        raise RefusedError("invalid_request")


def answer_again(original, call, result):
    if not call.answer.done():
        original(call, result)


def without(type_):
    """Drop the events of a type."""
    return lambda original, session, event: None if event["type"] == type_ else original(session, event)


def both(*changes):
    def apply(service):
        for change in changes:
            change(service)

    return apply


def as_tenant(tenant):
    """Let all keys belong to one tenant."""
    return replaced("authenticate", lambda original, request: original(request) and tenant)


def never(*_arguments, **_more):
    """Do nothing."""


def unless(code):
    """Do not refuse with one code."""

    def change(original, *arguments):
        try:
            original(*arguments)
        except RefusedError as refused:
            if refused.code != code:
                raise

    return change


def refused_as(code, instead):
    """Refuse with another code."""

    def change(original, refused, request):
        return original(RefusedError(instead, refused.message) if refused.code == code else refused, request)

    return replaced("refusal", change)


def with_any_body(original, request, tenant, body):
    """Repeat the response to a request with the same idempotency key, whatever its body is."""
    known = original.__self__.retries.get((tenant, request.path, request.headers.get("X-Request-Token")))
    return original(request, tenant, known[0] if known else body)


def replay_or_nothing(original, session, cursor):
    try:
        return original(session, cursor)
    except RefusedError:
        return []


def lose_last(original, session):
    original(session)
    del session.log[-1]


MUTATIONS = {
    "tenants-mixed": Mutation("Another tenant sees a session.", "tenancy/records", as_tenant("acme")),
    "stream-of-other-tenant": Mutation("Another tenant reads a stream.", "tenancy/stream", as_tenant("acme")),
    "replay-of-other-tenant": Mutation("Another tenant reads a replay.", "tenancy/replay", as_tenant("acme")),
    "command-of-other-tenant": Mutation("Another tenant cancels a run.", "tenancy/commands", as_tenant("acme")),
    "two-runs-active": Mutation("A second run begins while one waits.", "runs/busy", replaced("refuse_busy", never)),
    "twins-both-run": Mutation(
        "Two requests at once both create a run.", "concurrency/two-runs-at-once", replaced("refuse_busy", never)
    ),
    "key-with-other-body": Mutation(
        "An idempotency key is accepted with another payload.",
        "idempotency/different-body",
        replaced("recall", with_any_body),
    ),
    "cancelled-twice": Mutation(
        "A completed run can be cancelled.",
        "runs/cancel-completed",
        replaced("cancel_run", unless("RUN_NOT_CANCELLABLE")),
    ),
    "wrong-result-accepted": Mutation(
        "A result that does not match the schema is accepted.",
        "tools/wrong-result",
        replaced("check_result", unless("tool_result_invalid")),
    ),
    "late-result-accepted": Mutation(
        "A result is accepted after its deadline.",
        "tools/late-result",
        both(replaced("check_result", accept_twice), replaced("answer", answer_again)),
    ),
    "unknown-cursor-ignored": Mutation(
        "An unknown cursor replays nothing.",
        "replay/unknown-cursor",
        replaced("replay", replay_or_nothing),
    ),
    "other-code-for-cursor": Mutation(
        "An unknown cursor gets another code.",
        "replay/malformed-cursor",
        refused_as("invalid_cursor", "invalid_request"),
    ),
    "scope-ignored": Mutation(
        "A key without the scope gets another code.",
        "authentication/missing-scope",
        refused_as("permission_denied", "resource_not_found"),
    ),
    "closed-stream-loses": Mutation(
        "What was not sent when a stream is closed is lost.",
        "replay/closing",
        replaced(
            "end_streams", lambda original, session: (original(session), session.log.__delitem__(slice(-1, None)))
        ),
    ),
    "replay-skips-one": Mutation(
        "A replay lacks the first event after the cursor.",
        "replay/after-each-event",
        replaced("replay", lambda original, session, cursor: original(session, cursor)[bool(cursor) :]),
        rule="RES002",
    ),
    "cursor-included": Mutation(
        "A replay begins with the event of the cursor.",
        "replay/same-twice",
        replaced(
            "replay",
            lambda original, session, cursor: (
                session.log[-len(original(session, cursor)) - 1 :] if cursor else original(session, cursor)
            ),
        ),
        rule="RES001",
    ),
    "result-accepted-twice": Mutation(
        "A result is accepted again after the run has ended.",
        "tools/repeated-result",
        both(replaced("check_result", accept_twice), replaced("answer", answer_again)),
    ),
    "result-ignored": Mutation(
        "A result is accepted, and the run keeps waiting.",
        "tools/correct-result",
        replaced("answer", lambda _original, call, _result: setattr(call, "state", "answered")),
    ),
    "cancel-forgotten": Mutation(
        "A run is cancelled without run.cancelled.",
        "runs/cancel",
        replaced("publish", without("run.cancelled")),
    ),
    "cut-off-json": Mutation(
        "The data of message.completed is cut off.",
        "streams/run-with-deltas",
        with_type("message.completed", lambda raw: raw.replace(b"}", b"", 1)),
        rule="EVT001",
    ),
}
