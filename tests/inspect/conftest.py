"""Recordings to look at, made as the proxy makes them."""

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from invoke import invoke
from observation_builder import STREAM, RecordingBuilder
from tables import read_data

from wiretape.contract import load_contract
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.recording import RecordingMetadata, RecordingSource, build_recording
from wiretape.traffic_builder import TrafficBuilder

EVENT_STREAM = (("content-type", "text/event-stream"),)
RECORDINGS = tomllib.loads(read_data(__file__, "recordings.toml"))


def _message(kind: str, *, id: str | None = None, **fields: object) -> bytes:  # noqa: A002
    """The bytes of one event; with an id it is durable, and `sequence` should be among the fields."""
    event = {"type": kind, **({"id": id} if id is not None else {}), **fields}
    lines = [f"event: {kind}", *([f"id: {id}"] if id is not None else []), f"data: {json.dumps(event)}"]
    return ("\n".join(lines) + "\n\n").encode()


def _record(path: Path) -> RecordingBuilder:
    return RecordingBuilder(path, target=f"{STREAM}?event_deltas=true", headers=EVENT_STREAM, reason="", upload_ms=0)


@pytest.fixture(scope="session")
def message() -> Callable[..., bytes]:
    """The bytes of one event: `message("run.started", id="e1", sequence=1)`."""
    return _message


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[RecordingBuilder]:
    """A recording; closed after the test if the test leaves it open."""
    builder = _record(tmp_path / "run.db")
    yield builder
    builder.close(killed=True)


@pytest.fixture(scope="session")
def new_builder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], RecordingBuilder]:
    """Begins a recording of its own each time, for tests that need many."""
    return lambda: _record(tmp_path_factory.mktemp("recordings") / "run.db")


@pytest.fixture
def run() -> Callable[..., Result]:
    """The command line: `run("show", path)`."""
    return invoke


@pytest.fixture
def session(builder: RecordingBuilder) -> Path:
    """A session as it goes: a refused run, a stream that is cut, the resumed stream, a cancel."""
    return record_session(builder)


@pytest.fixture(scope="session")
def shared_session(new_builder: Callable[[], RecordingBuilder]) -> Path:
    """The same session, recorded once for all tests that only read it."""
    return record_session(new_builder())


def record_session(builder: RecordingBuilder) -> Path:
    """Record the session of the fixture of this name."""
    builder.record(RECORDINGS["session"])
    return builder.close()


@pytest.fixture(scope="session")
def recordings() -> dict[str, Any]:
    """Exchanges for `RecordingBuilder.record`, by name."""
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
