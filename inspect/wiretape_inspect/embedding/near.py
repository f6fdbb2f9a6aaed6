"""Which events a page holds, where it does not hold them all: those around findings."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from wiretape.rules import Finding
from wiretape_inspect.view.filter_match import Match, Subject
from wiretape_inspect.view.rows import DeltaRow, EndRow, EventRow, StreamRow


class Near:
    """The events of one exchange at most `radius` away from a finding.

    What is found about the whole of an exchange has its first events near; so has nothing at all.
    """

    def __init__(self, findings: Iterable[Finding], radius: int) -> None:
        self._ranges: list[tuple[int, int]] = []
        for middle in sorted({finding.event or 1 for finding in findings} or {1}):
            first, last = max(middle - radius, 1), middle + radius
            if self._ranges and first <= self._ranges[-1][1] + 1:
                first = self._ranges.pop()[0]
            self._ranges.append((first, last))
        self._firsts = [first for first, _ in self._ranges]
        self.last = self._ranges[-1][1]
        """The number after which there are none."""

    def __contains__(self, event: object) -> bool:
        if not isinstance(event, int):
            return False
        at = bisect_right(self._firsts, event)
        return at > 0 and event <= self._ranges[at - 1][1]


def near_matcher(near: Near) -> Match:
    """What takes the rows of such events, and what is no event where it is among them or was found fault with."""
    among = True

    def take(subject: Subject) -> bool:
        nonlocal among
        if subject.event is not None:
            among = subject.event in near
            return among
        return among or bool(subject.codes) or "end" in subject.kinds

    return take


def with_omissions(rows: Iterable[StreamRow], exchange: int) -> Iterator[StreamRow | dict[str, Any]]:
    """Rows, and where events are missing between them a row that says which."""
    following = 1
    for row in rows:
        reached = _reached(row, following)
        if reached > following:
            yield _omitted(exchange, following, reached - 1)
        following = _behind(row, reached)
        yield row


def _reached(row: StreamRow, following: int) -> int:
    """The number of the event that a row begins with, or else that of the one behind it."""
    if isinstance(row, EventRow | DeltaRow):
        return row.event
    return row.durable + row.deltas + row.ephemeral + 1 if isinstance(row, EndRow) else following


def _behind(row: StreamRow, reached: int) -> int:
    if isinstance(row, DeltaRow):
        return row.last_event + 1
    return reached + 1 if isinstance(row, EventRow) else reached


def _omitted(exchange: int, first: int, last: int) -> dict[str, Any]:
    return {"row": "omitted", "exchange": exchange, "first": first, "last": last, "time_ns": None}
