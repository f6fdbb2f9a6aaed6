"""Fixtures that make observations with increasing times, and record them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from observation_builder import ObservationBuilder

from wiretape.recording import Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


@pytest.fixture
def begin(path: Path) -> Iterator[Callable[..., tuple[Writer, ObservationBuilder]]]:
    """Open the file for writing; writers that a test leaves open are closed after it."""
    writers = []

    def begin(*, append: bool = False) -> tuple[Writer, ObservationBuilder]:
        writer = Writer.create(path, upstream="http://service", append=append)
        writers.append(writer)
        return writer, ObservationBuilder(writer.began_ns, writer.first_exchange)

    yield begin
    for writer in writers:
        writer.close()
