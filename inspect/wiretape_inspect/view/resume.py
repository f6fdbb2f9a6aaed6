"""Two connections of a session side by side, joined on the SSE id: what the second lost, repeated or changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, pairwise
from typing import Literal

from wiretape.errors import InputError
from wiretape.frame_reader import SeenFrame
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import printable
from wiretape_inspect.facts import Facts, facts_of
from wiretape_inspect.view.work import asked_after

Status = Literal["known", "same", "changed", "repeated", "lost", "pending", "new"]
"""known: came on the first connection, up to the cursor, and not again, as it should be.
same: came on the first connection after the cursor, and on the second with the same data.
changed: came on both, with other data.
repeated: came on both with the same data, though the cursor says that the client knew it.
lost: came on the first connection after the cursor, and not on the second, which went past it.
pending: came on the first connection after the cursor; the second one ended before it got there.
new: came on the second connection only.
"""
_HOLES = 100


@dataclass(frozen=True, slots=True)
class Here:
    """An event on one of the two connections."""

    event: int
    sequence: int | None
    time_ns: int
    type: str
    preview: str


@dataclass(frozen=True, slots=True)
class Joined:
    """One SSE id."""

    status: Status
    id: str
    first: Here | None
    second: Here | None


@dataclass(frozen=True, slots=True)
class Resume:
    """The resume view of two streams, in the order of the first, then of the second."""

    first: int
    second: int
    """The numbers of the exchanges."""
    cursor: str | None
    """The `Last-Event-ID` of the second connection."""
    cursor_known: bool
    """Whether the first connection had an event of that id."""
    rows: tuple[Joined, ...]
    missing: tuple[tuple[int, int], ...]
    """Sequences, first and last of each hole, that neither connection had, from the cursor's on.  At most 100 holes."""

    def count(self, status: Status) -> int:
        """How many ids have a status."""
        return sum(row.status == status for row in self.rows)


@dataclass(slots=True)
class _Event:
    here: Here
    digest: bytes


def resumed(recording: Recording, first: Exchange, second: Exchange) -> Resume:
    """Join two streams of one session.  Memory grows with the events that have an id.

    Raises InputError where they are no two streams of one session, in order.
    """
    _check(first, second)
    before, after = _events(recording, first), _events(recording, second)
    cursor = asked_after(second)
    at = before[cursor].here.event if cursor in before else 0
    furthest = max((before[id_].here.event for id_ in after if id_ in before), default=0)
    whole = any(id_ not in before for id_ in after)
    rows = []
    for id_, event in before.items():
        there = after.get(id_)
        passed = whole or event.here.event < furthest
        status = _status(event, there, known=event.here.event <= at, passed=passed)
        rows.append(Joined(status, id_, event.here, there.here if there else None))
    rows += [Joined("new", id_, None, event.here) for id_, event in after.items() if id_ not in before]
    missing = _missing(before, after, at)
    return Resume(first.number, second.number, cursor, cursor in before, tuple(rows), missing)


def _check(first: Exchange, second: Exchange) -> None:
    for exchange in (first, second):
        if not exchange.is_stream:
            raise InputError(f"Exchange {exchange.number} is no event stream, so nothing was resumed on it.")
    if first.session_id != second.session_id:
        names = " and ".join(printable(exchange.session_id or "none") for exchange in (first, second))
        raise InputError(
            f"Exchanges {first.number} and {second.number} are of two sessions ({names}): name two of one session."
        )
    if first.number >= second.number:
        raise InputError(f"Name the earlier connection first: {second.number}:{first.number}.")


def _events(recording: Recording, exchange: Exchange) -> dict[str, _Event]:
    """The events with an id, by it, as they first came; not deltas, which should have none and are never replayed."""
    found: dict[str, _Event] = {}
    for seen in recording.frames(exchange.number):
        if seen.event is None or not seen.frame.id or seen.frame.id in found:
            continue
        facts = facts_of(seen.frame)
        if facts.standing != "delta":
            found[seen.frame.id] = _event(seen, facts)
    return found


def _event(seen: SeenFrame, facts: Facts) -> _Event:
    here = Here(seen.event or 0, facts.sequence, seen.time_ns, facts.type, facts.text)
    said = seen.frame.event.encode() + b"\n" + seen.frame.data
    return _Event(here, blake2b(said, digest_size=16).digest())


def _status(event: _Event, there: _Event | None, *, known: bool, passed: bool) -> Status:
    if there is None:
        return "known" if known else "lost" if passed else "pending"
    if there.digest != event.digest:
        return "changed"
    return "repeated" if known else "same"


def _missing(before: dict[str, _Event], after: dict[str, _Event], at: int) -> tuple[tuple[int, int], ...]:
    """The holes in the sequences of both connections, from what was known to the highest that came after."""
    known = _sequences(event for event in before.values() if event.here.event <= at)
    came = _sequences(after.values())
    if not known or not came:
        return ()
    bounds = range(max(known), max(came) + 1)
    told = sorted({number for number in (*_sequences(before.values()), *came) if number in bounds} | {max(known)})
    holes = ((low + 1, high - 1) for low, high in pairwise(told) if high - low > 1)
    return tuple(islice(holes, _HOLES))


def _sequences(events: Iterable[_Event]) -> list[int]:
    return [event.here.sequence for event in events if event.here.sequence is not None]
