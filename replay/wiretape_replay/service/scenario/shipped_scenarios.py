"""The bundled scenarios, and how a scenario is found by its name."""

from importlib.resources import files
from pathlib import Path

from wiretape.decode import choices_hint
from wiretape.errors import InputError
from wiretape.safe_text import shorten
from wiretape_replay.service.scenario.scenario_file import read_scenario
from wiretape_replay.service.scenario.scenario_steps import Scenario

_SUFFIX = ".toml"


def shipped_scenarios() -> dict[str, Path]:
    """The files of the bundled scenarios by name, the simplest first."""
    folder = Path(str(files(__package__) / "shipped"))
    # The number at the beginning of a file's name is its place in the list.
    found = sorted(folder.glob(f"*{_SUFFIX}"))
    return {path.stem.partition("-")[2]: path for path in found}


def find_scenario(name: str) -> Scenario:
    """Read the bundled scenario of that name, or a file.  Raises InputError."""
    return read_scenario(find_scenario_path(name))


def find_scenario_path(name: str) -> Path:
    """The file of the bundled scenario of that name, or the file that is named.  Raises InputError."""
    if not name:
        raise InputError("No scenario given: expected a bundled scenario (see wiretape serve --list) or a TOML file.")
    path = shipped_scenarios().get(name)
    if path is not None:
        return path
    if name.endswith(_SUFFIX) or "/" in name or _is_file(name):
        return Path(name)
    hint = choices_hint(name, shipped_scenarios())
    raise InputError(f"Unknown scenario {shorten(name)}{hint}" + ("" if hint.endswith("?") else "."))


def scenario_list() -> str:
    """The output of `wiretape serve --list`: a line for each bundled scenario, with its name and title."""
    paths = shipped_scenarios()
    width = max(map(len, paths))
    return "".join(f"{name:{width}}  {read_scenario(path).title}\n" for name, path in paths.items())


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:  # too long for a name
        return False
