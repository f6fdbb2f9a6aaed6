"""Recordings to look at, made as the proxy makes them."""

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from event_tables import exchange_arguments
from invoke import invoke
from tables import read_data

from wiretape.contract import load_contract
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import RecordingMetadata, RecordingSource, Writer, build_recording
from wiretape.rules import Finding
from wiretape.traffic_builder import TrafficBuilder

MS = 1_000_000
STREAM = "/v1/sessions/s1/events/stream?event_deltas=true"
EVENT_STREAM = (("content-type", "text/event-stream"),)
RECORDINGS = tomllib.loads(read_data(__file__, "recordings.toml"))
Chunk = tuple[float, bytes]
"""Milliseconds since what came before, and the bytes."""


def _message(kind: str, *, id: str | None = None, **fields: object) -> bytes:  # noqa: A002
    """The bytes of one event; with an id it is durable, and `sequence` should be among the fields."""
    event = {"type": kind, **({"id": id} if id is not None else {}), **fields}
    lines = [f"event: {kind}", *([f"id: {id}"] if id is not None else []), f"data: {json.dumps(event)}"]
    return ("\n".join(lines) + "\n\n").encode()


class Tape:
    """A recording in the making.  The clock moves only when something is recorded."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 0
        self._writer = Writer.create(path, upstream="http://service.test")
        self._count = 0
        self._ends: dict[int, int] = {}

    def after(self, milliseconds: float) -> int:
        """Advance the clock by at least a nanosecond, and return the time."""
        self.now += max(1, round(milliseconds * MS))
        return self.now

    def exchange(
        self,
        target: str = STREAM,
        chunks: Iterable[Chunk | BytesLost] = (),
        *,
        method: str = "GET",
        request_headers: tuple[tuple[str, str], ...] = (),
        request_body: bytes = b"",
        status: int | None = 200,
        headers: tuple[tuple[str, str], ...] = EVENT_STREAM,
        ending: Ending | None = Ending.COMPLETE,
        detail: str = "",
    ) -> int:
        """Record one exchange and return its number.  `ending` None leaves it open, `status` None unanswered."""
        self._count += 1
        number, feed = self._count, self._writer.feed
        head = RequestStarted(
            number, self.after(1), "127.0.0.1", method, "http", "service.test", target, "HTTP/1.1", request_headers
        )
        feed([head])
        if request_body:
            end = len(request_body)
            feed([BytesArrived(number, Side.REQUEST, 0, request_body, (end,), (self.after(0),))])
        feed([RequestEnded(number, self.after(0))])
        if status is not None:
            feed([ResponseStarted(number, self.after(1), status, "", "HTTP/1.1", headers)])
        self._body(number, chunks)
        if ending is not None:
            feed([ExchangeEnded(number, self.after(1), ending, detail)])
        return number

    def record(self, exchanges: Iterable[dict[str, Any]]) -> list[int]:
        """Record exchanges that a TOML file describes; return their numbers."""
        return [self.exchange(**exchange_arguments(each)) for each in exchanges]

    def extend(self, number: int, chunks: Iterable[Chunk | BytesLost], ending: Ending | None = None) -> None:
        """Record more of an exchange that was left open, and save."""
        self._body(number, chunks)
        if ending is not None:
            self._writer.feed([ExchangeEnded(number, self.after(1), ending, "")])
        self.save()

    def answer(self, number: int) -> None:
        """Begin the response to an exchange that has none: an event stream."""
        self._writer.feed([ResponseStarted(number, self.after(1), 200, "", "HTTP/1.1", EVENT_STREAM)])

    def save(self) -> None:
        """Put on disk what is recorded, for those who read it meanwhile."""
        self._writer.commit()

    def _body(self, number: int, chunks: Iterable[Chunk | BytesLost]) -> None:
        at = self._ends.get(number, 0)
        for chunk in chunks:
            if isinstance(chunk, BytesLost):
                lost = BytesLost(number, self.after(1), Side.RESPONSE, at, chunk.count, chunk.why)
                self._writer.feed([lost])
                at += chunk.count
                continue
            wait, data = chunk
            end = at + len(data)
            self._writer.feed([BytesArrived(number, Side.RESPONSE, at, data, (end,), (self.after(wait),))])
            at = end
        self._ends[number] = at

    def find(self, *findings: Finding) -> None:
        """Store live findings."""
        self._writer.commit()
        self._writer.add_findings(findings)

    def close(self, *, killed: bool = False) -> Path:
        """End the recording, or leave it as a killed proxy would."""
        self._writer.close(None if killed else self.after(1))
        return self.path


@pytest.fixture(scope="session")
def message() -> Callable[..., bytes]:
    """The bytes of one event: `message("run.started", id="e1", sequence=1)`."""
    return _message


@pytest.fixture
def tape(tmp_path: Path) -> Iterator[Tape]:
    """A recording; closed after the test if the test leaves it open."""
    tape = Tape(tmp_path / "run.db")
    yield tape
    tape.close(killed=True)


@pytest.fixture(scope="session")
def new_tape(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Tape]:
    """Begins a recording of its own each time, for tests that need many."""
    return lambda: Tape(tmp_path_factory.mktemp("tapes") / "run.db")


@pytest.fixture
def run() -> Callable[..., Result]:
    """The command line: `run("show", path)`."""
    return invoke


@pytest.fixture
def session(tape: Tape) -> Path:
    """A session as it goes: a refused run, a stream that is cut, the resumed stream, a cancel."""
    return record_session(tape)


@pytest.fixture(scope="session")
def shared_session(new_tape: Callable[[], Tape]) -> Path:
    """The same session, recorded once for all tests that only read it."""
    return record_session(new_tape())


def record_session(tape: Tape) -> Path:
    """Record the session of the fixture of this name."""
    tape.record(RECORDINGS["session"])
    return tape.close()


@pytest.fixture(scope="session")
def recordings() -> dict[str, Any]:
    """Exchanges for `Tape.record`, by name."""
    return RECORDINGS


FORUM_EVENTS = [
    {"type": "item.opened", "n": 1, "item": "i1"},
    {"type": "part.opened", "item": "i1", "part": 0, "title": "Greeting"},
    {"type": "text.delta", "item": "i1", "part": 0, "text": "Hello "},
    {"type": "text.delta", "item": "i1", "part": 0, "text": "there"},
    {"type": "part.closed", "item": "i1", "part": 0},
    {"type": "part.opened", "item": "i1", "part": 1, "title": "Rest"},
    {"type": "item.opened", "n": 2, "item": "i2"},
    {"type": "item.refused", "n": 3, "item": "i2"},
]


@pytest.fixture
def forum(tmp_path: Path) -> Path:
    """Two streams of a thread of an API with a contract of its own: the second resumes the first."""
    traffic = TrafficBuilder()
    for query, events in (("", FORUM_EVENTS), ("?after=1", FORUM_EVENTS[6:])):
        stream = traffic.request("GET", f"/threads/t7/events{query}").respond_stream()
        for event in events:
            stream.send(f"data: {json.dumps(event)}\n\n".encode())
        stream.end()
    contract = load_contract(str(Path(__file__).with_name("data") / "own_contract.toml"))
    metadata = RecordingMetadata("http://forum.test", 0, contracts=dump_contracts([contract]))
    build_recording(RecordingSource(metadata, iter(traffic.observations())), tmp_path / "run.db")
    return tmp_path / "run.db"
