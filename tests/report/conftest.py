"""Recordings made from traffic that a test describes as vectors do."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from invoke import invoke

from wiretape.addresses import join_upstreams
from wiretape.observations import BytesArrived, RequestStarted, last_time_ns
from wiretape.recording import Writer
from wiretape.rules.vectors import observations_of, vectors

HOSTILE = Path(__file__).with_name("data") / "hostile.toml"


@pytest.fixture(scope="session")
def traffic():
    """The observations of traffic in the form of `wiretape.rules.vectors`."""
    return lambda text: observations_of(tomllib.loads(text))


@pytest.fixture
def record(tmp_path, traffic):
    """Writes a recording of traffic and returns its path."""
    return lambda seen, name="run.db": _written(tmp_path / name, traffic(seen) if isinstance(seen, str) else seen)


@pytest.fixture
def hostile(record):
    """A recording in which all text is hostile, in a file with a hostile name."""
    return record(HOSTILE.read_text("utf-8"), name="it's <b>%0A`x`,y::z.db")


@pytest.fixture(scope="session")
def extreme(tmp_path_factory, traffic):
    """A recording of an event of 10 MB, JSON nested 100,000 deep, half a surrogate pair, numbers of many digits."""
    deep = '{"type":"tool.started","content":' + "[" * 100_000 + "]" * 100_000 + "}"
    large = '{"type":"message.completed","content":"' + "é" * 5_000_000 + '"}'
    odd = r'{"type":"tool.started","sequence":1DIGITS,"content":{"name":"\ud800"}}'
    data = (deep, large, odd.replace("DIGITS", "0" * 5_000), odd.replace("DIGITS", "0" * 30))
    body = b"".join(f"event: tool.started\nid: e{len(one)}\ndata: {one}\n\n".encode() for one in data)
    seen = traffic('[[exchange]]\nrequest = "GET /v1/sessions/s/events/stream"\nbody = "x"\n')
    chunk = next(item for item in seen if isinstance(item, BytesArrived))
    seen[seen.index(chunk)] = replace(chunk, data=body, ends=(len(body),))
    return _written(tmp_path_factory.mktemp("extreme") / "run.db", seen)


@pytest.fixture(scope="session")
def together():
    """The traffic of vectors, one after the other: as many services, each with clients of its own."""

    def join(some, piece=None):
        seen, exchange, time_ns = [], 0, 0
        for number, vector in enumerate(some):
            seen += [_elsewhere(_moved(item, exchange, time_ns), number) for item in vector.observations(piece)]
            exchange = max(item.exchange for item in seen)
            time_ns = max(map(last_time_ns, seen))
        return seen

    return join


@pytest.fixture(scope="session")
def all_vectors(together):
    """The traffic of all vectors.  It breaks every rule."""
    return together(vectors())


@pytest.fixture(scope="session")
def all_vectors_file(all_vectors, tmp_path_factory):
    """A recording of it, which tests only read."""
    return _written(tmp_path_factory.mktemp("vectors") / "run.db", all_vectors)


@pytest.fixture
def run():
    """Runs `wiretape …` and returns click's result, with stdout and stderr apart."""
    return invoke


def _written(path, seen):
    seen = list(seen)
    origins = (f"{item.scheme}://{item.authority}" for item in seen if isinstance(item, RequestStarted))
    writer = Writer.create(path, upstream=join_upstreams(origins))
    writer.feed(seen)
    writer.close(last_time_ns(seen[-1]) + 1)
    return path


def _elsewhere(item, number):
    """The same observation at service `number`."""
    if not isinstance(item, RequestStarted):
        return item
    return replace(item, authority=f"{number}.{item.authority}", client=f"{number}.{item.client}")


def _moved(item, exchange, time_ns):
    """The same observation, later and of another exchange."""
    if isinstance(item, BytesArrived):
        return replace(item, exchange=item.exchange + exchange, times=[time + time_ns for time in item.times])
    return replace(item, exchange=item.exchange + exchange, time_ns=item.time_ns + time_ns)
