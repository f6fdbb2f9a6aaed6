"""Recordings made from traffic that a test describes as vectors do."""

import tomllib
from dataclasses import replace
from itertools import chain

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.observe import BytesArrived, RequestStarted
from wiretape.recording import Writer
from wiretape.rules.vectors import vectors
from wiretape.rules.vectors.traffic import observations


@pytest.fixture
def traffic():
    """The observations of traffic in the form of `wiretape.rules.vectors`."""
    return lambda text: observations(tomllib.loads(text), None)


@pytest.fixture
def record(tmp_path, traffic):
    """Writes a recording of traffic and returns its path."""

    def write(seen, name="run.db"):
        seen = traffic(seen) if isinstance(seen, str) else list(seen)
        writer = Writer.create(tmp_path / name, upstream="http://service.test")
        writer.feed(seen)
        last = seen[-1].times[-1] if isinstance(seen[-1], BytesArrived) else seen[-1].time_ns
        writer.close(last + 1)
        return tmp_path / name

    return write


@pytest.fixture(scope="session")
def all_vectors():
    """The traffic of all vectors, one after the other: as many services, each with clients of its own.

    It breaks every rule.
    """
    seen, exchange, time_ns = [], 0, 0
    for number, vector in enumerate(vectors()):
        seen += [_elsewhere(_moved(item, exchange, time_ns), number) for item in vector.observations()]
        exchange = max(item.exchange for item in seen)
        time_ns = max(chain.from_iterable(item.times if _is_bytes(item) else [item.time_ns] for item in seen))
    return seen


@pytest.fixture
def run():
    """Runs `wiretape …` and returns click's result, with stdout and stderr apart."""
    return lambda *arguments: CliRunner().invoke(wiretape, [str(argument) for argument in arguments])


def _is_bytes(item):
    return isinstance(item, BytesArrived)


def _elsewhere(item, number):
    """The same observation at service `number`."""
    if not isinstance(item, RequestStarted):
        return item
    return replace(item, authority=f"{number}.{item.authority}", client=f"{number}.{item.client}")


def _moved(item, exchange, time_ns):
    """The same observation, later and of another exchange."""
    times = (
        {"times": [time + time_ns for time in item.times]} if _is_bytes(item) else {"time_ns": item.time_ns + time_ns}
    )
    return replace(item, exchange=item.exchange + exchange, **times)
