"""A piece of a recorded stream, on its way to become an entry of a log.  Pure: no I/O, no clock."""

import sys
from dataclasses import dataclass

from wiretape.observations import Ending
from wiretape.rules import ParsedEvent, Shape
from wiretape_replay.session.session_log import EntryKind, LogEntry


@dataclass(slots=True, eq=False)
class DraftEntry:
    """What an entry holds, while its place and its time may still change.  Equal to itself only."""

    kind: EntryKind
    time_ns: int
    """When it came, in the time of the recording."""
    data: bytes
    exchange: int
    """From which it is; 0 when it is from none."""
    event: int | None = None
    id: str | None = None
    type: str | None = None
    sequence: int | None = None
    run_id: str | None = None
    tool_call_id: str | None = None
    ending: Ending | None = None
    findings: tuple[str, ...] = ()
    carried_by: int = 0
    """The last exchange that was seen to carry it."""
    place: int = -1
    """Among the durable events of its session, once these are in order."""

    @property
    def key(self) -> str | int | None:
        """What joins the copies of a durable event: its id, or its sequence when it has none."""
        return self.sequence if self.id is None else self.id

    def become(self, other: "DraftEntry") -> None:
        """Be what `other` is: a copy of the event that came before this one."""
        self.time_ns, self.data, self.exchange, self.event = other.time_ns, other.data, other.exchange, other.event
        self.type, self.sequence = other.type, other.sequence
        self.run_id, self.tool_call_id = other.run_id, other.tool_call_id

    def entry(self, time_ns: int) -> LogEntry:
        """The entry at that time of the log."""
        return LogEntry(
            self.kind,
            time_ns,
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
    """The piece for a message, read as the rules read it.

    With an id, whatever else it is, it is durable: clients may come back with that id.  A sequence alone says as much,
    though then no cursor names it.
    """
    identity = _id_of(message)
    durable = identity is not None or (message.shape is Shape.DURABLE and message.sequence is not None)
    calls = message.tool_call_ids
    return DraftEntry(
        EntryKind.DURABLE if durable else EntryKind.EPHEMERAL,
        message.time_ns,
        message.frame.raw,
        exchange,
        message.number,
        identity,
        _shared(message.type),
        message.sequence,
        _shared(message.run_id),
        _shared(calls[0]) if calls else None,
    )


def _id_of(message: ParsedEvent) -> str | None:
    """The id as its reader would send it back; one that is no UTF-8 with U+FFFD in it."""
    if message.id is None and message.has_id:
        return message.frame.id or None
    return message.id


def _shared(text: str | None) -> str | None:
    """The same text, held once however often it comes."""
    return None if text is None else sys.intern(text)
