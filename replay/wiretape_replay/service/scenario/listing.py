"""The scenarios that ship."""

from pathlib import Path

from wiretape_replay.service.scenario.steps import Scenario


def shipped() -> dict[str, Path]:
    """The files of the shipped scenarios by name, in the order of the list."""
    raise NotImplementedError


def find_scenario(named: str) -> Scenario:
    """The scenario of that name, or in that file.  Raises InputError."""
    raise NotImplementedError


def listing() -> str:
    """What `wiretape serve --list` prints: a line for each shipped scenario, its name and its title."""
    raise NotImplementedError
