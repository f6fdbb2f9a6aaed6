"""YAML as data: by the rules of YAML 1.2 and JSON, whatever the parser's own, with the line of every key.

`yes` is a text, `2025-01-01` too, and numbers with a fraction are decimals, so that nanoseconds are exact.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from wiretape.errors import InputError
from wiretape.recording.formats.tape.scanning import Piece
from wiretape.text import printable, shown
from wiretape.toml import Place, Table, said

# The parser in C is ten times as fast, and there wherever PyYAML comes as a wheel.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_WORDS: Mapping[str, Any] = {"null": None, "~": None, "": None, "true": True, "false": False}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_PLAIN_TAGS = frozenset({None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))})
_LONGEST_NUMBER = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """A piece of a tape that was read: says where in it something is wrong."""

    path: Path
    line: int
    lines: dict[Place, int] = field(default_factory=dict)

    def wrong(self, place: Place, what: str) -> InputError:
        """See `wiretape.toml.Told`."""
        outwards = (place[:length] for length in range(len(place), 0, -1))
        line = next((self.lines[outer] for outer in outwards if outer in self.lines), self.line)
        keys = ".".join(printable(str(step)) for step in place if isinstance(step, str))
        parts = [f"{said(self.path)}, line {line}", *([keys] if keys else []), what]
        return InputError(": ".join(parts) + ("" if what.endswith("?") else "."))


def load(path: Path, piece: Piece, place: Place = ()) -> tuple[Any, Told]:
    """What the YAML of a piece says.  Raises InputError."""
    told = Told(path, piece.line)
    try:
        node = yaml.compose(piece.text, Loader=_LOADER)
        if node is None:
            raise told.wrong(place, "there is nothing here")
        return _Making(told).value(node, place), told
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = piece.line + (mark.line if mark is not None else 0)
        raise Told(path, line).wrong((), f"it is no YAML: {shown(error.problem or str(error))}") from None
    except yaml.YAMLError as error:
        raise told.wrong((), f"it is no YAML: {shown(_first_line(error))}") from None
    except RecursionError:
        raise told.wrong(place, "it is nested too deeply") from None


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
    """Makes values of nodes."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, place: Place) -> Any:
        self._told.lines[place] = line = self._told.line + node.start_mark.line
        if node.tag not in _PLAIN_TAGS:
            raise Told(self._told.path, line).wrong(place, f"a tape has no tags like {shown(node.tag)}")
        if id(node) in self._seen:
            raise Told(self._told.path, line).wrong(place, "a tape has no anchors and aliases: write it out")
        self._seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, (*place, index)) for index, each in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in node.value:
            line = self._told.line + key.start_mark.line
            if not isinstance(key, yaml.ScalarNode):
                raise Told(self._told.path, line).wrong(place, "a key has to be a text")
            within = (*place, key.value)
            if key.value in made:
                raise Told(self._told.path, line).wrong(within, "it stands here a second time")
            made[key.value] = self.value(value, within)
            self._told.lines[within] = line
        return made


def _scalar(node: yaml.Node) -> Any:
    text: str = node.value
    if isinstance(node, yaml.ScalarNode) and node.style:
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
