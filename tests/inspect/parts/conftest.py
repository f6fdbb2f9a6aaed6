"""Recordings of long conversations, and a comparable form of recordings."""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import worlds

from wiretape.observations import BytesArrived, BytesLost, Observation, ResponseStarted, Side, header, last_time_ns
from wiretape.recording import Recording, RecordingMetadata, RecordingSource, build_recording, open_recording
from wiretape.rules import Finding
from wiretape.rules.vectors import Vector, vectors_of

STARTED = 1_700_000_000_000_000_000
DELTA = b'event: message.delta\ndata: {"type":"message.delta","run_id":"run_9","delta":{"text":"%s"}}\n\n'
WORDS = random.Random(5).randbytes(4000).hex().encode()
"""Deltas before anything of interest happens."""


def conversation(seed: int, steps: int) -> list[Observation]:
    """A conversation of several clients and sessions without findings."""
    world = worlds.begin(random.Random(seed), quiet=True)
    for _ in range(steps):
        worlds.step(world)
    worlds.settle(world)
    return world.seen


def stored(observations: Iterable[Observation], path: Path, *, started: int = STARTED, upstream: str = "http://a"):
    """A recording of observations, checked as a proxy checks."""
    build_recording(RecordingSource(RecordingMetadata(upstream, started), iter(observations)), path)
    return path


def moved(seen: Observation, exchanges: int, by_ns: int) -> Observation:
    if isinstance(seen, BytesArrived):
        return replace(seen, exchange=seen.exchange + exchanges, times=tuple(time + by_ns for time in seen.times))
    return replace(seen, exchange=seen.exchange + exchanges, time_ns=seen.time_ns + by_ns)


def buried(vector: Vector, before: list[Observation], deltas: int) -> list[Observation]:
    """The traffic of a vector after a conversation, each of its streams preceded by deltas."""
    exchanges, by_ns = max(seen.exchange for seen in before), last_time_ns(before[-1])
    made, grown = list(before), {}
    for seen in (moved(each, exchanges, by_ns) for each in vector.observations()):
        if isinstance(seen, BytesArrived | BytesLost) and seen.side is Side.RESPONSE:
            made.append(_behind(seen, grown.get(seen.exchange, 0)))
            continue
        made.append(seen)
        if isinstance(seen, ResponseStarted) and header(seen.headers, "content-type") == "text/event-stream":
            data = [DELTA % (WORDS[place:] + WORDS[:place]) for place in range(deltas)]
            ends = [len(data[0]) * (place + 1) for place in range(deltas)]
            times = [seen.time_ns + 1 + place for place in range(deltas)]
            made.append(BytesArrived(seen.exchange, Side.RESPONSE, 0, b"".join(data), ends, times))
            grown[seen.exchange] = ends[-1]
    return made


def _behind(seen: Observation, size: int) -> Observation:
    ends = {"ends": tuple(end + size for end in seen.ends)} if isinstance(seen, BytesArrived) else {}
    return replace(seen, start=seen.start + size, **ends)


def singles(recording: Recording) -> list[Observation]:
    """The observations, chunk by chunk, because the grouping into runs has no meaning."""
    made: list[Observation] = []
    for seen in recording.observations():
        if not isinstance(seen, BytesArrived):
            made.append(seen)
            continue
        start = seen.start
        for time_ns, data in seen.chunks():
            made.append(BytesArrived(seen.exchange, seen.side, start, data, (start + len(data),), (time_ns,)))
            start += len(data)
    return made


def findings(recording: Recording) -> list[Finding]:
    return list(recording.findings())


class Parts:
    """The functions above for tests, which are not a package."""

    conversation = staticmethod(conversation)
    stored = staticmethod(stored)
    buried = staticmethod(buried)
    moved = staticmethod(moved)
    singles = staticmethod(singles)
    findings = staticmethod(findings)
    vector = staticmethod(lambda code: next(each for each in vectors_of(code) if each.breaks))

    @staticmethod
    def read(path: Path) -> list[Observation]:
        with open_recording(path) as recording:
            return singles(recording)


@pytest.fixture(scope="session")
def parts() -> type[Parts]:
    return Parts


@pytest.fixture(scope="session")
def before() -> list[Observation]:
    """A conversation before the traffic of interest."""
    return conversation(3, 60)


@pytest.fixture
def failing(tmp_path: Path, before: list[Observation]) -> Callable[[str], Path]:
    """Make a large recording that breaks a rule near its end."""
    return lambda code: stored(buried(Parts.vector(code), before, 100), tmp_path / f"{code}.db")


@pytest.fixture(scope="session")
def stored_conversation(tmp_path_factory):
    """Return the recording of the conversation with a seed, which must not be changed."""
    folder = tmp_path_factory.mktemp("conversations")
    return cache(lambda seed: stored(conversation(seed, 12), folder / f"{seed}.db"))
