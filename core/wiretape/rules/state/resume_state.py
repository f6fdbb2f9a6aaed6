"""State of the replay on a stream that was opened with a cursor."""

from wiretape.rules.finding import Location
from wiretape.rules.parsed_event import ParsedEvent
from wiretape.rules.state.event_log import EventLog, KnownEvent


class ResumeState:
    """Which events one connection has to replay, and which it has replayed.

    The replay ends with a durable event that was not seen before the connection was opened, or with the connection.
    Only events seen before then can be expected.
    """

    __slots__ = (
        "cursor",
        "cursor_ns",
        "expected",
        "has_late_replay",
        "has_live_output",
        "has_losses",
        "has_repetition",
        "has_replayed",
        "is_checked",
        "is_over",
        "is_partly_known",
        "location",
        "missing",
        "opened_ns",
        "sequence",
    )

    def __init__(self, cursor: str, opened_ns: int, log: EventLog) -> None:
        known = log.events.get(cursor)
        self.cursor = cursor
        self.opened_ns = opened_ns
        self.sequence = known.sequence if known is not None else None
        """The sequence of the cursor's event, if the recording shows it."""
        self.cursor_ns = known.first_ns if known is not None else 0
        """When the cursor's event was first seen."""
        self.expected: dict[str, int] = {} if self.sequence is None else log.after(self.sequence, opened_ns)
        """The sequence of each event that is still to be replayed, by id, in ascending order."""
        self.is_partly_known = self.sequence is None or (
            log.dropped_up_to is not None and self.sequence < log.dropped_up_to
        )
        """Whether more events may have to be replayed than are known."""
        self.missing: dict[str, int] = {}
        """The events that the replay skipped."""
        self.location: Location | None = None
        """The first event after a missing one."""
        self.has_replayed = False
        """Whether any event was replayed."""
        self.has_losses = False
        """Whether replayed events may have been lost."""
        self.is_over = False
        self.is_checked = False
        """Whether the rules about the whole replay have run."""
        self.has_live_output = False
        """Whether an ephemeral event has arrived."""
        self.has_repetition = False
        """Whether an event arrived that is not after the cursor (RES001)."""
        self.has_late_replay = False
        """Whether an event was replayed after live output had begun (RES004)."""

    def is_replay(self, known: KnownEvent | None) -> bool:
        """Whether an event, of which `known` is kept, was seen before the connection was opened."""
        return known is not None and known.first_ns < self.opened_ns

    def skips(self, sequence: int) -> bool:
        """Whether events before `sequence` are still to be replayed."""
        return not self.is_over and next(iter(self.expected.values()), sequence) < sequence

    def add(self, event: ParsedEvent, known: KnownEvent | None, exchange: int) -> None:
        """Add an event with an id or a sequence that arrived before the replay was over."""
        identity = event.id or ""
        sequence = self.expected.pop(identity, event.sequence)
        if self.missing.pop(identity, None) is not None:
            self.has_replayed = True
            return
        if sequence is not None:
            self._skip_to(sequence, event, exchange)
        if self.is_replay(known):
            self.has_replayed = True
        elif event.is_durable and event.sequence is not None:
            self.is_over = True

    def _skip_to(self, sequence: int, event: ParsedEvent, exchange: int) -> None:
        """Move the expected events before `sequence` to the missing ones."""
        while self.expected:
            identity = next(iter(self.expected))
            if self.expected[identity] > sequence:
                return
            other = self.expected.pop(identity)
            # An event may arrive under another id, which SEQ002 reports.
            if other < sequence:
                self.missing[identity] = other
                self.location = self.location or event.location(exchange)
