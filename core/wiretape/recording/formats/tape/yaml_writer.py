"""YAML of tapes, written through PyYAML: short values on one line, as JSON, and long ones over several lines."""

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import orjson
import yaml

from wiretape.safe_text import escape_json

_WIDTH = 120
"""Longer mappings and lists are written over several lines."""
_NO_FOLDING = 2**31 - 1
_LOOKS_DIFFERENT = frozenset({"", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Strings that are read as something else unless they are quoted, here or by other YAML parsers."""
_ESCAPED_ASTRAL = re.compile(r"(?<!\\)((?:\\\\)*)\\U000([0-9A-F]{5})")


class Plain(str):
    """Text that is written without quotes, such as a number."""

    __slots__ = ()


class Items(list[dict[str, Any]]):
    """List that is written with each item, and each of its keys, on a line of its own."""

    __slots__ = ()


class YamlWriter:
    """Writes a stream of documents."""

    def __init__(self) -> None:
        self._buffer = StringIO()
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        self._dumper = dumper(self._buffer, allow_unicode=True, width=_NO_FOLDING)
        self._emit(yaml.StreamStartEvent())

    def begin_document(self, *, explicit: bool) -> None:
        """Begin a document, after a line `---` if `explicit`; it consists of keys and values."""
        self._emit(yaml.DocumentStartEvent(explicit=explicit))
        self._emit(yaml.MappingStartEvent(None, None, True, flow_style=False))

    def end_document(self) -> None:
        """End the document."""
        self._emit(yaml.MappingEndEvent())
        self._emit(yaml.DocumentEndEvent(explicit=False))

    def write(self, key: str, value: Any) -> None:
        """Write a key and its value."""
        self._emit(_scalar(key))
        for event in _value(value, len(key) + 2, 0):
            self._emit(event)

    def begin_list(self, key: str) -> None:
        """Begin a list of mappings."""
        self._emit(_scalar(key))
        self._emit(yaml.SequenceStartEvent(None, None, True, flow_style=False))

    def write_item(self, item: dict[str, Any]) -> None:
        """Write an item of the list, each of its keys on a line of its own."""
        for event in _item(item, 2):
            self._emit(event)

    def end_list(self) -> None:
        """End the list."""
        self._emit(yaml.SequenceEndEvent())

    def take_text(self, *, end: bool = False) -> str:
        """Return the text that was written since the last call, up to the last line end; all of it at the end."""
        if end:
            self._emit(yaml.StreamEndEvent())
        text = self._buffer.getvalue()
        cut = len(text) if end else text.rfind("\n") + 1
        self._buffer.seek(0)
        self._buffer.truncate()
        self._buffer.write(text[cut:])
        # Unsafe characters and backslashes occur only in double quotes, see `_scalar`.
        return _ESCAPED_ASTRAL.sub(lambda found: found[1] + chr(int(found[2], 16)), escape_json(text[:cut]))

    def _emit(self, event: yaml.Event) -> None:
        self._dumper.emit(event)


def _scalar(text: str) -> yaml.ScalarEvent:
    """Return a string in the simplest style that is read as this string; PyYAML refines it if it is not enough."""
    style = None
    if not isinstance(text, Plain):
        if "\\" in text or escape_json(text) != text:
            style = '"'
        elif "\n" in text:
            style = "|"
        elif text.lower() in _LOOKS_DIFFERENT or text[0] in "0123456789+-.":
            style = "'" if '"' in text else '"'
    return yaml.ScalarEvent(None, None, (True, True), str(text), style=style)


def _item(item: dict[str, Any], indent: int) -> Iterator[yaml.Event]:
    """Return the events of a mapping with each key on a line of its own."""
    yield yaml.MappingStartEvent(None, None, True, flow_style=False)
    for key, value in item.items():
        yield _scalar(key)
        yield from _value(value, indent + len(key) + 2, indent)
    yield yaml.MappingEndEvent()


def _value(value: Any, column: int, indent: int) -> Iterator[yaml.Event]:
    """Return the events of a value that begins at a column, in a block with this indent."""
    if isinstance(value, str):
        yield _scalar(value)
    elif not isinstance(value, dict | list):
        yield _plain(value)
    elif isinstance(value, Items):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=False)
        for item in value:
            yield from _item(item, indent + 2)
        yield yaml.SequenceEndEvent()
    elif not value or column + len(_inline_text(value)) <= _WIDTH:
        yield from _inline(value)
    elif isinstance(value, dict):
        yield from _item(value, indent + 2)
    else:
        yield yaml.SequenceStartEvent(None, None, True, flow_style=False)
        for item in value:
            yield from _value(item, indent + 2, indent + 2)
        yield yaml.SequenceEndEvent()


def _inline_text(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def _inline(value: Any) -> Iterator[yaml.Event]:
    """Return the events of a value on one line, as JSON."""
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, True, flow_style=True)
        for key, item in value.items():
            yield _quoted(key)
            yield from _inline(item)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list | tuple):
        yield yaml.SequenceStartEvent(None, None, True, flow_style=True)
        for item in value:
            yield from _inline(item)
        yield yaml.SequenceEndEvent()
    else:
        yield _quoted(value) if isinstance(value, str) else _plain(value)


def _quoted(text: str) -> yaml.ScalarEvent:
    return yaml.ScalarEvent(None, None, (True, True), str(text), style=None if isinstance(text, Plain) else '"')


def _plain(value: Any) -> yaml.ScalarEvent:
    """Return null, a boolean or a number, as in JSON."""
    return yaml.ScalarEvent(None, None, (True, True), orjson.dumps(value).decode())
