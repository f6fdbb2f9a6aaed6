"""The durable events of a session, each once however often it was replayed, in order.  Pure: no I/O, no clock."""

from wiretape.frame_reader import SeenFrame
from wiretape.rules import ParsedEvent, json_hash
from wiretape.sse import Frame, FrameKind, Parser
from wiretape_replay.session.recorded.draft_entry import DraftEntry
from wiretape_replay.session.recorded.log_warnings import LogWarnings


class DurableEvents:
    """Takes durable events as connections carried them, and tells copies from new ones."""

    def __init__(self, odd: LogWarnings) -> None:
        self._odd = odd
        self._known: dict[str | int | None, DraftEntry] = {}
        self._others: dict[str | int | None, list[DraftEntry]] = {}
        """Different events with the id of one that is known."""

    def __len__(self) -> int:
        return len(self._known) + sum(map(len, self._others.values()))

    def find(self, identity: str | None) -> DraftEntry | None:
        """The event that came first with this id."""
        return None if identity is None else self._known.get(identity)

    def take(self, piece: DraftEntry) -> DraftEntry | None:
        """The event that `piece` is a copy of, or itself when it is new; None when it came on this connection before.

        Of the copies of an event the one that came first is kept.
        """
        first = self._known.setdefault(piece.key, piece)
        if first is piece:
            piece.carried_by = piece.exchange
            return piece
        event = first if first.data == piece.data else self._original(first, piece)
        if piece.findings:
            event.findings = tuple(dict.fromkeys(event.findings + piece.findings))
        if piece.time_ns < event.time_ns:
            event.become(piece)
        if event.carried_by == piece.exchange:
            self._odd.repeated.append(str(piece.key))
            return None
        event.carried_by = piece.exchange
        return event

    def _original(self, first: DraftEntry, piece: DraftEntry) -> DraftEntry:
        """What `piece`, in other bytes than the `first` of its id, is a copy of; or itself."""
        for other in self._others.get(piece.key, ()):
            if other.data == piece.data:
                return other
        if _content(first.data) == _content(piece.data):
            self._odd.respelled += 1
        elif first.carried_by == piece.exchange:
            self._odd.reused.append(str(piece.key))
            self._others.setdefault(piece.key, []).append(piece)
            return piece
        else:
            self._odd.changed.append(str(piece.key))
        return first


def _content(raw: bytes) -> object:
    """What a frame says, in a form that can be compared: JSON as values."""
    frames = Parser(limit=len(raw), start=1).feed(raw + _NEXT)
    frame = next(frame for frame in [*frames, _NO_FRAME] if frame.kind is FrameKind.MESSAGE)
    message = ParsedEvent(SeenFrame(frame, 0, 1))
    said = json_hash(message) if message.document else None
    return message.event_line, message.data if said is None else said


_NEXT = b":"
"""Stands for the frame behind: only with it is a frame that ends with CR certain to be whole."""
_NO_FRAME = Frame(FrameKind.MESSAGE, 0, b"")
