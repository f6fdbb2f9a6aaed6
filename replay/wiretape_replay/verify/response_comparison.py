"""What has to be on the wire for a recorded answer, told from the recording alone.

This is written apart from `wiretape_replay.verbatim.response_plan`, which says what the replay sends: a mistake in one
of them is
found by the other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from wiretape.observations import BytesArrived, BytesLost, Ending, ResponseStarted
from wiretape.recording import Exchange
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import single_line
from wiretape_replay.verify.raw_connection import RawConnection, State

LAST_CHUNK = b"0\r\n\r\n"


class After(StrEnum):
    """What becomes of the connection after the last byte."""

    USABLE = "left open for the next request"
    CLOSED = "closed"
    RESET = "reset"
    HELD = "left open without the end of the answer"


@dataclass(frozen=True, slots=True)
class ExpectedResponse:
    """The wire of one answer but for its body."""

    head: bytes | None
    """Status line, headers and blank line; None where there was no answer."""
    has_body: bool
    chunked: bool
    """Whether the body is in HTTP chunks, one for each recorded chunk."""
    length: int | None
    """How many bytes the head announces."""
    ending: Ending
    keeps: bool
    """Whether the connection can be used again after a whole answer."""

    def body(self, runs: Iterable[BytesArrived | BytesLost]) -> Iterator[list[bytes]]:
        """The recorded chunks, grouped as they are read; those without bytes, and gaps, are passed over."""
        for run in runs if self.has_body else ():
            if isinstance(run, BytesArrived):
                yield [data for _, data in run.chunks() if data]

    def framed(self, chunk: bytes) -> bytes:
        """A chunk as it crosses the wire."""
        return b"%x\r\n%b\r\n" % (len(chunk), chunk) if self.chunked else chunk

    def after(self, sent: int) -> After:
        """What comes after `sent` bytes of body."""
        whole = not self.has_body or sent == self.length
        if self.ending is Ending.SERVICE_RESET:
            return After.RESET
        if self.ending in {Ending.CLIENT_CLOSED, Ending.TIMED_OUT} and not (whole and self.head):
            return After.HELD
        if self.ending in {Ending.COMPLETE, Ending.CLIENT_CLOSED, Ending.TIMED_OUT}:
            return After.USABLE if self.keeps and (whole or self.chunked) else After.CLOSED
        return After.CLOSED

    @property
    def ends_with_last_chunk(self) -> bool:
        """Whether the last chunk comes, which says that the answer is whole."""
        return self.chunked and self.ending is Ending.COMPLETE


def expected_response(exchange: Exchange) -> ExpectedResponse:
    """What an HTTP/1.1 client has to be sent."""
    response = exchange.response
    if response is None:
        return ExpectedResponse(None, False, False, None, exchange.ending, False)
    named = {name.lower(): value.lower().strip() for name, value in reversed(response.headers)}
    bodiless = exchange.request.method == "HEAD" or response.status in {204, 304} or response.status < 200
    version2 = response.http_version.startswith("HTTP/2")
    codings = [value.lower().strip() for name, value in response.headers if name.lower() == "transfer-encoding"]
    coding, announced = codings[-1] if codings else None, named.get("content-length", "")
    length = int(announced) if coding is None and announced.isdecimal() and announced.isascii() else None
    added = version2 and coding is None and length is None and not bodiless
    chunked = not bodiless and (added or (coding or "").endswith("chunked"))
    old = response.http_version == "HTTP/1.0"
    stays = "keep-alive" in named.get("connection", "") if old else "close" not in named.get("connection", "")
    framed = bodiless or chunked or length is not None
    return ExpectedResponse(
        head=_head(response, chunk_it=added),
        has_body=not bodiless,
        chunked=chunked,
        length=None if bodiless else length,
        ending=exchange.ending,
        keeps=stays and framed and response.status >= 200,
    )


def _head(response: ResponseStarted, *, chunk_it: bool) -> bytes:
    version = "HTTP/1.0" if response.http_version == "HTTP/1.0" else "HTTP/1.1"
    lines = [f"{version} {response.status} {single_line(response.reason)}"]
    lines += [f"{single_line(name)}: {single_line(value)}" for name, value in response.headers if name[:1] != ":"]
    lines += ["Transfer-Encoding: chunked"] if chunk_it else []
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1", "replace")


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

    def __init__(self, wire: RawConnection, want: ExpectedResponse) -> None:
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
