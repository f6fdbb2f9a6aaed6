"""What has to be on the wire for a recorded answer, told from the recording alone.

This is written apart from `wiretape_replay.tape.plan`, which says what the replay sends: a mistake in one of them is
found by the other.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from wiretape.observations import BytesArrived, BytesLost, Ending, ResponseStarted
from wiretape.recording import Exchange
from wiretape_replay.front.head import one_line

LAST_CHUNK = b"0\r\n\r\n"


class After(StrEnum):
    """What becomes of the connection after the last byte."""

    USABLE = "left open for the next request"
    CLOSED = "closed"
    RESET = "reset"
    HELD = "left open without the end of the answer"


@dataclass(frozen=True, slots=True)
class Expected:
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


def expected(exchange: Exchange) -> Expected:
    """What an HTTP/1.1 client has to be sent."""
    response = exchange.response
    if response is None:
        return Expected(None, False, False, None, exchange.ending, False)
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
    return Expected(
        head=_head(response, chunk_it=added),
        has_body=not bodiless,
        chunked=chunked,
        length=None if bodiless else length,
        ending=exchange.ending,
        keeps=stays and framed and response.status >= 200,
    )


def _head(response: ResponseStarted, *, chunk_it: bool) -> bytes:
    version = "HTTP/1.0" if response.http_version == "HTTP/1.0" else "HTTP/1.1"
    lines = [f"{version} {response.status} {one_line(response.reason)}"]
    lines += [f"{one_line(name)}: {one_line(value)}" for name, value in response.headers if name[:1] != ":"]
    lines += ["Transfer-Encoding: chunked"] if chunk_it else []
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1", "replace")
