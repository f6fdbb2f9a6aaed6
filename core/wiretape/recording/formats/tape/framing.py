"""How the data of an event becomes the bytes of a stream: what a tape need not say of every event.

Pure: the same both ways, so that what is written is read back as the same bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

FIELDS = ("event", "id", "data")
LINE_ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
JSON_STYLES: Mapping[str, tuple[tuple[str, str], bool]] = {
    "compact": ((",", ":"), False),
    "spaced": ((", ", ": "), False),
    "escaped": ((",", ":"), True),
    "spaced-escaped": ((", ", ": "), True),
}
"""How JSON is written: its separators, and whether only in ASCII."""


class AsData:
    """Says that a field is what the event's data says: its `type`, its `id`."""


AS_DATA = AsData()


@dataclass(frozen=True, slots=True)
class Framing:
    """How one stream writes its events."""

    fields: tuple[str, ...] = FIELDS
    """The order of an event's lines."""
    line_end: str = "lf"
    json: str = "compact"
    space: bool = True
    """Whether a space stands after the colon of a line."""

    @property
    def end(self) -> bytes:
        """The bytes that end a line."""
        return LINE_ENDS[self.line_end]

    def document(self, value: Any) -> bytes:
        """A JSON value as it crosses the wire.  Raises ValueError for what JSON cannot say."""
        if self.json == "compact":
            try:
                return orjson.dumps(value, default=_plain)
            except orjson.JSONEncodeError:
                pass  # an integer of more than 64 bits
        separators, ascii_only = JSON_STYLES[self.json]
        text = json.dumps(value, ensure_ascii=ascii_only, separators=separators, default=_plain, allow_nan=False)
        return text.encode()

    def event(self, value: Any, name: str | AsData | None = AS_DATA, id_: str | AsData | None = AS_DATA) -> bytes:
        """An event with this data.  A name or id of None: without that line.  Raises ValueError as `document` does."""
        return self.block(self.document(value), *lines_of(value, name, id_))

    def block(self, data: bytes, name: str | None, id_: str | None) -> bytes:
        """An event of these lines."""
        values = {"event": name, "id": id_}
        lines = [
            self._line(field, data if field == "data" else _utf8(values[field]))
            for field in self.fields
            if field == "data" or values[field] is not None
        ]
        return b"".join(lines) + self.end

    def comment(self, text: str) -> bytes:
        """A comment, on its line."""
        return self._line("", text.encode()) if text else b":" + self.end

    def lines(self, text: str) -> bytes:
        """The lines of an event as they are, and the blank line after them."""
        return self.end.join(line.encode() for line in text.removesuffix("\n").split("\n")) + self.end * 2

    def _line(self, field: str, value: bytes) -> bytes:
        return field.encode() + (b": " if self.space else b":") + value + self.end


PLAIN = Framing()
"""The framing of the specification's examples."""


def lines_of(value: Any, name: str | AsData | None, id_: str | AsData | None) -> tuple[str | None, str | None]:
    """The name and the id of an event: what is given, or what its data says."""
    return _said(value, "type", name), _said(value, "id", id_)


def _said(value: Any, key: str, given: str | AsData | None) -> str | None:
    if not isinstance(given, AsData):
        return given
    said = value.get(key) if isinstance(value, dict) else None
    return said if isinstance(said, str) and not one_line_wrong(said) else None


def one_line_wrong(text: str) -> bool:
    """Whether a text cannot stand on a line of its own."""
    return "\n" in text or "\r" in text


def _utf8(text: str | None) -> bytes:
    return (text or "").encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    raise ValueError(f"JSON has no {type(value).__name__}")
