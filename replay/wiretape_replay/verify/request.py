"""A recorded request as the bytes that a client sends."""

from collections.abc import Iterator

from wiretape.observations import BytesArrived, Headers, Side, header
from wiretape.recording import Exchange, Recording
from wiretape_replay.front.head import one_line

_OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that say how a request travels, not what is asked: the body gets its own length, and nothing is switched."""


def request_bytes(recording: Recording, exchange: Exchange) -> Iterator[bytes]:
    """The request, piece by piece, over HTTP/1.1: target and other headers as recorded, fingerprints included.

    Of its body goes what was recorded of it.  Raises RecordingError.
    """
    request = exchange.request
    lines = [f"{one_line(request.method)} {one_line(request.target)} HTTP/1.1"]
    lines += [f"{one_line(name)}: {one_line(value)}" for name, value in _headers(exchange)]
    yield "\r\n".join([*lines, "\r\n"]).encode("latin-1", "replace")
    for run in recording.body(exchange.number, Side.REQUEST):
        if isinstance(run, BytesArrived):
            yield run.data


def _headers(exchange: Exchange) -> Headers:
    request = exchange.request
    kept = tuple(
        (name, value)
        for name, value in request.headers
        if not name.startswith(":") and name.lower() not in _OF_THE_CONNECTION
    )
    if header(request.headers, "host") is None:
        kept = (("Host", request.authority), *kept)
    if exchange.request_bytes or header(request.headers, "content-length") is not None:
        kept = (*kept, ("Content-Length", str(exchange.request_bytes)))
    return kept
