"""Apply faults to the events of one stream.  Pure: no I/O, no clock."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wiretape_replay.faults.event_mutation import can_mutate, interruption, mutate, resync_frame
from wiretape_replay.faults.fault_counter import FaultCounter
from wiretape_replay.faults.fault_labels import event_fault_line
from wiretape_replay.faults.fault_script import (
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    Fault,
    FaultRequest,
    Oversize,
    Position,
    Reorder,
    Reset,
    Resync,
    Split,
    Stall,
)
from wiretape_replay.faults.instructions import Instruction, LogFault, Send, is_final, until_final
from wiretape_replay.session.session_log import LogEntry

_ORDER: dict[type, int] = {Corrupt: 0, Oversize: 1, Split: 2, Drop: 3, Reset: 3, Stall: 4, Delay: 4, Duplicate: 5}
"""The order in which the faults of one event are applied, whatever the script's order: bytes change before cuts."""


class StreamFaults:
    """The faults of one stream."""

    def __init__(self, counter: FaultCounter, request: FaultRequest, faults: tuple[Fault, ...]) -> None:
        """`faults` are those that apply to events of this stream."""
        self._counter = counter
        self._request = request
        self._at = {position: [fault for fault in faults if fault.position is position] for position in Position}
        self._at[Position.AT].sort(key=lambda fault: _ORDER.get(type(fault), len(_ORDER)))
        self._number = 0
        self._delayed: list[_DelayedEvent] = []
        self._is_over = False

    def apply(self, entry: LogEntry) -> Iterator[Instruction]:
        """What to send instead of an event or comment of the log; nothing once an instruction ended the stream.

        Endings of the log are the caller's, who calls `flush` before one.
        """
        if not self._is_over:
            yield from self._until_final(self._apply(entry))

    def flush(self) -> Iterator[Instruction]:
        """Send the delayed events, because the stream is about to end or nothing more can follow."""
        delayed, self._delayed = self._delayed, []
        if not self._is_over:
            yield from self._until_final(instruction for event in delayed for instruction in event.instructions)

    def _until_final(self, instructions: Iterable[Instruction]) -> Iterator[Instruction]:
        for instruction in until_final(instructions):
            self._is_over = is_final(instruction)
            yield instruction

    def _apply(self, entry: LogEntry) -> Iterator[Instruction]:
        if not entry.is_event:
            yield Send(entry.data)
            return
        self._number += 1
        for fault in self._matching(Position.BEFORE, entry):
            yield from self._insert(fault, entry)
        reorder = self._reorder_fault(entry)
        if reorder is not None:
            yield self._log(reorder, entry)
            instructions = tuple(until_final(self._event(entry)))
            self._delayed.append(_DelayedEvent(reorder, reorder.by, instructions))
            return
        yield from self._event(entry)
        yield from self._due_events()

    def _event(self, entry: LogEntry) -> Iterator[Instruction]:
        """The event, and the faults after it."""
        instructions: list[Instruction] = [Send(entry.data)]
        for fault in self._matching(Position.AT, entry):
            if isinstance(fault, Reorder) or any(is_final(instruction) for instruction in instructions):
                continue
            if can_mutate(fault, instructions) and self._should_apply(fault):
                yield self._log(fault, entry)
                random = self._counter.random(fault, "what", *self._where)
                instructions = mutate(fault, instructions, random) or instructions
        yield from instructions
        if not any(is_final(instruction) for instruction in instructions):
            for fault in self._matching(Position.AFTER, entry):
                yield from self._insert(fault, entry)

    def _insert(self, fault: Fault, entry: LogEntry) -> Iterator[Instruction]:
        """Apply a fault before or after an event."""
        if self._should_apply(fault):
            yield self._log(fault, entry)
            if isinstance(fault, Resync):
                yield Send(resync_frame(entry, self._request.session, fault.id, fault.sequence))
            elif isinstance(fault, Drop | Reset | Stall | Delay):
                yield interruption(fault)

    def _reorder_fault(self, entry: LogEntry) -> Reorder | None:
        """The fault that delays this event.

        A fault that delays another event already does not: the two would keep their order.
        """
        busy = {event.fault.name for event in self._delayed}
        for fault in self._matching(Position.AT, entry):
            if isinstance(fault, Reorder) and fault.name not in busy and self._should_apply(fault):
                return fault
        return None

    def _due_events(self) -> Iterator[Instruction]:
        """The delayed events that follow the event just sent."""
        for event in self._delayed:
            event.left -= 1
        due = [event for event in self._delayed if event.left == 0]
        self._delayed = [event for event in self._delayed if event.left]
        for event in due:
            yield from event.instructions

    def _matching(self, position: Position, entry: LogEntry) -> Iterator[Fault]:
        for fault in self._at[position]:
            events = fault.events
            if events is not None and events.matches(entry, self._number) and not self._counter.is_spent(fault):
                yield fault

    def _should_apply(self, fault: Fault) -> bool:
        return self._counter.should_apply(fault, *self._where)

    @property
    def _where(self) -> tuple[object, ...]:
        return self._request.session, self._request.connection, self._number

    def _log(self, fault: Fault, entry: LogEntry) -> LogFault:
        position = fault.position or Position.BEFORE
        return LogFault(fault.name, event_fault_line(fault, self._request, position, entry, self._number))


@dataclass(slots=True)
class _DelayedEvent:
    """An event that is sent later."""

    fault: Reorder
    left: int
    """After how many further events it is sent."""
    instructions: tuple[Instruction, ...]
