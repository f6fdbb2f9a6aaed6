"""Observations of exchanges, one after the other in time, and recordings of them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from event_tables import exchange_arguments

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
)
from wiretape.recording import Writer
from wiretape.rules import Finding

MS = 1_000_000
STREAM = "/v1/sessions/s1/events/stream"
EVENT_STREAM = (("Content-Type", "text/event-stream"),)
Chunk = bytes | tuple[float, bytes] | int
"""The bytes, or the milliseconds since what came before and the bytes; or how many bytes were lost."""


class ObservationBuilder:
    """Makes observations, each a millisecond after the one before unless a wait (ms) is given."""

    def __init__(self, began_ns: int = 0, first_exchange: int = 1) -> None:
        self.now_ns = began_ns
        self.exchange = first_exchange - 1
        self._ends: dict[tuple[int, Side], int] = {}

    def tick(self, wait: float = 1) -> int:
        """Advance the clock by at least a nanosecond, and return the time."""
        self.now_ns += max(1, round(wait * MS))
        return self.now_ns

    def ask(self, target: str = STREAM, headers: Headers = (), method: str = "GET") -> RequestStarted:
        self.exchange += 1
        head = (self.exchange, self.tick(), "127.0.0.1", method, "http", "service.test", target, "HTTP/1.1", headers)
        return RequestStarted(*head)

    def asked(self, exchange: int | None = None, wait: float = 1) -> RequestEnded:
        return RequestEnded(exchange or self.exchange, self.tick(wait))

    def answer(
        self,
        headers: Headers = EVENT_STREAM,
        exchange: int | None = None,
        *,
        status: int = 200,
        reason: str = "OK",
        version: str = "HTTP/1.1",
    ) -> ResponseStarted:
        return ResponseStarted(exchange or self.exchange, self.tick(), status, reason, version, headers)

    def send(
        self, *chunks: bytes, exchange: int | None = None, side: Side = Side.RESPONSE, wait: float = 1
    ) -> BytesArrived:
        body = (exchange or self.exchange, side)
        start = end = self._ends.get(body, 0)
        ends, times = [], []
        for chunk in chunks:
            end += len(chunk)
            ends.append(end)
            times.append(self.tick(wait))
        self._ends[body] = end
        return BytesArrived(*body, start, b"".join(chunks), ends, times)

    def lose(self, count: int, exchange: int | None = None, side: Side = Side.RESPONSE) -> BytesLost:
        body = (exchange or self.exchange, side)
        start = self._ends.get(body, 0)
        self._ends[body] = start + count
        return BytesLost(body[0], self.tick(), side, start, count, "disk full")

    def end(
        self, ending: Ending = Ending.COMPLETE, exchange: int | None = None, *, detail: str = "", wait: float = 1
    ) -> ExchangeEnded:
        return ExchangeEnded(exchange or self.exchange, self.tick(wait), ending, detail)

    def stream(self, *chunks: bytes, headers: Headers = EVENT_STREAM) -> Iterator[Observation]:
        """Yield a whole exchange."""
        yield from (self.ask(), self.asked(), self.answer(headers))
        for chunk in chunks:
            yield self.send(chunk)
        yield self.end()


class RecordingBuilder:
    """Records exchanges.  The clock moves only when something is recorded."""

    def __init__(
        self,
        path: Path,
        contracts: str | None = None,
        *,
        target: str = STREAM,
        headers: Headers = (*EVENT_STREAM, ("Transfer-Encoding", "chunked")),
        reason: str = "OK",
        upload_ms: float = 1,
    ) -> None:
        """`target`, `headers` and `reason` are those of exchanges without their own; `upload_ms` is for each part of
        a request after its head.
        """
        self.path = path
        self._target, self._headers, self._reason, self._upload_ms = target, headers, reason, upload_ms
        self._made = ObservationBuilder()
        self._writer = Writer.create(path, upstream="http://service.test", contracts=contracts)

    @property
    def now(self) -> int:
        """The time of what was recorded last."""
        return self._made.now_ns

    def after(self, milliseconds: float) -> int:
        """Let time pass before what is recorded next."""
        return self._made.tick(milliseconds)

    def exchange(
        self,
        chunks: Iterable[Chunk] = (),
        *,
        method: str = "GET",
        target: str | None = None,
        request_headers: Headers = (),
        body: bytes | int | None = b"",
        status: int | None = 200,
        reason: str | None = None,
        version: str = "HTTP/1.1",
        headers: Headers | None = None,
        ending: Ending | None = Ending.COMPLETE,
        detail: str = "",
        wait_ms: float = 1,
    ) -> int:
        """Record an exchange and return its number.

        `body` None is a request that never became whole, and a number what was lost of it; `status` None means no
        response, and `ending` None leaves it open.  `wait_ms` is the time from the last chunk to the end.
        """
        made, feed = self._made, self._writer.feed
        feed([made.ask(target or self._target, request_headers, method)])
        if isinstance(body, int):
            feed([made.lose(body, side=Side.REQUEST)])
        elif body:
            feed([made.send(body, side=Side.REQUEST, wait=self._upload_ms)])
        if body is not None:
            feed([made.asked(wait=self._upload_ms)])
        if status is not None:
            headers = self._headers if headers is None else headers
            reason = self._reason if reason is None else reason
            feed([made.answer(headers, status=status, reason=reason, version=version)])
        self._record_chunks(made.exchange, chunks)
        if ending not in {None, Ending.OPEN}:
            feed([made.end(ending, detail=detail, wait=wait_ms)])
        return made.exchange

    def record(self, exchanges: Iterable[dict[str, Any]]) -> list[int]:
        """Record exchanges that a TOML file describes; return their numbers."""
        return [self.exchange(**exchange_arguments(each)) for each in exchanges]

    def extend(self, number: int, chunks: Iterable[Chunk], ending: Ending | None = None) -> None:
        """Record more of an exchange that was left open, and save."""
        self._record_chunks(number, chunks)
        if ending is not None:
            self._writer.feed([self._made.end(ending, number)])
        self.save()

    def answer(self, number: int) -> None:
        """Begin the response to an exchange that has none."""
        self._writer.feed([self._made.answer(self._headers, number, reason=self._reason)])

    def save(self) -> None:
        """Put on disk what is recorded, for those who read it meanwhile."""
        self._writer.commit()

    def find(self, *findings: Finding) -> None:
        """Store live findings."""
        self.save()
        self._writer.add_findings(findings)

    def close(self, *, killed: bool = False) -> Path:
        """End the recording, or leave it as a killed proxy would; return its path."""
        self._writer.close(None if killed else self.after(1))
        return self.path

    def _record_chunks(self, number: int, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            if isinstance(chunk, int):
                self._writer.feed([self._made.lose(chunk, number)])
            else:
                wait, data = chunk if isinstance(chunk, tuple) else (1, chunk)
                self._writer.feed([self._made.send(data, exchange=number, wait=wait)])
