"""Compare two connections of a channel by cursor: which events the second repeated, changed, moved, delayed or lost."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice, pairwise
from typing import Literal

from wiretape.errors import InputError
from wiretape.event import Event
from wiretape.event_preview import preview_of
from wiretape.labels import ending_label
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import printable
from wiretape.sse import FrameKind
from wiretape_inspect.diff.alignment import find_delays, out_of_order
from wiretape_inspect.diff.diff_model import TOLERANCE_NS

Status = Literal["known", "same", "moved", "delayed", "changed", "repeated", "lost", "pending", "cut", "new"]
"""known: on the first connection up to the cursor, and not repeated, as expected.
same: after the cursor on the first connection, and on the second with the same data.
moved: as same, but in another order; as few events as possible.
delayed: as same, but more than `TOLERANCE_NS` later or earlier than the others.
changed: on both connections with different data.
repeated: sent again, although the client already had it: by its cursor, or from an earlier event of one connection.
lost: after the cursor on the first connection, and skipped by the second.
pending: after the cursor on the first connection; the second ended before reaching it.
cut: unfinished when the first connection broke off, and complete on the second.
new: on the second connection only.
"""
_MAX_GAPS = 100


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """An event on one of the two connections."""

    event: int | None
    """Its number; None if it is unfinished."""
    sequence: int | None
    time_ns: int
    type: str
    preview: str


@dataclass(frozen=True, slots=True)
class CursorComparison:
    """One cursor, and the event with it on each connection."""

    status: Status
    cursor: str
    first: ConnectionEvent | None
    second: ConnectionEvent | None
    later_ns: int | None = None
    """For delayed events: how much later it came on the second connection."""


@dataclass(frozen=True, slots=True)
class Reconnection:
    """Two connections side by side, in the order of the first connection, then of the second."""

    first: int
    second: int
    """Numbers of the exchanges."""
    cursor: str | None
    """The cursor of the request of the second connection."""
    cursor_known: bool
    """Whether the first connection had an event with it."""
    ending: str
    """How the first connection ended."""
    ended_ns: int | None
    rows: tuple[CursorComparison, ...]
    missing: tuple[tuple[int, int], ...]
    """Gaps: first and last sequence, from the cursor on, that neither connection had.  At most 100 gaps."""

    def count(self, status: Status) -> int:
        """Return the number of cursors with a status."""
        return sum(row.status == status for row in self.rows)


@dataclass(slots=True)
class _Event:
    number: int
    shown: ConnectionEvent
    digest: bytes


def compare_connections(recording: Recording, first: Exchange, second: Exchange) -> Reconnection:
    """Compare two streams of one channel.  Memory grows with the number of events that have a cursor.

    Raises InputError unless they are two streams of one channel, the earlier one first.
    """
    _check(first, second)
    before, before_again, cut = _events(recording, first)
    after, after_again, _ = _events(recording, second)
    sent = second.cursor
    cursor_event = before[sent].number if sent in before else 0
    furthest = max((before[cursor].number for cursor in after if cursor in before), default=0)
    has_new = any(cursor not in before for cursor in after)
    rows = []
    for cursor, event in before.items():
        other = after.get(cursor)
        is_passed = has_new or event.number < furthest
        status = _status(event, other, is_known=event.number <= cursor_event, is_passed=is_passed)
        rows.append(CursorComparison(status, cursor, event.shown, other.shown if other else None))
    rows = _with_order_and_delays(rows, second.began_ns)
    rows += [
        CursorComparison(_again(before[cursor], event), cursor, event.shown, None) for cursor, event in before_again
    ]
    rows.sort(key=_place)
    later = [
        CursorComparison("cut", cursor, cut[1], event.shown)
        if cut and cut[0] == cursor
        else CursorComparison("new", cursor, None, event.shown)
        for cursor, event in after.items()
        if cursor not in before
    ]
    later += [
        CursorComparison(_again(after[cursor], event), cursor, None, event.shown) for cursor, event in after_again
    ]
    rows += sorted(later, key=_place)
    missing = _missing(before, after, cursor_event)
    ending = ending_label(first.ending, stream=True, in_event=cut is not None)
    is_known = sent in before
    return Reconnection(first.number, second.number, sent, is_known, ending, first.ended_ns, tuple(rows), missing)


def _place(row: CursorComparison) -> int:
    """Return the number of the event of a row, on the first connection if that has it."""
    return next((each.event for each in (row.first, row.second) if each and each.event is not None), 0)


def _check(first: Exchange, second: Exchange) -> None:
    name = first.vocabulary.channel.replace("_", " ")
    for exchange in (first, second):
        if not exchange.is_stream:
            raise InputError(f"Exchange {exchange.number} is not an event stream: choose two streams of one {name}.")
    if first.channel != second.channel:
        names = " and ".join(printable(exchange.channel or "none") for exchange in (first, second))
        raise InputError(
            f"Exchanges {first.number} and {second.number} belong to different {name}s ({names}): "
            f"choose two streams of the same {name}."
        )
    if first.number >= second.number:
        raise InputError(f"Put the earlier connection first: {second.number}:{first.number}.")


def _events(
    recording: Recording, exchange: Exchange
) -> tuple[dict[str, _Event], list[tuple[str, _Event]], tuple[str, ConnectionEvent] | None]:
    """Return the first event with each cursor, the later events with the same one, and the unfinished event.

    Not deltas, which are never replayed.
    """
    found: dict[str, _Event] = {}
    again: list[tuple[str, _Event]] = []
    cut = None
    for seen in recording.frames(exchange.number):
        if isinstance(seen, Event):
            if not seen.cursor or seen.kind == "delta":
                continue
            if seen.cursor in found:
                again.append((seen.cursor, _event(seen)))
            else:
                found[seen.cursor] = _event(seen)
        elif seen.frame.kind is FrameKind.TAIL:
            frame = seen.frame
            cut = (frame.id or "", ConnectionEvent(None, None, seen.time_ns, frame.event, preview_of(frame.raw)))
    return found, again, cut


def _with_order_and_delays(rows: list[CursorComparison], second_began_ns: int) -> list[CursorComparison]:
    """Mark the events that both connections have as moved or delayed.

    The second connection cannot have an event before it begins, so that what it gets then is not late.
    """
    pairs = [
        (at, row.first, row.second) for at, row in enumerate(rows) if row.status == "same" and row.first and row.second
    ]
    moved = {pairs[index][0] for index in out_of_order([second.event or 0 for _, _, second in pairs])}
    ordered = [pair for pair in pairs if pair[0] not in moved]
    times = ((max(first.time_ns, second_began_ns), second.time_ns) for _, first, second in ordered)
    delays = {ordered[index][0]: later_ns for index, later_ns in find_delays(times, TOLERANCE_NS)}
    marked = list(rows)
    for at in moved:
        marked[at] = replace(rows[at], status="moved")
    for at, later_ns in delays.items():
        marked[at] = replace(rows[at], status="delayed", later_ns=later_ns)
    return marked


def _again(event: _Event, other: _Event) -> Status:
    return "repeated" if other.digest == event.digest else "changed"


def _event(event: Event) -> _Event:
    shown = ConnectionEvent(event.number, event.sequence, event.time_ns, event.type, event.preview)
    content = event.name.encode() + b"\n" + event.data
    return _Event(event.number, shown, blake2b(content, digest_size=16).digest())


def _status(event: _Event, other: _Event | None, *, is_known: bool, is_passed: bool) -> Status:
    if other is None:
        return "known" if is_known else "lost" if is_passed else "pending"
    if other.digest != event.digest:
        return "changed"
    return "repeated" if is_known else "same"


def _missing(before: dict[str, _Event], after: dict[str, _Event], cursor_event: int) -> tuple[tuple[int, int], ...]:
    """Return the gaps in the sequences of both connections, from the cursor to the highest sequence after it."""
    known = _sequences(event for event in before.values() if event.number <= cursor_event)
    later = _sequences(after.values())
    if not known or not later:
        return ()
    bounds = range(max(known), max(later) + 1)
    present = sorted({number for number in (*_sequences(before.values()), *later) if number in bounds} | {max(known)})
    gaps = ((low + 1, high - 1) for low, high in pairwise(present) if high - low > 1)
    return tuple(islice(gaps, _MAX_GAPS))


def _sequences(events: Iterable[_Event]) -> list[int]:
    return [event.shown.sequence for event in events if event.shown.sequence is not None]
