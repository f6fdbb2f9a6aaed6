"""The frames of an event stream."""

from enum import StrEnum
from typing import NamedTuple


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
    """A run of bytes of a stream.  The `raw` bytes of all frames, joined, are the stream.

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
