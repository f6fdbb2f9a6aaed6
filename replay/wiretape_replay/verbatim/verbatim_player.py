"""Request handler of verbatim mode: sends recorded responses in recorded order, and logs the requests."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from wiretape.bounded_dict import put_bounded
from wiretape.contract.service_terms import ErrorWriter
from wiretape.labels import count_of
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    RequestStarted,
    Side,
    header,
)
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import shorten
from wiretape.sse import is_event_stream
from wiretape_replay.access.contract_errors import count_request_ids, error_response, plain_response
from wiretape_replay.http_server.http_messages import (
    NO_BODY,
    BodyFraming,
    BodyReader,
    HttpRequest,
    RequestBody,
    ResponseHead,
)
from wiretape_replay.http_server.request_redaction import without_secrets
from wiretape_replay.http_server.response_writer import CHUNKS_PER_TURN, ResponseWriter
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.no_match import explain_no_match
from wiretape_replay.verbatim.request_matching import Matching

_LARGEST_SMALL = 16 * 1024
"""Bytes of a response that is kept in memory."""
_MOST_SMALL = 1000
Forward = Callable[[HttpRequest, ResponseWriter], Awaitable[str | None]]
"""Forwards a request to the service and sends its response, or returns why it could not, to follow "and"."""
NO_MATCH = "wiretape_no_match"
"""Error code of the response to a request that was not recorded.  No service has such a code."""


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


# If the service ended the exchange, the replay does the same.  If the client ended it, or the proxy timed out, the
# service had not ended it, and neither does the replay.  If the recording stopped, the rest is not known: closing
# tells the client that nothing follows, but not that the response is complete.
_ENDINGS = {
    Ending.SERVICE_UNREACHABLE: Ending.SERVICE_CLOSED,
    Ending.SERVICE_INVALID: Ending.SERVICE_CLOSED,
    Ending.TIMED_OUT: Ending.CLIENT_CLOSED,
    Ending.PROXY_STOPPED: Ending.SERVICE_CLOSED,
    Ending.OPEN: Ending.SERVICE_CLOSED,
}
"""How a response ends whose exchange did not end with COMPLETE, SERVICE_CLOSED, SERVICE_RESET or CLIENT_CLOSED."""


@dataclass(frozen=True, slots=True)
class ResponsePlan:
    """What to send for one exchange, except its body."""

    head: ResponseHead | None
    """None if no response was recorded."""
    head_ns: int
    length: int | None
    """Bytes of body in a complete response; None if only its end shows that it is complete."""
    end: Ending
    """One of COMPLETE, SERVICE_CLOSED, SERVICE_RESET and CLIENT_CLOSED: the client ends it."""
    end_ns: int
    origin_ns: int
    """The time in the recording when the request was complete."""

    def chunks(self, body: Iterable[BytesArrived | BytesLost]) -> Iterator[tuple[int, bytes]]:
        """Yield the delay and the bytes of each recorded chunk, without lost bytes."""
        if self.head is None or self.head.framing is BodyFraming.EMPTY:
            return
        for run in body:
            if isinstance(run, BytesArrived):
                for time_ns, data in run.chunks():
                    yield time_ns - self.origin_ns, data

    def end_after(self, sent: int) -> Ending:
        """How the response ends after `sent` bytes of body."""
        if self.length is None:
            return self.end
        if self.end is Ending.COMPLETE and sent != self.length:
            return Ending.SERVICE_CLOSED  # bytes are missing in the recording, and the client must not wait for them
        if self.end is Ending.CLIENT_CLOSED and sent == self.length:
            return Ending.COMPLETE  # the client disconnected after it had received everything
        return self.end


def plan_response(exchange: Exchange) -> ResponsePlan:
    """Return the plan for an exchange."""
    response, origin_ns = exchange.response, _request_complete_ns(exchange)
    end_ns = max(0, (exchange.ended_ns or 0) - origin_ns)
    ending = _ENDINGS.get(exchange.ending, exchange.ending)
    if response is None:
        end = Ending.SERVICE_CLOSED if ending is Ending.COMPLETE else ending
        return ResponsePlan(None, 0, None, end, end_ns, origin_ns)
    head = ResponseHead.of(exchange.request.method, response)
    head_ns = max(0, response.time_ns - origin_ns)
    return ResponsePlan(head, head_ns, head.length, ending, end_ns, origin_ns)


def _request_complete_ns(exchange: Exchange) -> int:
    """When the request was complete, or started if the service responded before."""
    ended_ns = exchange.request_ended_ns
    if ended_ns is None or (exchange.response and exchange.response.time_ns < ended_ns):
        return exchange.request.time_ns
    return ended_ns


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


class FrameSender(Protocol):
    """Sends the chunks of one stream as frames, from the first beginning of a frame on where a fault can hit it."""

    def takes(self, data: bytes) -> bool:
        """Whether the next chunk has to be sent with `send`."""
        ...

    async def send(self, time_ns: int, data: bytes) -> bool:
        """Send what a chunk completes; return True if a fault ended the stream.  Raises ConnectionError."""
        ...

    async def finish(self) -> bool:
        """Send the rest, at the end of the body; return True if a fault ended the stream.  Raises ConnectionError."""
        ...


class VerbatimPlayer:
    """Responds to each request with the next recorded exchange of its kind."""

    def __init__(
        self,
        recording: Recording,
        speed: float,
        *,
        matching: Matching | None = None,
        includes: Callable[[Exchange], bool] = lambda _: True,
        target_of: Callable[[RequestStarted], str] = attrgetter("target"),
        request_ids: Callable[[], str] | None = None,
        errors_of: Callable[[HttpRequest], ErrorWriter | None] = lambda _: None,
        forward: Forward | None = None,
    ) -> None:
        """`speed` is a multiple of the recorded speed; infinity: at once.

        `includes` selects the exchanges; `target_of` returns the target of a request as it is compared.
        `request_ids` are for responses that were not recorded, and `errors_of` returns their format.
        `forward` is for requests that were not recorded.
        Raises RecordingError if the recording is damaged.
        """
        self.served: list[ServedRequest] = []
        self.missed: list[UnmatchedRequest] = []
        self.frame_sender: Callable[[ResponseWriter], FrameSender | None] = lambda _: None
        """Returns the sender of a stream that faults can hit."""
        self.streams: set[int] = set()
        """The exchanges whose events faults can hit."""
        self._recording = recording
        exchanges = (exchange for exchange in recording.exchanges() if includes(exchange))
        recorded = (self._read_request(exchange, target_of(exchange.request)) for exchange in exchanges)
        self.queues = ExchangeQueues(recorded, matching)
        self._speed = speed
        self._small: dict[int, _SmallResponse] = {}
        """Those of the last exchanges, by number."""
        self._request_ids = request_ids or count_request_ids()
        self._errors_of = errors_of
        self.forward = forward

    def _read_request(self, exchange: Exchange, target: str) -> RecordedRequest:
        if _has_readable_events(exchange):
            self.streams.add(exchange.number)
        return _recorded_request(self._recording, exchange, target)

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Handle a request."""
        recorded = self.queues.take(request)
        if recorded is None:
            await self.respond_no_match(request, writer)
        else:
            await self.respond_recorded(recorded, request, writer)

    async def respond_recorded(self, recorded: RecordedRequest, request: HttpRequest, writer: ResponseWriter) -> None:
        """Respond as to a recorded request."""
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
        frames = self.frame_sender(writer) if recorded.number in self.streams else None
        await self._send(exchange, plan, writer, frames)

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

    async def _send(
        self, exchange: Exchange, plan: ResponsePlan, writer: ResponseWriter, frames: "FrameSender | None"
    ) -> None:
        clock, origin_ns = _PlaybackClock(self._speed), plan.origin_ns - exchange.request.time_ns
        sent = 0
        if plan.head is not None:
            await clock.wait_until(plan.head_ns)
            await writer.start(plan.head)
        due: list[bytes] = []
        for delay_ns, data in plan.chunks(self._recording.body(exchange.number, Side.RESPONSE)):
            waits = clock.remaining_s(delay_ns) > 0
            if waits or len(due) == CHUNKS_PER_TURN:
                await writer.write_all(due)
                due = []
            if waits:
                await clock.wait_until(delay_ns)
            if frames is not None and frames.takes(data):
                await writer.write_all(due)
                due = []
                if await frames.send(origin_ns + delay_ns, data):
                    return
            else:
                due.append(data)
            sent += len(data)
        await writer.write_all(due)
        if frames is not None and await frames.finish():
            return
        await clock.wait_until(plan.end_ns)
        await writer.end(plan.end_after(sent))

    async def respond_no_match(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Forward a request that was not recorded, or else refuse it."""
        recording, shown = self._recording, without_secrets(request, self.queues.secret_parameters)
        if self.forward is None:
            message = explain_no_match(
                self.queues, request, lambda number: read_request_body(recording, recording.exchange(number))
            )
        elif (problem := await self.forward(request, writer)) is not None:
            message = f"{shorten(f'{shown.method} {shown.target}')} was not recorded, and {problem}"
        else:
            return
        self.missed.append(UnmatchedRequest(request.method, shown.target, message))
        writer.log_outcome(request, "no match, 501")
        errors, headers, request_id = self._errors_of(request), (("X-Wiretape", "no-match"),), self._request_ids()
        if errors is None:
            await writer.respond(plain_response(501, message, headers))
        else:
            await writer.respond(error_response(errors, NO_MATCH, message, request_id, headers=headers, status=501))


def _has_readable_events(exchange: Exchange) -> bool:
    """Whether a response is an event stream whose bytes can change, because it is not encoded and has no length."""
    headers = exchange.response.headers if exchange.response is not None else ()
    has_form = header(headers, "content-encoding") is not None or header(headers, "content-length") is not None
    return is_event_stream(header(headers, "content-type")) and not has_form


def _outcome(exchange: Exchange) -> str:
    outcome = str(exchange.response.status) if exchange.response else "no response"
    if exchange.ending is not Ending.COMPLETE:
        outcome += f", {exchange.ending}"
    if exchange.lost_bytes:
        outcome += f" (warning: {count_of(exchange.lost_bytes, 'byte')} not recorded, and therefore left out)"
    return outcome


def _recorded_request(recording: Recording, exchange: Exchange, target: str) -> RecordedRequest:
    request = exchange.request
    body = read_request_body(recording, exchange)
    return RecordedRequest(exchange.number, request.method, target, body, request.headers)


def read_request_body(recording: Recording, exchange: Exchange) -> RequestBody | None:
    """The recorded request body; None if a part of it is missing.  Raises RecordingError."""
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
