"""Rows from frames: those of messages, and what a pause grows into.  Pure."""

from dataclasses import dataclass, replace

from wiretape.frame_reader import SeenFrame
from wiretape.rules import Finding
from wiretape_inspect.facts import PREVIEW, Facts, short
from wiretape_inspect.view.rows import DeltaRow, EventRow, PauseRow


@dataclass(slots=True)
class Pause:
    """What came since the last message."""

    since_ns: int
    byte_ns: int
    keep_alives: int = 0
    comment: str = ""
    silence_ns: int = 0
    findings: tuple[Finding, ...] = ()

    def heard(self, time_ns: int) -> None:
        """Bytes came that are no message."""
        self.silence_ns = max(self.silence_ns, time_ns - self.byte_ns)
        self.byte_ns = time_ns

    def row(self, until_ns: int) -> PauseRow | None:
        """The row that it makes, if it is worth one."""
        row = PauseRow(self.since_ns, until_ns, self.keep_alives, self.comment, self.silence_ns, self.findings)
        return row if row.gap or self.keep_alives or self.findings else None


def delta_row(seen: SeenFrame, facts: Facts, gap_ns: int) -> DeltaRow:
    """A run of deltas that begins with this one."""
    return DeltaRow(
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


def event_row(seen: SeenFrame, facts: Facts, gap_ns: int, findings: tuple[Finding, ...] = ()) -> EventRow:
    """A message as a row of its own."""
    return EventRow(
        event=seen.event or 0,
        time_ns=seen.time_ns,
        gap_ns=gap_ns,
        type=facts.type,
        standing=facts.standing,
        id=facts.id,
        sequence=facts.sequence,
        run_id=facts.run_id,
        tool_call_id=facts.tool_call_id,
        preview=short(facts.text),
        note=facts.note,
        start=seen.frame.start,
        end=seen.frame.end,
        findings=findings,
    )


def longer(row: DeltaRow, seen: SeenFrame, facts: Facts) -> DeltaRow:
    """A run of deltas with one more."""
    room = PREVIEW - len(row.preview)
    return replace(
        row,
        last_event=seen.event or 0,
        until_ns=seen.time_ns,
        count=row.count + 1,
        characters=row.characters + facts.characters,
        preview=row.preview + facts.text[:room] if room else row.preview,
        end=seen.frame.end,
    )
