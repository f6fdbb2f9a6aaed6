"""Fixtures of the tests of the stand-in service."""

from datetime import UTC, datetime

import aiohttp
import pytest
from server_log import nothing_logged  # noqa: F401 - a fixture of all tests here
from stages import serving

from wiretape_contracts.agent_sessions.stand_in.scenario_file import read_scenario
from wiretape_contracts.agent_sessions.stand_in.session_engine import CommandKind, SessionEngine

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Played(SessionEngine):
    """An engine with a method for each command."""

    def create_run(self, body, now_ns):
        return self.execute(CommandKind.CREATE, None, lambda: body, now_ns)

    def cancel(self, run_id, now_ns):
        return self.execute(CommandKind.CANCEL, run_id, dict, now_ns)

    def resume(self, run_id, body, now_ns):
        return self.execute(CommandKind.RESUME, run_id, lambda: body, now_ns)


@pytest.fixture
def scenario(tmp_path):
    """Make a scenario from TOML; without a title it gets one."""

    def make(text):
        path = tmp_path / "scenario.toml"
        path.write_text(text if text.startswith("title") else f'title = "A test"\n{text}', "utf-8")
        return read_scenario(path)

    return make


@pytest.fixture
def engine_of():
    """Make an engine for a scenario."""

    def make(scenario, seed=7, session_id="ses_1"):
        return Played(session_id=session_id, workspace_id="ws_1", scenario=scenario, seed=seed, epoch=EPOCH)

    return make


@pytest.fixture
def engine(scenario, engine_of):
    """Make an engine from TOML."""
    return lambda text, **options: engine_of(scenario(text), **options)


@pytest.fixture
def serve(tmp_path):
    """Serve a scenario in the test's event loop: `async with serve("hello", virtual=True) as stage`.

    At the end of the block the traffic is checked: there must not be findings against the service.
    """
    return lambda scenario="hello", **how: serving(scenario, tmp_path, **how)


@pytest.fixture
async def http():
    """An HTTP client."""
    async with aiohttp.ClientSession() as session:
        yield session
