"""Decide which faults apply to which requests and events.  Pure: no I/O, no clock; randomness is seeded.

A random choice depends on the seed, the fault and the event or request it is about to hit, never on what other clients
do meanwhile.  Only `skip` and `times`, which count over all connections, depend on the order of requests.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from random import Random
from typing import Any

import msgspec

from wiretape.contract.contract_tables import ErrorCase
from wiretape.contract.service_terms import ErrorWriter
from wiretape.errors import InputError
from wiretape.http_headers import RETRY_AFTER
from wiretape.input_validation import choices_hint
from wiretape.labels import count_of
from wiretape.observations import reason_phrase
from wiretape.safe_text import shorten
from wiretape_replay.access.auth_and_rate_limits import limit_values
from wiretape_replay.access.contract_errors import error_response, plain_response, refuse
from wiretape_replay.channel.channel_log import LogEntry
from wiretape_replay.channel.channel_routing import ChannelFinder
from wiretape_replay.faults.fault_script import (
    TOO_MANY,
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    Error,
    EventSelector,
    ExpireCursor,
    Fault,
    FaultRequest,
    FaultScript,
    Hold,
    Insert,
    Oversize,
    Position,
    Reorder,
    Reset,
    Split,
    as_tuple,
    decode_fault,
)
from wiretape_replay.faults.frame_damage import (
    Instruction,
    LogFault,
    SendBytes,
    SendError,
    can_mutate,
    insert_frame,
    interruption,
    is_final,
    mutate,
    until_final,
)
from wiretape_replay.http_server.http_messages import HttpRequest, HttpResponse
from wiretape_replay.replayed_contracts import ReplayedContracts

_MOST_TYPES = 10


class FaultCounter:
    """Counts the faults of one server."""

    def __init__(self, seed: int) -> None:
        self.applied: Counter[str] = Counter()
        """How often each fault was applied in total, by its name."""
        self.considered: set[str] = set()
        """The names of the faults that were applied, or left out because of their probability."""
        self._since_rewind: Counter[str] = Counter()
        """How often each was applied since the last `rewind`: this is what `times` limits."""
        self._matched: Counter[str] = Counter()
        self._seed = seed

    def rewind(self) -> None:
        """Start over with `skip` and `times`; the totals stay."""
        self._since_rewind.clear()
        self._matched.clear()

    def should_apply(self, fault: Fault, *where: object) -> bool:
        """Count that a fault matches, and decide whether to apply it; `where` identifies the event or request."""
        self._matched[fault.name] += 1
        if self.is_spent(fault) or self._matched[fault.name] <= fault.skip:
            return False
        self.considered.add(fault.name)
        if fault.probability < 1 and self.random(fault, "whether", *where).random() >= fault.probability:
            return False
        self.applied[fault.name] += 1
        self._since_rewind[fault.name] += 1
        return True

    def is_spent(self, fault: Fault) -> bool:
        """Whether a fault was applied as often as its `times` allows."""
        return fault.times is not None and self._since_rewind[fault.name] >= fault.times

    def random(self, fault: Fault, *where: object) -> Random:
        """A random generator that is the same for the same fault and place."""
        return Random(repr((self._seed, fault.name, *where)))  # noqa: S311 - not used for security


_ORDER: dict[type, int] = {Corrupt: 0, Oversize: 1, Split: 2, Drop: 3, Reset: 3, Hold: 4, Delay: 4, Duplicate: 5}
"""The order in which the faults of one event are applied, whatever the script's order: bytes change before cuts."""


def _order(fault: Fault) -> int:
    return _ORDER.get(type(fault), len(_ORDER))


