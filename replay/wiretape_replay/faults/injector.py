"""Decide which faults apply to which requests.  Pure: no I/O, no clock; randomness is seeded."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from wiretape.contract import (
    CURSOR_HEADER,
    ERROR_CODES,
    INVALID_CURSOR,
    LIMITS,
    STREAM,
    cursor_in,
    operation_of,
    session_in,
)
from wiretape.labels import count_of
from wiretape.observations import header
from wiretape.safe_text import shorten
from wiretape_replay.faults.event_mutation import interruption
from wiretape_replay.faults.fault_counter import FaultCounter
from wiretape_replay.faults.fault_labels import response_fault_line
from wiretape_replay.faults.fault_script import (
    Delay,
    Drop,
    Error,
    ExpireCursor,
    Fault,
    FaultRequest,
    FaultScript,
    Reset,
    Stall,
    as_tuple,
)
from wiretape_replay.faults.instructions import Instruction, LogFault, SendError, is_final, until_final
from wiretape_replay.faults.stream_faults import StreamFaults
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.responses.error_envelope import ActiveRun, ErrorDetail

_UNPROCESSABLE = 422


@dataclass(frozen=True, slots=True)
class Injection:
    """The faults that apply to one request."""

    request: FaultRequest
    before: tuple[Instruction, ...] = ()
    """What to do before the response; if the last instruction is final, there is no other response."""
    stream: StreamFaults | None = None
    """What to do to the events of a stream; None if no fault can hit them."""


class FaultInjector:
    """The faults of one server."""

    def __init__(self, script: FaultScript) -> None:
        self.script = script
        self._event_faults = tuple(fault for fault in script.faults if fault.events is not None)
        self._counter = FaultCounter(script.seed)
        self._connections: Counter[str] = Counter()
        self._requests = 0

    @property
    def counts(self) -> dict[str, int]:
        """How often each fault was applied so far, also before a `rewind`, by its name, in the script's order."""
        return {fault.name: self._counter.applied[fault.name] for fault in self.script.faults}

    def summary(self) -> str | None:
        """How often each fault was applied, in one line; None if the script has no faults."""
        if not self.script.faults:
            return None
        counts = (f"{shorten(name, 60)} {count_of(count, 'time')}" for name, count in self.counts.items())
        return f"Faults injected: {', '.join(counts)}."

    def rewind(self) -> None:
        """Start over, so that the same happens again."""
        self._counter.rewind()
        self._connections.clear()
        self._requests = 0

    def inject(self, asked: HttpRequest) -> Injection:
        """The faults that apply to a request.  To be called once for each request, in order."""
        self._requests += 1
        request = self._request(asked)
        before = tuple(until_final(self._before(request)))
        of_stream = tuple(fault for fault in self._event_faults if fault.matches(request))
        if not of_stream or (before and is_final(before[-1])):
            return Injection(request, before)
        return Injection(request, before, StreamFaults(self._counter, request, of_stream))

    def _request(self, asked: HttpRequest) -> FaultRequest:
        match = operation_of(asked.method, asked.target)
        session = match.session_id if match else session_in(asked.target)
        connection = None
        if match is not None and match.operation is STREAM:
            self._connections[match.session_id] += 1
            connection = self._connections[match.session_id]
        return FaultRequest(
            method=asked.method,
            target=asked.target,
            session=session,
            run=match.run_id if match else None,
            connection=connection,
            cursor=cursor_in(header(asked.headers, CURSOR_HEADER)),
        )

    def _before(self, request: FaultRequest) -> Iterator[Instruction]:
        for fault in self.script.faults:
            if fault.events is not None or not fault.matches(request):
                continue
            instruction = _response_instruction(fault, request)
            if instruction is not None and self._counter.should_apply(fault, "request", self._requests):
                yield LogFault(fault.name, response_fault_line(fault, request))
                yield instruction


def _response_instruction(fault: Fault, request: FaultRequest) -> Instruction | None:
    """What to do before a response or instead of it; None if the fault does not apply."""
    if isinstance(fault, Error):
        return _error(fault, request)
    if isinstance(fault, ExpireCursor):
        if request.cursor is None or request.cursor not in (as_tuple(fault.cursor) or (request.cursor,)):
            return None
        return SendError(INVALID_CURSOR, f"The cursor {request.cursor} has expired.")
    return interruption(fault) if isinstance(fault, Drop | Reset | Stall | Delay) else None


def _error(fault: Error, request: FaultRequest) -> SendError:
    active = ActiveRun(
        session_id=request.session or "session_1",
        run_id=fault.active_run or request.run or "run_1",
        base=_base(request),
    )
    if fault.active_run_status is not None:
        active = replace(active, status=fault.active_run_status)
    reasons = tuple(ErrorDetail(reason.path, reason.reason) for reason in fault.reasons)
    if not reasons and ERROR_CODES[fault.code].status == _UNPROCESSABLE:
        reasons = (ErrorDetail("$", "refused by a fault script"),)
    limit = None if fault.limit is None else LIMITS[fault.limit]
    return SendError(fault.code, fault.message, active, limit, fault.retry_after, reasons)


def _base(request: FaultRequest) -> str:
    """The part of the path before `/v1/`."""
    before, mark, _ = request.path.partition("/v1/")
    return before if mark else ""
