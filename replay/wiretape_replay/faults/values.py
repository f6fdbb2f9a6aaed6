"""Values of fault scripts that other files do not have.  Each function raises InputError."""

import math
from typing import Any

from wiretape.safe_text import shorten
from wiretape.toml import Table

_LONGEST_S = 1_000_000


def texts(table: Table, key: str) -> tuple[str, ...]:
    """One text or several in a list; empty when the key is missing."""
    found = _several(table, key)
    if not all(isinstance(item, str) and item for item in found):
        raise table.wrong(key, f"it has to be a text or a list of texts, not {_shown(table, key)}")
    return found


def counts(table: Table, key: str, least: int = 1) -> tuple[int, ...]:
    """One whole number or several in a list; empty when the key is missing."""
    found = _several(table, key)
    if not all(isinstance(item, int) and not isinstance(item, bool) and item >= least for item in found):
        what = f"a whole number, {least} or more, or a list of them"
        raise table.wrong(key, f"it has to be {what}, not {_shown(table, key)}")
    return found


def optional_text(table: Table, key: str) -> str | None:
    """A text that is not empty, if there is one."""
    return table.text(key) if key in table else None


def one_line(table: Table, key: str) -> str | None:
    """A text that can stand in one line of an event stream, if there is one."""
    text = optional_text(table, key)
    if text is not None and any(character in text for character in "\r\n\0"):
        raise table.wrong(key, "a line end or NUL cannot stand in it")
    return text


def seconds(table: Table, key: str) -> int | None:
    """A time over 0, written in seconds, if there is one; returns nanoseconds."""
    if key not in table:
        return None
    value = table.values[key]
    if not _is_number(value) or not 0 < value <= _LONGEST_S:
        raise table.wrong(key, f"it has to be a number of seconds over 0 and up to {_LONGEST_S:,}")
    return round(float(value) * 1_000_000_000)


def share(table: Table, key: str) -> float:
    """A number over 0 and up to 1; 1 when the key is missing."""
    value = table.values.get(key, 1)
    if not _is_number(value) or not 0 < value <= 1:
        raise table.wrong(key, "it has to be a number over 0 and up to 1")
    return float(value)


def _several(table: Table, key: str) -> tuple[Any, ...]:
    value = table.values.get(key, ())
    if value == []:
        raise table.wrong(key, "an empty list fits nothing; leave the key out for anything")
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _shown(table: Table, key: str) -> str:
    return shorten(repr(table.values[key]), 60)
