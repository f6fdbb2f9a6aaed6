"""Which faults are done to which requests.  Pure: no I/O, no clock; chance is seeded."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from wiretape.contract import CURSOR_HEADER, INVALID_CURSOR, STREAM, cursor_in, operation_of, session_in
from wiretape.observations import header
from wiretape_replay.answers.reasons import ActiveRun
from wiretape_replay.faults import describing
from wiretape_replay.faults.actions import Action, Drop, Mark, Reply, Reset, Wait, ends, until_over
from wiretape_replay.faults.deed import Cut, ExpireCursor, Pause, Refuse
from wiretape_replay.faults.events import StreamFaults
from wiretape_replay.faults.script import Fault, Request, Script
from wiretape_replay.faults.tally import Tally
from wiretape_replay.front.asked import Asked


@dataclass(frozen=True, slots=True)
class Injection:
    """What is done to one request."""

    request: Request
    before: tuple[Action, ...] = ()
    """Before the answer; if the last one ends it, there is no other answer."""
    stream: StreamFaults | None = None
    """What is done to the events of a stream; None when nothing can be."""


class Faults:
    """The faults of one server."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._tally = Tally(script.seed)
        self._connections: Counter[str] = Counter()
        self._requests = 0

    @property
    def done(self) -> dict[str, int]:
        """How often each fault was done so far, before a `rewind` too, by its name, in the order of the script."""
        return {fault.name: self._tally.done[fault.name] for fault in self.script.faults}

    def rewind(self) -> None:
        """Begin anew, so that the same happens again."""
        self._tally.rewind()
        self._connections.clear()
        self._requests = 0

    def request(self, asked: Asked) -> Injection:
        """A request arrived: what is done to it.  To be called once for each."""
        self._requests += 1
        request = self._request(asked)
        before = tuple(until_over(self._before(request)))
        for_stream = tuple(fault for fault in self.script.on_events if fault.address.fits(request))
        if not for_stream or (before and ends(before[-1])):
            return Injection(request, before)
        return Injection(request, before, StreamFaults(self._tally, request, for_stream))

    def _request(self, asked: Asked) -> Request:
        match = operation_of(asked.method, asked.target)
        session = match.session_id if match else session_in(asked.target)
        connection = None
        if match is not None and match.operation is STREAM:
            self._connections[match.session_id] += 1
            connection = self._connections[match.session_id]
        return Request(
            method=asked.method,
            target=asked.target,
            session=session,
            run=match.run_id if match else None,
            connection=connection,
            cursor=cursor_in(header(asked.headers, CURSOR_HEADER)),
        )

    def _before(self, request: Request) -> Iterator[Action]:
        for fault in self.script.faults:
            if fault.events is not None or not fault.address.fits(request):
                continue
            action = _on_request(fault, request)
            if action is not None and self._tally.allows(fault, "request", self._requests):
                yield Mark(fault.name, describing.on_request(fault, request))
                yield action


def _on_request(fault: Fault, request: Request) -> Action | None:
    """What is done before an answer or in its place; None where the fault does not fit."""
    deed = fault.deed
    if isinstance(deed, Refuse):
        active = ActiveRun(
            session_id=request.session or "session_1",
            run_id=deed.active_run or request.run or "run_1",
            base=_base(request),
        )
        if deed.active_run_status is not None:
            active = replace(active, status=deed.active_run_status)
        return Reply(deed.code, deed.message, active, deed.limit, deed.retry_after, deed.reasons)
    if isinstance(deed, ExpireCursor):
        known = request.cursor is not None and (not deed.cursors or request.cursor in deed.cursors)
        return Reply(INVALID_CURSOR, f"The cursor {request.cursor} has expired.") if known else None
    if isinstance(deed, Pause):
        return Wait(deed.time_ns)
    return Reset() if isinstance(deed, Cut) and deed.reset else Drop()


def _base(request: Request) -> str:
    """What stands before `/v1/` in the path."""
    before, mark, _ = request.path.partition("/v1/")
    return before if mark else ""