class StreamFaults:
    """The faults of one stream, also those that are added while it is connected."""

    def __init__(self, schedule: "FaultSchedule", request: FaultRequest) -> None:
        self._schedule = schedule
        self._counter = schedule.counter
        self._request = request
        self._selectors: list[tuple[Fault, EventSelector]] = []
        """The faults that apply to its events, in order."""
        self._version = -1
        self._number = 0
        self._delayed: list[_DelayedEvent] = []
        self._is_over = False

    @property
    def is_active(self) -> bool:
        """Whether events have to be passed to `apply`; if not, count them with `skip`."""
        if self._version != self._schedule.version:
            self._version, known = self._schedule.version, {id(fault): each for fault, each in self._selectors}
            event_format = self._request.described.facts.contract.format
            self._selectors = [
                (fault, known.get(id(fault)) or EventSelector(fault.events, event_format))
                for fault in self._schedule.active
                if fault.events is not None and fault.matches(self._request)
            ]
        return bool(self._selectors or self._delayed)

    def skip(self, entries: Iterable[LogEntry]) -> None:
        """Count the events among entries that are sent without faults."""
        self._number += sum(entry.is_event for entry in entries)

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
        if not entry.is_event or not self.is_active:
            self.skip([entry])
            yield SendBytes(entry.data)
            return
        self._number += 1
        if entry.type and len(self._schedule.event_types) < _MOST_TYPES:
            self._schedule.event_types[entry.type] = None
        faults = [fault for fault, selector in self._selectors if selector.selects(entry, self._number)]
        for fault in self._ready(faults, Position.BEFORE):
            yield from self._insert(fault, entry)
        reorder = self._reorder_fault(faults)
        if reorder is not None:
            yield self._log(reorder, entry)
            instructions = tuple(until_final(self._event(faults, entry)))
            self._delayed.append(_DelayedEvent(reorder, reorder.by, instructions))
            return
        yield from self._event(faults, entry)
        yield from self._due_events()

    def _event(self, faults: Sequence[Fault], entry: LogEntry) -> Iterator[Instruction]:
        """The event, and the faults after it."""
        instructions: list[Instruction] = [SendBytes(entry.data)]
        for fault in self._ready(sorted(faults, key=_order), Position.AT):
            if isinstance(fault, Reorder) or any(is_final(instruction) for instruction in instructions):
                continue
            if can_mutate(fault, instructions) and self._should_apply(fault):
                yield self._log(fault, entry)
                random = self._counter.random(fault, "what", *self._where)
                instructions = mutate(fault, instructions, random) or instructions
        yield from instructions
        if not any(is_final(instruction) for instruction in instructions):
            for fault in self._ready(faults, Position.AFTER):
                yield from self._insert(fault, entry)

    def _insert(self, fault: Fault, entry: LogEntry) -> Iterator[Instruction]:
        """Apply a fault before or after an event."""
        if self._should_apply(fault):
            yield self._log(fault, entry)
            if isinstance(fault, Insert):
                yield SendBytes(insert_frame(fault, entry, self._request))
            elif isinstance(fault, Drop | Reset | Hold | Delay):
                yield interruption(fault)

    def _reorder_fault(self, faults: Iterable[Fault]) -> Reorder | None:
        """The fault that delays this event.

        A fault that delays another event already does not: the two would keep their order.
        """
        busy = {event.fault.name for event in self._delayed}
        for fault in self._ready(faults, Position.AT):
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

    def _ready(self, faults: Iterable[Fault], position: Position) -> Iterator[Fault]:
        return (fault for fault in faults if fault.position is position and not self._counter.is_spent(fault))

    def _should_apply(self, fault: Fault) -> bool:
        return self._counter.should_apply(fault, *self._where)

    @property
    def _where(self) -> tuple[object, ...]:
        return self._request.channel, self._request.connection, self._number

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


@dataclass(frozen=True, slots=True)
class Injection:
    """The faults that apply to one request."""

    request: FaultRequest
    before: tuple[Instruction, ...] = ()
    """What to do before the response; if the last instruction is final, there is no other response."""
    stream: StreamFaults | None = None
    """What to do to the events of its stream; None if it opens none."""


Identify = Callable[[HttpRequest], FaultRequest]
"""Returns what decides which faults apply to a request."""


def identify_request(
    contracts: ReplayedContracts, request: HttpRequest, *, finder: ChannelFinder | None = None
) -> FaultRequest:
    """Return what decides which faults apply to a request; `finder` finds channels that no path names."""
    described = contracts.describe(request.method, request.target)
    opening = described.facts.read_opening(request)
    channel, stream = described.channel, None
    if opening is not None:
        found, stream = (None, None) if finder is None else finder.find(request, opening)
        channel = opening.channel if found is None else found.log.name
        if found is None and channel is not None:
            stream = f"channel {channel}"
    cursor = None if opening is None else opening.cursor
    return FaultRequest(request.method, request.target, described, channel, stream, cursor=cursor)


