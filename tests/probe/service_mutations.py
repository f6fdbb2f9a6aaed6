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


MUTATIONS = {
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
