"""Times in UTC, as ISO 8601 writes them."""

import re
from calendar import isleap
from datetime import date, datetime

_FRACTION = r"(?:[.,][0-9]+)?"
_HOUR, _MINUTE, _SECOND = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]", "(?:[0-5][0-9]|60)"
_TIME = (
    rf"(?:{_HOUR}(?::{_MINUTE}(?::{_SECOND})?|{_MINUTE}(?:{_SECOND})?)?{_FRACTION}"
    r"|24(?::00(?::00)?|00(?:00)?)?(?:[.,]0+)?)"
)
_DATE = r"[0-9]{4}-?(?:[0-9]{2}-?[0-9]{2}|W[0-9]{2}-?[1-7])"
_ORDINAL_DATE = r"([0-9]{4})-?([0-9]{3})"
_TIMESTAMP = re.compile(rf"(?:({_DATE})|{_ORDINAL_DATE})[Tt]{_TIME}(?:[Zz]|\+00(?::?00)?)")
_COMMON = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|\+00:00)")


def is_utc_time(text: str) -> bool:
    """Whether a text is an ISO 8601 timestamp in UTC.

    Accepts every form: basic ones, dates by week or by day of the year, fractions of any length, leap seconds,
    midnight as 24:00, and `t` and `z` as in RFC 3339; but not a space instead of the `T`.
    """
    if _COMMON.fullmatch(text):
        try:
            datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return True
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return False
    day, year, day_of_year = found.groups()
    if day is None:
        return 1 <= int(day_of_year) <= 365 + isleap(int(year))
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True
