"""What a project sets for itself: `wiretape.toml`, or the table `[tool.wiretape]` of `pyproject.toml`."""

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.rules import Settings, Severity
from wiretape.rules.selection import UnknownCodeError, codes_of, nearest, weight
from wiretape.text import printable

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


def find_config(start: Path) -> Config:
    """What the nearest file at or above the folder `start` sets; nothing when there is none.  Raises InputError."""
    for folder in (start, *start.parents):
        for name in (OWN_FILE, PROJECT_FILE):
            path = folder / name
            if path.is_file() and (table := _table(path)) is not None:
                return _Reader(path, table).config()
    return Config()


def load_config(path: Path) -> Config:
    """What `path` sets.  Raises InputError when it cannot be read, or is a pyproject.toml without our table."""
    table = _table(path)
    if table is None:
        raise InputError(f"{_said(path)} has no table [tool.wiretape].")
    return _Reader(path, table).config()


def _table(path: Path) -> Mapping[str, Any] | None:
    """What `path` says of wiretape; None for a pyproject.toml that says nothing."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{_said(path)} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{_said(path)} is not UTF-8, so it is no TOML.") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{_said(path)} is no TOML: {printable(str(error))}.") from None
    except RecursionError:
        raise InputError(f"{_said(path)} is nested too deeply.") from None
    if path.name != PROJECT_FILE:
        return document
    tool = document.get("tool")
    table = tool.get("wiretape") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise InputError(f"{_said(path)}: tool.wiretape has to be a table.")
    return table


def _said(path: Path) -> str:
    return printable(str(path))


class _Reader:
    """Turns the table of one file into a Config, and says where it cannot."""

    def __init__(self, path: Path, table: Mapping[str, Any]) -> None:
        self._path = path
        self._table = table
        self._severities: dict[str, Severity] = {}
        self._off: set[str] = set()

    def config(self) -> Config:
        """Everything that the table sets.  Raises InputError."""
        readers: dict[str, Callable[[str, Any], Any]] = {
            "select": self._prefixes,
            "ignore": self._prefixes,
            "fail-on": partial(self._one_of, words=[*Severity, NEVER]),
            "baseline": self._file,
            "docs-url": self._text,
            "idempotency-header": self._header,
            "keep-alive-tolerance": self._seconds,
            "severity": self._severity,
        }
        read = {}
        for key, value in self._table.items():
            if key not in readers:
                raise self._wrong(key, f"there is no such setting{_hint(key, readers)}")
            read[key] = readers[key](key, value)
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

    def _wrong(self, key: str, what: str) -> InputError:
        """An error that names the file, the line where that can be told, and the key."""
        end = "" if what.endswith("?") else "."
        return InputError(f"{_said(self._path)}{self._line(key)}: {printable(key)}: {what}{end}")

    def _line(self, key: str) -> str:
        """tomllib keeps no line numbers, so a key is looked for; not told when it stands in several places."""
        pattern = re.compile(rf"^\s*(?:\[.*\b)?[\"']?{re.escape(key)}[\"']?\s*[=\].]")
        lines = self._path.read_text("utf-8").splitlines()
        found = [number for number, line in enumerate(lines, 1) if pattern.match(line)]
        return f", line {found[0]}" if len(found) == 1 else ""

    def _prefixes(self, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(prefix, str) for prefix in value):
            raise self._wrong(key, 'it has to be a list of codes or their beginnings, like ["SEQ", "RES001"]')
        for prefix in value:
            self._codes(key, prefix)
        return tuple(value)

    def _codes(self, key: str, prefix: str) -> frozenset[str]:
        try:
            return codes_of(prefix)
        except UnknownCodeError as error:
            raise self._wrong(key, printable(str(error)).rstrip(".")) from None

    def _one_of(self, key: str, value: Any, words: list[str]) -> str:
        if value not in words:
            raise self._wrong(key, f"it has to be one of {', '.join(words)}, not {printable(repr(value))[:60]}")
        return str(value)

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self._wrong(key, "it has to be a text")
        return value

    def _file(self, key: str, value: Any) -> Path:
        # Relative to the file that names it, wherever the command is run.
        return self._path.parent / self._text(key, value)

    def _header(self, key: str, value: Any) -> str:
        name = self._text(key, value)
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise self._wrong(key, "it has to be the name of a header")
        return name

    def _seconds(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise self._wrong(key, "it has to be a number of seconds, 0 or more")
        return float(value)

    def _severity(self, key: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise self._wrong(key, 'it has to be a table, with lines like SEQ004 = "warning"')
        # The longest prefix comes last, so that it decides.
        for prefix in sorted(value, key=weight):
            word = self._one_of(prefix, value[prefix], [*Severity, OFF])
            for code in self._codes(prefix, prefix):
                self._severities.pop(code, None)
                self._off.discard(code)
                if word == OFF:
                    self._off.add(code)
                else:
                    self._severities[code] = Severity(word)


def _hint(key: str, known: Mapping[str, Any]) -> str:
    similar = nearest(key, known)
    return f", did you mean {similar}?" if similar else f"; there are {', '.join(known)}"