class FaultSchedule:
    """The faults of one server."""

    def __init__(self, script: FaultScript, contracts: ReplayedContracts, identify: Identify | None = None) -> None:
        """`identify` is for channels that no path names."""
        self.contracts = contracts
        self.counter = FaultCounter(script.seed)
        self.active: list[Fault] = [*script.faults]
        """Those of the script, and those that were added, in this order."""
        self.version = 0
        """Counts the changes of `active`."""
        self.event_types: dict[str, None] = {}
        """The first types of the events that faults could apply to, in order."""
        self._script = script
        self._all = {fault.name: fault for fault in script.faults}
        """Also those that were removed."""
        self._numbers = count(1)
        self._identify = identify or partial(identify_request, contracts)
        self._connections: Counter[str] = Counter()
        self._requests = 0

    @property
    def counts(self) -> dict[str, int]:
        """How often each fault was applied so far, also before a `rewind`, by its name, in the script's order."""
        return {name: self.counter.applied[name] for name in self._all}

    @property
    def unused(self) -> list[str]:
        """The names of the faults that never matched, in the script's order.

        A fault that matched, but was left out because of its probability, is not among them.
        """
        return [name for name in self._all if name not in self.counter.considered]

    def find(self, name: str) -> Fault:
        """Return an active fault by its name.  Raises InputError."""
        found = {fault.name: fault for fault in self.active}
        if name not in found:
            hint = choices_hint(name, found) if found else ": there is no fault now"
            raise InputError(f"Unknown fault {shorten(name, 60)}{hint}".rstrip(".") + ("" if hint[-1] == "?" else "."))
        return found[name]

    def add(self, document: Mapping[str, Any]) -> Fault:
        """Add a fault, which applies once unless it has `times`, until the next `rewind`.  Raises InputError."""
        fault = decode_fault(document, self.contracts)
        names = {each.name for each in self.active}
        if fault.name in names:
            raise InputError(f"There is a fault {shorten(fault.name, 60)} already: choose another name.")
        generated = (f"{fault.action}-{number}" for number in self._numbers)
        name = fault.name or next(each for each in generated if each not in self._all)
        fault = msgspec.structs.replace(fault, name=name)
        self._all[name] = fault
        self._change([*self.active, fault])
        return fault

    def remove(self, fault: Fault) -> None:
        """Remove a fault, if it is active."""
        self._change([each for each in self.active if each is not fault])

    def _change(self, active: list[Fault]) -> None:
        self.active = active
        self.version += 1

    def summary_lines(self) -> Iterator[str]:
        """How often each fault was applied, and which never matched; nothing if the script has no faults."""
        if not self._all:
            return
        counts = (f"{shorten(name, 60)} {count_of(count, 'time')}" for name, count in self.counts.items())
        yield f"Faults injected: {', '.join(counts)}."
        if self.unused:
            names = (shorten(name, 60) for name in self.unused)
            yield f"Faults that never matched: {', '.join(names)}. {self.event_types_hint()}".rstrip()

    def event_types_hint(self) -> str:
        """A sentence with the types of the events, if a fault that never matched selects types; empty otherwise."""
        selecting = [each for name in self.unused if (each := self._all[name].events) is not None and each.type]
        if not selecting or not self.event_types:
            return ""
        return f"Events had the types {', '.join(map(_short, self.event_types))}."

    def rewind(self) -> None:
        """Start over, without the faults that were added, so that the same happens again."""
        self._change([*self._script.faults])
        self.counter.rewind()
        self._connections.clear()
        self._requests = 0

    def inject(self, asked: HttpRequest) -> Injection:
        """The faults that apply to a request.  To be called once for each request, in order."""
        self._requests += 1
        request = self._request(asked)
        before = tuple(until_final(self._before(request)))
        is_over = bool(before) and is_final(before[-1])
        stream = StreamFaults(self, request) if request.stream is not None and not is_over else None
        return Injection(request, before, stream)

    def _request(self, asked: HttpRequest) -> FaultRequest:
        request = self._identify(asked)
        if request.stream is None:
            return request
        self._connections[request.stream] += 1
        return replace(request, connection=self._connections[request.stream])

    def _before(self, request: FaultRequest) -> Iterator[Instruction]:
        for fault in self.active:
            if fault.events is not None or not fault.matches(request):
                continue
            instruction = self._response_instruction(fault, request)
            if instruction is not None and self.counter.should_apply(fault, "request", self._requests):
                yield LogFault(fault.name, response_fault_line(fault, request))
                yield instruction

    def _response_instruction(self, fault: Fault, request: FaultRequest) -> Instruction | None:
        """What to do before a response or instead of it; None if the fault does not apply."""
        if isinstance(fault, Error):
            return self._error(fault, request)
        if isinstance(fault, ExpireCursor):
            if request.cursor is None or request.cursor not in (as_tuple(fault.cursor) or (request.cursor,)):
                return None
            facts = request.described.facts
            status, message = facts.contract.unknown_cursor_status, f"The cursor {request.cursor} has expired."
            return SendError(partial(refuse, facts.errors, ErrorCase.UNKNOWN_CURSOR, message, status=status))
        return interruption(fault) if isinstance(fault, Drop | Reset | Hold | Delay) else None

    def _error(self, fault: Error, request: FaultRequest) -> SendError:
        values: dict[str, object] = {**request.described.parameters, "base": request.described.base}
        limits, counted = self.contracts.limits, self.contracts.counts.get(request.described.operation_name or "")
        name = fault.limit or counted or next(reversed([*limits]), None)
        if name is not None:
            values |= limit_values(limits[name], limits[name].window_seconds)
        if fault.retry_after is not None:
            values["retry_after"] = fault.retry_after
        errors = self._errors_with(fault.code, request)
        if errors is None or fault.code is None:
            return SendError(partial(_plain_error, fault, values))
        return SendError(partial(_coded_error, fault, errors, values))

    def _errors_with(self, code: str | None, request: FaultRequest) -> ErrorWriter | None:
        """The errors with a code: of the contract of the request, or of the first one that has it."""
        own = request.described.facts.errors
        return next((each for each in (own, *self.contracts.errors) if each is not None and code in each.codes), None)


