"""Server-sent events: an incremental parser, bytes of a stream in, frames out, each as soon as its last byte arrives.

It follows the WHATWG HTML standard, "Server-sent events", clauses "Parsing an event stream" and "Interpreting an event
stream", but works on bytes.  The rules of the standard for decoded text are the same for UTF-8 bytes, because every
character that they look for is ASCII.

Where a frame ends depends only on the bytes of the stream, never on the chunks in which they arrive.  Only a line end
that begins with CR is ambiguous when its CR arrives, because an LF may follow and belong to it:

* If the previous line end was a bare CR, this one is as well: the frame ends with the CR, at once, and frames of a
  stream whose lines end with CR are never late.  If an LF follows nevertheless, it is not a line: it begins the next
  frame, where it has no meaning.
* Otherwise (after LF or CR LF, and for the first line end) the next byte decides.
"""

import re
from enum import StrEnum
from typing import NamedTuple

EVENT_STREAM = "text/event-stream"
"""The media type of server-sent events."""


class FrameKind(StrEnum):
    """Kind of a frame under the WHATWG rules."""

    MESSAGE = "message"
    """An event: a block of lines with at least one field line, ended by a blank line."""
    COMMENT = "comment"
    """One comment line before any field line of its block."""
    BLANK = "blank"
    """A blank line that does not end a block."""
    BOM = "bom"
    """The byte order mark at the start of a stream."""
    TAIL = "tail"
    """Bytes of an event that the end of the stream cut off; clients do not see them."""
    OVERSIZED = "oversized"
    """A piece of a block that exceeds the size limit; its fields are not parsed."""


