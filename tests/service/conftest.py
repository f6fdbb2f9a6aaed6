"""What the tests of the service that scenarios script share."""

from datetime import UTC, datetime

import pytest

from wiretape_replay.service.engine import SessionEngine
from wiretape_replay.service.scenario.reading import read_scenario

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def scenario(tmp_path):
    """Makes a scenario of TOML; a title is put in front where there is none."""

    def make(text):
        path = tmp_path / "scenario.toml"
        path.write_text(text if text.startswith("title") else f'title = "A test"\n{text}', "utf-8")
        return read_scenario(path)

    return make


@pytest.fixture
def engine_of():
    """Makes an engine of a scenario."""

    def make(scenario, seed=7, session_id="ses_1"):
        return SessionEngine(session_id=session_id, workspace_id="ws_1", scenario=scenario, seed=seed, epoch=EPOCH)

    return make


@pytest.fixture
def engine(scenario, engine_of):
    """Makes an engine of TOML."""
    return lambda text, **options: engine_of(scenario(text), **options)
