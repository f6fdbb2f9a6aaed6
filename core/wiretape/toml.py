"""TOML files that people write: values of the right types, or one sentence that says what is wrong and where."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from wiretape.errors import InputError
from wiretape.safe_text import closest_match, printable, shorten
from wiretape.toml_files import parse_toml, read_toml_text
from wiretape.toml_places import Place, line_of, lines_of

_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A TOML file that was read."""

    path: Path
    document: Mapping[str, Any]
    _lines: Mapping[Place, int] = field(repr=False)

    @classmethod
    def load(cls, path: Path) -> "TomlFile":
        """Read a file.  Raises InputError."""
        return cls.of(read_toml_text(path), path)

    @classmethod
    def of(cls, text: str, path: Path) -> "TomlFile":
        """Read what a file holds, or would; `path` is what it is called.  Raises InputError."""
        return cls(path, parse_toml(text, str(path)), lines_of(text))

    def table(self) -> "Table":
        """All of it."""
        return Table(self, self.document)

    def wrong(self, place: Place, what: str) -> InputError:
        """An error that names the file, the line where that can be told, and the keys that lead to the place."""
        return wrong_at(self.path, line_of(place, self._lines), place, what)


def wrong_at(path: Path, line: int | None, place: Place, what: str) -> InputError:
    """An error that names a file, a line of it if that is known, and the keys that lead to a place."""
    where = said(path) + (f", line {line}" if line is not None else "")
    keys = printable(".".join(step for step in place if isinstance(step, str)))
    return InputError(": ".join(part for part in (where, keys, what) if part) + ("" if what.endswith("?") else "."))


class Told(Protocol):
    """A file that can say where something in it is wrong."""

    def wrong(self, place: Place, what: str) -> InputError:
        """An error that names the place."""


class Table:
    """A table of a file.  Every method that reads raises InputError for a value that is not what it should be."""

    def __init__(self, file: Told, values: Mapping[str, Any], place: Place = ()) -> None:
        self.file = file
        self.values = values
        self.place = place

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def wrong(self, key: str | None, what: str) -> InputError:
        """An error about the value of a key, or (None) about the table."""
        return self.file.wrong(self.place if key is None else (*self.place, key), what)

    def only(self, known: Iterable[str], kind: str = "setting") -> None:
        """Refuse every other key."""
        names = list(known)
        for key in self.values:
            if key not in names:
                raise self.wrong(key, f"there is no such {kind}{hint(key, names)}")

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty; without a default it has to be there, as with the other methods."""
        if key not in self.values and default is not None:
            return default
        value = self._value(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "it has to be a text" + (", not an empty one" if value == "" else ""))
        return value

    def one_of(self, key: str, words: Sequence[str], default: str | None = None) -> str:
        """One of `words`."""
        if key not in self.values and default is not None:
            return default
        value = self._value(key)
        if value not in words:
            similar = closest_match(value, words) if isinstance(value, str) else None
            guess = f"; did you mean {similar}?" if similar else ""
            raise self.wrong(key, f"it has to be one of {', '.join(words)}, not {shorten(_written(value), 60)}{guess}")
        return str(value)

    def flag(self, key: str, *, default: bool | None = None) -> bool:
        """True or false."""
        if key not in self.values and default is not None:
            return default
        value = self._value(key)
        if not isinstance(value, bool):
            raise self.wrong(key, "it has to be true or false")
        return value

    def integer(self, key: str, default: int | None = None, *, least: int = 0, most: int = _MOST) -> int:
        """A whole number, `least` to `most`: what 64 bits hold where nothing else is said."""
        if key not in self.values and default is not None:
            return default
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(key, f"it has to be a whole number, {least} or more")
        if value > most:
            raise self.wrong(key, f"it has to be {most} at most")
        return value

    def number(self, key: str, default: float | None = None, *, what: str = "", least: float = 0) -> float:
        """A number, `least` or more, finite; `what` says of what, as in "of seconds"."""
        if key not in self.values and default is not None:
            return default
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf"):
            raise self.wrong(key, f"it has to be a number{what and f' {what}'}, {least:g} or more")
        return float(value)

    def texts(self, key: str, like: str = "", default: Sequence[str] | None = None) -> tuple[str, ...]:
        """A list of texts; `like` shows one."""
        if key not in self.values and default is not None:
            return tuple(default)
        value = self._value(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, f"it has to be a list of {like or 'texts'}")
        return tuple(value)

    def table(self, key: str, like: str = "") -> "Table":
        """A table within this one, empty when there is none; `like` shows a line of it."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"it has to be a table{like and f', with lines like {like}'}")
        return Table(self.file, value, (*self.place, key))

    def tables(self, key: str) -> "list[Table]":
        """An array of tables, empty when there is none."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            header = ".".join([*(step for step in self.place if isinstance(step, str)), key])
            raise self.wrong(key, f"it has to be an array of tables, each under [[{header}]]")
        return [Table(self.file, item, (*self.place, key, index)) for index, item in enumerate(value)]

    def _value(self, key: str) -> Any:
        if key not in self.values:
            raise self.wrong(None, f"{printable(key)} is missing")
        return self.values[key]


def said(path: Path) -> str:
    """A path as it is told to people."""
    return printable(str(path))


def hint(word: str, words: Iterable[str]) -> str:
    """What to say after a word that is none of `words`."""
    similar = closest_match(word, words)
    return f", did you mean {similar}?" if similar else f"; there are {', '.join(words)}"


def _written(value: Any) -> str:
    """A value nearly as TOML has it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)
