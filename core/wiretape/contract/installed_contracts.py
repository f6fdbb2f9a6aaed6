"""Contracts of installed packages: entry points in the group `wiretape.contracts`.

The object of an entry point is a `Contract`, or the path of a TOML file; a relative one begins in the folder of its
module.  A package is trusted, as every installed package is.
"""

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.installed_parts import load_entry_point

GROUP = "wiretape.contracts"


def installed_names() -> list[str]:
    """Return the names of the contracts of installed packages."""
    return sorted({each.name for each in entry_points(group=GROUP)})


def find_installed(name: str) -> EntryPoint | None:
    """Return the entry point with a name.  Raises InputError if several packages have one."""
    # A package may be found twice, for example in a source tree and where it is installed.
    found = {each.value: each for each in entry_points(group=GROUP, name=name)}
    if len(found) > 1:
        packages = " and ".join(sorted(map(_package, found.values())))
        raise InputError(f"The packages {packages} have a contract {name} each: uninstall one of them.")
    return next(iter(found.values()), None)


def load_installed(entry: EntryPoint, contract_class: type) -> Any:
    """Return what an entry point names: a contract, or the path of a file.  Raises InputError."""
    name = f"The contract {entry.name} of the package {_package(entry)}"
    found = load_entry_point(entry, name)
    if isinstance(found, contract_class):
        return found
    if isinstance(found, str | Path):
        file = getattr(sys.modules[entry.module], "__file__", None) or ""
        return Path(file).parent / found
    raise InputError(f"{name} is neither a Contract nor the path of a TOML file, but of type {type(found).__name__}.")


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
