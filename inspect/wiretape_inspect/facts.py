"""What one message says about itself, read from its JSON as far as it has any, as the checker reads it."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from wiretape.contract import DELTA_TYPES, TOOL_TYPES
from wiretape.json_reader import UnreadableJson, read_json, sequence_in
from wiretape.sse import Frame

PREVIEW = 400
"""Characters of text that a preview keeps; enough for a wide screen, little enough for a million rows."""

Standing = Literal["durable", "delta", "ephemeral"]
"""Durable: with an id or a sequence.  Delta: of one of the delta types.  Ephemeral: neither."""

_ENVELOPE = frozenset({"id", "sequence", "type", "workspace_id", "session_id", "run_id", "created_at"})


@dataclass(frozen=True, slots=True)
class Facts:
    """A message's own account of itself.  A field of a wrong type counts as absent."""

    type: str
    """The JSON `type`, else the name on the `event:` line, else empty."""
    standing: Standing
    id: str | None
    sequence: int | None
    run_id: str | None
    tool_call_id: str | None
    text: str
    """A fragment's whole text for a delta that has one, otherwise a preview of what the message holds."""
    characters: int
    """How long the fragment of a delta is; 0 for every other message."""
    note: str
    """What is odd about it, in a few words; mostly empty."""

    @property
    def plain_delta(self) -> bool:
        """Whether it is a delta with nothing about it that a reader should see for itself."""
        return self.standing == "delta" and self.id is None and self.sequence is None and not self.note


def facts_of(frame: Frame) -> Facts:
    """Read a frame of kind MESSAGE."""
    data = frame.data
    value = read_json(data)
    said = value if isinstance(value, dict) else None
    kind, standing, sequence = placed(frame, said)
    fragment = fragment_in(said) if said and standing == "delta" else None
    return Facts(
        type=kind,
        standing=standing,
        id=frame.id,
        sequence=sequence,
        run_id=_text(said.get("run_id")) if said else None,
        tool_call_id=_tool_call_id(said) if said else None,
        text=fragment if fragment is not None else _preview(kind, said, data),
        characters=len(fragment or ""),
        note=_note(frame, value, data),
    )


def place_of(frame: Frame) -> tuple[Standing, int | None]:
    """Only the standing and the sequence of a frame of kind MESSAGE, which is quicker to tell."""
    value = read_json(frame.data)
    return placed(frame, value if isinstance(value, dict) else None)[1:]


def final_text(frame: Frame) -> str:
    """The whole text of a message that is stored: its blocks of text, joined; empty when it has none."""
    value = read_json(frame.data)
    return "".join(_block_texts(value) or ()) if isinstance(value, dict) else ""


def placed(frame: Frame, said: dict[str, Any] | None) -> tuple[str, Standing, int | None]:
    """The type, the standing and the sequence of a message that says `said`, if that is an object."""
    kind = (said and _text(said.get("type"))) or frame.event
    sequence = sequence_in(said, frame.data) if said else None
    if not isinstance(sequence, int) or isinstance(sequence, bool):
        sequence = None
    if kind in DELTA_TYPES:
        return kind, "delta", sequence
    return kind, "durable" if frame.id or sequence is not None else "ephemeral", sequence


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _note(frame: Frame, value: Any, data: bytes) -> str:
    if not data:
        return "empty data" if frame.dispatched else "no data line: no client is handed it"
    if value is UnreadableJson.TOO_COMPLEX:
        return "nested too deep, or numbers too long, to be read"
    if not isinstance(value, dict):
        return "not a JSON object"
    return "" if is_utf8(data) else "not UTF-8"


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _tool_call_id(said: dict[str, Any]) -> str | None:
    for part in (said.get("content"), said.get("data")):
        if isinstance(part, dict) and isinstance(part.get("tool_call_id"), str):
            return str(part["tool_call_id"])
    return None


def compact(value: Any) -> str:
    """A JSON value as one line of text, cut to the length of a preview."""
    try:
        return begin(orjson.dumps(value))
    except orjson.JSONEncodeError as error:
        # It reads deeper nesting than it writes, and the json module's depth depends on the caller's stack.
        if "recursion" in str(error).lower():
            return "(deeply nested)"
    try:
        # Half a surrogate pair, or an integer beyond 64 bits.
        return short(json.dumps(value, separators=(",", ":")))
    except RecursionError:
        return "(deeply nested)"


def begin(data: bytes) -> str:
    """How bytes begin, as text; what is no UTF-8 as U+FFFD."""
    # One character more than is kept, so that it is known whether any were left out.
    return short(data[: 4 * (PREVIEW + 1)].decode("utf-8", "replace"))


def short(text: str) -> str:
    """`text`, its end replaced by an ellipsis where it is longer than a preview."""
    return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 1]}…"


def _preview(kind: str, said: dict[str, Any] | None, data: bytes) -> str:
    if said is None:
        return begin(data)
    text = _tool(said) if kind in TOOL_TYPES else _blocks(said)
    if text is not None:
        return text
    if "content" in said or "data" in said:
        held = said.get("content") or said.get("data")
        return compact(held) if held else ""
    rest = {key: value for key, value in said.items() if key not in _ENVELOPE}
    return compact(rest) if rest else ""


def fragment_in(said: dict[str, Any]) -> str | None:
    """The text of a delta; None where it has none."""
    delta = said.get("delta")
    return _text(delta.get("text")) if isinstance(delta, dict) else None


def _blocks(said: dict[str, Any]) -> str | None:
    """The text of a list of blocks; None when there is none."""
    texts = _block_texts(said)
    return f'"{" ".join(texts)}"' if texts else None


def _block_texts(said: dict[str, Any]) -> list[str]:
    content = said.get("content")
    blocks = content if isinstance(content, list) else []
    return [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _tool(said: dict[str, Any]) -> str | None:
    """`name(input)` of a tool call that starts; for the others the content without what other columns show."""
    content = said.get("content")
    if not isinstance(content, dict):
        return None
    if isinstance(content.get("name"), str) and "input" in content:
        return f"{content['name']}({compact(content['input'])})"
    return compact({key: value for key, value in content.items() if key != "tool_call_id"})
