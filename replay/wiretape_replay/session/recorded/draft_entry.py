"""A draft of a log entry, while its position and its time may still change.  Pure: no I/O, no clock."""

import sys
from dataclasses import dataclass

from wiretape.observations import Ending
from wiretape.rules import ParsedEvent, Shape
from wiretape_replay.session.session_log import EntryKind, LogEntry


@dataclass(slots=True, eq=False)
class DraftEntry:
    """What an entry will hold.  Equal to itself only."""

    kind: EntryKind
    time_ns: int
    """Its time in the recording."""
    data: bytes
    exchange: int
    """The exchange that carried it; 0 if none did."""
    event: int | None = None
    id: str | None = None
    type: str | None = None
    sequence: int | None = None
    run_id: str | None = None
    tool_call_id: str | None = None
    ending: Ending | None = None
    findings: tuple[str, ...] = ()
    last_exchange: int = 0
    """The last exchange found to carry it."""
    index: int = -1
    """Its index among the durable events of its session, once they are in order."""

    @property
    def key(self) -> str | int | None:
        """What the copies of a durable event have in common: the id, or the sequence if it has no id."""
        return self.sequence if self.id is None else self.id

    def take_over(self, earlier: "DraftEntry") -> None:
        """Take the content of a copy of the same event that arrived earlier."""
        self.time_ns, self.data = earlier.time_ns, earlier.data
        self.exchange, self.event = earlier.exchange, earlier.event
        self.type, self.sequence = earlier.type, earlier.sequence
        self.run_id, self.tool_call_id = earlier.run_id, earlier.tool_call_id

    def finish(self, origin_ns: int) -> LogEntry:
        """The entry, in a log that begins at `origin_ns` of the recording."""
        return LogEntry(
            self.kind,
            self.time_ns - origin_ns,
            self.data,
            self.id,
            self.type,
            self.sequence,
            self.run_id,
            self.tool_call_id,
            self.ending,
            (self.exchange, self.event) if self.exchange else None,
            self.findings,
        )


def draft_of_message(message: ParsedEvent, exchange: int) -> DraftEntry:
    """The draft for a message, read as the rules read it.

    A message with an id is durable, whatever else it contains, because clients may resume with that id.  So is an
    event with a sequence and no id, although no cursor names it.
    """
    event_id = _id_of(message)
    is_durable = event_id is not None or (message.shape is Shape.DURABLE and message.sequence is not None)
    calls = message.tool_call_ids
    return DraftEntry(
        EntryKind.DURABLE if is_durable else EntryKind.EPHEMERAL,
        message.time_ns,
        message.frame.raw,
        exchange,
        message.number,
        event_id,
        _interned(message.type),
        message.sequence,
        _interned(message.run_id),
        _interned(calls[0]) if calls else None,
    )


def _id_of(message: ParsedEvent) -> str | None:
    """The id as a client would send it back; bytes that are not UTF-8 become U+FFFD."""
    if message.id is None and message.has_id:
        return message.frame.id or None
    return message.id


def _interned(text: str | None) -> str | None:
    """The same text, held in memory once."""
    return None if text is None else sys.intern(text)
