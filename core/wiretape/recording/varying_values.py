"""Values that differ between two recordings of the same traffic: ids that a service makes, and times.

Ids are renamed, and times are moved, wherever they are in heads and bodies.
"""

import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from itertools import count, pairwise
from typing import Any

from wiretape.recording.secret_finder import LONGEST, DecodedText, SecretFinder

SECOND_NS = 1_000_000_000
_SHORTEST = 4
_SHORTEST_CUT = 8
_MADE = re.compile(
    r"""
    (?P<uuid>[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12})
    |(?P<digits>[0-9]{10,}(?:[.:_-][0-9]+)*)
    |(?P<fingerprint>\[redacted:[0-9a-f]{16}\])
    |(?P<name>(?:[A-Za-z]{2,}[_-])*)(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{8,}
    |(?P<counted>(?:[A-Za-z]+_)+)[0-9]+
    |(?P<random>(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])[A-Za-z0-9_.~+/-]{16,}=*)
    """,
    re.VERBOSE,
)
"""Ids that look as if a program made them: random ones, and those with a number."""
_WORD = re.compile(r"[\w-]+")
_BLOCK = 100
"""The ids of a conversation begin with the next multiple, so that ids in another one do not move them."""
_TIMES = re.compile(
    rb"(?P<date>\d{4}-\d\d-\d\d)(?P<gap>[Tt ])(?P<time>\d\d:\d\d:\d\d)(?P<part>\.\d+)?(?P<zone>[Zz]|[+-]\d\d:\d\d)?"
    rb"|(?P<http>[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)"
    rb"|(?<![\w.-])(?P<unix>\d{10}(?:\d{3}){0,3})(?P<rest>\.\d+)?(?![\w.-])"
)
_NEAR_NS = 60 * SECOND_NS
"""Clocks may differ by so much."""
_STEP_NS = 10 * SECOND_NS
"""Shorter gaps are left out: many times count seconds, and a second may begin between any two of them."""
_PAST_NS, _FUTURE_NS = 86400 * SECOND_NS, 31 * 86400 * SECOND_NS
"""Times this long before and after a recording come from its clock: an expiry, for example."""
STARTED_NS = 1_735_689_600 * SECOND_NS
"""When a normalized recording began: 2025."""


@lru_cache(4096)
def is_id_name(name: str) -> bool:
    """Whether a JSON member of this name holds an id or a list of ids."""
    return name == "id" or name.endswith(("_id", "_ids", "Id", "Ids"))


