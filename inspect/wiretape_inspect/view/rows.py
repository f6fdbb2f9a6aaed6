"""The rows of a stream: what the terminal prints and the page draws.  Pure: no I/O.

Events are canonical, rows are derived from them: a message has a row of its own, unless it is a
fragment of a run of like fragments (`DeltaRow`) or one of the keep-alives of a pause (`PauseRow`).
What a finding points at is never folded away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wiretape.frame_reader import STREAM_START, StreamPosition
from wiretape.observations import Ending
from wiretape.rules import Finding
from wiretape_inspect.facts import Standing

GAP_NS = 1_000_000_000
"""From this long on, time without a message is marked."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One message."""

    event: int
    """Which message of the connection it is, from 1."""
    time_ns: int
    gap_ns: int
    """Time since the message before, or since the response began."""
    type: str
    """The JSON `type`, else the name on the `event:` line, else empty."""
    standing: Standing
    id: str | None
    """The SSE id."""
    sequence: int | None
    run_id: str | None
    tool_call_id: str | None
    preview: str
    note: str
    """What is odd about it, in a few words; mostly empty."""
    start: int
    """Offset of its first byte in the (decoded) body; `end` is just after its last."""
    end: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class DeltaRow:
    """A run of consecutive deltas of one type and one run."""

    event: int
    """The first one; `last_event` is the last."""
    last_event: int
    time_ns: int
    gap_ns: int
    until_ns: int
    """When the last one came."""
    type: str
    run_id: str | None
    count: int
    characters: int
    preview: str
    """How the joined text begins."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PauseRow:
    """Time without messages: a gap, or keep-alives (comments), or both."""

    time_ns: int
    """When the last message before it came; `until_ns` is when it ended."""
    until_ns: int
    keep_alives: int
    comment: str
    """What the first comment says."""
    silence_ns: int
    """The longest time in it without a single byte."""
    findings: tuple[Finding, ...] = ()

    @property
    def gap(self) -> bool:
        """Whether it was long enough to be marked as a gap."""
        return self.until_ns - self.time_ns >= GAP_NS


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes that are no message of their own."""

    time_ns: int
    preview: str
    start: int
    end: int
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class CutRow(_Piece):
    """Bytes of a message that the end of the body, or a hole in the recording, cut off.  No client saw it."""


@dataclass(frozen=True, slots=True)
class OversizedRow(_Piece):
    """A message over the parser's size limit, which is passed on but not looked into."""


@dataclass(frozen=True, slots=True)
class LostRow:
    """Bytes that passed but were not recorded."""

    time_ns: int
    count: int
    start: int
    why: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class EndRow:
    """How the stream ended, and what it held."""

    ending: Ending
    words: str
    """The ending for people; says when it came in the middle of an event."""
    detail: str
    time_ns: int | None
    """None while it is open."""
    gap_ns: int
    durable: int
    deltas: int
    ephemeral: int
    """Messages that are neither."""
    keep_alives: int
    undecodable: str | None
    """Why the rest of an encoded body cannot be shown."""
    findings: tuple[Finding, ...] = ()
    """Those that belong to no row above."""

    @property
    def events(self) -> int:
        """All messages."""
        return self.durable + self.deltas + self.ephemeral


StreamRow = EventRow | DeltaRow | PauseRow | CutRow | OversizedRow | LostRow | EndRow


class FindingsOf:
    """The findings of one exchange, handed out once each to the row that they belong to."""

    def __init__(self, findings: Sequence[Finding], place: StreamPosition = STREAM_START) -> None:
        """Those before `place` have been handed out."""
        self._by_event: dict[int, list[Finding]] = {}
        self._placed: list[tuple[int, Finding]] = []
        self._other: list[Finding] = []
        for finding in findings:
            if finding.event is not None:
                if not 0 < finding.event <= place.events:
                    self._by_event.setdefault(finding.event, []).append(finding)
            elif finding.byte_offset is not None:
                if finding.byte_offset >= place.start:
                    self._placed.append((finding.byte_offset, finding))
            else:
                self._other.append(finding)
        self._placed.sort(key=lambda placed: placed[0], reverse=True)

    def of(self, event: int | None, end: int) -> tuple[Finding, ...]:
        """Those of message number `event`, and those that name no message but bytes before offset `end`."""
        taken = self._by_event.pop(event, []) if event is not None else []
        while self._placed and self._placed[-1][0] < end:
            taken.append(self._placed.pop()[1])
        return tuple(taken)

    def rest(self) -> tuple[Finding, ...]:
        """All that nobody has asked for."""
        left = [finding for findings in self._by_event.values() for finding in findings]
        return (*left, *(finding for _, finding in reversed(self._placed)), *self._other)
