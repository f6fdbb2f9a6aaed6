"""ISO 8601 instants in UTC."""

import re
from calendar import isleap
from datetime import date

_FRACTION = r"(?:[.,][0-9]+)?"
_HOUR, _MINUTE, _SECOND = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]", "(?:[0-5][0-9]|60)"
_TIME = (
    rf"(?:{_HOUR}(?::{_MINUTE}(?::{_SECOND})?|{_MINUTE}(?:{_SECOND})?)?{_FRACTION}"
    r"|24(?::00(?::00)?|00(?:00)?)?(?:[.,]0+)?)"
)
_DATE = r"[0-9]{4}-?(?:[0-9]{2}-?[0-9]{2}|W[0-9]{2}-?[1-7])"
_ORDINAL = r"([0-9]{4})-?([0-9]{3})"
_INSTANT = re.compile(rf"(?:({_DATE})|{_ORDINAL})[Tt]{_TIME}(?:[Zz]|\+00(?::?00)?)")
_USUAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|\+00:00)")


def is_usual(text: str) -> bool:
    """Whether a text has the form in which almost everybody writes instants in UTC, were it one."""
    return _USUAL.fullmatch(text) is not None


def is_utc_instant(text: str) -> bool:
    """Whether a text is an instant as ISO 8601 writes them, in UTC.

    All forms are taken: the basic ones and those with weeks or days of the year, fractions of any length, leap
    seconds, midnight as 24:00, and `t` and `z` as RFC 3339 allows.  A space for the `T` is none of them.
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        return False
    day, year, of_year = found.groups()
    if day is None:
        return 1 <= int(of_year) <= 365 + isleap(int(year))
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True
