"""The log of a session: what its streams carry, in order.  Pure: no I/O, no clock.

A log may grow while it is read: a recorded one is whole from the beginning, that of a service that is played by
a script gets longer.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from wiretape.contract import DELTA_TYPES
from wiretape.observations import Ending

_SPACE = " \t"


class EntryKind(StrEnum):
    """What an entry is to the stream that carries it."""

    DURABLE = "durable"
    """An event with an id.  Behind the playhead it is persisted: replayed to all who ask for what follows a cursor."""
    EPHEMERAL = "ephemeral"
    """An event without an id, or a comment.  Only who is connected when the playhead passes it gets it."""
    ENDING = "ending"
    """The service ended the streams that were connected here."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One thing at one place of the log."""

    kind: EntryKind
    time_ns: int
    """Since the log began; never less than that of the entry before."""
    data: bytes = b""
    """The frame, exactly as it is sent; empty for an ending."""
    id: str | None = None
    """The cursor of a durable event."""
    type: str | None = None
    """The event's type; None for comments and for what is no event of the service."""
    sequence: int | None = None
    run_id: str | None = None
    tool_call_id: str | None = None
    ending: Ending | None = None
    """How the streams ended, for an ending."""
    source: tuple[int, int | None] | None = None
    """Exchange and event number in the recording that it was taken from."""
    findings: tuple[str, ...] = ()
    """Codes of the recorded findings about it."""

    @property
    def is_event(self) -> bool:
        """Whether it is an event, and no comment or ending."""
        return self.type is not None or self.kind is EntryKind.DURABLE

    @property
    def is_delta(self) -> bool:
        """Whether it is sent only to those who ask for deltas."""
        return self.type in DELTA_TYPES


class SessionLog:
    """The entries of one session.  A *place* is an index into them; place `len(log)` is behind the last."""

    def __init__(self, session_id: str, entries: Sequence[LogEntry] = ()) -> None:
        self.session_id = session_id
        self.entries: list[LogEntry] = []
        self._places: dict[str, int] = {}
        self._stripped: dict[str, str | None] = {}
        """The id with space at its ends that is meant without it; None where several could be."""
        for entry in entries:
            self.append(entry)

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, entry: LogEntry) -> None:
        """Add an entry at the end.  Where an id comes twice, the first is the one that a cursor names."""
        if entry.kind is EntryKind.DURABLE and entry.id is not None:
            self.know(entry.id, len(self.entries))
        self.entries.append(entry)

    def know(self, cursor: str, place: int) -> None:
        """Let a cursor that no event here carries name `place`; -1 is in front of all.

        So a client goes on whose cursor was given out before the log begins.
        """
        self._places.setdefault(cursor, place)
        stripped = cursor.strip(_SPACE)
        if stripped != cursor and self._stripped.setdefault(stripped, cursor) != cursor:
            self._stripped[stripped] = None

    def after_time(self, time_ns: int) -> int:
        """The place behind everything that came by `time_ns`."""
        return bisect_right(self.entries, time_ns, key=lambda entry: entry.time_ns)

    def after_sequence(self, sequence: int) -> int | None:
        """The place behind the durable event with this sequence; None when the log has none."""
        found = (place for place, entry in enumerate(self.entries, 1) if entry.sequence == sequence)
        return next(found, None)

    def place_of(self, cursor: str) -> int | None:
        """The place of the durable event that `cursor` names, or that it is known by; None when there is none.

        HTTP takes away the space around what a header says (RFC 9110, 5.5), so that an id with space at its ends is
        also named without it, unless that is another id.
        """
        if cursor in self._places:
            return self._places[cursor]
        spaced = self._stripped.get(cursor.strip(_SPACE))
        return None if spaced is None else self._places[spaced]
