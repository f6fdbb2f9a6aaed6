"""TOML files that people write: values of the right types, or one sentence that says what is wrong and where."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from wiretape.errors import InputError
from wiretape.text import nearest, printable, shown
from wiretape.toml_syntax import plainly

Place = tuple[str | int, ...]
"""Where a value stands: keys, and indices into arrays of tables, from the outside in."""
_MOST = 2**63 - 1

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\\\n]*"|'[^'\n]*')"""
_NAMES = rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*"
_HEADER = re.compile(rf"\s*(\[\[?){_NAMES}\]\]?")
_KEY = re.compile(rf"{_NAMES}=")
_BEGINNING = re.compile(rf"\s*(?:#|\[|{_NAMES}=)")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_COMMA = re.compile(r"(?:\s|#[^\n]*)*,")
_LONG_BASIC = r'"{3}(?:\\.|[^\\])*?"{3,5}(?!")'
_LONG_LITERAL = r"'{3}.*?'{3,5}(?!')"
_SCALAR = re.compile(rf"""{_LONG_BASIC}|{_LONG_LITERAL}|"(?:\\.|[^"\\])*"|'[^']*'|[^,\]}}\n#]*""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A TOML file that was read."""

    path: Path
    document: Mapping[str, Any]
    _lines: Mapping[Place, int] = field(repr=False)

    @classmethod
    def load(cls, path: Path) -> "TomlFile":
        """Read a file.  Raises InputError."""
        try:
            text = path.read_text("utf-8-sig")  # some editors begin a file with a mark of its encoding
        except OSError as error:
            raise InputError(f"{said(path)} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise InputError(f"{said(path)} is not UTF-8, so it is no TOML.") from None
        return cls.of(text, path)

    @classmethod
    def of(cls, text: str, path: Path) -> "TomlFile":
        """Read what a file holds, or would; `path` is what it is called.  Raises InputError."""
        try:
            return cls(path, tomllib.loads(text), _lines(text))
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{said(path)} is no TOML: {printable(plainly(error, text))}.") from None
        except RecursionError:
            raise InputError(f"{said(path)} is nested too deeply.") from None

    def table(self) -> "Table":
        """All of it."""
        return Table(self, self.document)

    def wrong(self, place: Place, what: str) -> InputError:
        """An error that names the file, the line where that can be told, and the keys that lead to the place."""
        line = next((self._lines[outer] for outer in _outwards(place) if outer in self._lines), None)
        parts = [said(self.path) + (f", line {line}" if line is not None else "")]
        parts += [printable(".".join(str(step) for step in place if isinstance(step, str)))] if place else []
        return InputError(": ".join([*parts, what]) + ("" if what.endswith("?") else "."))


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
            similar = nearest(value, words) if isinstance(value, str) else None
            guess = f"; did you mean {similar}?" if similar else ""
            raise self.wrong(key, f"it has to be one of {', '.join(words)}, not {shown(_written(value), 60)}{guess}")
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


def holds_toml(text: str) -> bool:
    """Whether a text is TOML, good or not, rather than the name of a file."""
    return "\n" in text or (not text.endswith(".toml") and _BEGINNING.match(text) is not None)


def said(path: Path) -> str:
    """A path as it is told to people."""
    return printable(str(path))


def hint(word: str, words: Iterable[str]) -> str:
    """What to say after a word that is none of `words`."""
    similar = nearest(word, words)
    return f", did you mean {similar}?" if similar else f"; there are {', '.join(words)}"


def _written(value: Any) -> str:
    """A value nearly as TOML has it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _outwards(place: Place) -> Iterator[Place]:
    return (place[:length] for length in range(len(place), 0, -1))


def _lines(text: str) -> Mapping[Place, int]:
    """The line of everything that a document says; of a table without a header of its own, where it first comes up."""
    places = list(_places(text))
    lines = dict(places)
    for place, line in places:
        for outer in _outwards(place):
            lines.setdefault(outer, line)
    return lines


def _places(text: str) -> Iterator[tuple[Place, int]]:
    """Where the tables, keys and elements of lists of a TOML document stand, by line from 1: tomllib does not tell."""
    places: list[tuple[Place, int]] = []
    table: Place = ()
    counts: dict[Place, int] = {}
    scan = _Scan(text)
    while scan.skip():
        line = scan.line
        if header := scan.match(_HEADER):
            table = _resolved(_split(header[2]), counts, is_array=header[1] == "[[")
            places.append((table, line))
        elif (key := scan.match(_KEY)) is None:
            break
        else:
            place = table + _split(key[1])
            places.append((place, line))
            scan.value(place, places)
    return iter(places)


class _Scan:
    """Goes through the text of a document that is good TOML."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._counted = (0, 1)
        """A place in the text, and its line."""

    @property
    def line(self) -> int:
        """The line of what is next, from 1."""
        at, line = self._counted
        self._counted = (self._at, line + self._text.count("\n", at, self._at))
        return self._counted[1]

    def skip(self) -> bool:
        """Go to what means something; False at the end."""
        self.match(_BLANK)
        return self._at < len(self._text)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Go past what a pattern fits here."""
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def value(self, place: Place, places: list[tuple[Place, int]]) -> None:
        """Go past a value, noting where the elements and keys in it stand."""
        self.skip()
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._inside("]", lambda index: self._element((*place, index), places))
        elif opening == "{":
            self._inside("}", lambda _: self._pair(place, places))
        else:
            self.match(_SCALAR)

    def _inside(self, closing: str, one: Callable[[int], None]) -> None:
        self._at += 1
        index = 0
        while self.skip() and self._text[self._at] != closing:
            one(index)
            index += 1
            self.match(_COMMA)
        self._at += 1

    def _element(self, place: Place, places: list[tuple[Place, int]]) -> None:
        places.append((place, self.line))
        self.value(place, places)

    def _pair(self, table: Place, places: list[tuple[Place, int]]) -> None:
        line, key = self.line, self.match(_KEY)
        if key is None:
            raise ValueError("This is not good TOML.")
        place = table + _split(key[1])
        places.append((place, line))
        self.value(place, places)


def _resolved(names: Place, counts: dict[Place, int], *, is_array: bool) -> Place:
    """The place that a header names: an array of tables on the way stands for its last table."""
    place: Place = ()
    for depth, name in enumerate(names, 1):
        place += (name,)
        if is_array and depth == len(names):
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place += (counts[place],)
    return place


def _split(names: str) -> Place:
    return tuple(name.strip("\"'") for name in re.findall(_NAME, names))
