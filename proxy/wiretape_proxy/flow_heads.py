"""Convert the requests and responses of mitmproxy's flows into observations."""

from typing import TYPE_CHECKING

from wiretape.observations import Headers, RequestStarted, ResponseStarted

if TYPE_CHECKING:
    from mitmproxy.http import HTTPFlow, Message, Request, Response

_DEFAULT_PORTS = {"http": 80, "https": 443}


def request_started(flow: "HTTPFlow", exchange: int, time_ns: int = 0) -> RequestStarted:
    """Return the request of a flow."""
    request = flow.request
    # A flow file need not contain what the types promise.
    peer = getattr(flow.client_conn, "peername", None)
    return RequestStarted(
        exchange=exchange,
        time_ns=time_ns,
        client=str(peer[0]) if peer else "",
        method=_latin(request.data.method),
        scheme=_latin(request.data.scheme),
        authority=_authority(flow),
        target=_latin(request.data.path),
        http_version=_latin(request.data.http_version),
        headers=_headers(request),
    )


def response_started(response: "Response", exchange: int, time_ns: int = 0) -> ResponseStarted:
    """Return a response without its body."""
    return ResponseStarted(
        exchange=exchange,
        time_ns=time_ns,
        status=response.status_code,
        reason=_latin(response.data.reason),
        http_version=_latin(response.data.http_version),
        headers=_headers(response),
    )


def _authority(flow: "HTTPFlow") -> str:
    """Return `host[:port]` that a request was sent to."""
    request: Request = flow.request
    # mitmproxy reports requests that it refuses before it knows their destination.
    host, port = (request.host, request.port) if request.host else (flow.server_conn.address or ("", 0))[:2]
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if port == _DEFAULT_PORTS.get(_latin(request.data.scheme)) else f"{bracketed}:{port}"


def _headers(message: "Message") -> Headers:
    """Return the headers as they crossed the wire."""
    return tuple((_latin(name), _latin(value)) for name, value in message.headers.fields)


def _latin(data: bytes) -> str:
    return data.decode("latin-1")
