"""Scenarios: from TOML to what it says, and one sentence where it cannot be."""

from pathlib import Path

from wiretape_replay.service.scenario.steps import Scenario


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file.  Raises InputError, naming file, line and key."""
    raise NotImplementedError
