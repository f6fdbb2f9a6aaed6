"""Values of scenarios that other files do not have.  Each function raises InputError."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from wiretape.safe_text import closest_match
from wiretape.toml import Table
from wiretape.toml_places import Place
from wiretape_replay.service.scenario.steps import SECOND_NS

_LONGEST_S = 1_000_000
_LARGEST = 2**53
_DEEPEST = 50
_PIECES = re.compile(r"\S+\s*|\s+")
CUTS = ("words", "characters", "lines", "whole")


def duration(table: Table, key: str, default_ns: int) -> int:
    """A time written in seconds, 0 or more; returns ns."""
    if key not in table:
        return default_ns
    value = table.number(key, what="of seconds")
    if value > _LONGEST_S:
        raise table.wrong(key, f"it can be {_LONGEST_S:,} seconds at most")
    return round(value * SECOND_NS)


def deadline(table: Table, default_ns: int | None) -> int | None:
    """How long something may take, in seconds; `false` says for ever, which is None."""
    match table.values.get("deadline"):
        case None:
            return default_ns
        case False:
            return None
        case int() | float() as seconds if seconds is not True:
            return duration(table, "deadline", 0)
        case _:
            raise table.wrong("deadline", "it has to be a number of seconds, or false for ever")


def pieces(table: Table, key: str) -> Sequence[str]:
    """A text cut into the pieces in which it comes, or those pieces themselves."""
    if isinstance(table.values[key], list):
        if "cut" in table:
            raise table.wrong("cut", f"{key} is a list, and that is how it is cut")
        listed = table.texts(key)
        if not listed:
            raise table.wrong(key, "a list of pieces needs one at least")
        return listed
    if not isinstance(table.values[key], str):
        raise table.wrong(key, "it has to be a text, or a list of texts")
    text, cut = table.text(key), table.values.get("cut", "words")
    if isinstance(cut, int) and cut > 0 and cut is not True:
        return [text[begin : begin + cut] for begin in range(0, len(text), cut)]
    if cut not in CUTS:
        similar = closest_match(cut, CUTS) if isinstance(cut, str) else None
        guess = f"; did you mean {similar}?" if similar else ""
        raise table.wrong("cut", f"it has to be one of {', '.join(CUTS)}, or a number of characters, 1 or more{guess}")
    match cut:
        case "characters":
            return list(text)
        case "lines":
            return text.splitlines(keepends=True)
        case "whole":
            return [text]
        case _:
            return _PIECES.findall(text)


def json_object(table: Table, key: str) -> Mapping[str, Any]:
    """A table of what JSON can say, empty when it is missing."""
    if not isinstance(table.values.get(key, {}), dict):
        raise table.wrong(key, f'it has to be a table, as in {key} = {{ city = "Lisbon" }}')
    found = table.table(key).values
    if (bad := _no_json(found, (), _DEEPEST)) is not None:
        where, why = bad
        raise table.file.wrong((*table.place, key, *where), why)
    return found


def _no_json(value: Any, place: Place, depth: int) -> tuple[Place, str] | None:
    """What of a value JSON cannot say, and why."""
    if depth == 0:
        return place, "it is nested too deeply"
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        found = (_no_json(item, (*place, step), depth - 1) for step, item in items)
        return next((bad for bad in found if bad is not None), None)
    if isinstance(value, str | bool):
        return None
    if isinstance(value, int):
        return None if abs(value) <= _LARGEST else (place, "JSON has no whole numbers over 2^53 that all can read")
    if isinstance(value, float) and math.isfinite(value):
        return None
    return place, "JSON has no such value; write it as a text"