class Frame(NamedTuple):
    """A span of bytes of a stream.  The `raw` bytes of all frames, joined, are the stream.

    `fields` and the properties based on it are empty for every kind except MESSAGE and TAIL.
    """

    kind: FrameKind
    start: int
    """Offset in the stream of the first byte of `raw`."""
    raw: bytes
    fields: tuple[tuple[bytes, bytes], ...] = ()
    """Each field line as `(name, value)`, in order, without the comment lines inside the block."""
    last_event_id: bytes = b""
    """The last event ID string after this frame, which a client sends to resume."""

    @property
    def end(self) -> int:
        """Offset in the stream after the last byte."""
        return self.start + len(self.raw)

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of all fields called `name`, in order."""
        return [value for key, value in self.fields if key == name]

    @property
    def event(self) -> str:
        """The event name; empty if the block has none.  Invalid UTF-8 becomes U+FFFD."""
        values = self.values(b"event")
        return values[-1].decode("utf-8", "replace") if values else ""

    @property
    def id(self) -> str | None:
        """The id of the block (the last one without NUL); None if it has none."""
        values = [value for value in self.values(b"id") if b"\0" not in value]
        return values[-1].decode("utf-8", "replace") if values else None

    @property
    def data(self) -> bytes:
        """All data lines joined by LF, undecoded."""
        return b"\n".join(self.values(b"data"))

    @property
    def is_dispatched(self) -> bool:
        """Whether clients dispatch an event for this frame: a whole block with a data line, even an empty one."""
        return self.kind is FrameKind.MESSAGE and any(key == b"data" for key, _ in self.fields)


DEFAULT_LIMIT = 16 * 1024 * 1024
"""Maximum bytes of a frame, by default."""

_BOM = b"\xef\xbb\xbf"
_CR = 0x0D
_LF = 0x0A
_COLON = 0x3A
# A line that begins with none of these is a field.
_NO_FIELD = b":\r\n"
# A frame that begins with none of these is a block, anywhere in the stream.
_NO_BLOCK = _NO_FIELD + _BOM[:1]
# Python 3.11 takes 50 ns to look up a member of an enumeration.
_MESSAGE, _BLANK = FrameKind.MESSAGE, FrameKind.BLANK

# Ends of frames.  A search may start anywhere inside the frame.  If it finds nothing, the end can begin with the last
# `_OVERLAP` bytes of the searched bytes, but not before.
_BOM_END = re.compile(_BOM)
_LINE_END = re.compile(rb"\r?+\n|\r(?=[^\n])")
_LINE_END_AFTER_CR = re.compile(rb"[\r\n]")
_BLANK_LINE = re.compile(rb"\n(?:\r?+\n|\r(?=[^\n]))|\r\r")
_OVERLAP = 2
# Finds the same in bytes without CR CR, several times faster, because its first byte is fixed.
_BLANK_LINE_AFTER_LF = re.compile(rb"\n(?:\r?+\n|\r(?=[^\n]))")

# Nearly all blocks; searching for the end and for each field takes twice as long.
_USUAL_BLOCK = re.compile(
    rb"(?:id: ([^\n\0]++)\n)?+event: ([^\n]*+)\n(?(1)|(?:id: ([^\n\0]++)\n)?+)data: ([^\n]*+)\n\n"
)
# Calling `Frame` takes three times as long.
_new_tuple = tuple.__new__

_FIELD = re.compile(rb"^([^:\n]++)(?::\x20?+(.*+))?+\n?+", re.MULTILINE)


def _fields(block: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return the fields of a block.  One space after the colon is not part of the value, which may be empty."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return tuple(_FIELD.findall(block))


class Parser:
    """Splits a stream into frames, whatever the pieces in which its bytes arrive.

    `limit` is the maximum size of a frame in bytes.  A longer one is returned in pieces of kind OVERSIZED, of `limit`
    bytes each except the last; the frame after it is parsed as usual.  The pieces are not parsed, so an id in them
    never becomes the last event ID.  The parser holds about `limit` bytes in addition to the bytes last fed.

    `start` is the offset in the stream of the first byte fed, and `last_event_id` the last event ID string at that
    offset.  With `midstream` that byte may be anywhere in a block: all bytes up to and including the first certain
    blank line are a TAIL without fields.  A byte order mark is recognized only at offset 0, and not with `midstream`.

    A frame is returned with its last byte, or with the byte after it if the frame is ambiguous without it.  Raises
    ValueError for a limit below 1.
    """

    def __init__(
        self, *, limit: int = DEFAULT_LIMIT, start: int = 0, last_event_id: bytes = b"", midstream: bool = False
    ) -> None:
        if limit < 1:
            raise ValueError("The limit of a frame must be at least one byte.")
        self._limit = limit
        self._last_event_id = last_event_id
        self._after_cr = False  # the last frame ended with CR, so an LF that follows belongs to it
        self._closed = False
        # The incomplete frame: its bytes, the stream offset of the next frame to return, its kind, and its end (None
        # until its first bytes determine it).
        self._pending = bytearray()
        self._offset = start
        self._kind = FrameKind.TAIL
        self._ending = _BLANK_LINE if midstream else None
        self._searched = 0  # its end begins no earlier than here in the pending bytes
        self._given = 0  # 1 if the first pending byte was returned with a piece: the frame's end may begin with it

    @property
    def last_event_id(self) -> bytes:
        """The last event ID string: the id of the last whole block with an id without NUL."""
        return self._last_event_id

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that `data` completes.  Raises ValueError after `close()`."""
        if self._closed:
            raise ValueError("The parser was closed.")
        if not self._pending:
            return self._cut(bytes(data))
        self._pending += data
        return self._cut(bytes(self._pending)) if self._may_complete() else []

    def close(self) -> list[Frame]:
        """Return the frame that the end of the stream completes or cuts off, if there is one.

        A frame that waited for the byte after its CR is complete.  A single LF, whose CR was part of the last frame,
        is a BLANK.  Anything else is a TAIL (with the fields of its block, the last of which may be cut off; they do
        not change the last event ID) or the last piece of an oversized frame.
        """
        frames: list[Frame] = []
        if self._pending:
            raw = bytes(self._pending[self._given :])
            if self._ends_with_cr():
                self._finish(raw, frames)
            elif self._given:
                self._add(FrameKind.OVERSIZED, raw, frames)
            elif raw == b"\n" and self._ending is None:
                self._add(FrameKind.BLANK, raw, frames)
            else:
                self._add(FrameKind.TAIL, raw, frames, _fields(raw) if self._kind is _MESSAGE else ())
        self._pending = bytearray()
        self._closed = True
        return frames

    def _ends_with_cr(self) -> bool:
        """Whether the pending bytes are a whole frame if no byte follows their CR."""
        if self._ending is None:
            return False
        return self._pending.endswith(b"\r" if self._ending is _LINE_END else b"\n\r")

    def _may_complete(self) -> bool:
        """Whether the pending bytes may contain a frame or a piece.  Does not search the same bytes with every feed."""
        if self._ending is None or len(self._pending) - self._given > self._limit:
            return True
        found = self._ending.search(self._pending, self._searched)
        self._searched = max(self._searched, len(self._pending) - _OVERLAP) if found is None else found.start()
        return found is not None

    def _cut(self, data: bytes) -> list[Frame]:
        """Return the whole frames of `data`, which begins with the pending bytes; the rest becomes pending."""
        frames: list[Frame] = []
        begin, searched = self._given, self._searched
        only_lf = b"\r" not in data
        blank_line = _BLANK_LINE_AFTER_LF if only_lf or b"\r\r" not in data else _BLANK_LINE
        while begin < len(data):
            if self._ending is None:
                if data[begin] not in _NO_BLOCK and not self._given:
                    begin = self._cut_blocks(data, begin, frames, blank_line, only_lf=only_lf)
                    if begin == len(data):
                        break
                if data[begin] not in _NO_BLOCK:
                    self._kind, self._ending, searched = _MESSAGE, _BLANK_LINE, begin
                elif data.startswith(b"\n\n", begin) and not (self._given or self._after_cr):
                    begin = self._cut_blank_lines(data, begin, frames)
                    continue
                else:
                    searched = self._classify_start(data, begin)
                if self._ending is None:
                    break
            found = (blank_line if self._ending is _BLANK_LINE else self._ending).search(data, searched)
            if found is None:
                break
            self._finish(data[begin : found.end()], frames)
            begin = found.end()
        if begin < len(data) or self._pending:
            self._keep(data, begin, searched, frames)
        return frames

    def _cut_blocks(
        self, data: bytes, begin: int, frames: list[Frame], blank_line: re.Pattern[bytes], *, only_lf: bool
    ) -> int:
        """Add the consecutive whole blocks from `begin` on, and return where they end.

        This is a faster form of `_finish`, because nearly all of a stream are such blocks.
        """
        first, origin, last_event_id = begin, self._offset - begin, self._last_event_id
        limit, size = self._limit, len(data)
        fields: tuple[tuple[bytes, bytes], ...]
        while begin < size and data[begin] not in _NO_BLOCK:
            usual = _USUAL_BLOCK.match(data, begin) if only_lf else None
            found = usual or blank_line.search(data, begin)
            if found is None or (end := found.end()) - begin > limit:
                break
            raw = data[begin:end]
            if usual is not None:
                first_id, event, second_id, value = usual.groups()
                if first_id is not None:
                    last_event_id = first_id
                    fields = ((b"id", first_id), (b"event", event), (b"data", value))
                elif second_id is not None:
                    last_event_id = second_id
                    fields = ((b"event", event), (b"id", second_id), (b"data", value))
                else:
                    fields = ((b"event", event), (b"data", value))
            else:
                fields = tuple(_FIELD.findall(raw)) if only_lf else _fields(raw)
                for name, value in fields:
                    if name == b"id" and b"\0" not in value:
                        last_event_id = value
            frames.append(_new_tuple(Frame, (_MESSAGE, origin + begin, raw, fields, last_event_id)))
            begin = end
        if begin > first:
            self._offset, self._last_event_id = origin + begin, last_event_id
            self._after_cr = data[begin - 1] == _CR
        return begin

    def _cut_blank_lines(self, data: bytes, begin: int, frames: list[Frame]) -> int:
        """Add the blank lines from `begin` on, each an LF, and return where they end.  Also a faster `_finish`."""
        end = begin + 1
        while end < len(data) and data[end] == _LF:
            end += 1
        origin, last_event_id = self._offset - begin, self._last_event_id
        frames += [Frame(_BLANK, origin + at, b"\n", (), last_event_id) for at in range(begin, end)]
        self._offset = origin + end
        return end

    def _classify_start(self, data: bytes, begin: int) -> int:
        """Determine the kind of the next frame, if possible, and return where to start searching for its end."""
        if self._offset == 0 and _BOM.startswith(first := data[begin : begin + len(_BOM)]):
            if first == _BOM:
                self._kind, self._ending = FrameKind.BOM, _BOM_END
            return begin
        after_cr = self._after_cr
        if after_cr and data[begin] == _LF:
            begin, after_cr = begin + 1, False
            if begin == len(data):
                return begin
        if data[begin] not in _NO_FIELD:
            self._kind, self._ending = _MESSAGE, _BLANK_LINE
        else:
            self._kind = FrameKind.COMMENT if data[begin] == _COLON else FrameKind.BLANK
            self._ending = _LINE_END_AFTER_CR if after_cr else _LINE_END
        return begin

    def _finish(self, raw: bytes, frames: list[Frame]) -> None:
        """Add the frame that ends with `raw`, and begin the next one."""
        if self._given or len(raw) > self._limit:
            for begin in range(0, len(raw), self._limit):
                self._add(FrameKind.OVERSIZED, raw[begin : begin + self._limit], frames)
        elif self._kind is _MESSAGE:
            fields = _fields(raw)
            for name, value in fields:
                if name == b"id" and b"\0" not in value:
                    self._last_event_id = value
            frames.append(Frame(_MESSAGE, self._offset, raw, fields, self._last_event_id))
            self._offset += len(raw)
        else:
            self._add(self._kind, raw, frames)
        self._after_cr = raw[-1] == _CR
        self._ending = None
        self._given = 0

    def _keep(self, data: bytes, begin: int, searched: int, frames: list[Frame]) -> None:
        """Keep the bytes after `begin` for the next feed, after adding the pieces that exceed the limit."""
        while len(data) - begin > self._limit:
            self._add(FrameKind.OVERSIZED, data[begin : begin + self._limit], frames)
            begin += self._limit
            self._given = 1
        origin = begin - self._given
        self._pending = bytearray(data[origin:])
        self._searched = max(searched, len(data) - _OVERLAP, origin) - origin

    def _add(
        self, kind: FrameKind, raw: bytes, frames: list[Frame], fields: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        frames.append(Frame(kind, self._offset, raw, fields, self._last_event_id))
        self._offset += len(raw)


def is_event_stream(content_type: str | None) -> bool:
    """Whether the value of a Content-Type header names server-sent events."""
    return (content_type or "").partition(";")[0].strip().lower() == EVENT_STREAM
