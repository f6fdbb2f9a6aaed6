"""The scenarios that ship."""

from importlib.resources import files
from pathlib import Path

from wiretape.errors import InputError
from wiretape.safe_text import shorten
from wiretape.toml import hint
from wiretape_replay.service.scenario.reading import read_scenario
from wiretape_replay.service.scenario.steps import Scenario

_ENDING = ".toml"


def shipped() -> dict[str, Path]:
    """The files of the shipped scenarios by name, the simplest first."""
    folder = Path(str(files(__package__) / "shipped"))
    # A number in front of the name says where in the list it stands.
    found = sorted(folder.glob(f"*{_ENDING}"))
    return {path.stem.partition("-")[2]: path for path in found}


def find_scenario(named: str) -> Scenario:
    """The shipped scenario of that name, or the one in that file.  Raises InputError."""
    return read_scenario(scenario_path(named))


def scenario_path(named: str) -> Path:
    """The file of the shipped scenario of that name, or the one that is named.  Raises InputError."""
    if not named:
        raise InputError("Say which scenario: the name of one that ships (`wiretape serve --list`), or a TOML file.")
    path = shipped().get(named)
    if path is not None:
        return path
    if named.endswith(_ENDING) or "/" in named or _is_file(named):
        return Path(named)
    what = hint(named, shipped())
    raise InputError(f"There is no scenario {shorten(named)}{what}" + ("" if what.endswith("?") else "."))


def _is_file(named: str) -> bool:
    try:
        return Path(named).is_file()
    except OSError:  # too long for a name
        return False


def listing() -> str:
    """What `wiretape serve --list` prints: for each shipped scenario a line with its name and title."""
    paths = shipped()
    width = max(map(len, paths))
    return "".join(f"{name:{width}}  {read_scenario(path).title}\n" for name, path in paths.items())
