"""What is kept of bodies that somebody may look at: how they begin, or how an event stream ends so far."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from time import monotonic_ns

from wiretape.content_encoding import is_identity

MOST_BYTES = 1 << 20
"""How much of a body is kept."""
_MOST_CHUNKS = 1 << 16


class Beginning:
    """How a body begins."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def keep(self, data: bytes) -> bool:
        """Take a chunk in; returns whether any of it is kept."""
        room = MOST_BYTES - len(self._bytes)
        self._bytes += data[:room]
        return room > 0

    def content(self) -> bytes:
        """What is kept."""
        return bytes(self._bytes)


class Tail:
    """The last bytes of an event stream, in the chunks in which they came.

    Of one that is encoded they are the first ones, without which nothing could be decoded.
    """

    def __init__(self, content_encoding: str | None) -> None:
        self.encoding = content_encoding
        self.identity = is_identity(content_encoding)
        self.began_ns = monotonic_ns()
        """When the head of the response came, on the monotonic clock."""
        self.start = 0
        """Offset in the body of the first byte that is kept."""
        self.size = 0
        """How many bytes came so far."""
        self._bytes = bytearray()
        self._ends = array("Q")
        self._times = array("q")

    def keep(self, data: bytes) -> bool:
        """Take a chunk in, in less than 1 µs; returns whether it is kept."""
        self.size += len(data)
        if not self.identity and len(self._bytes) >= MOST_BYTES:
            return False
        self._bytes += data
        self._ends.append(self.size)
        self._times.append(monotonic_ns())
        # Seldom, so that it costs next to nothing for each chunk.
        if len(self._bytes) > 2 * MOST_BYTES or len(self._ends) > 2 * _MOST_CHUNKS:
            self._trim()
        return True

    @property
    def end(self) -> int:
        """Offset in the body just after the last byte that is kept."""
        return self.start + len(self._bytes)

    def content(self) -> bytes:
        """What is kept: `MOST_BYTES`, or a chunk more."""
        self._trim()
        return bytes(self._bytes)

    def chunks(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Each chunk that is kept as `(time_ns, bytes)`, what came before offset `start` cut off."""
        begin = max(start, self.start)
        for index in range(bisect_right(self._ends, begin), len(self._ends)):
            end = self._ends[index]
            yield self._times[index], bytes(self._bytes[begin - self.start : end - self.start])
            begin = end

    def _trim(self) -> None:
        if not self.identity:
            return
        start = max(self.start, self.size - MOST_BYTES)
        if len(self._ends) > _MOST_CHUNKS:
            start = max(start, self._ends[-_MOST_CHUNKS - 1])
        del self._bytes[: start - self.start]
        first = bisect_right(self._ends, start)
        del self._ends[:first], self._times[:first]
        self.start = start
