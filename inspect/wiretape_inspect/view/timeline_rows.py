"""The rows of a stream, as the terminal prints them and the page shows them.

Rows are derived from events.  An event has its own row, except that consecutive deltas share a `DeltaRow` and
keep-alives are counted in a `PauseRow`.  An event with a finding is never folded.
"""

from dataclasses import dataclass

from wiretape.event_facts import PREVIEW, EventFacts, EventKind, truncate
from wiretape.frame_reader import SeenFrame
from wiretape.observations import Ending
from wiretape.rules import Finding

GAP_NS = 1_000_000_000
"""Shortest time without events that is marked as a gap."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event."""

    event: int
    """Number of the event on its connection, from 1."""
    time_ns: int
    gap_ns: int
    """Time since the previous event, or since the response began."""
    type: str
    """The JSON `type`, or else the name on the `event:` line, or else empty."""
    kind: EventKind
    id: str | None
    """The SSE id."""
    sequence: int | None
    run_id: str | None
    tool_call_id: str | None
    preview: str
    note: str
    """What is unusual about the event, in a few words; usually empty."""
    start: int
    """Offset of its first byte in the decoded body; `end` is the offset after its last byte."""
    end: int
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, seen: SeenFrame, facts: EventFacts, gap_ns: int, findings: tuple[Finding, ...] = ()) -> "EventRow":
        """The row of an event."""
        return cls(
            event=seen.event or 0,
            time_ns=seen.time_ns,
            gap_ns=gap_ns,
            type=facts.type,
            kind=facts.kind,
            id=facts.id,
            sequence=facts.sequence,
            run_id=facts.run_id,
            tool_call_id=facts.tool_call_id,
            preview=truncate(facts.text),
            note=facts.note,
            start=seen.frame.start,
            end=seen.frame.end,
            findings=findings,
        )


@dataclass(frozen=True, slots=True)
class DeltaRow:
    """Consecutive deltas of the same type and the same run."""

    event: int
    """Number of the first delta; `last_event` is the number of the last."""
    last_event: int
    time_ns: int
    gap_ns: int
    until_ns: int
    """When the last delta arrived."""
    type: str
    run_id: str | None
    count: int
    characters: int
    preview: str
    """The beginning of the joined text."""
    start: int
    end: int

    @classmethod
    def of(cls, seen: SeenFrame, facts: EventFacts, gap_ns: int) -> "DeltaRow":
        """The row of a single delta."""
        return cls(
            event=seen.event or 0,
            last_event=seen.event or 0,
            time_ns=seen.time_ns,
            gap_ns=gap_ns,
            until_ns=seen.time_ns,
            type=facts.type,
            run_id=facts.run_id,
            count=1,
            characters=facts.characters,
            preview=facts.text[:PREVIEW],
            start=seen.frame.start,
            end=seen.frame.end,
        )

    def extended(self, seen: SeenFrame, facts: EventFacts) -> "DeltaRow":
        """The row with one more delta."""
        room = PREVIEW - len(self.preview)
        return DeltaRow(
            event=self.event,
            last_event=seen.event or 0,
            time_ns=self.time_ns,
            gap_ns=self.gap_ns,
            until_ns=seen.time_ns,
            type=self.type,
            run_id=self.run_id,
            count=self.count + 1,
            characters=self.characters + facts.characters,
            preview=self.preview + facts.text[:room] if room else self.preview,
            start=self.start,
            end=seen.frame.end,
        )


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
