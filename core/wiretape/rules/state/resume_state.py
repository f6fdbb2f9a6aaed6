"""State of the replay on a stream that was opened with a cursor."""

from wiretape.event import Event
from wiretape.rules.finding import Location
from wiretape.rules.state.event_log import EventLog, KnownEvent


class ResumeState:
    """Which events one connection has to replay, and which it has replayed.

    The replay ends with a durable event that was not seen before the connection was opened, or with the connection.
    Only events seen before then can be expected.
    """

    __slots__ = (
        "_log",
        "cursor",
        "cursor_ns",
        "expected",
        "has_live_output",
        "has_losses",
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
        # The service may continue after any event with that id.
        known = None if log.is_ambiguous(cursor) else log.events.get(cursor)
        self.cursor = cursor
        self.opened_ns = opened_ns
        self.sequence = known.sequence if known is not None else None
        """The sequence of the cursor's event, if the recording shows it."""
        self.cursor_ns = known.first_ns if known is not None else 0
        """When the cursor's event was first seen."""
        self.expected = {} if known is None else log.after(known, opened_ns)
        """For each event that is still to be replayed, by id, its sequence and when it was first seen, in order."""
        self.is_partly_known = self.sequence is None or (
            log.dropped_up_to is not None and self.sequence < log.dropped_up_to
        )
        """Whether more events may have to be replayed than are known."""
        self.missing: dict[str, None] = {}
        """The events that the replay skipped."""
        self._log = log
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

    def is_up_to_cursor(self, event: Event) -> bool:
        """Whether the sequence of an event is not above that of the cursor."""
        return self.sequence is not None and event.sequence is not None and event.sequence <= self.sequence

    def precedes_cursor(self, known: KnownEvent | None) -> bool:
        """Whether an event with a lower sequence, of which `known` is kept, is one before the cursor.

        If the sequences of the session are out of order, the order in which its events were first seen decides.
        """
        return not self._log.has_disorder or (known is not None and known.first_ns <= self.cursor_ns)

    def is_replay(self, known: KnownEvent | None) -> bool:
        """Whether an event, of which `known` is kept, was seen before the connection was opened."""
        return known is not None and known.first_ns < self.opened_ns

    def skips(self, sequence: int) -> bool:
        """Whether events before `sequence` are still to be replayed."""
        return not self.is_over and next(iter(self.expected.values()), (sequence, 0))[0] < sequence

    def add(self, event: Event, known: KnownEvent | None) -> None:
        """Add an event with an id or a sequence that arrived before the replay was over."""
        identity = event.cursor or ""
        if identity in self.missing:
            del self.missing[identity]
            self.has_replayed = True
            return
        first_ns = event.time_ns if known is None else known.first_ns
        sequence, first_ns = self.expected.pop(identity, (event.sequence, first_ns))
        if sequence is not None:
            self._skip_to(sequence, first_ns, event)
        if self.is_replay(known):
            self.has_replayed = True
        elif event.is_durable and event.sequence is not None:
            self.is_over = True

    def _skip_to(self, sequence: int, first_ns: int, event: Event) -> None:
        """Move the expected events before an event with that sequence, first seen at that time, to the missing ones."""
        while self.expected:
            identity, (other, other_ns) = next(iter(self.expected.items()))
            if other > sequence or (self._log.has_disorder and other_ns > first_ns):
                return
            del self.expected[identity]
            # An event may arrive under another id, which SEQ002 reports.
            if other < sequence:
                self.missing[identity] = None
                self.location = self.location or Location.of(event)
