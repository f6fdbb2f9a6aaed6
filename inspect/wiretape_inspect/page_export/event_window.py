"""The events that a page contains if it does not contain all: those near findings."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from wiretape.rules import Finding
from wiretape_inspect.view.filter_match import CompiledFilter, Subject
from wiretape_inspect.view.timeline_rows import DeltaRow, EndRow, EventRow, StreamRow


class EventWindow:
    """The events of one exchange that are at most `radius` events away from a finding.

    A finding about the exchange as a whole counts as one about its first event, and so does no finding at all.
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
        """The number of the last event in the window."""

    def __contains__(self, event: object) -> bool:
        if not isinstance(event, int):
            return False
        at = bisect_right(self._firsts, event)
        return at > 0 and event <= self._ranges[at - 1][1]


def window_matcher(window: EventWindow) -> CompiledFilter:
    """Return a filter for the events in the window, the other rows among them, and all rows with findings."""
    inside = True

    def matches(subject: Subject) -> bool:
        nonlocal inside
        if subject.event is not None:
            inside = subject.event in window
            return inside
        return inside or bool(subject.codes) or "end" in subject.kinds

    return CompiledFilter(matches)


def with_omissions(rows: Iterable[StreamRow], exchange: int) -> Iterator[StreamRow | dict[str, Any]]:
    """Yield the rows, and a row `omitted` wherever events are missing between them."""
    next_event = 1
    for row in rows:
        first = next_event
        if isinstance(row, EventRow | DeltaRow):
            first = row.numbers[0]
        elif isinstance(row, EndRow):
            first = row.events + 1
        if first > next_event:
            yield {"row": "omitted", "exchange": exchange, "first": next_event, "last": first - 1, "time_ns": None}
        next_event = first
        if isinstance(row, EventRow | DeltaRow):
            next_event = row.numbers[1] + 1
        yield row
