"""Previews: the beginning of what an event or a JSON value says, in one line."""

import json
from collections.abc import Callable, Collection
from typing import Any

import orjson

PREVIEW = 400
"""Characters in a preview: enough for a wide screen, few enough for a million rows."""


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


def content_preview(
    value: Any, data: bytes, read_keys: Callable[[], Collection[str]], envelope: Collection[str]
) -> str:
    """Return the beginning of the content of an event, whose data has this JSON value.

    Leaves out the keys of entities, which `read_keys` returns, and the fields in the `envelope`: they are not content.
    """
    fields = value if isinstance(value, dict) else None
    if fields is None:
        return preview_of(data)
    text = _blocks_preview(fields)
    if text is not None:
        return text
    if "content" in fields or "data" in fields:
        content = fields.get("content") or fields.get("data")
        if isinstance(content, dict):
            return _object_preview(content, read_keys())
        return compact_json(content) if content else ""
    rest = {key: value for key, value in fields.items() if key not in envelope}
    return compact_json(rest) if rest else ""


def _blocks_preview(fields: dict[str, Any]) -> str | None:
    """Return the text of a list of blocks in quotes; None if there is none."""
    texts = block_texts(fields)
    return f'"{" ".join(texts)}"' if texts else None


def block_texts(fields: dict[str, Any]) -> list[str]:
    """Return the texts of a list of blocks."""
    content = fields.get("content")
    blocks = content if isinstance(content, list) else []
    return [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _object_preview(content: dict[str, Any], keys: Collection[str]) -> str:
    """Return `name(input)` for content with both, otherwise the content without the keys of entities."""
    if isinstance(content.get("name"), str) and "input" in content:
        return f"{content['name']}({compact_json(content['input'])})"
    rest = {name: value for name, value in content.items() if not (isinstance(value, str) and value in keys)}
    return compact_json(rest) if rest else ""
