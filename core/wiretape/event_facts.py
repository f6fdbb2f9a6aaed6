"""Events of recorded streams, and what they say about themselves: type, kind, ids, sequence and text."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import orjson

from wiretape.contract import DELTA_TYPES, EVENT_TYPES, TOOL_TYPES
from wiretape.frame_reader import SeenFrame
from wiretape.json_codec import UnreadableJson, read_json, sequence_in
from wiretape.sse import Frame

PREVIEW = 400
"""Characters in a preview: enough for a wide screen, few enough for a million rows."""

EventKind = Literal["durable", "delta", "ephemeral"]
"""durable: an event type of the specification, with an id or a sequence.  delta: has one of the delta types.
ephemeral: any other event, for example those of other APIs, with or without an id."""

_ENVELOPE = frozenset({"id", "sequence", "type", "workspace_id", "session_id", "run_id", "created_at"})


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What an event says about itself.  A field with a value of the wrong type counts as absent."""

    type: str
    """The JSON `type`, or else the name on the `event:` line, or else empty."""
    kind: EventKind
    id: str | None
    sequence: int | None
    run_id: str | None
    tool_call_id: str | None
    text: str
    """The whole text of a delta; of any other event, a preview of its content."""
    characters: int
    """Length of the text of a delta; 0 for any other event."""
    note: str
    """What is unusual about the event, in a few words; usually empty."""

    @property
    def is_plain_delta(self) -> bool:
        """Whether it is a delta with nothing unusual, which can be folded."""
        return self.kind == "delta" and self.id is None and self.sequence is None and not self.note


def facts_of(frame: Frame) -> EventFacts:
    """Read the facts of a frame that is an event."""
    data = frame.data
    value = read_json(data)
    fields = value if isinstance(value, dict) else None
    type_, kind, sequence = classify(frame, fields)
    text = delta_text(fields) if fields and kind == "delta" else None
    return EventFacts(
        type=type_,
        kind=kind,
        id=frame.id,
        sequence=sequence,
        run_id=_string(fields.get("run_id")) if fields else None,
        tool_call_id=_tool_call_id(fields) if fields else None,
        text=text if text is not None else _content_preview(type_, fields, data),
        characters=len(text or ""),
        note=_note(frame, value, data),
    )


def kind_and_sequence(frame: Frame) -> tuple[EventKind, int | None]:
    """Return the kind and the sequence of an event, which is quicker than reading all facts."""
    value = read_json(frame.data)
    return classify(frame, value if isinstance(value, dict) else None)[1:]


def final_text(frame: Frame) -> str:
    """Return the whole text of a durable event: its text blocks, joined; empty if it has none."""
    value = read_json(frame.data)
    return "".join(_block_texts(value) or ()) if isinstance(value, dict) else ""


def classify(frame: Frame, fields: dict[str, Any] | None) -> tuple[str, EventKind, int | None]:
    """Return the type, kind and sequence of an event; `fields` is its data if that is a JSON object."""
    type_ = (fields and _string(fields.get("type"))) or frame.event
    sequence = sequence_in(fields, frame.data) if fields else None
    if not isinstance(sequence, int) or isinstance(sequence, bool):
        sequence = None
    if type_ in DELTA_TYPES:
        return type_, "delta", sequence
    is_durable = type_ in EVENT_TYPES and (frame.id or sequence is not None)
    return type_, "durable" if is_durable else "ephemeral", sequence


def delta_text(fields: dict[str, Any]) -> str | None:
    """Return the text of a delta; None if it has none."""
    delta = fields.get("delta")
    return _string(delta.get("text")) if isinstance(delta, dict) else None


def is_utf8(data: bytes) -> bool:
    """Whether bytes are valid UTF-8."""
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def compact_json(value: Any) -> str:
    """Encode a JSON value in one line, truncated to the length of a preview."""
    try:
        return preview_of(orjson.dumps(value))
    except orjson.JSONEncodeError as error:
        # orjson reads deeper nesting than it writes, and the depth of the json module depends on the caller's stack.
        if "recursion" in str(error).lower():
            return "(deeply nested)"
    try:
        # A lone surrogate, or an integer of more than 64 bits.
        return truncate(json.dumps(value, separators=(",", ":")))
    except RecursionError:
        return "(deeply nested)"


def preview_of(data: bytes) -> str:
    """Return the beginning of `data` as text; bytes that are not UTF-8 become U+FFFD."""
    # One character more than a preview holds, to know whether any were left out.
    return truncate(data[: 4 * (PREVIEW + 1)].decode("utf-8", "replace"))


