"""What a frame of a stream, or a chunk of a body, is called in a tape: as data where that gives the same bytes."""

from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from wiretape.recording.formats.tape.framing import (
    AS_DATA,
    FIELDS,
    JSON_STYLES,
    LINE_ENDS,
    PLAIN,
    Framing,
    lines_of,
    one_line_wrong,
)
from wiretape.recording.formats.tape.yaml_text import block, literal, readable, scalar
from wiretape.sse import Frame, FrameKind

_MESSAGE, _COMMENT = FrameKind.MESSAGE, FrameKind.COMMENT
_NOT_SAID = object()
_ALL = {field.encode() for field in FIELDS}


class Piece(NamedTuple):
    """Keys and values that stand for some bytes."""

    key: str
    value: Any
    more: tuple[str, ...] = ()
    """Further lines: of an event its name and id where the data says something else."""

    def lines(self, indent: str) -> Iterator[str]:
        """Its lines, the first without its indent."""
        if self.key in {"data", "json"}:
            yield from block(self.value, indent, self.key)
        elif self.key == "lines":
            yield from literal(self.value, indent, self.key)
        else:
            yield f"{self.key}: {scalar(self.value)}"
        for line in self.more:
            yield indent + line


def pieces_of(frames: Iterable[Frame], framing: Framing) -> Iterator[Piece]:
    """The pieces that some frames are, which stand one behind the other."""
    odd = b""
    ahead = deque(frames)
    while ahead:
        frame = ahead.popleft()
        blank = frame.kind is _COMMENT and bool(ahead) and ahead[0].raw == framing.end
        if frame.kind is _MESSAGE:
            piece = _as_data(frame, framing) or _as_lines(frame, framing)
        else:
            piece = _comment(frame.raw, framing, blank=blank) if frame.kind is _COMMENT else None
        if piece is None:
            odd += frame.raw
            continue
        yield from _odd(odd)
        odd = b""
        yield piece
        if blank:
            ahead.popleft()
    yield from _odd(odd)


def exact(data: bytes) -> Piece:
    """Bytes as they are."""
    try:
        return Piece("text", data.decode())
    except UnicodeDecodeError:
        return Piece("base64", b64encode(data).decode())


def json_or_exact(data: bytes) -> Piece:
    """Bytes as JSON where that gives the same bytes."""
    document = data.removesuffix(b"\n")
    if document[:1] in {b"{", b"["} and readable(document):
        value, style = parsed(document), style_of(document)
        if value is not _NOT_SAID and _same(lambda: Framing(json=style).document(value), document):
            more = {f"style: {style}": style != PLAIN.json, "newline: true": document != data}
            return Piece("json", value, tuple(line for line, said in more.items() if said))
    return exact(data)


def framing_of(messages: Iterable[Frame]) -> Framing:
    """How a stream that begins with these events writes them: as the first that has all lines does, else the first."""
    first = None
    for frame in messages:
        if {name for name, _ in frame.fields} >= _ALL:
            return _framing_of(frame)
        first = first or frame
    return PLAIN if first is None else _framing_of(first)


def _framing_of(frame: Frame) -> Framing:
    end = next((name for name, end in LINE_ENDS.items() if frame.raw.endswith(end * 2)), "lf")
    names = [name.decode("latin-1") for name, _ in frame.fields]
    known = [name for name in names if name in FIELDS]
    order = known + [name for name in FIELDS if name not in known]
    data = dict(frame.fields).get(b"data")
    if data is None or sorted(order) != sorted(FIELDS):
        return PLAIN
    # Lines that this event does not have stand where they usually do.
    fields = FIELDS if [name for name in FIELDS if name in known] == known else tuple(order)
    space = b": " in frame.raw.split(data, 1)[0][-2:] if data else True
    return Framing(fields, end, style_of(data), space=space)


def style_of(data: bytes) -> str:
    """How a JSON text is written; compact where none of the styles is it."""
    value = parsed(data)
    if value is _NOT_SAID:
        return PLAIN.json
    styles = (style for style in JSON_STYLES if _same(lambda: Framing(json=style).document(value), data))  # noqa: B023
    return next(styles, PLAIN.json)


def parsed(data: bytes) -> Any:
    """What a JSON text says."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _NOT_SAID


def _same(make: Any, data: bytes) -> bool:
    try:
        return bool(make() == data)
    except (ValueError, RecursionError):
        return False


def _as_data(frame: Frame, framing: Framing) -> Piece | None:
    """An event of one data line, and at most one of the others, as `framing` has them."""
    fields = dict(frame.fields)
    data = fields.pop(b"data", None)
    if data is None or len(fields) + 1 != len(frame.fields) or not fields.keys() <= {b"event", b"id"}:
        return None
    value = parsed(data)
    if value is _NOT_SAID or not readable(data):
        return None
    try:
        name, id_ = _text(fields.get(b"event")), _text(fields.get(b"id"))
    except UnicodeDecodeError:
        return None
    if not _same(lambda: framing.document(value), data) or framing.block(data, name, id_) != frame.raw:
        return None
    inferred = lines_of(value, AS_DATA, AS_DATA)
    said = zip(("event", "id"), (name, id_), inferred, strict=True)
    more = tuple(f"{key}: {'null' if own is None else scalar(own)}" for key, own, other in said if own != other)
    return Piece("data", value, more)


def _as_lines(frame: Frame, framing: Framing) -> Piece | None:
    """An event of other lines."""
    body = frame.raw[: -2 * len(framing.end)]
    if body[:1] in b"\r\n" or body.endswith(framing.end):
        return None
    try:
        text = body.replace(framing.end, b"\n").decode()
    except UnicodeDecodeError:
        return None
    return Piece("lines", text) if text and framing.lines(text) == frame.raw else None


def _comment(raw: bytes, framing: Framing, *, blank: bool) -> Piece | None:
    try:
        text = raw.removesuffix(framing.end).decode().removeprefix(":")
    except UnicodeDecodeError:
        return None
    text = text.removeprefix(" ") if framing.space else text
    if framing.comment(text) != raw or one_line_wrong(text):
        return None
    return Piece("comment", text, ("blank: true",) if blank else ())


def _odd(raw: bytes) -> Iterator[Piece]:
    if raw:
        yield exact(raw)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
