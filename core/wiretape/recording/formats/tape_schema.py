"""What a tape contains: its header, its exchanges, the framing of their streams, and the elements of bodies.

Times are seconds.  A framing is how the data of events becomes bytes, so that a tape need not repeat it for every
event.  The same code encodes elements when a tape is read, and compares them when it is written.
"""

import json
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import permutations, product
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from wiretape import __version__
from wiretape.contract.recorded_contracts import RecordedContracts
from wiretape.input_validation import KeyPath, Source, choices_hint, validate
from wiretape.observations import Ending, Headers
from wiretape.recording.recording_builder import MAX_REDACTED
from wiretape.sse import EVENT_STREAM, Frame, FrameKind

VERSION = 1
MAX_TAPE_BYTES = 16 * 1024 * 1024
"""Largest tape that is read or written."""
BASE64_WIDTH = 100
"""Longer base64 is folded."""
DEFAULT_STARTED = "1970-01-01T00:00:00Z"
DEFAULT_TOOL = f"wiretape {__version__}"
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
    started: str = DEFAULT_STARTED
    ended: Seconds | None = UNSET
    tool: str = DEFAULT_TOOL
    redacted: Annotated[int, Meta(ge=0, le=MAX_REDACTED)] = 0
    contracts: RecordedContracts = []


