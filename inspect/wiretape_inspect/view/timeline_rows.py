"""The rows of a stream, as the terminal prints them and the page shows them.

Rows are derived from events.  An event has its own row, except that consecutive deltas share a `DeltaRow` and
keep-alives are counted in a `PauseRow`.  An event with a finding is never folded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wiretape.event import Event
from wiretape.event_preview import PREVIEW, truncate
from wiretape.observations import Ending
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding

Keys = Mapping[str, str]
"""The keys of an event, by the names of the entities."""
GAP_NS = 1_000_000_000
"""Shortest time without events that is marked as a gap."""


@dataclass(slots=True)  # there are very many, and `frozen` would take several times as long
class EventRow:
    """One event."""

    event: Event
    gap_ns: int
    """Time since the previous event, or since the response began."""
    findings: tuple[Finding, ...] = ()
    is_whole: bool = False
    """Whether the row shows the whole text of the event, not only a preview."""

    @property
    def numbers(self) -> tuple[int, int]:
        """The number of the event, twice."""
        return self.event.number, self.event.number

    @property
    def preview(self) -> str:
        """The text that the row shows."""
        return self.event.preview if self.is_whole else truncate(self.event.preview)


def event_rows(recording: Recording, exchange: Exchange, first: int = 1) -> Iterator[EventRow]:
    """Yield the whole row of each event of a stream from number `first` on, without findings; deltas are not folded."""
    since_ns = exchange.began_ns
    for event in recording.events(exchange.number, max(first - 1, 1)):
        if event.number >= first:
            yield EventRow(event, event.time_ns - since_ns, is_whole=True)
        since_ns = event.time_ns


@dataclass(slots=True)
class DeltaRow:
    """Consecutive deltas of the same type and the same entities."""

    event: int
    """Number of the first delta; `last_event` is the number of the last."""
    last_event: int
    time_ns: int
    gap_ns: int
    until_ns: int
    """When the last delta arrived."""
    type: str
    keys: Keys
    """The entities that they are about."""
    start: int
    end: int
    count: int = 0
    characters: int = 0
    preview: str = ""
    """The beginning of the joined text."""

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the first and the last delta."""
        return self.event, self.last_event

    @classmethod
    def of(cls, event: Event, gap_ns: int) -> "DeltaRow":
        """The row of a single delta."""
        number, time_ns, frame = event.number, event.time_ns, event.frame
        row = cls(number, number, time_ns, gap_ns, time_ns, event.type, event.keys, frame.start, frame.end)
        row.add(event)
        return row

    def add(self, event: Event) -> None:
        """Add one more delta."""
        self.last_event, self.until_ns, self.end = event.number, event.time_ns, event.frame.end
        self.count += 1
        self.characters += len(event.text or "")
        if room := PREVIEW - len(self.preview):
            self.preview += event.preview[:room]


@dataclass(frozen=True, slots=True)
class PauseRow:
    """Time without events: a gap, keep-alives (comments), or both."""

    time_ns: int
    """When the previous event arrived; `until_ns` is when the pause ended."""
    until_ns: int
    keep_alives: int
    comment: str
    """The text of the first comment."""
    silence_ns: int
    """The longest time without a single byte."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_gap(self) -> bool:
        """Whether the pause is long enough to be marked as a gap."""
        return self.until_ns - self.time_ns >= GAP_NS


@dataclass(frozen=True, slots=True)
class _BytesRow:
    """Bytes that are not an event."""

    time_ns: int
    preview: str
    start: int
    end: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class CutRow(_BytesRow):
    """Bytes of an event that was cut off by the end of the body or by lost bytes.  Clients never see it."""


@dataclass(frozen=True, slots=True)
class OversizedRow(_BytesRow):
    """An event larger than the parser's limit.  It is forwarded, but not parsed."""


@dataclass(frozen=True, slots=True)
class LostRow:
    """Bytes that were forwarded but not recorded."""

    time_ns: int
    count: int
    start: int
    why: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class EndRow:
    """The end of a stream, with the number of events of each kind."""

    ending: Ending
    ending_label: str
    """The ending in words; mentions an unfinished event."""
    detail: str
    time_ns: int | None
    """None while the stream is open."""
    gap_ns: int
    durable: int
    deltas: int
    ephemeral: int
    keep_alives: int
    undecodable: str | None
    """Why the rest of an encoded body cannot be shown."""
    findings: tuple[Finding, ...] = ()
    """The findings that belong to no other row."""

    @property
    def events(self) -> int:
        """The number of events of the stream."""
        return self.durable + self.deltas + self.ephemeral


StreamRow = EventRow | DeltaRow | PauseRow | CutRow | OversizedRow | LostRow | EndRow
