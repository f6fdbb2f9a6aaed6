"""DUR: durable events and ephemeral ones."""

from wiretape.contract import EVENT_DELTAS, STORED_TYPES
from wiretape.rules.catalogue import HELD, MESSAGE, Outcome, Scope, problem, rule
from wiretape.rules.message import Message, Shape
from wiretape.rules.state import Stream
from wiretape.rules.words import described, quoted

_DURABLE = frozenset({Shape.DURABLE})
_DELTA = frozenset({Shape.DELTA})
_ANY_EVENT = frozenset({Shape.EPHEMERAL, Shape.DELTA, Shape.DURABLE})
_ID_AND_SEQUENCE = 'Events 1: "Durable events have an SSE `id` and a JSON `sequence`."'


@rule("DUR001", "id-without-sequence", at=MESSAGE, plain=True, shapes=_DURABLE, clause=_ID_AND_SEQUENCE)
def id_without_sequence(message: Message, _stream: Stream) -> Outcome:
    """An event has an SSE id, but its JSON has no `sequence`."""
    if not message.carries_id:
        return None
    if "sequence" in message.document:
        # A null is there, if of a wrong type.
        return HELD
    return problem(f"Expected a JSON `sequence` beside the SSE id {_id_line(message)}, got none.")


@rule("DUR002", "sequence-without-id", at=MESSAGE, plain=True, shapes=_DURABLE, clause=_ID_AND_SEQUENCE)
def sequence_without_id(message: Message, _stream: Stream) -> Outcome:
    """An event's JSON has a `sequence`, but the message has no `id` line or an empty one."""
    if not message.carries_sequence:
        return None
    if message.carries_id:
        return HELD
    got = "none" if message.id_line is None else "an empty one"
    sequence = described(message.document["sequence"])
    return problem(f"Expected an SSE id beside the JSON `sequence`, which is {sequence}, got {got}.")


@rule(
    "DUR003",
    "id-disagrees",
    at=MESSAGE,
    plain=True,
    shapes=_DURABLE,
    clause='Durable event, id: "Same value as the SSE `id` line."',
)
def id_disagrees(message: Message, _stream: Stream) -> Outcome:
    """The JSON `id` of an event is not its SSE id."""
    identity = message.id
    if identity is None or "id" not in message.document:
        return None
    other = message.document["id"]
    if other == identity:
        return HELD
    if type(other) is str and "\ufffd" in other and message.bad_byte is not None:
        # What it was meant to be is lost; that is SSE001.
        return None
    return problem(f"Expected the SSE id {quoted(identity)} as JSON `id`, got {described(other)}.")


@rule(
    "DUR004",
    "delta-with-id",
    at=MESSAGE,
    plain=True,
    shapes=_DELTA,
    clause='Events 2: "Delta events … are ephemeral: no SSE `id`, …"',
)
def delta_with_id(message: Message, _stream: Stream) -> Outcome:
    """A delta has an `id` line, even an empty one, which resets the cursor of every client."""
    if message.id_line is None:
        return HELD
    got = f"the id {_id_line(message)}" if message.id_line else "an empty one"
    return problem(f"Expected no `id` line in a {message.type}, got {got}.")


@rule(
    "DUR005",
    "delta-with-sequence",
    at=MESSAGE,
    plain=True,
    shapes=_DELTA,
    clause='Ephemeral event: "An ephemeral event has no SSE `id` line and no `sequence`."',
)
def delta_with_sequence(message: Message, _stream: Stream) -> Outcome:
    """A delta has a `sequence`."""
    if not message.carries_sequence:
        return HELD
    return problem(f"Expected no `sequence` in a {message.type}, got {described(message.document['sequence'])}.")


@rule(
    "DUR006",
    "stored-event-without-id",
    at=MESSAGE,
    plain=True,
    shapes=_ANY_EVENT - _DELTA,
    clause='Event types: "The final assistant message is stored."; "A durable reasoning message is stored."',
)
def stored_event_without_id(message: Message, _stream: Stream) -> Outcome:
    """An event of a type that is stored carries neither an id nor a sequence."""
    if message.type not in STORED_TYPES:
        return None
    if message.is_durable:
        return HELD
    return problem(f"Expected an SSE id and a JSON `sequence` in a {message.type}, got neither.")


@rule(
    "DUR007",
    "unrequested-delta",
    at=MESSAGE,
    shapes=_ANY_EVENT,
    scope=Scope.STREAM,
    clause='Events 2: "They are sent only when `event_deltas=true`."',
)
def unrequested_delta(message: Message, stream: Stream) -> Outcome:
    """Deltas arrive though the request does not ask for them.  One finding a stream."""
    if stream.deltas_requested:
        return HELD if message.is_delta else None
    if not message.is_delta:
        return HELD
    if stream.unrequested_delta:
        return None
    return problem(f"Expected no deltas without `{EVENT_DELTAS}=true` in the request, got a {message.type}.")


def _id_line(message: Message) -> str:
    return quoted((message.id_line or b"")[:400].decode("utf-8", "replace"))
