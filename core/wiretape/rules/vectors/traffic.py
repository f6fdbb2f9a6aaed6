"""From the tables of a vector to observations."""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from http import HTTPStatus
from typing import Any

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)

_SECOND = 1_000_000_000
_STEP = 1_000_000
"""A millisecond lies between things that the vector gives no time for."""
_JSON = ("Content-Type: application/json",)
_EVENT_STREAM = ("Content-Type: text/event-stream",)


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a body."""

    text: str = ""
    lost: int = 0
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One table `exchange`."""

    request: str
    headers: Sequence[str] = ("Authorization: Bearer key_1",)
    client: str = "127.0.0.1"
    at: float | None = None
    status: int = 200
    response_headers: Sequence[str] | None = None
    ending: str = "complete"
    ends_after: float = 0.0
    latin1: bool = False
    body: str = ""
    part: Sequence[Mapping[str, Any]] = field(default_factory=list)

    @property
    def answer_headers(self) -> Headers:
        """The headers of the response."""
        default = _EVENT_STREAM if self.status == 200 else _JSON
        return _headers(default if self.response_headers is None else self.response_headers)

    def parts(self) -> list[tuple[_Part, bytes]]:
        """The pieces of the body, each with its bytes as they cross the wire."""
        parts = [_Part(**part) for part in self.part] or [_Part(self.body)]
        charset = "latin-1" if self.latin1 else "utf-8"
        compressed = header(self.answer_headers, "content-encoding") == "gzip"
        encoded = [part.text.encode(charset) for part in parts]
        return list(zip(parts, [gzip.compress(data, mtime=0) if compressed else data for data in encoded], strict=True))


def observations(document: Mapping[str, Any], piece: int | None) -> list[Observation]:
    """The observations of a vector, in order of time.  Raises ValueError for a key that is not known."""
    known = {item.name for item in fields(_Exchange)}
    seen: list[Observation] = []
    begin_ns = _SECOND
    for number, table in enumerate(document["exchange"], 1):
        if unknown := set(table) - known:
            raise ValueError(f"A vector's exchange cannot have {sorted(unknown)}.")
        exchange = _Exchange(**table)
        at_ns = begin_ns if exchange.at is None else round(exchange.at * _SECOND)
        of_this = list(_exchange(number, at_ns, exchange, piece))
        begin_ns = of_this[-1].time_ns + _SECOND
        seen += of_this
    return _strictly_later(sorted(seen, key=lambda observation: observation.time_ns))


def _exchange(number: int, now: int, exchange: _Exchange, piece: int | None) -> Iterator[Observation]:
    method, _, target = exchange.request.partition(" ")
    heads = _headers(exchange.headers)
    yield RequestStarted(number, now, exchange.client, method, "http", "service.test", target, "HTTP/1.1", heads)
    now += _STEP
    yield RequestEnded(number, now)
    if exchange.status:
        now += _STEP
        status = HTTPStatus(exchange.status)
        yield ResponseStarted(number, now, status, status.phrase, "HTTP/1.1", exchange.answer_headers)
        for observation in _body(number, now, exchange, piece):
            yield observation
            now = observation.time_ns
    if exchange.ending != Ending.OPEN:
        yield ExchangeEnded(number, now + _STEP + round(exchange.ends_after * _SECOND), Ending(exchange.ending))


def _body(number: int, now: int, exchange: _Exchange, piece: int | None) -> Iterator[Observation]:
    start = 0
    for part, data in exchange.parts():
        now += _STEP + round(part.after * _SECOND)
        if part.lost:
            yield BytesLost(number, now, Side.RESPONSE, start, part.lost, "the vector says so")
            start += part.lost
        for begin in range(0, len(data), piece or len(data) or 1):
            cut = data[begin : begin + (piece or len(data))]
            yield BytesArrived(number, Side.RESPONSE, start, cut, (start + len(cut),), (now,))
            start += len(cut)


def _headers(lines: Sequence[str]) -> Headers:
    return tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))


def _strictly_later(seen: list[Observation]) -> list[Observation]:
    """The same, with times pushed on by nanoseconds where two are equal."""
    last = 0
    for place, observation in enumerate(seen):
        last = max(last + 1, observation.time_ns)
        if last != observation.time_ns:
            seen[place] = _at(observation, last)
    return seen


def _at(observation: Observation, time_ns: int) -> Observation:
    if isinstance(observation, BytesArrived):
        return replace(observation, times=(time_ns,))
    return replace(observation, time_ns=time_ns)
