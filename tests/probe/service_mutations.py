"""Ways to break the second service, each with the case or the rule that finds it.

A mutation replaces methods of a Service; `replaced` wraps one of them.  Add a row to MUTATIONS: the test tries all.
"""

from collections.abc import Callable
from dataclasses import dataclass

from second_service import RefusedError, Service


@dataclass(frozen=True)
class Mutation:
    """What a service does wrong."""

    found_by: str
    """The case that is broken, which is the only one that is run."""
    apply: Callable[[Service], None]
    rule: str = ""
    """The broken rule, if a rule finds it."""


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


def lose_unsent(original, session):
    original(session)
    del session.log[-1:]


def cut_off(raw):
    return raw.replace(b"}", b"", 1)


def include_cursor(original, session, cursor):
    events = original(session, cursor)
    return session.log[-len(events) - 1 :] if cursor else events


late = both(replaced("check_result", accept_twice), replaced("answer", answer_again))
never_busy = replaced("refuse_busy", never)
skip_one = replaced("replay", lambda original, session, cursor: original(session, cursor)[bool(cursor) :])
ignore_result = replaced("answer", lambda _original, call, _result: setattr(call, "state", "answered"))
MUTATIONS = {
    "tenants-mixed": Mutation("tenancy/records", as_tenant("acme")),
    "stream-of-other-tenant": Mutation("tenancy/stream", as_tenant("acme")),
    "replay-of-other-tenant": Mutation("tenancy/replay", as_tenant("acme")),
    "command-of-other-tenant": Mutation("tenancy/commands", as_tenant("acme")),
    "two-runs-active": Mutation("runs/busy", never_busy),
    "twins-both-run": Mutation("concurrency/two-runs-at-once", never_busy),
    "key-with-other-body": Mutation("idempotency/different-body", replaced("recall", with_any_body)),
    "cancelled-twice": Mutation("runs/cancel-completed", replaced("cancel_run", unless("RUN_NOT_CANCELLABLE"))),
    "wrong-result-accepted": Mutation("tools/wrong-result", replaced("check_result", unless("tool_result_invalid"))),
    "late-result-accepted": Mutation("tools/late-result", late),
    "unknown-cursor-ignored": Mutation("replay/unknown-cursor", replaced("replay", replay_or_nothing)),
    "other-code-for-cursor": Mutation("replay/malformed-cursor", refused_as("invalid_cursor", "invalid_request")),
    "scope-ignored": Mutation("authentication/missing-scope", refused_as("permission_denied", "resource_not_found")),
    "closed-stream-loses": Mutation("replay/closing", replaced("end_streams", lose_unsent)),
    "replay-skips-one": Mutation("replay/after-each-event", skip_one, "RES002"),
    "cursor-included": Mutation("replay/same-twice", replaced("replay", include_cursor), "RES001"),
    "result-accepted-twice": Mutation("tools/repeated-result", late),
    "result-ignored": Mutation("tools/correct-result", ignore_result),
    "cancel-forgotten": Mutation("runs/cancel", replaced("publish", without("run.cancelled"))),
    "cut-off-json": Mutation(
        "streams/run-with-deltas", with_type("message.completed", lambda raw: raw.replace(b"}", b"", 1)), "EVT001"
    ),
}
