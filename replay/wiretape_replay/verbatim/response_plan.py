"""How a recorded exchange is given again: its head, its framing, its writes and its end.  Pure: no I/O, no clock.

Delays are nanoseconds since the request was whole, as they were when it was recorded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from wiretape.observations import BytesArrived, BytesLost, Ending, Headers, RequestStarted, ResponseStarted, header
from wiretape.recording import Exchange
from wiretape_replay.http_server.response import Framing, ResponseHead


class EndAction(StrEnum):
    """What is done once everything recorded was sent."""

    FINISH = "finish"
    """End the response as its framing asks for."""
    CLOSE = "close"
    """Close the connection in an orderly way (FIN), whether or not the response is whole."""
    RESET = "reset"
    """Reset the connection (RST)."""
    HOLD = "hold"
    """Send nothing more and wait until the client leaves."""


# A recording says who ended an exchange.  Where it was the service, the same is done.  Where it was the client,
# or the proxy lost patience, the service had not ended anything: neither does the replay.  Where the recording
# stopped, nobody knows what came next: the client is told that there is no more, but not that this was all.
_ENDS = {
    Ending.COMPLETE: EndAction.FINISH,
    Ending.SERVICE_CLOSED: EndAction.CLOSE,
    Ending.SERVICE_RESET: EndAction.RESET,
    Ending.SERVICE_UNREACHABLE: EndAction.CLOSE,
    Ending.SERVICE_INVALID: EndAction.CLOSE,
    Ending.CLIENT_CLOSED: EndAction.HOLD,
    Ending.TIMED_OUT: EndAction.HOLD,
    Ending.PROXY_STOPPED: EndAction.CLOSE,
    Ending.OPEN: EndAction.CLOSE,
}


@dataclass(frozen=True, slots=True)
class ResponsePlan:
    """What to send for one exchange, but for its body."""

    head: ResponseHead | None
    """None when no response was recorded."""
    head_ns: int
    length: int | None
    """Bytes of body after which the response is whole; None when only its end tells."""
    end: EndAction
    end_ns: int
    origin_ns: int
    """The recording's time at which the request was whole."""

    def writes(self, body: Iterable[BytesArrived | BytesLost]) -> Iterator[tuple[int, bytes]]:
        """For each recorded chunk its delay and its bytes.  Gaps are passed over."""
        if self.head is None or self.head.framing is Framing.EMPTY:
            return
        for run in body:
            if isinstance(run, BytesArrived):
                for time_ns, data in run.chunks():
                    yield time_ns - self.origin_ns, data

    def end_after(self, sent: int) -> EndAction:
        """What to do after `sent` bytes of body went out."""
        if self.length is None:
            return self.end
        if self.end is EndAction.FINISH and sent != self.length:
            return EndAction.CLOSE  # bytes are missing from the recording, and the client must not wait for them
        if self.end is EndAction.HOLD and sent == self.length:
            return EndAction.FINISH  # the client left, but it had everything
        return self.end


def plan_response(exchange: Exchange) -> ResponsePlan:
    """The plan for `exchange`."""
    response, origin_ns = exchange.response, _origin(exchange)
    end_ns = max(0, (exchange.ended_ns or 0) - origin_ns)
    if response is None:
        end = EndAction.CLOSE if exchange.ending is Ending.COMPLETE else _ENDS[exchange.ending]
        return ResponsePlan(None, 0, None, end, end_ns, origin_ns)
    framing = _framing(exchange.request, response)
    headers = response.headers
    if framing is Framing.CHUNKED and header(headers, "transfer-encoding") is None:
        headers = (*headers, ("Transfer-Encoding", "chunked"))
    return ResponsePlan(
        ResponseHead(
            response.status,
            response.reason,
            headers,
            framing,
            keep_alive=framing is not Framing.CLOSE and _kept_alive(response),
            http_version=response.http_version,
        ),
        max(0, response.time_ns - origin_ns),
        _whole_after(framing, headers),
        _ENDS[exchange.ending],
        end_ns,
        origin_ns,
    )


def _origin(exchange: Exchange) -> int:
    """When the service had the request: whole, unless it answered before that."""
    whole_ns = exchange.request_ended_ns
    if whole_ns is None or (exchange.response and exchange.response.time_ns < whole_ns):
        return exchange.request.time_ns
    return whole_ns


def _framing(request: RequestStarted, response: ResponseStarted) -> Framing:
    """The rules of RFC 9112, 6.3.  HTTP/2 has frames instead, for which chunks stand in."""
    if request.method == "HEAD" or response.status in {204, 304} or response.status < 200:
        return Framing.EMPTY
    codings = [value for name, value in response.headers if name.lower() == "transfer-encoding"]
    if codings:
        return Framing.CHUNKED if codings[-1].lower().rstrip().endswith("chunked") else Framing.CLOSE
    if _length(response.headers) is not None:
        return Framing.LENGTH
    return Framing.CHUNKED if response.http_version.startswith("HTTP/2") else Framing.CLOSE


def _whole_after(framing: Framing, headers: Headers) -> int | None:
    if framing is Framing.EMPTY:
        return 0
    return _length(headers) if framing is Framing.LENGTH else None


def _length(headers: Headers) -> int | None:
    value = (header(headers, "content-length") or "").strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None


def _kept_alive(response: ResponseStarted) -> bool:
    options = (header(response.headers, "connection") or "").lower()
    if response.status < 200:
        return False  # after a switch of protocols the connection is not ours to understand
    if response.http_version == "HTTP/1.0":
        return "keep-alive" in options
    return "close" not in options
