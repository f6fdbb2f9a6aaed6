"""DUR: durable and ephemeral events."""

from wiretape.contract import EVENT_DELTAS, STORED_TYPES
from wiretape.event import Event, Shape
from wiretape.rules.catalogue import EVENT, HELD, Outcome, Scope, problem, rule
from wiretape.rules.quoting import describe, quote
from wiretape.rules.state.stream_state import StreamState

_DURABLE = frozenset({Shape.DURABLE})
_DELTA = frozenset({Shape.DELTA})
_WITH_OBJECT = frozenset({Shape.EPHEMERAL, Shape.DELTA, Shape.DURABLE})
_ID_AND_SEQUENCE = 'Events 1: "Durable events have an SSE `id` and a JSON `sequence`."'


@rule("DUR001", "id-without-sequence", on=EVENT, fast_path=True, shapes=_DURABLE, clause=_ID_AND_SEQUENCE)
def id_without_sequence(event: Event, _stream: StreamState) -> Outcome:
    """An event has an SSE id, but its JSON has no `sequence`."""
    if not event.has_id:
        return None
    if "sequence" in event.document:
        # A null is a `sequence` of the wrong type (EVT004).
        return HELD
    return problem(f"Expected a JSON `sequence` in the event with the SSE id {_quote_id_line(event)}, got none.")


@rule("DUR002", "sequence-without-id", on=EVENT, fast_path=True, shapes=_DURABLE, clause=_ID_AND_SEQUENCE)
def sequence_without_id(event: Event, _stream: StreamState) -> Outcome:
    """The JSON of an event has a `sequence`, but the event has no `id` line or an empty one."""
    if not event.has_sequence:
        return None
    if event.has_id:
        return HELD
    got = "none" if event.id_line is None else "an empty one"
    sequence = describe(event.document["sequence"])
    return problem(f"Expected an SSE id with the JSON `sequence`, which is {sequence}, got {got}.")


@rule(
    "DUR003",
    "id-disagrees",
    on=EVENT,
    fast_path=True,
    shapes=_DURABLE,
    clause='Durable event, id: "Same value as the SSE `id` line."',
)
def id_disagrees(event: Event, _stream: StreamState) -> Outcome:
    """The JSON `id` of an event differs from its SSE id."""
    identity = event.cursor
    if identity is None or "id" not in event.document:
        return None
    other = event.document["id"]
    if other == identity:
        return HELD
    if type(other) is str and event.is_damaged(other):
        return None
    return problem(f"Expected the SSE id {quote(identity)} as JSON `id`, got {describe(other)}.")


@rule(
    "DUR004",
    "delta-with-id",
    on=EVENT,
    fast_path=True,
    shapes=_DELTA,
    clause='Events 2: "Delta events … are ephemeral: no SSE `id`, …"',
)
def delta_with_id(event: Event, _stream: StreamState) -> Outcome:
    """A delta has an `id` line; even an empty one resets the cursor of every client."""
    if event.id_line is None:
        return HELD
    got = f"the id {_quote_id_line(event)}" if event.id_line else "an empty one"
    return problem(f"Expected no `id` line in a {event.type}, got {got}.")


@rule(
    "DUR005",
    "delta-with-sequence",
    on=EVENT,
    fast_path=True,
    shapes=_DELTA,
    clause='Ephemeral event: "An ephemeral event has no SSE `id` line and no `sequence`."',
)
def delta_with_sequence(event: Event, _stream: StreamState) -> Outcome:
    """A delta has a `sequence`."""
    if not event.has_sequence:
        return HELD
    return problem(f"Expected no `sequence` in a {event.type}, got {describe(event.document['sequence'])}.")


@rule(
    "DUR006",
    "stored-event-without-id",
    on=EVENT,
    fast_path=True,
    shapes=_WITH_OBJECT - _DELTA,
    clause='Event types: "The final assistant message is stored."; "A durable reasoning message is stored."',
)
def stored_event_without_id(event: Event, _stream: StreamState) -> Outcome:
    """An event of a stored type has neither an id nor a sequence."""
    if event.type not in STORED_TYPES:
        return None
    if event.is_durable:
        return HELD
    return problem(f"Expected an SSE id and a JSON `sequence` in a {event.type}, got neither.")


@rule(
    "DUR007",
    "unrequested-delta",
    on=EVENT,
    steady=True,
    shapes=_WITH_OBJECT,
    scope=Scope.STREAM,
    once_per=Scope.STREAM,
    clause='Events 2: "They are sent only when `event_deltas=true`."',
)
def unrequested_delta(event: Event, stream: StreamState) -> Outcome:
    """Deltas arrive although the request does not ask for them.  One finding per stream."""
    if stream.deltas_requested is None:
        return None
    if stream.deltas_requested:
        return HELD if event.is_delta else None
    if not event.is_delta:
        return HELD
    return problem(f"Expected no deltas without `{EVENT_DELTAS}=true` in the request, got a {event.type}.")


def _quote_id_line(event: Event) -> str:
    return quote((event.id_line or b"")[:400].decode("utf-8", "replace"))
