"""EVT: what makes a message an event, its JSON and its type.  `event_fields` has the rest of the family."""

from wiretape.contract import EVENT_TYPES
from wiretape.json_reader import UnreadableJson, find_repeated_keys
from wiretape.rules.catalogue import (
    HELD,
    MESSAGE,
    Basis,
    Outcome,
    Problem,
    limited,
    problem,
    rule,
)
from wiretape.rules.doubts import TOO_MUCH
from wiretape.rules.finding import Severity
from wiretape.rules.keepalive import event_name, is_keep_alive
from wiretape.rules.message import Message, Shape
from wiretape.rules.plain import ENCODED_TYPES
from wiretape.rules.state import Stream
from wiretape.rules.words import described, quoted

_ANY_EVENT = frozenset({Shape.EPHEMERAL, Shape.DELTA, Shape.DURABLE})


@rule(
    "EVT001",
    "data-not-one-json-object",
    at=MESSAGE,
    plain=True,
    shapes=_ANY_EVENT | {Shape.OPAQUE},
    clause='Endpoints, stream response: "a `data:` line holding one JSON object"',
)
def data_not_one_json_object(message: Message, _stream: Stream) -> Outcome:
    """The data of a message is not exactly one JSON object."""
    if message.shape is not Shape.OPAQUE:
        return HELD
    if message.other is UnreadableJson.TOO_COMPLEX:
        return TOO_MUCH
    if message.bad_byte is not None or is_keep_alive(message):
        return None
    return problem(f"Expected one JSON object as data, got {_instead(message)}.")


def _instead(message: Message) -> str:
    if message.other is UnreadableJson.NOT_AN_OBJECT:
        return "text that does not begin with `{`"
    if message.other is not UnreadableJson.NOT_JSON:
        return described(message.other)
    return "text that is not JSON" if message.data else "nothing"


@rule(
    "EVT002",
    "unknown-event-type",
    at=MESSAGE,
    plain=True,
    shapes=_ANY_EVENT,
    clause='Durable event, type: "One of the event types in the Events part."',
)
def unknown_event_type(message: Message, _stream: Stream) -> Outcome:
    """The JSON `type` is none of the event types."""
    name = message.type
    if name in EVENT_TYPES:
        return HELD
    if name is None or is_damaged(message, name) or is_keep_alive(message):
        return None
    return problem(f"Expected an event type of the specification, got {quoted(name)}.")


@rule(
    "EVT003",
    "event-name-disagrees",
    at=MESSAGE,
    plain=True,
    shapes=_ANY_EVENT,
    clause='Endpoints, stream response: "each message has an `event:` line naming the type"',
)
def event_name_disagrees(message: Message, _stream: Stream) -> Outcome:
    """The `event` line does not name the JSON `type`, or there is no such type."""
    line = message.event_line
    if line is None:
        return None
    if line == ENCODED_TYPES.get(message.type or ""):
        return HELD
    name = event_name(message) or ""
    if name == message.type:
        return HELD
    if is_damaged(message, name) or is_damaged(message, message.type or "") or is_keep_alive(message):
        return None
    if message.type in EVENT_TYPES and name not in EVENT_TYPES:
        return problem(f"Expected {quoted(message.type)}, the JSON `type`, on the `event` line, got {quoted(name)}.")
    got = described(message.document.get("type", ...))
    return problem(f"Expected {quoted(name)}, which the `event` line names, as JSON `type`, got {got}.")


@rule(
    "EVT012",
    "duplicate-json-key",
    at=MESSAGE,
    plain=True,
    shapes=_ANY_EVENT,
    severity=Severity.NOTE,
    basis=Basis.INFERRED,
    clause='Endpoints, stream response: "a `data:` line holding one JSON object"',
)
def duplicate_json_key(message: Message, _stream: Stream) -> Outcome:
    """The JSON object has the same key twice at its top level; readers differ in which value they take."""
    keys = find_repeated_keys(message.data or b"", message.document)
    if not keys:
        return HELD if keys is not None else TOO_MUCH
    return limited([Problem(f"Expected the key {quoted(key)} once, got it again.") for key in keys], "keys")


def is_damaged(message: Message, text: str) -> bool:
    """Whether a text may have lost what it was to bytes that are no UTF-8, which is SSE001."""
    return "\ufffd" in text and message.bad_byte is not None
