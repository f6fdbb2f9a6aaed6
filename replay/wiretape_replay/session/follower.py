"""One stream on a log: which entries it carries.  Pure: no I/O, no clock.

The rule that answers every question: durable events behind the playhead are persisted, and a stream begins with
those after its cursor; everything ahead of the playhead is live, and comes as the playhead passes it.
"""

from collections.abc import Iterator

from wiretape_replay.session.session_log import EntryKind, LogEntry, SessionLog


class UnknownCursorError(LookupError):
    """The cursor names no persisted event."""


class Follower:
    """Says what one connected stream is to be sent next."""

    def __init__(self, log: SessionLog, playhead: int, *, cursor: str | None, deltas: bool) -> None:
        """`playhead` is its place when the client connected.

        Raises UnknownCursorError for a cursor that names no event behind the playhead: the service cannot have
        given it out.
        """
        self._log = log
        self._live = playhead
        self._deltas = deltas
        self._next = 0
        if cursor is not None:
            place = log.place_of(cursor)
            if place is None or place >= playhead:
                raise UnknownCursorError(cursor)
            self._next = place + 1

    @property
    def place(self) -> int:
        """The place of the entry that is looked at next."""
        return self._next

    def take(self, playhead: int) -> Iterator[LogEntry]:
        """What the stream carries up to the playhead, which may have moved; in the log's order, each entry once."""
        while self._next < min(playhead, len(self._log)):
            entry = self._log.entries[self._next]
            self._next += 1
            if self._carries(entry):
                yield entry

    def _carries(self, entry: LogEntry) -> bool:
        if self._next <= self._live:
            return entry.kind is EntryKind.DURABLE
        return self._deltas or not entry.is_delta
