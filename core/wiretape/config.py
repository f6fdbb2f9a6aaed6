"""What a project sets for itself: `wiretape.toml`, or the table `[tool.wiretape]` of `pyproject.toml`."""

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.rules import Settings, Severity
from wiretape.rules.selection import UnknownCodeError, codes_of, selected, weight
from wiretape.safe_text import printable
from wiretape.toml import Table, TomlFile, said

OWN_FILE = "wiretape.toml"
PROJECT_FILE = "pyproject.toml"
NEVER = "never"
OFF = "off"


@dataclass(frozen=True, slots=True)
class Config:
    """What was set; None and empty where nothing was."""

    file: Path | None = None
    """Where it stands."""
    settings: Settings = field(default_factory=Settings)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    baseline: Path | None = None
    docs_url: str | None = None

    def asked(self, select: Collection[str] = (), ignore: Collection[str] = ()) -> frozenset[str]:
        """The codes of the rules to be asked; what a command line selects or ignores counts instead of what is set.

        Raises InputError when there are none, or when no rule has such a code.
        """
        try:
            codes = selected(select or self.select, ignore or self.ignore) - self.settings.off
        except UnknownCodeError as error:
            raise InputError(printable(str(error))) from None
        if not codes:
            where = f" ({said(self.file)})" if self.file is not None else ""
            raise InputError(f"No rule is left: what is selected is ignored, or off{where}.")
        return codes


def find_config(start: Path) -> Config:
    """What the nearest file at or above the folder `start` sets; nothing when there is none.  Raises InputError."""
    for folder in (start, *start.parents):
        if not os.access(folder, os.X_OK):
            continue
        for path in (folder / OWN_FILE, folder / PROJECT_FILE):
            if path.name == OWN_FILE and (path.exists() or path.is_symlink()) and not path.is_file():
                raise InputError(f"{said(path)} is no file, so no configuration can be read from it.")
            if path.is_file() and (table := _table(path)) is not None:
                return _Reader(path, table).config()
    return Config()


def load_config(path: Path) -> Config:
    """What `path` sets.  Raises InputError when it cannot be read, or is a pyproject.toml without our table."""
    table = _table(path)
    if table is None:
        raise InputError(f"{said(path)} has no table [tool.wiretape].")
    return _Reader(path, table).config()


def _table(path: Path) -> Table | None:
    """What `path` says of wiretape; None for a pyproject.toml that says nothing."""
    whole = TomlFile.load(path).table()
    if path.name != PROJECT_FILE:
        return whole
    tool = whole.values.get("tool")
    if not isinstance(tool, dict) or tool.get("wiretape") is None:
        return None
    return whole.table("tool").table("wiretape")


class _Reader:
    """Turns the table of one file into a Config, and says where it cannot."""

    def __init__(self, path: Path, table: Table) -> None:
        self._path = path
        self._table = table
        self._severities: dict[str, Severity] = {}
        self._off: set[str] = set()

    def config(self) -> Config:
        """Everything that the table sets.  Raises InputError."""
        readers: dict[str, Callable[[str], Any]] = {
            "select": self._prefixes,
            "ignore": self._prefixes,
            "fail-on": lambda key: self._table.one_of(key, [*Severity, NEVER]),
            "baseline": self._file,
            "docs-url": self._table.text,
            "idempotency-header": self._header,
            "keep-alive-tolerance": lambda key: self._table.number(key, what="of seconds"),
            "severity": self._severity,
        }
        self._table.only(readers)
        read = {key: readers[key](key) for key in self._table}
        default = Settings()
        settings = Settings(
            idempotency_header=read.get("idempotency-header", default.idempotency_header),
            keep_alive_tolerance_s=read.get("keep-alive-tolerance", default.keep_alive_tolerance_s),
            severities=self._severities,
            off=frozenset(self._off),
        )
        return Config(
            file=self._path,
            settings=settings,
            select=read.get("select", ()),
            ignore=read.get("ignore", ()),
            fail_on=read.get("fail-on"),
            baseline=read.get("baseline"),
            docs_url=read.get("docs-url"),
        )

    def _prefixes(self, key: str) -> tuple[str, ...]:
        prefixes = self._table.texts(key, 'codes or their beginnings, like ["SEQ", "RES001"]')
        for prefix in prefixes:
            self._codes(self._table, key, prefix)
        return prefixes

    @staticmethod
    def _codes(table: Table, key: str, prefix: str) -> frozenset[str]:
        try:
            return codes_of(prefix)
        except UnknownCodeError as error:
            raise table.wrong(key, printable(str(error)).rstrip(".")) from None

    def _file(self, key: str) -> Path:
        # Relative to the file that names it, wherever the command is run.
        return self._path.parent / self._table.text(key)

    def _header(self, key: str) -> str:
        name = self._table.values[key]
        if not isinstance(name, str) or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            got = printable(repr(name))[:60] if name != "" else "an empty text"
            raise self._table.wrong(key, f"it has to be the name of a header, like Idempotency-Key, not {got}")
        return name

    def _severity(self, key: str) -> None:
        table = self._table.table(key, 'SEQ004 = "warning"')
        # The longest prefix comes last, so that it decides.
        for prefix in sorted(table, key=weight):
            word = table.one_of(prefix, [*Severity, OFF])
            for code in self._codes(table, prefix, prefix):
                self._severities.pop(code, None)
                self._off.discard(code)
                if word == OFF:
                    self._off.add(code)
                else:
                    self._severities[code] = Severity(word)
