"""What faults do to the events of one stream.  Pure: no I/O, no clock."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wiretape_replay.faults import describing
from wiretape_replay.faults.actions import Action, Drop, Mark, Reset, Wait, Write, ends, until_over
from wiretape_replay.faults.changes import resync
from wiretape_replay.faults.deed import Corrupt, Cut, Duplicate, Oversize, Pause, Reorder, Resync, Split
from wiretape_replay.faults.script import Fault, Moment, Request
from wiretape_replay.faults.tally import Tally
from wiretape_replay.faults.within import can_be_done, done_to
from wiretape_replay.session.session_log import LogEntry

_ORDER = (Corrupt, Oversize, Split, Cut, Pause, Duplicate)
"""In which order an event's faults are done to it, whatever the script's: bytes are changed before they are cut."""


class StreamFaults:
    """What is done to the events of one stream."""

    def __init__(self, tally: Tally, request: Request, here: tuple[Fault, ...]) -> None:
        """`here`: the faults that are addressed at events of this stream."""
        self._tally = tally
        self._request = request
        self._of = {moment: [fault for fault in here if _moment(fault) is moment] for moment in Moment}
        self._within = sorted(self._of[Moment.AT], key=_rank)
        self._number = 0
        self._held: list[_Held] = []
        self._over = False

    def entry(self, entry: LogEntry) -> Iterator[Action]:
        """What is sent instead of an event or comment of the log.

        Nothing more once an action has ended the stream.  Endings of the log are the caller's, who asks `flush`
        before one.
        """
        if self._over:
            return
        for action in until_over(self._entry(entry)):
            self._over = ends(action)
            yield action

    def flush(self) -> Iterator[Action]:
        """The stream is about to end, or nothing more can come: what was held back."""
        held, self._held = self._held, []
        if not self._over:
            for action in until_over(action for one in held for action in one.actions):
                self._over = ends(action)
                yield action

    def _entry(self, entry: LogEntry) -> Iterator[Action]:
        if not entry.is_event:
            yield Write(entry.data)
            return
        self._number += 1
        for fault in self._addressed(self._of[Moment.BEFORE], entry):
            yield from self._between(fault, entry)
        holder = self._holder(entry)
        if holder is not None:
            yield self._mark(holder, entry)
            by = holder.deed.by if isinstance(holder.deed, Reorder) else 1
            self._held.append(_Held(holder, by, tuple(until_over(self._event(entry)))))
            return
        yield from self._event(entry)
        yield from self._due()

    def _event(self, entry: LogEntry) -> Iterator[Action]:
        """The event, and what comes after it."""
        actions: list[Action] = [Write(entry.data)]
        for fault in self._addressed(self._within, entry):
            if isinstance(fault.deed, Reorder) or any(ends(action) for action in actions):
                continue
            if can_be_done(fault, actions) and self._allows(fault):
                yield self._mark(fault, entry)
                actions = done_to(fault, actions, self._tally.chance(fault, "what", *self._where)) or actions
        yield from actions
        if not any(ends(action) for action in actions):
            for fault in self._addressed(self._of[Moment.AFTER], entry):
                yield from self._between(fault, entry)

    def _between(self, fault: Fault, entry: LogEntry) -> Iterator[Action]:
        if self._allows(fault):
            yield self._mark(fault, entry)
            yield _on_stream(fault, entry, self._request)

    def _holder(self, entry: LogEntry) -> Fault | None:
        """The fault that holds this event back; one that holds another does not, or nothing would change places."""
        busy = {held.fault.name for held in self._held}
        for fault in self._addressed(self._within, entry):
            if isinstance(fault.deed, Reorder) and fault.name not in busy and self._allows(fault):
                return fault
        return None

    def _due(self) -> Iterator[Action]:
        """An event was sent: those that were held back for it."""
        for held in self._held:
            held.left -= 1
        due = [held for held in self._held if held.left == 0]
        self._held = [held for held in self._held if held.left]
        for held in due:
            yield from held.actions

    def _addressed(self, faults: Iterable[Fault], entry: LogEntry) -> Iterator[Fault]:
        for fault in faults:
            if fault.events is not None and fault.events.fits(entry, self._number) and not self._tally.is_spent(fault):
                yield fault

    def _allows(self, fault: Fault) -> bool:
        return self._tally.allows(fault, *self._where)

    @property
    def _where(self) -> tuple[object, ...]:
        return self._request.session, self._request.connection, self._number

    def _mark(self, fault: Fault, entry: LogEntry) -> Mark:
        text = describing.on_event(fault, self._request, _moment(fault), entry, self._number)
        return Mark(fault.name, text)


@dataclass(slots=True)
class _Held:
    """An event that is sent later."""

    fault: Fault
    left: int
    """After how many events."""
    actions: tuple[Action, ...]


def _on_stream(fault: Fault, entry: LogEntry, request: Request) -> Action:
    """What stands before or after an event."""
    deed = fault.deed
    if isinstance(deed, Resync):
        return Write(resync(entry, request.session, deed.id, deed.sequence))
    if isinstance(deed, Pause):
        return Wait(deed.time_ns)
    return Reset() if isinstance(deed, Cut) and deed.reset else Drop()


def _moment(fault: Fault) -> Moment:
    return fault.events.moment if fault.events is not None else Moment.BEFORE


def _rank(fault: Fault) -> int:
    return _ORDER.index(type(fault.deed)) if isinstance(fault.deed, _ORDER) else len(_ORDER)
