"""Framing of a stream: how the data of its events becomes bytes, so that a tape need not repeat it for every event.

The same code encodes events when a tape is read, and compares them when it is written.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

import msgspec
import orjson
from msgspec import UNSET, UnsetType

FIELDS = ("event", "id", "data")
LINE_ENDS: Mapping[str, bytes] = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
JSON_STYLES: Mapping[str, tuple[tuple[str, str], bool]] = {
    "compact": ((",", ":"), False),
    "spaced": ((", ", ": "), False),
    "escaped": ((",", ":"), True),
    "spaced-escaped": ((", ", ": "), True),
}
"""Separators of each style, and whether it is limited to ASCII."""
JsonStyle = Literal["compact", "spaced", "escaped", "spaced-escaped"]
Line = str | UnsetType | None
"""Value of the line `event` or `id` of an event.  UNSET: taken from its data.  None: no such line."""


class Framing(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """How a stream writes its events."""

    fields: tuple[str, ...] = FIELDS
    """Order of the lines of an event."""
    line_end: Literal["lf", "crlf", "cr"] = "lf"
    json: JsonStyle = "compact"
    space: bool = True
    """Whether there is a space after the colon of a line."""

    def __post_init__(self) -> None:
        if sorted(self.fields) != sorted(FIELDS):
            raise ValueError(f"fields must be {', '.join(FIELDS)}, in any order")

    @property
    def end(self) -> bytes:
        """The bytes of a line end."""
        return LINE_ENDS[self.line_end]

    def encode_json(self, value: Any, style: JsonStyle | UnsetType = UNSET) -> bytes:
        """Encode a JSON value.  Raises ValueError if JSON cannot represent it."""
        style = self.json if isinstance(style, UnsetType) else style
        if style == "compact":
            try:
                return orjson.dumps(value, default=_encode_other)
            except orjson.JSONEncodeError:
                pass  # an integer of more than 64 bits
        separators, ascii_only = JSON_STYLES[style]
        text = json.dumps(value, ensure_ascii=ascii_only, separators=separators, default=_encode_other, allow_nan=False)
        return text.encode()

    def encode_event(self, data: bytes, event: str | None, id_: str | None) -> bytes:
        """Encode an event with these lines; None means no such line."""
        values = {"event": event, "id": id_}
        lines = [
            self._line(field, data if field == "data" else (values[field] or "").encode())
            for field in self.fields
            if field == "data" or values[field] is not None
        ]
        return b"".join(lines) + self.end

    def encode_comment(self, text: str) -> bytes:
        """Encode a comment line."""
        return self._line("", text.encode()) if text else b":" + self.end

    def encode_lines(self, text: str) -> bytes:
        """Encode the lines of an event as they are, followed by a blank line."""
        return self.end.join(line.encode() for line in text.removesuffix("\n").split("\n")) + self.end * 2

    def _line(self, field: str, value: bytes) -> bytes:
        return field.encode() + (b": " if self.space else b":") + value + self.end


DEFAULT_FRAMING = Framing()
"""The framing of the specification's examples."""


def lines_from_data(value: Any, event: Line = UNSET, id_: Line = UNSET) -> tuple[str | None, str | None]:
    """Return the values of the lines `event` and `id`: as given, or else the `type` and `id` of the data."""
    return _line_from_data(value, "type", event), _line_from_data(value, "id", id_)


def _line_from_data(value: Any, key: str, given: Line) -> str | None:
    if not isinstance(given, UnsetType):
        return given
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) and not has_line_end(found) else None


def has_line_end(text: str) -> bool:
    """Return whether a text contains a line end, so that it cannot be the value of a line."""
    return "\n" in text or "\r" in text


def _encode_other(value: Any) -> Any:
    if isinstance(value, Decimal) and value.is_finite() and abs(number := float(value)) != float("inf"):
        return number
    raise ValueError(f"JSON cannot represent {value}")
