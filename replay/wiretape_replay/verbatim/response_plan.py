"""How a recorded response is sent again: its head, framing, chunks, delays and ending.  Pure: no I/O, no clock.

Delays are nanoseconds since the request was complete, as they were recorded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wiretape.observations import BytesArrived, BytesLost, Ending, Headers, RequestStarted, ResponseStarted, header
from wiretape.recording import Exchange
from wiretape_replay.http_server.http_messages import BodyFraming, ResponseHead

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
    framing = _framing(exchange.request, response)
    headers = response.headers
    if framing is BodyFraming.CHUNKED and header(headers, "transfer-encoding") is None:
        headers = (*headers, ("Transfer-Encoding", "chunked"))
    head = ResponseHead(
        response.status,
        response.reason,
        headers,
        framing,
        keep_alive=framing is not BodyFraming.CLOSE and _keeps_alive(response),
        http_version=response.http_version,
    )
    length = {BodyFraming.EMPTY: 0, BodyFraming.LENGTH: _content_length(headers)}.get(framing)
    head_ns = max(0, response.time_ns - origin_ns)
    return ResponsePlan(head, head_ns, length, ending, end_ns, origin_ns)


def _request_complete_ns(exchange: Exchange) -> int:
    """When the request was complete, or started if the service responded before."""
    ended_ns = exchange.request_ended_ns
    if ended_ns is None or (exchange.response and exchange.response.time_ns < ended_ns):
        return exchange.request.time_ns
    return ended_ns


def _framing(request: RequestStarted, response: ResponseStarted) -> BodyFraming:
    """Apply RFC 9112, 6.3.  Responses of HTTP/2 become chunked."""
    if request.method == "HEAD" or response.status in {204, 304} or response.status < 200:
        return BodyFraming.EMPTY
    codings = [value for name, value in response.headers if name.lower() == "transfer-encoding"]
    if codings:
        return BodyFraming.CHUNKED if codings[-1].lower().rstrip().endswith("chunked") else BodyFraming.CLOSE
    if _content_length(response.headers) is not None:
        return BodyFraming.LENGTH
    return BodyFraming.CHUNKED if response.http_version.startswith("HTTP/2") else BodyFraming.CLOSE


def _content_length(headers: Headers) -> int | None:
    value = (header(headers, "content-length") or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None


def _keeps_alive(response: ResponseStarted) -> bool:
    options = (header(response.headers, "connection") or "").lower()
    if response.status < 200:
        return False  # after a switch of protocols, the connection no longer carries HTTP
    if response.http_version == "HTTP/1.0":
        return "keep-alive" in options
    return "close" not in options
