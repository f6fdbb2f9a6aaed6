"""Types of the documents of a tape: its header, its exchanges, and the framing of their streams.  Times are seconds.

A framing is how the data of events becomes bytes, so that a tape need not repeat it for every event.  The same code
encodes events when a tape is read, and compares them when it is written.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from wiretape import __version__
from wiretape.contract import EVENT_STREAM
from wiretape.observations import Ending, Headers
from wiretape.recording.recording_builder import MAX_REDACTED

VERSION = 1
BODY_KEYS = ("body", "events", "response-body")
DEFAULT_CLIENT = "127.0.0.1"
DEFAULT_HTTP = "HTTP/1.1"
STREAM_HEADERS: Headers = (("Content-Type", EVENT_STREAM),)
JSON_HEADERS: Headers = (("Content-Type", "application/json"),)

_HeaderTable = dict[str, str | int]
Seconds = Decimal | UnsetType
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


class Framing(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True, omit_defaults=True):
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


class TapeHeader(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The first document of a tape."""

    tape: int
    """Version of the format."""
    upstream: str = "http://service.test"
    started: str = "1970-01-01T00:00:00Z"
    ended: Seconds | None = UNSET
    tool: str = f"wiretape {__version__}"
    redacted: Annotated[int, Meta(ge=0, le=MAX_REDACTED)] = 0


class TapeExchange(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """A document of a tape with one exchange."""

    request: str
    target: str | UnsetType = UNSET
    at: Seconds = UNSET
    number: Annotated[int, Meta(ge=1, le=2**63 - 1)] | UnsetType = UNSET
    client: str = DEFAULT_CLIENT
    scheme: str | UnsetType = UNSET
    authority: str | UnsetType = UNSET
    http: str = DEFAULT_HTTP
    headers: list[_HeaderTable] | _HeaderTable | UnsetType | None = UNSET
    """None if an import invented the request."""
    body: str | dict[str, Any] | list[Any] | UnsetType = UNSET
    request_ended: Seconds | None = UNSET
    response: int | str | None = 200
    responded: Seconds = UNSET
    response_http: str | UnsetType = UNSET
    response_headers: list[_HeaderTable] | _HeaderTable | UnsetType = UNSET
    response_body: str | dict[str, Any] | list[Any] | UnsetType = UNSET
    events: list[Any] | UnsetType = UNSET
    framing: Framing = DEFAULT_FRAMING
    ending: Ending = Ending.COMPLETE
    ended: Seconds = UNSET
    detail: str = ""


def split_upstream(upstream: str) -> tuple[str, str]:
    """Return the default scheme and authority of requests; an upstream that is not a URL is an authority."""
    try:
        parts = urlsplit(upstream)
    except ValueError:
        return "http", upstream
    return parts.scheme or "http", parts.netloc or upstream


def is_target(method: str, target: str) -> bool:
    """Return whether HTTP allows a target, or it is empty; if it is partly redacted, it may begin with `*`."""
    return not target or target[0] in "/*" or "://" in target or method == "CONNECT"
