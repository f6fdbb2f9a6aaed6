"""Fixtures that make observations with increasing times, and record them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wiretape.observations import (
    BytesArrived,
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

STREAM = (("Content-Type", "text/event-stream"),)


class Talk:
    """Makes observations, each a millisecond after the one before."""

    def __init__(self, began_ns: int = 0, first_exchange: int = 1) -> None:
        self.now_ns = began_ns
        self.exchange = first_exchange - 1
        self._offsets: dict[tuple[int, Side], int] = {}

    def tick(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns

    def ask(self, target: str = "/v1/sessions/s1/events/stream", headers: Headers = ()) -> RequestStarted:
        self.exchange += 1
        return RequestStarted(
            self.exchange, self.tick(), "127.0.0.1", "GET", "http", "service", target, "HTTP/1.1", headers
        )

    def asked(self, exchange: int | None = None) -> RequestEnded:
        return RequestEnded(exchange or self.exchange, self.tick())

    def answer(self, headers: Headers = STREAM, exchange: int | None = None) -> ResponseStarted:
        return ResponseStarted(exchange or self.exchange, self.tick(), 200, "OK", "HTTP/1.1", headers)

    def send(self, *chunks: bytes, exchange: int | None = None, side: Side = Side.RESPONSE) -> BytesArrived:
        body = (exchange or self.exchange, side)
        start = end = self._offsets.get(body, 0)
        ends, times = [], []
        for chunk in chunks:
            end += len(chunk)
            ends.append(end)
            times.append(self.tick())
        self._offsets[body] = end
        return BytesArrived(*body, start, b"".join(chunks), ends, times)

    def end(self, ending: Ending = Ending.COMPLETE, exchange: int | None = None) -> ExchangeEnded:
        return ExchangeEnded(exchange or self.exchange, self.tick(), ending)

    def stream(self, *chunks: bytes, headers: Headers = STREAM) -> Iterator[Observation]:
        """Yield a whole exchange."""
        yield self.ask()
        yield self.asked()
        yield self.answer(headers)
        for chunk in chunks:
            yield self.send(chunk)
        yield self.end()


@pytest.fixture
def new_talk() -> type[Talk]:
    return Talk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest.fixture
def begin(path: Path) -> Iterator[Callable[..., tuple[Writer, Talk]]]:
    """Open the file for writing; writers that a test leaves open are closed after it."""
    writers = []

    def begin(*, append: bool = False) -> tuple[Writer, Talk]:
        writer = Writer.create(path, upstream="http://service", append=append)
        writers.append(writer)
        return writer, Talk(writer.began_ns, writer.first_exchange)

    yield begin
    for writer in writers:
        writer.close()
