"""YAML as data: by the rules of YAML 1.2 and JSON, whatever the parser's own, with the line of every key.

`yes` is a text, `2025-01-01` too, and numbers with a fraction are decimals, so that nanoseconds are exact.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from wiretape.errors import InputError
from wiretape.recording.formats.tape.scanning import Piece
from wiretape.safe_text import shorten
from wiretape.toml import Table, wrong_at
from wiretape.toml_places import Place, line_of

# The parser in C is ten times as fast, and there wherever PyYAML comes as a wheel.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_WORDS: Mapping[str, Any] = {"null": None, "~": None, "": None, "true": True, "false": False}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_FRAME = (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)
_DEEPEST = 100
_LONGEST_NUMBER = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of a tape that was read: says where in it something is wrong."""

    path: Path
    line: int
    lines: dict[Place, int] = field(default_factory=dict)

    def wrong(self, place: Place, what: str) -> InputError:
        """See `wiretape.toml.Told`."""
        return wrong_at(self.path, line_of(place, self.lines) or self.line, place, what)


def load(path: Path, piece: Piece, place: Place = ()) -> tuple[Any, Told]:
    """What the YAML of a piece says.  Raises InputError."""
    told = Told(path, piece.line)
    # Not the parser's own composer: that of libyaml ends the process where something is nested very deeply.
    events = yaml.parse(piece.text, Loader=_LOADER)
    try:
        return _Making(told, events).document(place), told
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = piece.line + (mark.line if mark is not None else 0)
        raise Told(path, line).wrong((), f"it is no YAML: {shorten(error.problem or str(error))}") from None
    except yaml.YAMLError as error:
        raise told.wrong((), f"it is no YAML: {shorten(_first_line(error))}") from None


def item(path: Path, piece: Piece, place: Place) -> Table:
    """One element of a list, which has to be a mapping.  Raises InputError."""
    value, told = load(path, piece, place)
    if not isinstance(value, list) or len(value) != 1:
        raise told.wrong(place, "it has to be an element of a list")
    return table_of(told, value[0], (*place, 0))


def table_of(told: Told, value: Any, place: Place) -> Table:
    """A mapping as a table.  Raises InputError where it is none."""
    if not isinstance(value, dict):
        raise told.wrong(place, "it has to be a mapping, of keys and values")
    return Table(told, value, place)


class _Making:
    """Makes values of what a parser finds."""

    def __init__(self, told: Told, events: Iterator[yaml.Event]) -> None:
        self._told = told
        self._events = (event for event in events if not isinstance(event, _FRAME))

    def document(self, place: Place) -> Any:
        """All there is."""
        first = next(self._events, None)
        if first is None:
            raise self._told.wrong(place, "there is nothing here")
        made = self._value(first, place, 0)
        if (more := next(self._events, None)) is not None:
            raise self._at(more).wrong((), "a line --- has to stand before what comes next")
        return made

    def _at(self, event: yaml.Event) -> Told:
        return Told(self._told.path, self._line(event))

    def _line(self, event: yaml.Event) -> int:
        return self._told.line + (event.start_mark.line if event.start_mark is not None else 0)

    def _value(self, event: yaml.Event, place: Place, depth: int) -> Any:
        self._told.lines[place] = self._line(event)
        if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) or event.anchor is not None:
            raise self._at(event).wrong(place, "a tape has no anchors and aliases: write it out")
        if event.tag is not None:
            raise self._at(event).wrong(place, f"a tape has no tags like {shorten(event.tag)}")
        if depth > _DEEPEST:
            raise self._at(event).wrong(place, "it is nested too deeply")
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(place, depth)
        return _scalar(event) if isinstance(event, yaml.ScalarEvent) else self._sequence(place, depth)

    def _sequence(self, place: Place, depth: int) -> list[Any]:
        made: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            made.append(self._value(event, (*place, len(made)), depth + 1))
        return made

    def _mapping(self, place: Place, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                raise self._at(key).wrong(place, "a key has to be a text")
            within = (*place, key.value)
            if key.value in made:
                raise self._at(key).wrong(within, "it stands here a second time")
            made[key.value] = self._value(next(self._events), within, depth + 1)
            self._told.lines[within] = self._line(key)
        return made


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    if event.style:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _LONGEST_NUMBER:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return Decimal(text)
    return text


def looks_like_text(text: str) -> bool:
    """Whether a text written without quotes is read as that text, here and by other readers of YAML."""
    return not (text.lower() in _LOOKALIKES or text[:1] in "0123456789+-.")


_LOOKALIKES = frozenset({"", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
