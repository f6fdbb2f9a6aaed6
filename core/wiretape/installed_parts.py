"""Entry points of installed packages: contracts, and their optional parts, such as a stand-in, with the same name.

The object of a contract is a `Contract`, or the path of a TOML file; a relative one begins in the folder of its module.
A package is trusted, as every installed package is.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from wiretape.errors import InputError, describe_import_failure
from wiretape.input_validation import choices_hint
from wiretape.safe_text import shorten

T = TypeVar("T")
CONTRACTS = "wiretape.contracts"
"""The group of the contracts themselves."""


def load_part(group: str, noun: str, type_: type[T], contract: str | None = None) -> T:
    """Load the part of a contract that an entry point in `group` names; None: of the only contract that has one.

    `noun` is what error messages call the part.  Raises InputError.
    """
    names = part_names(group)
    if not names:
        raise InputError(f"No installed contract has a {noun}: install a package with an entry point in {group}.")
    if contract is None and len(names) > 1:
        raise InputError(f"Several contracts have a {noun}: choose {' or '.join(names)}.")
    chosen = names[0] if contract is None else contract
    entry = find_part(group, chosen)
    if entry is None:
        hint = choices_hint(chosen, names)
        end = "" if hint.endswith("?") else "."
        raise InputError(f"No contract {shorten(chosen)} with a {noun} is installed{hint}{end}")
    shown = f"The {noun} of the contract {chosen}"
    part = load_entry_point(entry, lambda: shown)
    if not isinstance(part, type_):
        raise _broken_package(shown, TypeError(f"{entry.value} is not a {type_.__name__}"))
    return part


def load_entry_point(entry: EntryPoint, shown: Callable[[], str]) -> Any:
    """Load what an entry point names; `shown` returns what messages call it.  Raises InputError."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a module does when it is imported
        raise _broken_package(shown(), error) from None


def _broken_package(shown: str, error: BaseException) -> InputError:
    return InputError(f"{shown} cannot be loaded ({describe_import_failure(error)}): repair the package.")


def part_names(group: str) -> list[str]:
    """Return the names of the entry points in a group."""
    return sorted({each.name for each in _find_installed(group, tuple(sys.path))})


def find_part(group: str, name: str) -> EntryPoint | None:
    """Return the entry point with a name.  Raises InputError if several packages have one."""
    # A package may be found twice, for example in a source tree and where it is installed.
    found = {each.value: each for each in _find_installed(group, tuple(sys.path)) if each.name == name}
    if len(found) > 1:
        packages = " and ".join(sorted(map(package_of, found.values())))
        raise InputError(f"The packages {packages} have a contract {name} each: uninstall one of them.")
    return next(iter(found.values()), None)


def package_of(entry: EntryPoint) -> str:
    """Return the name of the package of an entry point."""
    return entry.dist.name if entry.dist is not None else entry.value


@cache
def _find_installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001 - part of the key
    """The entry points of a group; kept, because reading the metadata of many packages takes tens of milliseconds."""
    return tuple(entry_points(group=group))


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
