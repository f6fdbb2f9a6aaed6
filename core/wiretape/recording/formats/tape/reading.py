"""A tape, read: its head, and what was observed of all its exchanges in order of time.

Memory holds what one observation of each exchange that goes on just then takes.
"""

import heapq
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from wiretape import __version__
from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.observations import BytesArrived, Observation
from wiretape.recording.formats.tape.exchanges import Around, Exchange, last_of, whole
from wiretape.recording.formats.tape.items import SECOND, STEP_NS, seconds, text_of
from wiretape.recording.formats.tape.scanning import Scanner
from wiretape.recording.recording_source import MAX_REDACTED, RecordingMetadata, RecordingSource
from wiretape.recording.recording_types import Capture
from wiretape.toml import Table

VERSION = 1
UPSTREAM = "http://service.test"
_FIRST_YEAR, _LAST_YEAR = 1970, 2199
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


def read(path: Path) -> RecordingSource:
    """Begin to read a tape.  Raises InputError."""
    with _opened(path) as scanner:
        head, around = _head(whole(scanner, next(scanner.documents())))
    return RecordingSource(head, _observations(path, around))


@contextmanager
def _opened(path: Path) -> Iterator[Scanner]:
    try:
        with closing(Scanner(path)) as scanner:
            yield scanner
    except OSError as error:
        raise InputError(read_error(path, error)) from None


def _head(table: Table) -> tuple[RecordingMetadata, Around]:
    if "request" in table:
        raise table.wrong("request", "the head of a tape ends with a line --- before the first exchange")
    table.only(["tape", "upstream", "started", "ended", "redacted", "tool"], "key of a tape's head")
    version = table.integer("tape", least=1)
    if version > VERSION:
        raise table.wrong("tape", f"it is {version}, this wiretape reads up to {VERSION}: use a newer wiretape")
    upstream = text_of(table, "upstream", UPSTREAM)
    head = RecordingMetadata(
        upstream, _started(table), _captures(table), table.integer("redacted", 0, most=MAX_REDACTED)
    )
    return head, Around.of(upstream)


def _captures(table: Table) -> tuple[Capture, ...]:
    if "ended" not in table:
        return ()
    ended_ns = None if table.values["ended"] is None else seconds(table, "ended", 0)
    return (Capture(text_of(table, "tool", f"wiretape {__version__}"), 0, ended_ns),)


def _started(table: Table) -> int:
    text = text_of(table, "started", "1970-01-01T00:00:00Z")
    wrong = table.wrong("started", "it has to be an instant in UTC, like 2026-11-21T09:30:00.5Z")
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise wrong
    try:
        second = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    except ValueError:
        raise wrong from None
    if not _FIRST_YEAR <= second.year <= _LAST_YEAR:
        raise table.wrong("started", f"it has to lie between {_FIRST_YEAR} and {_LAST_YEAR}")
    return round(second.timestamp()) * SECOND + int((found[2] or "").ljust(9, "0"))


def _observations(path: Path, around: Around) -> Iterator[Observation]:
    with _opened(path) as scanner:
        last_ns = 0
        for seen in _in_order(scanner, around):
            later = _not_before(seen, last_ns + 1)
            last_ns = last_of(later)
            yield later


def _in_order(scanner: Scanner, around: Around) -> Iterator[Observation]:
    """Exchanges begin in the order in which they stand; of those that go on, the next to happen comes first."""
    going: list[tuple[int, int, Observation, Iterator[Observation]]] = []
    number, began_ns, ended_ns = 0, 0, 0
    exchanges = islice(scanner.documents(), 1, None)
    for exchange in (Exchange(scanner, document, around) for document in exchanges):
        before = number
        number = _number(exchange, number)
        while going and (going[0][0] < exchange.at_ns if exchange.at_ns is not None else _goes_on(going, before)):
            ended_ns = going[0][0]
            yield _next(going)
        at_ns = ended_ns + STEP_NS if exchange.at_ns is None else exchange.at_ns
        if at_ns < began_ns:
            raise exchange.wrong("at", "it begins before the exchange above: exchanges stand in order of time")
        began_ns = at_ns
        seen = exchange.observations(number, at_ns)
        first = next(seen)
        heapq.heappush(going, (first.time_ns, number, first, seen))
    while going:
        yield _next(going)


def _number(exchange: Exchange, before: int) -> int:
    number = before + 1 if exchange.number is None else exchange.number
    if number <= before:
        raise exchange.wrong("number", f"it has to be above {before}, the number of the exchange above")
    return number


def _goes_on(going: list[tuple[int, int, Observation, Iterator[Observation]]], number: int) -> bool:
    return any(each[1] == number for each in going)


def _next(going: list[tuple[int, int, Observation, Iterator[Observation]]]) -> Observation:
    """Take the next to happen."""
    _, number, seen, more = going[0]
    after = next(more, None)
    if after is None:
        heapq.heappop(going)
    else:
        heapq.heapreplace(going, (after.time_ns, number, after, more))
    return seen


def _not_before(seen: Observation, least_ns: int) -> Observation:
    """The same, pushed on where it would come at the time of another: two exchanges may say the same time."""
    if seen.time_ns >= least_ns:
        return seen
    if isinstance(seen, BytesArrived):
        return replace(seen, times=(least_ns,))
    return replace(seen, time_ns=least_ns)
