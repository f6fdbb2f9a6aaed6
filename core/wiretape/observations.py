"""The vocabulary between capture, store and checks: what was seen, and when.

An *exchange* is one request and its response.  Observations of all exchanges of a
recording form one sequence in order of time; the proxy produces it, a recording
gives it back unchanged, the checker folds over it.  Nothing here does I/O.

Times are integer nanoseconds since the recording began, on a monotonic clock, and
strictly increase over the whole recording, so that the order is never in doubt.

Header names and values are `str` in which every character stands for one byte
(latin-1), as they crossed the wire: order, case and repetition kept.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

Headers = tuple[tuple[str, str], ...]


class Side(StrEnum):
    """Which of an exchange's two bodies."""

    REQUEST = "request"
    RESPONSE = "response"


class Ending(StrEnum):
    """How an exchange ended, as far as the proxy could see it."""

    COMPLETE = "complete"
    """The response ended as its framing announced (or, without any framing, by an orderly close)."""
    SERVICE_CLOSED = "service-closed"
    """The service closed the connection (FIN, GOAWAY) before the response was whole."""
    SERVICE_RESET = "service-reset"
    """The service reset the connection or the HTTP/2 stream (RST, RST_STREAM)."""
    SERVICE_UNREACHABLE = "service-unreachable"
    """No connection to the service could be made, so there is no response."""
    SERVICE_INVALID = "service-invalid"
    """The service sent something that is not HTTP."""
    CLIENT_CLOSED = "client-closed"
    """The client left, reset the HTTP/2 stream, or sent something that is not HTTP."""
    TIMED_OUT = "timed-out"
    """The proxy gave up on a connection on which no byte had come for too long."""
    PROXY_STOPPED = "proxy-stopped"
    """The proxy was asked to stop while the exchange was open."""
    OPEN = "open"
    """Nobody said: the proxy was killed, or the recording is still being written."""


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """A request head arrived.  Begins exchange number `exchange` (from 1, never reused)."""

    exchange: int
    time_ns: int
    client: str
    """The client's address, without its port."""
    method: str
    scheme: str
    authority: str
    """`host[:port]` of the upstream that the request was sent to."""
    target: str
    """Path and query as they crossed the wire."""
    http_version: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """The request arrived whole.  May come after the response began, or never."""

    exchange: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """A response head arrived."""

    exchange: int
    time_ns: int
    status: int
    reason: str
    http_version: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class BytesArrived:
    """A run of consecutive chunks of one body, as they came off the wire (still encoded).

    How chunks are grouped into runs carries no meaning: readers and writers may cut
    between any two chunks.
    """

    exchange: int
    side: Side
    start: int
    """Offset in the body of the first byte of `data`."""
    data: bytes
    ends: Sequence[int]
    """For each chunk, the offset in the body just after it; the last is `start + len(data)`."""
    times: Sequence[int]
    """For each chunk, when it arrived (ns)."""

    @property
    def time_ns(self) -> int:
        """When the first chunk arrived."""
        return self.times[0]

    @property
    def end(self) -> int:
        """Offset in the body just after the last byte."""
        return self.start + len(self.data)

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Each chunk as `(time_ns, bytes)`."""
        begin = 0
        for end, time_ns in zip(self.ends, self.times, strict=True):
            yield time_ns, self.data[begin : end - self.start]
            begin = end - self.start

    def behind(self, start: int) -> "BytesArrived":
        """The rest from offset `start` on, which is not before its own start; may be empty."""
        first = bisect_right(self.ends, start)
        data, ends, times = self.data[start - self.start :], self.ends[first:], self.times[first:]
        return BytesArrived(self.exchange, self.side, start, data, ends, times)


@dataclass(frozen=True, slots=True)
class BytesLost:
    """Bytes of a body that passed the proxy but were not recorded, and why (see REC001)."""

    exchange: int
    time_ns: int
    side: Side
    start: int
    """Offset in the body of the first byte that is missing."""
    count: int
    """How many bytes are missing."""
    why: str


@dataclass(frozen=True, slots=True)
class ExchangeEnded:
    """The exchange is over; nothing more is observed of it."""

    exchange: int
    time_ns: int
    ending: Ending
    detail: str = ""
    """What the proxy said about it, for people."""


Observation = RequestStarted | RequestEnded | ResponseStarted | BytesArrived | BytesLost | ExchangeEnded


def header(headers: Headers, name: str) -> str | None:
    """The value of the first header called `name` (in any case), or None."""
    wanted = name.lower()
    for key, value in headers:
        if key.lower() == wanted:
            return value
    return None


def reason_phrase(status: int) -> str:
    """What HTTP calls a status; empty where it has no name."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
