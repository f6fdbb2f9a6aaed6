"""One recorded answer compared with what is on the wire."""

from collections.abc import Iterable

from wiretape.observations import BytesArrived, BytesLost
from wiretape.safe_text import shorten
from wiretape_replay.verify.expected import LAST_CHUNK, After, Expected
from wiretape_replay.verify.wire import State, Wire

_SHOWN = 40
"""Bytes of a difference that are said."""
_STATES = {
    State.CLOSED: "the connection was closed",
    State.RESET: "the connection was reset",
    State.SILENT: "nothing more came",
}


class Difference(Exception):  # noqa: N818 - it is what a comparison is about, and no error
    """What is not as recorded, for people: a clause without its subject's exchange."""


class Comparison:
    """Follows one answer on the wire.  `sent` and `chunks` count what came as recorded."""

    def __init__(self, wire: Wire, want: Expected) -> None:
        self.sent = 0
        self.chunks = 0
        self._wire = wire
        self._want = want

    async def answer(self, runs: Iterable[BytesArrived | BytesLost]) -> bool:
        """Compare a whole answer; returns whether the connection can be used for the next request.

        Raises Difference, and RecordingError.
        """
        want = self._want
        if want.head is not None:
            await self._head(want.head)
            for run in want.body(runs):
                await self._run(run)
            if want.ends_with_last_chunk:
                await self._last_chunk()
        return await self._after(want.after(self.sent))

    async def _head(self, head: bytes) -> None:
        came = await self._wire.follow(head)
        if came == len(head):
            return
        if not self._wire.buffer:
            raise Difference(f"{self._ended()} after {came} of the {len(head)} bytes of the head")
        begin = head.rfind(b"\n", 0, came) + 1
        line = head[begin:].partition(b"\r\n")[0]
        other = (head[begin:came] + bytes(self._wire.buffer)).partition(b"\r\n")[0]
        raise Difference(f"the head has {_quoted(other)} where {_quoted(line)} was recorded")

    async def _run(self, chunks: list[bytes]) -> None:
        """The chunks of a run, at once where they come as they should."""
        framed = [self._want.framed(chunk) for chunk in chunks]
        joined = b"".join(framed)
        came = await self._wire.follow(joined)
        if came == len(joined):
            self.sent += sum(map(len, chunks))
            self.chunks += len(chunks)
            return
        for chunk, wire in zip(chunks, framed, strict=True):
            if came < len(wire):
                self._differs(chunk, wire, came)
            came -= len(wire)
            self.sent += len(chunk)
            self.chunks += 1

    def _differs(self, chunk: bytes, wire: bytes, came: int) -> None:
        """Raise the difference in a chunk of which only so many bytes on the wire came as recorded."""
        begin = len(wire) - len(chunk) - 2 if self._want.chunked else 0
        place = f"byte {self.sent + max(0, came - begin)} of the body"
        if not self._wire.buffer:
            raise Difference(f"{self._ended()} before {place}")
        if came < begin:
            line = (wire[:came] + bytes(self._wire.buffer)).partition(b"\r\n")[0]
            raise Difference(f"chunk {self.chunks + 1} has {_size(line)} where {len(chunk)} bytes were recorded")
        instead = wire[came : came + _SHOWN] if not self._want.chunked else wire[came:-2][:_SHOWN]
        raise Difference(f"{place} begins {_quoted(self._wire.buffer)} where {_quoted(instead)} was recorded")

    async def _last_chunk(self) -> None:
        came = await self._wire.follow(LAST_CHUNK)
        if came == len(LAST_CHUNK):
            return
        if self._wire.buffer:
            raise Difference(f"more comes after the {self.chunks} recorded chunks: {_quoted(self._wire.buffer)}")
        raise Difference(f"{self._ended()} instead of the chunk that ends the body")

    async def _after(self, after: After) -> bool:
        wire = self._wire
        if after is After.USABLE:
            as_it_should = await wire.quiet(turns=0)  # what comes later is found before the next answer
        elif after is After.HELD:
            as_it_should = await wire.quiet()
        else:
            as_it_should = await wire.end() == State(after.value) and not wire.buffer
        if as_it_should:
            return after is After.USABLE
        if wire.buffer:
            raise Difference(f"more comes after the recorded {self.sent} bytes of body: {_quoted(wire.buffer)}")
        raise Difference(f"{self._ended()} after the last byte, and it was {after}")

    def _ended(self) -> str:
        return _STATES[self._wire.state]


def _size(line: bytes) -> str:
    """The size of an HTTP chunk, from the line before it."""
    try:
        return f"{int(line, 16)} bytes"
    except ValueError:
        return _quoted(line)


def _quoted(data: bytes | bytearray) -> str:
    return f"'{shorten(bytes(data[: _SHOWN + 1]).decode('latin-1'), _SHOWN)}'"