def _coded_error(fault: Error, errors: ErrorWriter, values: Mapping[str, object], request_id: str) -> HttpResponse:
    return error_response(errors, fault.code or "", fault.message, request_id, values=values, fields=fault.fields)


def _plain_error(fault: Error, values: Mapping[str, object], _request_id: str) -> HttpResponse:
    status = fault.status or 500
    message = fault.message or reason_phrase(status)
    wait = values.get("retry_after") if status == TOO_MANY else None
    return plain_response(status, message, () if wait is None else ((RETRY_AFTER, str(wait)),))


_LONGEST_NAME = 60


def action_label(fault: Fault) -> str:
    """What a fault does, in a few words."""
    if isinstance(fault, Error):
        return f"error {fault.code or fault.status}"
    if isinstance(fault, Corrupt):
        return f"corrupt ({fault.how})"
    if isinstance(fault, Split):
        return f"split ({fault.where or 'at offsets'})"
    return fault.action


def position_label(position: Position, entry: LogEntry, number: int | None = None) -> str:
    """Where a fault is applied: `before event 3, run.started, sequence 2`."""
    parts = [f"event {number}"] if number is not None else []
    parts += [_short(entry.type)] if entry.type else []
    parts += [f"sequence {entry.sequence}"] if entry.sequence is not None else []
    if not parts and entry.id is not None:
        parts = [f"id {_short(entry.id)}"]
    return f"{position} {', '.join(parts) or 'an event'}"


def event_fault_line(fault: Fault, request: FaultRequest, position: Position, entry: LogEntry, number: int) -> str:
    """The line of the log for a fault that is applied to an event."""
    channel = request.channel and f"{request.described.facts.noun} {_short(request.channel)}"
    where = f"{channel or _path_label(request)}, connection {request.connection}"
    return f"Fault {_short(fault.name)}: {action_label(fault)} {position_label(position, entry, number)} ({where})"


def response_fault_line(fault: Fault, request: FaultRequest) -> str:
    """The line of the log for a fault that is applied to a whole response."""
    connection = f", connection {request.connection}" if request.connection is not None else ""
    when = "instead of the response" if isinstance(fault, Error | ExpireCursor) else "before the response"
    return f"Fault {_short(fault.name)}: {action_label(fault)} {when} ({_path_label(request)}{connection})"


def _path_label(request: FaultRequest) -> str:
    path = request.target.partition("?")[0]  # the query may hold secrets
    return shorten(f"{request.method} {path}")


def requests_label(fault: Fault) -> str:
    """Which requests a fault applies to, without their channels and connections."""
    names = [shorten(name, 80) for name in fault.requests]
    label = f"any {' or '.join(names)} request" if names else "any request"
    if isinstance(fault, ExpireCursor):
        cursors = " or ".join(map(_short, as_tuple(fault.cursor)))
        label += f" with the cursor {cursors}" if cursors else " with a cursor"
    keys = (f"{name} {' or '.join(map(_short, as_tuple(keys)))}" for name, keys in fault.keys.items())
    return " of ".join([label, *keys])


def _short(text: str) -> str:
    return shorten(text, _LONGEST_NAME)
