"""Where things stand in a text that is good TOML: tomllib does not tell."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping

Place = tuple[str | int, ...]
"""Where a value stands: keys, and indices into arrays of tables, from the outside in."""

_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
NAMES = rf"\s*({_NAME}(?:\s*\.\s*{_NAME})*)\s*"
_HEADER = re.compile(rf"\s*(\[\[?){NAMES}\]\]?")
_KEY = re.compile(rf"{NAMES}=")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_COMMA = re.compile(r"(?:\s|#[^\n]*)*,")
_LONG_BASIC = r'"{3}(?:\\.|[^\\])*?"{3,5}(?!")'
_LONG_LITERAL = r"'{3}.*?'{3,5}(?!')"
_SCALAR = re.compile(rf"""{_LONG_BASIC}|{_LONG_LITERAL}|"(?:\\.|[^"\\])*"|'[^']*'|[^,\]}}\n#]*""", re.DOTALL)


def line_of(place: Place, lines: Mapping[Place, int]) -> int | None:
    """The line of a place, or else of the innermost that it is in and whose line is known."""
    return next((lines[outer] for outer in _outwards(place) if outer in lines), None)


def _outwards(place: Place) -> Iterator[Place]:
    """A place, and all that it is in, from the inside out."""
    return (place[:length] for length in range(len(place), 0, -1))


def lines_of(text: str) -> Mapping[Place, int]:
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
    return tuple(_unquoted(name) for name in re.findall(_NAME, names))


def _unquoted(name: str) -> str:
    return str(tomllib.loads(f"name = {name}")["name"]) if name[0] in "\"'" else name
