"""The durable events of a session: each once, however often it was replayed, and in order.  Pure: no I/O, no clock."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from wiretape.frame_reader import SeenFrame
from wiretape.rules import ParsedEvent, format_number, json_hash
from wiretape.sse import Frame, FrameKind, Parser
from wiretape_replay.session.recorded.draft_entry import DraftEntry
from wiretape_replay.session.recorded.log_warnings import LogWarnings


class DurableEvents:
    """Collects durable events as connections carried them, and recognises copies."""

    def __init__(self, warnings: LogWarnings) -> None:
        self._warnings = warnings
        self._first: dict[str | int | None, DraftEntry] = {}
        """The first event with each id."""
        self._reused: dict[str | int | None, list[DraftEntry]] = {}
        """Different events with the id of the first."""

    def find(self, event_id: str | None) -> DraftEntry | None:
        """The first event with this id."""
        return None if event_id is None else self._first.get(event_id)

    def add(self, draft: DraftEntry) -> DraftEntry | None:
        """Add an event.  Return the event that it is a copy of, or `draft` itself if it is new.

        Return None if the same connection carried it before.  Of all copies, the earliest one is kept.
        """
        first = self._first.setdefault(draft.key, draft)
        if first is draft:
            draft.last_exchange = draft.exchange
            return draft
        event = first if first.data == draft.data else self._find_original(first, draft)
        if draft.findings:
            event.findings = tuple(dict.fromkeys(event.findings + draft.findings))
        if draft.time_ns < event.time_ns:
            event.take_over(draft)
        if event.last_exchange == draft.exchange:
            self._warnings.repeated.append(str(draft.key))
            return None
        event.last_exchange = draft.exchange
        return event

    def _find_original(self, first: DraftEntry, draft: DraftEntry) -> DraftEntry:
        """The event of which `draft`, with other bytes than the first of its id, is a copy; or `draft` itself."""
        for other in self._reused.get(draft.key, ()):
            if other.data == draft.data:
                return other
        if _content(first.data) == _content(draft.data):
            self._warnings.respelled += 1
        elif first.last_exchange == draft.exchange:
            self._warnings.reused.append(str(draft.key))
            self._reused.setdefault(draft.key, []).append(draft)
            return draft
        else:
            self._warnings.changed.append(str(draft.key))
        return first


def sort_events(connections: Sequence[Sequence[DraftEntry]]) -> tuple[list[DraftEntry], str]:
    """Every event once, in order; and why they are not in the order of their sequences, empty if they are.

    Each item of `connections` holds the events of one connection, each event once, in the order in which they
    arrived.  The connections are in the order of their beginning.
    """
    events = list(dict.fromkeys(event for carried in connections for event in carried))
    problem = _sequence_problem(connections, events)
    ordered = _sort_by_arrival(connections) if problem else sorted(events, key=attrgetter("sequence"))
    for index, event in enumerate(ordered):
        event.index = index
    return ordered, problem


def _sequence_problem(connections: Sequence[Sequence[DraftEntry]], events: Sequence[DraftEntry]) -> str:
    """Why the sequences define no order; empty if they do."""
    without_sequence = sum(event.sequence is None for event in events)
    if without_sequence:
        return f"{without_sequence} of its {len(events)} durable events have no sequence"
    for carried in connections:
        for before, after in pairwise(carried):
            if (after.sequence or 0) <= (before.sequence or 0):
                later, earlier = format_number(after.sequence or 0), format_number(before.sequence or 0)
                return f"on one connection, sequence {later} comes after sequence {earlier}"
    if len({event.sequence for event in events}) < len(events):
        return "different events have the same sequence"
    return ""


def _sort_by_arrival(connections: Sequence[Sequence[DraftEntry]]) -> list[DraftEntry]:
    """By time; but events that a connection replayed before a known event stay before that event."""
    known: set[DraftEntry] = set()
    predecessors: dict[DraftEntry, list[DraftEntry]] = {}
    unbound: list[DraftEntry] = []
    for carried in connections:
        new: list[DraftEntry] = []
        for event in carried:
            if event not in known:
                new.append(event)
            elif new:
                predecessors.setdefault(event, []).extend(new)
                new = []
        unbound += new
        known.update(carried)
    unbound.sort(key=attrgetter("time_ns"))
    return list(_insert_predecessors(unbound, predecessors))


def _insert_predecessors(
    events: Sequence[DraftEntry], predecessors: dict[DraftEntry, list[DraftEntry]]
) -> Iterator[DraftEntry]:
    """Each event, after its predecessors."""
    stack = list(reversed(events))
    while stack:
        before = predecessors.pop(stack[-1], None)
        if before is None:
            yield stack.pop()
        else:
            stack += reversed(before)


def _content(raw: bytes) -> object:
    """The content of a frame in a comparable form: JSON as values."""
    frames = Parser(limit=len(raw), start=1).feed(raw + _NEXT_FRAME)
    frame = next(frame for frame in [*frames, _NO_FRAME] if frame.kind is FrameKind.MESSAGE)
    message = ParsedEvent(SeenFrame(frame, 0, 1))
    value = json_hash(message) if message.document else None
    return message.event_line, message.data if value is None else value


_NEXT_FRAME = b":"
"""The beginning of another frame: only then is a frame that ends with CR known to be complete."""
_NO_FRAME = Frame(FrameKind.MESSAGE, 0, b"")
