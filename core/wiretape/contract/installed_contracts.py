"""Contracts of installed packages: entry points in the group `wiretape.contracts`.

The object of an entry point is a `Contract`, or the path of a TOML file; a relative one begins in the folder of its
module.  A package is trusted, as every installed package is.
"""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.installed_parts import CONTRACTS, find_part, load_entry_point, package_of, part_names


def installed_names() -> list[str]:
    """Return the names of the contracts of installed packages."""
    return part_names(CONTRACTS)


def find_installed(name: str) -> EntryPoint | None:
    """Return the entry point with a name.  Raises InputError if several packages have one."""
    return find_part(CONTRACTS, name)


def load_installed(entry: EntryPoint, contract_class: type) -> Any:
    """Return what an entry point names: a contract, or the path of a file.  Raises InputError."""

    def shown() -> str:
        # Reading the name of a package takes milliseconds.
        return f"The contract {entry.name} of the package {package_of(entry)}"

    found = load_entry_point(entry, shown)
    if isinstance(found, contract_class):
        return found
    if isinstance(found, str | Path):
        file = getattr(sys.modules[entry.module], "__file__", None) or ""
        return Path(file).parent / found
    kind = type(found).__name__
    raise InputError(f"{shown()} is neither a Contract nor the path of a TOML file, but of type {kind}.")