class TapeExchange(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """A document of a tape with one exchange."""

    request: str
    target: str | UnsetType = UNSET
    after: Seconds = UNSET
    """Seconds since the exchange above began."""
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


SECOND_NS = 1_000_000_000
STEP_NS = 1_000_000
"""Time between two observations for which a tape has no times."""
_MAX_SECONDS = 10**9
_MAX_DEPTH = 60
"""Deeper JSON is not written as data.  The limit of the YAML reader is higher."""
_NOT_JSON = object()
# msgspec leaves out a default only if it is the same object.
_ORDERS = [FIELDS, *(order for order in permutations(FIELDS) if order != FIELDS)]
_OPTIONS: Iterable[Any] = product(_ORDERS, LINE_ENDS, JSON_STYLES, (True, False))
_FRAMINGS = [Framing(*options) for options in _OPTIONS]
"""All, the usual ones first."""
_FIELD_NAMES = {field.encode() for field in FIELDS}

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Element(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """An observation of a body: its time, and its bytes in one chunk or more."""

    after: Seconds = UNSET
    """Seconds since the observation before."""
    cut: list[tuple[_Count, Decimal]] | UnsetType = UNSET
    """For each chunk except the first: its offset, and the seconds since the chunk before."""

    def encode(self, framing: Framing) -> bytes:
        """Return the bytes of the element.  Raises ValueError if they cannot be encoded."""
        raise NotImplementedError


class _Data(Element, kw_only=True):
    data: Any
    event: Line = UNSET
    id: Line = UNSET

    def encode(self, framing: Framing) -> bytes:
        return framing.encode_event(framing.encode_json(self.data), *lines_from_data(self.data, self.event, self.id))


class _Comment(Element, kw_only=True):
    comment: str
    blank: bool = False

    def encode(self, framing: Framing) -> bytes:
        return framing.encode_comment(self.comment) + (framing.end if self.blank else b"")


class _Lines(Element, kw_only=True):
    lines: str

    def encode(self, framing: Framing) -> bytes:
        return framing.encode_lines(self.lines)


class _Json(Element, kw_only=True):
    json: Any
    style: JsonStyle | UnsetType = UNSET
    newline: bool = False

    def encode(self, framing: Framing) -> bytes:
        return framing.encode_json(self.json, self.style) + (b"\n" if self.newline else b"")


class _Text(Element, kw_only=True):
    text: str

    def encode(self, framing: Framing) -> bytes:  # noqa: ARG002 - the same for every framing
        return self.text.encode()


class _Base64(Element, kw_only=True):
    base64: str

    def encode(self, framing: Framing) -> bytes:  # noqa: ARG002 - the same for every framing
        try:
            return b64decode("".join(self.base64.split()), validate=True)
        except ValueError:
            raise ValueError("invalid base64") from None


class _Pieces(Element, kw_only=True):
    pieces: Annotated[list[Any], Meta(min_length=1)]


class LostElement(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """Bytes that arrived but were not recorded."""

    lost: _Count
    why: str = ""
    after: Seconds = UNSET


class DeltasLine(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A line of the text of joined deltas.  In lists, a value can have the number of its repetitions."""

    text: str
    # With a minimum, msgspec would crash.
    sizes: list[int | tuple[int, int]] | UnsetType = UNSET
    """The number of characters of each delta."""
    after: list[Decimal | tuple[Decimal, int]] | UnsetType = UNSET
    """For each delta, the seconds since the observation before."""


class DeltasElement(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """Events that differ only in their part of a text, each in a chunk of its own."""

    deltas: Any
    """The data of the first one, with an empty text."""
    at: str
    """Where the text is in it: a JSON pointer."""
    counts: list[str] = []
    """Numbers that are one more in each of them: JSON pointers, or `id` for the line."""
    event: Line = UNSET
    id: Line = UNSET
    texts: Annotated[list[str | DeltasLine], Meta(min_length=1)]


_PIECES: dict[str, type[Element]] = {
    "data": _Data,
    "comment": _Comment,
    "lines": _Lines,
    "json": _Json,
    "text": _Text,
    "base64": _Base64,
}
AnyElement = Element | DeltasElement | LostElement
_KINDS: dict[str, type[AnyElement]] = {**_PIECES, "lost": LostElement, "pieces": _Pieces, "deltas": DeltasElement}
_KEYS = tuple(dict.fromkeys(name for type_ in _KINDS.values() for name in type_.__struct_encode_fields__))


def read_element(value: Any, source: Source, path: KeyPath) -> tuple[str, AnyElement]:
    """Return the kind and the content of an element.  Raises InputError."""
    if not isinstance(value, dict):
        raise source.error(path, 'expected keys and values, for example - data: {"type": "run.started"}')
    kinds = [name for name in _KINDS if name in value]
    if len(kinds) > 1:
        raise source.error((*path, kinds[1]), f"{kinds[0]} and {kinds[1]} need separate elements")
    if not kinds:
        if unknown := next((key for key in value if key not in _KEYS), None):
            raise source.error((*path, unknown), f"unknown key{choices_hint(unknown, _KEYS)}")
        raise source.error(path, f"one of {', '.join(_KINDS)} is missing")
    return kinds[0], validate(value, _KINDS[kinds[0]], source, path)


def element_bytes(element: Element, kind: str, framing: Framing, source: Source, path: KeyPath) -> bytes:
    """Return the bytes of an element.  Raises InputError."""
    if isinstance(element, _Pieces):
        return b"".join(
            piece_bytes(piece, framing, source, (*path, "pieces", index)) for index, piece in enumerate(element.pieces)
        )
    if key := _find_line_end(element):
        raise source.error((*path, key), "expected a single line")
    try:
        return element.encode(framing)
    except (ValueError, RecursionError) as error:
        raise source.error((*path, kind), str(error)) from None


def _find_line_end(element: Element) -> str | None:
    """Return the key of a line of an element that contains a line end."""
    lines = ((key, getattr(element, key, None)) for key in ("event", "id", "comment"))
    return next((key for key, line in lines if isinstance(line, str) and has_line_end(line)), None)


def piece_bytes(value: Any, framing: Framing, source: Source, path: KeyPath) -> bytes:
    """Return the bytes of an element without times.  Raises InputError."""
    kind, piece = read_element(value, source, path)
    if kind not in _PIECES or not isinstance(piece, Element):
        raise source.error((*path, kind), f"{kind} cannot be a piece: it needs an element of its own")
    for key in ("after", "cut"):
        if key in value:
            raise source.error((*path, key), f"{key} belongs to the element, not to a piece of it")
    return element_bytes(piece, kind, framing, source, path)


def element_chunks(element: Element, data: bytes, source: Source, path: KeyPath) -> Iterator[tuple[int, bytes]]:
    """Return the chunks of an element: nanoseconds since the chunk before, and bytes.  Raises InputError."""
    begin, after_ns = 0, nanoseconds(element.after, source, (*path, "after"), STEP_NS)
    cuts = () if isinstance(element.cut, UnsetType) else element.cut
    for index, (at, later) in enumerate(cuts):
        if not begin <= at <= len(data):
            problem = f"expected an offset from {begin} to {len(data)}, where the bytes end, got {at}"
            raise source.error((*path, "cut", index, 0), problem)
        yield after_ns, data[begin:at]
        begin, after_ns = at, nanoseconds(later, source, (*path, "cut", index, 1))
    yield after_ns, data[begin:]


def nanoseconds(seconds: Seconds, source: Source, path: KeyPath, default: int = 0) -> int:
    """Return seconds as nanoseconds, or `default` if they are not set.  Raises InputError."""
    if isinstance(seconds, UnsetType):
        return default
    if 0 <= seconds <= _MAX_SECONDS and (exact := seconds.scaleb(9)) == int(exact):
        return int(exact)
    raise source.error(path, f"expected seconds, 0 or more, with at most nine decimal places, got {seconds}")


Description = dict[str, Any]
"""Keys and values of an element, or of a piece."""


def describe_frames(frames: Iterable[Frame], framing: Framing) -> Iterator[Description]:
    """Return the pieces that stand for consecutive frames: as data wherever that gives the same bytes."""
    other = b""
    left = deque(frames)
    while left:
        frame = left.popleft()
        raw, candidates = frame.raw, list[Description]()
        if frame.kind is FrameKind.MESSAGE:
            candidates = _describe_event(frame, framing)
        elif frame.kind is FrameKind.COMMENT:
            text = raw.removesuffix(framing.end).decode("utf-8", "replace").removeprefix(":")
            candidates = [{"comment": text.removeprefix(" ") if framing.space else text}]
            if left and left[0].raw == framing.end:
                raw += framing.end
                candidates[0]["blank"] = True
        piece = next((each for each in candidates if _stands_for(each, raw, framing)), None)
        if piece is None:
            other += frame.raw
            continue
        if other:
            yield describe_bytes(other)
            other = b""
        yield piece
        if "blank" in piece:
            left.popleft()
    if other:
        yield describe_bytes(other)


def _describe_event(frame: Frame, framing: Framing) -> list[Description]:
    """Return pieces that may stand for an event: its data, or its lines."""
    fields = dict(frame.fields)
    lines = frame.raw[: -2 * len(framing.end)].replace(framing.end, b"\n").decode("utf-8", "replace")
    value = _parse(fields.get(b"data", b""))
    if value is _NOT_JSON:
        return [{"lines": lines}]
    own = (fields[name].decode("utf-8", "replace") if name in fields else None for name in (b"event", b"id"))
    named = zip(("event", "id"), own, lines_from_data(value), strict=True)
    return [{"data": value, **{key: line for key, line, inferred in named if line != inferred}}, {"lines": lines}]


def _stands_for(piece: Description, raw: bytes, framing: Framing) -> bool:
    """Whether a piece stands for exactly these bytes."""
    element = _PIECES[next(iter(piece))](**piece)
    try:
        return _find_line_end(element) is None and element.encode(framing) == raw
    except (ValueError, RecursionError):
        return False


def describe_bytes(data: bytes) -> Description:
    """Return the piece that stands for any bytes."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        text = b64encode(data).decode()
        return {"base64": "\n".join(text[at : at + BASE64_WIDTH] for at in range(0, len(text), BASE64_WIDTH))}


def describe_body(data: bytes) -> Description:
    """Return the piece that stands for a chunk of a body: as JSON if that gives the same bytes."""
    document = data.removesuffix(b"\n")
    value = _parse(document) if document[:1] in {b"{", b"["} else _NOT_JSON
    for style in JSON_STYLES if value is not _NOT_JSON else ():
        piece: Description = {"json": value}
        if style != DEFAULT_FRAMING.json:
            piece["style"] = style
        if document != data:
            piece["newline"] = True
        if _stands_for(piece, data, DEFAULT_FRAMING):
            return piece
    return describe_bytes(data)


def infer_framing(events: Iterable[Frame]) -> Framing:
    """Infer the framing of a stream from the first event that has all lines, or else from the first event."""
    frames = list(events)
    if not frames:
        return DEFAULT_FRAMING
    frame = next((each for each in frames if {name for name, _ in each.fields} >= _FIELD_NAMES), frames[0])
    for form in ("data", "lines"):
        for framing in _FRAMINGS:
            pieces = (piece for piece in _describe_event(frame, framing) if form in piece)
            if any(_stands_for(piece, frame.raw, framing) for piece in pieces):
                return framing
    return DEFAULT_FRAMING


def _parse(data: bytes) -> Any:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _NOT_JSON
    brackets = data.count(b"{") + data.count(b"[")
    return _NOT_JSON if brackets > _MAX_DEPTH and _depth(value) > _MAX_DEPTH else value


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)
