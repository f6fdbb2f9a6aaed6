"""What servers of tests log."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Check that a server without errors logs none."""
    yield
    records = [record for phase in ("setup", "call", "teardown") for record in caplog.get_records(phase)]
    assert [record.getMessage() for record in records if record.levelno >= logging.WARNING] == []