def truncate(text: str) -> str:
    """Truncate `text` to the length of a preview; an ellipsis marks the cut."""
    return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 1]}…"


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _note(frame: Frame, value: Any, data: bytes) -> str:
    if not data:
        return "empty data" if frame.is_dispatched else "no data line, so clients ignore it"
    if value is UnreadableJson.TOO_COMPLEX:
        return "unreadable: nested too deeply, or a number is too long"
    if not isinstance(value, dict):
        return "not a JSON object"
    return "" if is_utf8(data) else "not UTF-8"


def _tool_call_id(fields: dict[str, Any]) -> str | None:
    for part in (fields.get("content"), fields.get("data")):
        if isinstance(part, dict) and isinstance(part.get("tool_call_id"), str):
            return str(part["tool_call_id"])
    return None


def _content_preview(type_: str, fields: dict[str, Any] | None, data: bytes) -> str:
    if fields is None:
        return preview_of(data)
    text = _tool_preview(fields) if type_ in TOOL_TYPES else _blocks_preview(fields)
    if text is not None:
        return text
    if "content" in fields or "data" in fields:
        content = fields.get("content") or fields.get("data")
        return compact_json(content) if content else ""
    rest = {key: value for key, value in fields.items() if key not in _ENVELOPE}
    return compact_json(rest) if rest else ""


def _blocks_preview(fields: dict[str, Any]) -> str | None:
    """Return the text of a list of blocks in quotes; None if there is none."""
    texts = _block_texts(fields)
    return f'"{" ".join(texts)}"' if texts else None


def _block_texts(fields: dict[str, Any]) -> list[str]:
    content = fields.get("content")
    blocks = content if isinstance(content, list) else []
    return [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _tool_preview(fields: dict[str, Any]) -> str | None:
    """Return `name(input)` for a starting tool call, otherwise the content without the tool call id."""
    content = fields.get("content")
    if not isinstance(content, dict):
        return None
    if isinstance(content.get("name"), str) and "input" in content:
        return f"{content['name']}({compact_json(content['input'])})"
    return compact_json({key: value for key, value in content.items() if key != "tool_call_id"})


@dataclass(frozen=True)
class Event:
    """An event of a stream as a client dispatches it."""

    exchange: int
    """Number of its exchange."""
    number: int
    """Its number in the stream, from 1."""
    time_ns: int
    """When its last byte arrived, in nanoseconds since the recording began."""
    frame: Frame
    """Its bytes and fields."""

    @classmethod
    def of(cls, exchange: int, seen: SeenFrame) -> "Event":
        """The event of a frame.  Raises ValueError if the frame is not an event."""
        if seen.event is None:
            raise ValueError(f"A {seen.frame.kind.value} frame is not an event.")
        return cls(exchange, seen.event, seen.time_ns, seen.frame)

    @property
    def raw(self) -> bytes:
        """All its bytes as they crossed the wire (decoded, if the body has a content encoding)."""
        return self.frame.raw

    @property
    def name(self) -> str:
        """The SSE `event` field; empty if there is none."""
        return self.frame.event

    @property
    def id(self) -> str | None:
        """The SSE `id` field."""
        return self.frame.id

    @property
    def data(self) -> bytes:
        """The joined SSE `data` fields."""
        return self.frame.data

    @cached_property
    def json(self) -> Any:
        """The data as JSON; None if it is not valid JSON."""
        value = read_json(self.data)
        return None if isinstance(value, UnreadableJson) else value

    @property
    def type(self) -> str:
        """The `type` in the JSON, or else the SSE event name."""
        return self._facts.type

    @property
    def kind(self) -> EventKind:
        """`durable`, `delta` or `ephemeral`."""
        return self._facts.kind

    @property
    def sequence(self) -> int | None:
        """The `sequence` in the JSON."""
        return self._facts.sequence

    @property
    def run_id(self) -> str | None:
        """The `run_id` in the JSON."""
        return self._facts.run_id

    @property
    def tool_call_id(self) -> str | None:
        """The `tool_call_id` of a tool event."""
        return self._facts.tool_call_id

    @property
    def text(self) -> str:
        """The text of a delta; of any other event, the beginning of its content."""
        return self._facts.text

    @cached_property
    def _facts(self) -> EventFacts:
        return facts_of(self.frame)
