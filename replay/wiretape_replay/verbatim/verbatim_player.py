"""The source of verbatim mode: recorded answers in recorded order, and a book of what was asked."""

from collections.abc import Callable
from dataclasses import dataclass

from wiretape.contract import ENVELOPE_KEY
from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import Exchange, Recording
from wiretape_replay.http_server.request import NO_BODY, BodyReader, HttpRequest, RequestBody
from wiretape_replay.http_server.response import Response
from wiretape_replay.http_server.response_writer import CHUNKS_PER_TURN, ResponseWriter
from wiretape_replay.playback_speed import PlaybackClock, PlaybackSpeed
from wiretape_replay.responses.error_envelope import RequestIds
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.matching_options import Matching
from wiretape_replay.verbatim.no_match import explain_no_match
from wiretape_replay.verbatim.response_plan import EndAction, ResponsePlan, plan_response

NO_MATCH = "wiretape_no_match"
"""The error code of the answer to a request that was not recorded.  The service has no such code."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request that was given a recorded answer."""

    method: str
    target: str
    exchange: int
    status: int | None
    """None when no response was recorded."""


@dataclass(frozen=True, slots=True)
class UnmatchedRequest:
    """A request that was not recorded, or asked for too often."""

    method: str
    target: str
    message: str


class VerbatimPlayer:
    """Answers each request with the next recorded exchange of its kind."""

    def __init__(
        self,
        recording: Recording,
        pace: PlaybackSpeed,
        log: Callable[[str], None],
        *,
        matching: Matching | None = None,
        includes: Callable[[Exchange], bool] = lambda _: True,
        request_ids: RequestIds | None = None,
    ) -> None:
        """Raises RecordingError when the recording is damaged.

        `log` takes a line for each request; `includes` selects exchanges.
        `request_ids` are those of answers that were not recorded.
        """
        self.served: list[ServedRequest] = []
        self.missed: list[UnmatchedRequest] = []
        entries = (_entry(recording, exchange) for exchange in recording.exchanges() if includes(exchange))
        self.queues = ExchangeQueues(entries, matching)
        self._recording = recording
        self._pace = pace
        self._log = log
        self._request_ids = request_ids or RequestIds()

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        """Handle a request."""
        entry = self.queues.take(asked)
        if entry is None:
            await self._refuse(asked, line)
            return
        exchange = self._recording.exchange(entry.number)
        status = exchange.response.status if exchange.response else None
        self.served.append(ServedRequest(asked.method, asked.target, entry.number, status))
        self._log(f"{asked.label} → exchange {entry.number}, {_outcome(exchange)}")
        await self._play(exchange, plan_response(exchange), line)

    async def _play(self, exchange: Exchange, plan: ResponsePlan, line: ResponseWriter) -> None:
        clock = self._pace.start()
        sent = 0
        if plan.head is not None:
            await clock.reach(plan.head_ns)
            await line.start(plan.head)
            sent = await self._play_body(exchange, plan, line, clock)
        await clock.reach(plan.end_ns)
        await _end(plan.end_after(sent), line)

    async def _play_body(
        self, exchange: Exchange, plan: ResponsePlan, line: ResponseWriter, clock: PlaybackClock
    ) -> int:
        """Returns how many bytes of body were sent."""
        sent = 0
        due: list[bytes] = []
        for delay_ns, data in plan.writes(self._recording.body(exchange.number, Side.RESPONSE)):
            waits = clock.left(delay_ns) > 0
            if waits or len(due) == CHUNKS_PER_TURN:
                await line.write_all(due)
                due = []
            if waits:
                await clock.reach(delay_ns)
            due.append(data)
            sent += len(data)
        await line.write_all(due)
        return sent

    async def _refuse(self, asked: HttpRequest, line: ResponseWriter) -> None:
        message = explain_no_match(self.queues, asked, lambda number: _body_of(self._recording, number))
        self.missed.append(UnmatchedRequest(asked.method, asked.target, message))
        self._log(f"{asked.label} → no match, 501")
        await line.respond(_no_match_response(message, self._request_ids.next()))


async def _end(end: EndAction, line: ResponseWriter) -> None:
    if end is EndAction.FINISH:
        await line.finish()
    elif end is EndAction.CLOSE:
        line.close()
    elif end is EndAction.RESET:
        await line.reset()
    else:
        await line.hold_open()


def _no_match_response(message: str, request_id: str) -> Response:
    """An answer in the service's own envelope."""
    error = {"code": NO_MATCH, "message": message, "request_id": request_id}
    return Response.from_json(501, {ENVELOPE_KEY: error}, (("X-Wiretape", "no-match"),))


def _outcome(exchange: Exchange) -> str:
    outcome = str(exchange.response.status) if exchange.response else "no response"
    if exchange.ending is not Ending.COMPLETE:
        outcome += f", {exchange.ending}"
    if exchange.lost_bytes:
        outcome += f" (warning: {exchange.lost_bytes} bytes of it were not recorded and are left out)"
    return outcome


def _entry(recording: Recording, exchange: Exchange) -> RecordedRequest:
    request = exchange.request
    body = _request_body(recording, exchange)
    return RecordedRequest(exchange.number, request.method, request.target, body, request.headers)


def _body_of(recording: Recording, number: int) -> RequestBody | None:
    """The recorded request body of an exchange; None when a part of it is missing.  Raises RecordingError."""
    return _request_body(recording, recording.exchange(number))


def _request_body(recording: Recording, exchange: Exchange) -> RequestBody | None:
    if exchange.request_ended_ns is None:
        return None
    if not exchange.request_bytes and not exchange.lost_bytes:
        return NO_BODY
    reader = BodyReader()
    for run in recording.body(exchange.number, Side.REQUEST):
        if isinstance(run, BytesLost):
            return None
        reader.feed(run.data)
    return reader.finish()