def ids_in(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the ids in a JSON value, with the names of their members."""
    left = [(value, name)]
    while left:
        value, name = left.pop()
        if isinstance(value, dict):
            left += [(item, key) for key, item in reversed(value.items())]
        elif isinstance(value, list):
            left += [(item, name) for item in reversed(value)]
        elif isinstance(value, str) and is_id_name(name):
            yield value, name


class VaryingIds:
    """The ids that a service made while it was recorded, and what they are renamed to.

    An id that a request has first is one that the client chose: it stays, as a replay compares requests.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The names of the members that have the ids."""
        self._others: dict[str, str] = {}
        """Values that are ids only if others of the name and the length are random."""
        self._random: set[tuple[str, int]] = set()
        """The names and the lengths of ids that are random as a whole."""
        self._given: set[str] = set()
        """The words of requests."""
        self._finder = SecretFinder(_SHORTEST, sys.maxsize, as_words=True)
        self._new: dict[str, str] = {}
        self._counts: dict[str, Iterator[int]] = {}
        self._begin = self._last = 0

    def add_request(self, text: str) -> None:
        """Note the text of a request."""
        self._given.update(_WORD.findall(text))

    def add(self, text: str, name: str) -> None:
        """Add an id in a response, or a header that every request has with another value."""
        found = _MADE.fullmatch(text) if _SHORTEST <= len(text) <= LONGEST else None
        if not (found and found["fingerprint"]) and self._given.issuperset(_WORD.findall(text)):
            return
        (self._names if found else self._others).setdefault(text, name)
        if found and found["random"]:
            self._random.add((name, len(text)))

    def prepare(self) -> None:
        """Begin to search, as all ids are known."""
        more = {text: name for text, name in self._others.items() if (name, len(text)) in self._random}
        self._names = more | self._names
        self._finder.add(name.encode() for name in self._names)

    def find(self, data: bytes) -> list[str]:
        """Return the ids in some bytes, in any spelling."""
        found = (DecodedText(data[start:end]).text.decode("utf-8", "replace") for start, end in self._finder.find(data))
        return [each for each in found if each in self._names]

    def begin_conversation(self) -> None:
        """Begin with exchanges that share no ids with those before."""
        self._begin, self._counts = -(-self._last // _BLOCK) * _BLOCK, {}

    def rename(self, data: bytes, new: Callable[[str], str] | None = None) -> bytes:
        """Return some bytes with new ids, which are numbered as they appear, and without one that is cut off."""
        parts, at = list[bytes](), 0
        for start, end in self._finder.find(data):
            text = DecodedText(data[start:end]).text.decode("utf-8", "replace")
            if text in self._names:
                parts += data[at:start], (new or self._new_id)(text).encode()
                at = end
        cut = self._finder.partial(data[at:])
        end = len(data) - cut if cut >= _SHORTEST_CUT else len(data)
        return b"".join((*parts, data[at:end]))

    def _new_id(self, text: str) -> str:
        if text not in self._new:
            form, make = self._form(text)
            numbers = self._counts.setdefault(form, count(self._begin + 1))
            number = next(each for each in numbers if make(each) not in self._given or make(each) in self._names)
            self._last = max(self._last, number)
            self._new[text] = make(number)
        return self._new[text]

    def _form(self, text: str) -> tuple[str, Callable[[int], str]]:
        """Return what an id and others of its form have in common, and a function that makes one of a number."""
        found = _MADE.fullmatch(text)
        if found and found["uuid"]:
            return "uuid", lambda number: f"00000000-0000-4000-8000-{number:012}"
        if found and found["fingerprint"]:
            return "fingerprint", lambda number: f"[redacted:{number:016}]"
        if found and found["digits"]:
            return "digits", lambda number: str(10**9 + number)
        name = self._names[text]
        stem = name.removesuffix("s").removesuffix("Id").removesuffix("_id") or "id"
        is_random = (name, len(text)) in self._random
        own = "" if is_random or found is None else found["name"] or found["counted"]
        prefix = own or f"{stem}_"
        return prefix, lambda number: f"{prefix}{number}"


class VaryingTimes:
    """The times of a recording in its texts, and what they are moved to."""

    def __init__(self, began_ns: int, ended_ns: int) -> None:
        self._began, self._ended = began_ns, ended_ns
        self._seen: set[int] = set()
        self._moved: dict[int, int] = {}

    def add(self, data: bytes) -> None:
        """Note the times in some bytes."""
        self._seen.update(time for found in _TIMES.finditer(data) if self._is_near(time := _read_time(found)))

    def prepare(self) -> None:
        """Decide where the times go: those of the recording keep their order, and only long gaps."""
        moved = STARTED_NS
        for before, time in pairwise(sorted({self._began, *self._seen})):
            moved += round_gap(time - before, _STEP_NS)
            self._moved[time] = moved

    def move(self, data: bytes) -> bytes:
        """Return some bytes with other times, in the same form."""
        return _TIMES.sub(self._move, data)

    def _is_near(self, time: int) -> bool:
        return self._began - _NEAR_NS <= time <= self._ended + _NEAR_NS

    def _move(self, found: re.Match[bytes]) -> bytes:
        time = _read_time(found)
        if self._is_near(time):
            return _write_time(found, self._moved.get(time, STARTED_NS))
        if self._began - _PAST_NS <= time <= self._ended + _FUTURE_NS:
            return _write_time(found, STARTED_NS + round_gap(time - self._began, 60 * SECOND_NS))
        return found.group()


def round_gap(gap_ns: int, step_ns: int = SECOND_NS) -> int:
    """Round a time down, with a quarter of a step as the tolerance: half and whole steps are usual, and vary a bit."""
    return (gap_ns + step_ns // 4) // step_ns * step_ns


def _read_time(found: re.Match[bytes]) -> int:
    """Return a time as nanoseconds since 1970; 0 if it is invalid."""
    if found["unix"]:
        whole: int = int(found["unix"]) * 10 ** (19 - len(found["unix"]))
        return whole + (int(found["rest"][1:10].ljust(9, b"0")) if found["rest"] and len(found["unix"]) == 10 else 0)
    try:
        return int(_date_of(found).timestamp()) * SECOND_NS + int((found["part"] or b".")[1:10].ljust(9, b"0"))
    except ValueError:
        return 0


def _date_of(found: re.Match[bytes]) -> datetime:
    if found["http"]:
        return parsedate_to_datetime(found["http"].decode())
    zone = (found["zone"] or b"Z").upper().replace(b"Z", b"+00:00")
    return datetime.fromisoformat(b"".join((found["date"], b"T", found["time"], zone)).decode())


def _write_time(found: re.Match[bytes], time_ns: int) -> bytes:
    if found["unix"]:
        unix = b"%d" % (time_ns // 10 ** (19 - len(found["unix"])))
        return unix + (b"." + b"0" * (len(found["rest"]) - 1) if found["rest"] else b"")
    date = datetime.fromtimestamp(time_ns // SECOND_NS, UTC)
    if found["http"]:
        return format_datetime(date, usegmt=True).encode()
    date += _date_of(found).utcoffset() or timedelta()
    part = b"." + b"0" * (len(found["part"]) - 1) if found["part"] else b""
    return b"".join(
        (f"{date:%Y-%m-%d}".encode(), found["gap"], f"{date:%H:%M:%S}".encode(), part, found["zone"] or b"")
    )
