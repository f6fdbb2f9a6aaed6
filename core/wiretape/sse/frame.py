"""The frames of an event stream."""

from enum import StrEnum
from typing import NamedTuple


class FrameKind(StrEnum):
    """What a frame is to a client that follows the WHATWG rules."""

    MESSAGE = "message"
    """A block of lines with at least one field line, ended by a blank line."""
    COMMENT = "comment"
    """One comment line that stands before any field line of its block."""
    BLANK = "blank"
    """A blank line with nothing before it to end."""
    BOM = "bom"
    """The byte order mark that may begin a stream."""
    TAIL = "tail"
    """Bytes of a message that the end of the stream cut off; no client sees them."""
    OVERSIZED = "oversized"
    """A piece of a block that grew over the size limit; its fields are not looked at."""


class Frame(NamedTuple):
    """A piece of a stream.  The `raw` bytes of all frames, joined, are the stream.

    `fields` and the properties made from it are empty for every kind but MESSAGE and TAIL.
    """

    kind: FrameKind
    start: int
    """Offset in the stream of the first byte of `raw`."""
    raw: bytes
    fields: tuple[tuple[bytes, bytes], ...] = ()
    """Each field line as `(name, value)`, in order; comment lines inside the block left out."""
    last_event_id: bytes = b""
    """The last event ID string after this frame: what a client would send to resume."""

    @property
    def end(self) -> int:
        """Offset in the stream just after the last byte."""
        return self.start + len(self.raw)

    def values(self, name: bytes) -> list[bytes]:
        """The values of all fields called `name`, in order."""
        return [value for key, value in self.fields if key == name]

    @property
    def event(self) -> str:
        """The event name; empty when the block names none.  Bad UTF-8 becomes U+FFFD."""
        values = self.values(b"event")
        return values[-1].decode("utf-8", "replace") if values else ""

    @property
    def id(self) -> str | None:
        """The block's own id (the last one without NUL); None when it has none."""
        values = [value for value in self.values(b"id") if b"\0" not in value]
        return values[-1].decode("utf-8", "replace") if values else None

    @property
    def data(self) -> bytes:
        """All data lines joined by LF, undecoded."""
        return b"\n".join(self.values(b"data"))

    @property
    def dispatched(self) -> bool:
        """Whether a client is handed an event for this frame: a whole block with a data line, even an empty one."""
        return self.kind is FrameKind.MESSAGE and any(key == b"data" for key, _ in self.fields)
