"""What stands in a HAR, taken with suspicion: null counts as absent, and what is of another type is wrong."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit

from wiretape.errors import InputError
from wiretape.observations import Headers
from wiretape.safe_text import printable
from wiretape.toml import Table, said
from wiretape.toml_places import Place

_LAST_YEAR = 2200
"""Nanoseconds since 1970 fit into 64 bits until 2262."""
LONGEST_MS = 366 * 24 * 3600 * 1000
"""No part of an exchange takes longer than a year."""
_IN_TARGET = "".join(map(chr, range(0x21, 0x7F)))
_WEB = frozenset({"http", "https"})


@dataclass(frozen=True, slots=True)
class File:
    """Says where a HAR is wrong."""

    path: Path

    def wrong(self, place: Place, what: str) -> InputError:
        """See `wiretape.toml.Told`."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{printable(step)}" for step in place)
        return InputError(f"{said(self.path)}{steps and f', {steps[1:]}'}: {what}.")


def text(table: Table, key: str, default: str = "") -> str:
    """A text; surrogates without their other half are U+FFFD."""
    value = table.values.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise table.wrong(key, "it has to be a text")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not value.isascii() else value


def number(table: Table, key: str) -> float:
    """A number; 0 where it is absent or below, as -1 is in timings."""
    value = table.values.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise table.wrong(key, "it has to be a number")
    return max(float(min(value, 2**62)), 0)


def member(table: Table, key: str) -> Table | None:
    """An object within this one, or None."""
    value = table.values.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise table.wrong(key, "it has to be an object")
    return Table(table.file, value, (*table.place, key))


def needed(table: Table, key: str) -> Table:
    """An object that has to be there."""
    found = member(table, key)
    if found is None:
        raise table.wrong(key, "it is missing")
    return found


def members(table: Table, key: str) -> list[Table]:
    """A list of objects, empty where there is none."""
    value = table.values.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise table.wrong(key, "it has to be a list of objects")
    return [Table(table.file, item, (*table.place, key, index)) for index, item in enumerate(value)]


def unix_ns(table: Table, key: str) -> int:
    """A time on the wall clock, to the microsecond."""
    try:
        when = datetime.fromisoformat(text(table, key))
    except ValueError:
        raise table.wrong(key, "it has to be a time, as 2026-11-21T12:00:00.000Z") from None
    if not 1970 < when.year < _LAST_YEAR:
        raise table.wrong(key, f"it has to lie between 1971 and {_LAST_YEAR - 1}")
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000


def ms(table: Table, key: str) -> int:
    """How long something took, as nanoseconds."""
    value = number(table, key)
    if value > LONGEST_MS:
        raise table.wrong(key, "it has to be less than a year, in milliseconds")
    return round(value * 1_000_000)


def headers(table: Table) -> Headers:
    """The headers, without what HTTP/2 has in place of a first line; several values of one come apart."""
    pairs = ((text(each, "name"), text(each, "value")) for each in members(table, "headers"))
    return tuple((_bytes(name), _bytes(part)) for name, value in pairs if name[:1] != ":" for part in value.split("\n"))


def web_address(table: Table) -> tuple[str, str, str] | None:
    """Scheme, authority and target of a request; None where it is none over HTTP."""
    try:
        url = urlsplit(text(table, "url"))
    except ValueError:
        raise table.wrong("url", "it is no URL") from None
    if url.scheme not in _WEB:
        return None
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    return url.scheme, _bytes(url.netloc.rpartition("@")[2]), quote(target, safe=_IN_TARGET)


def _bytes(text: str) -> str:
    """A text in which each character stands for a byte: latin-1 where that holds it, else UTF-8."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode().decode("latin-1")
    return text
