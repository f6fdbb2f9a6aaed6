"""Request handler of verbatim mode: sends recorded responses in recorded order, and logs the requests."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from wiretape.bounded_dict import put_bounded
from wiretape.contract import ENVELOPE_KEY
from wiretape.labels import count_of
from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import Exchange, Recording
from wiretape_replay.generated_ids import RequestIdCounter
from wiretape_replay.http_server.http_messages import (
    NO_BODY,
    BodyFraming,
    BodyReader,
    HttpRequest,
    HttpResponse,
    RequestBody,
    ResponseHead,
)
from wiretape_replay.http_server.request_redaction import without_secrets
from wiretape_replay.http_server.response_writer import CHUNKS_PER_TURN, ResponseWriter
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.no_match import explain_no_match
from wiretape_replay.verbatim.request_matching import Matching
from wiretape_replay.verbatim.response_plan import ResponsePlan, plan_response

_LARGEST_SMALL = 16 * 1024
"""Bytes of a response that is kept in memory."""
_MOST_SMALL = 1000
NO_MATCH = "wiretape_no_match"
"""Error code of the response to a request that was not recorded.  The service has no such code."""


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request that got a recorded response."""

    method: str
    target: str
    exchange: int
    status: int | None
    """None if no response was recorded."""


@dataclass(frozen=True, slots=True)
class UnmatchedRequest:
    """A request that was not recorded, or sent more often than recorded."""

    method: str
    target: str
    """Without secrets."""
    message: str


class _PlaybackClock:
    """Waits for times of the recording.  All are relative to the same start, so delays do not add up."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._loop = asyncio.get_running_loop()
        self._started_s = self._loop.time()

    def remaining_s(self, delay_ns: int) -> float:
        """Seconds until `delay_ns` of recorded time after the start; 0 or less if that has passed."""
        return 0 if self._speed == math.inf else self._started_s + delay_ns / 1e9 / self._speed - self._loop.time()

    async def wait_until(self, delay_ns: int) -> None:
        """Return `delay_ns` of recorded time after the start, or at once if that has passed."""
        if (remaining_s := self.remaining_s(delay_ns)) > 0:
            await asyncio.sleep(remaining_s)


@dataclass(frozen=True, slots=True)
class _SmallResponse:
    """A complete response that is sent in one write."""

    head: ResponseHead
    chunks: tuple[bytes, ...]
    raw: bytes
    outcome: str


class VerbatimPlayer:
    """Responds to each request with the next recorded exchange of its kind."""

    def __init__(
        self,
        recording: Recording,
        speed: float,
        *,
        matching: Matching | None = None,
        includes: Callable[[Exchange], bool] = lambda _: True,
        request_ids: RequestIdCounter | None = None,
    ) -> None:
        """`speed` is a multiple of the recorded speed; infinity: at once.

        `includes` selects the exchanges.
        `request_ids` are for responses that were not recorded.  Raises RecordingError if the recording is damaged.
        """
        self.served: list[ServedRequest] = []
        self.missed: list[UnmatchedRequest] = []
        requests = (_recorded_request(recording, exchange) for exchange in recording.exchanges() if includes(exchange))
        self.queues = ExchangeQueues(requests, matching)
        self._recording = recording
        self._speed = speed
        self._small: dict[int, _SmallResponse] = {}
        """Those of the last exchanges, by number."""
        self._request_ids = request_ids or RequestIdCounter()

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Handle a request."""
        recorded = self.queues.take(request)
        if recorded is None:
            await self._respond_no_match(request, writer)
            return
        small = self._small.get(recorded.number)
        if small is not None:
            self.served.append(ServedRequest(request.method, request.target, recorded.number, small.head.status))
            writer.log_outcome(request, small.outcome)
            await writer.send_whole(small.head, small.chunks, small.raw)
            return
        exchange = self._recording.exchange(recorded.number)
        status = exchange.response.status if exchange.response else None
        self.served.append(ServedRequest(request.method, request.target, recorded.number, status))
        writer.log_outcome(request, f"exchange {recorded.number}, {_outcome(exchange)}")
        plan = plan_response(exchange)
        self._keep_small(exchange, plan)
        await self._send(exchange, plan, writer)

    def _keep_small(self, exchange: Exchange, plan: ResponsePlan) -> None:
        """Keep a small response that is complete and sent at once, so that it need not be read again."""
        head = plan.head
        if head is None or self._speed != math.inf or exchange.response_bytes > _LARGEST_SMALL:
            return
        if head.framing not in {BodyFraming.LENGTH, BodyFraming.EMPTY}:
            return
        chunks = tuple(data for _, data in plan.chunks(self._recording.body(exchange.number, Side.RESPONSE)) if data)
        body = b"".join(chunks)
        raw = head.raw + body
        if plan.end_after(len(body)) is Ending.COMPLETE and len(raw) <= _LARGEST_SMALL:
            small = _SmallResponse(head, chunks, raw, f"exchange {exchange.number}, {_outcome(exchange)}")
            put_bounded(self._small, exchange.number, small, _MOST_SMALL)

    async def _send(self, exchange: Exchange, plan: ResponsePlan, writer: ResponseWriter) -> None:
        clock = _PlaybackClock(self._speed)
        sent = 0
        if plan.head is not None:
            await clock.wait_until(plan.head_ns)
            await writer.start(plan.head)
            sent = await self._send_body(exchange, plan, writer, clock)
        await clock.wait_until(plan.end_ns)
        await writer.end(plan.end_after(sent))

    async def _send_body(
        self, exchange: Exchange, plan: ResponsePlan, writer: ResponseWriter, clock: _PlaybackClock
    ) -> int:
        """Send the body; returns its size."""
        sent = 0
        due: list[bytes] = []
        for delay_ns, data in plan.chunks(self._recording.body(exchange.number, Side.RESPONSE)):
            waits = clock.remaining_s(delay_ns) > 0
            if waits or len(due) == CHUNKS_PER_TURN:
                await writer.write_all(due)
                due = []
            if waits:
                await clock.wait_until(delay_ns)
            due.append(data)
            sent += len(data)
        await writer.write_all(due)
        return sent

    async def _respond_no_match(self, request: HttpRequest, writer: ResponseWriter) -> None:
        message = explain_no_match(self.queues, request, lambda number: _body_of(self._recording, number))
        target = without_secrets(request, self.queues.secret_parameters).target
        self.missed.append(UnmatchedRequest(request.method, target, message))
        writer.log_outcome(request, "no match, 501")
        error = {"code": NO_MATCH, "message": message, "request_id": self._request_ids.next()}
        await writer.respond(HttpResponse.from_json(501, {ENVELOPE_KEY: error}, (("X-Wiretape", "no-match"),)))


def _outcome(exchange: Exchange) -> str:
    outcome = str(exchange.response.status) if exchange.response else "no response"
    if exchange.ending is not Ending.COMPLETE:
        outcome += f", {exchange.ending}"
    if exchange.lost_bytes:
        outcome += f" (warning: {count_of(exchange.lost_bytes, 'byte')} not recorded, and therefore left out)"
    return outcome


def _recorded_request(recording: Recording, exchange: Exchange) -> RecordedRequest:
    request = exchange.request
    body = _request_body(recording, exchange)
    return RecordedRequest(exchange.number, request.method, request.target, body, request.headers)


def _body_of(recording: Recording, number: int) -> RequestBody | None:
    """The recorded request body of an exchange; None if a part of it is missing.  Raises RecordingError."""
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
