"""Observations: what was seen of exchanges, and when.  Capture, recordings and checks share these types.

An *exchange* is one request and its response.  The observations of all exchanges of a recording form one sequence in
order of time: the proxy produces it, a recording returns it unchanged, and the checker processes it.

Times are integer nanoseconds since the recording began, on a monotonic clock.  They strictly increase over the whole
recording, so the order is always defined.

Header names and values are `str` in which every character stands for one byte (latin-1), as they crossed the wire:
with their order, case and repetitions.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Headers = tuple[tuple[str, str], ...]


class Side(StrEnum):
    """One of the two bodies of an exchange."""

    REQUEST = "request"
    RESPONSE = "response"


class Ending(StrEnum):
    """How an exchange ended, as far as the proxy could observe it."""

    COMPLETE = "complete"
    """The response ended as its framing announced (or, without framing, by an orderly close)."""
    SERVICE_CLOSED = "service-closed"
    """The service closed the connection (FIN, GOAWAY) before the end of the response."""
    SERVICE_RESET = "service-reset"
    """The service reset the connection or the HTTP/2 stream (RST, RST_STREAM)."""
    SERVICE_UNREACHABLE = "service-unreachable"
    """The proxy could not connect to the service, so there is no response."""
    SERVICE_INVALID = "service-invalid"
    """The service sent something other than HTTP."""
    CLIENT_CLOSED = "client-closed"
    """The client closed the connection, reset the HTTP/2 stream, or sent something other than HTTP."""
    TIMED_OUT = "timed-out"
    """The proxy closed a connection on which no byte had arrived for too long."""
    PROXY_STOPPED = "proxy-stopped"
    """The proxy was stopped while the exchange was open."""
    OPEN = "open"
    """Unknown: the proxy was killed, or the recording is still being written."""


@dataclass(frozen=True, slots=True)
class RequestStarted:
    """The headers of a request arrived.  Begins the exchange `exchange` (from 1, never reused)."""

    exchange: int
    time_ns: int
    client: str
    """The client's address, without its port."""
    method: str
    scheme: str
    authority: str
    """`host[:port]` of the upstream to which the request was sent."""
    target: str
    """Path and query as they crossed the wire."""
    http_version: str
    headers: Headers
    is_invented: bool = False
    """Whether an import invented the request, or its headers, which are then empty: rules do not judge it."""


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """The whole request arrived.  May be observed after the response began, or never."""

    exchange: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """The headers of a response arrived."""

    exchange: int
    time_ns: int
    status: int
    reason: str
    http_version: str
    headers: Headers


@dataclass(frozen=True, slots=True)
class BytesArrived:
    """A span of one body: consecutive chunks, as they arrived (still encoded).

    The grouping of chunks into spans has no meaning: readers and writers may split between any two chunks.
    """

    exchange: int
    side: Side
    start: int
    """Offset in the body of the first byte of `data`."""
    data: bytes
    ends: Sequence[int]
    """For each chunk the offset in the body after it; the last is `start + len(data)`."""
    times: Sequence[int]
    """For each chunk its arrival time (ns)."""

    @property
    def time_ns(self) -> int:
        """The arrival time of the first chunk."""
        return self.times[0]

    @property
    def end(self) -> int:
        """Offset in the body after the last byte."""
        return self.start + len(self.data)

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield each chunk as `(time_ns, bytes)`."""
        begin = 0
        for end, time_ns in zip(self.ends, self.times, strict=True):
            yield time_ns, self.data[begin : end - self.start]
            begin = end - self.start

    def after(self, start: int) -> "BytesArrived":
        """Return the rest from the offset `start` on, which must not be before its own start; may be empty."""
        first = bisect_right(self.ends, start)
        data, ends, times = self.data[start - self.start :], self.ends[first:], self.times[first:]
        return BytesArrived(self.exchange, self.side, start, data, ends, times)


@dataclass(frozen=True, slots=True)
class BytesLost:
    """Bytes of a body that passed the proxy but were not recorded (see REC001)."""

    exchange: int
    time_ns: int
    side: Side
    start: int
    """Offset in the body of the first lost byte."""
    count: int
    """The number of lost bytes."""
    why: str

    @property
    def end(self) -> int:
        """Offset in the body after the last lost byte."""
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class ExchangeEnded:
    """The exchange ended."""

    exchange: int
    time_ns: int
    ending: Ending
    detail: str = ""
    """An explanation by the proxy, for people."""


Observation = RequestStarted | RequestEnded | ResponseStarted | BytesArrived | BytesLost | ExchangeEnded


def last_time_ns(seen: Observation) -> int:
    """Return when an observation ended: the time of its last chunk, or its only time."""
    return seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns


def is_header_name(text: str) -> bool:
    """Whether `text` can be the name of a header: a token of RFC 9110, section 5.6.2."""
    return _HEADER_NAME.fullmatch(text) is not None


def header(headers: Headers, name: str) -> str | None:
    """Return the value of the first header called `name` (in any case), or None."""
    wanted = name.lower()
    for key, value in headers:
        if key.lower() == wanted:
            return value
    return None


def reason_phrase(status: int) -> str:
    """Return the reason phrase of a status; empty if it has none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
