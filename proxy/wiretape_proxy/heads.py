"""The heads of mitmproxy's flows as observations."""

from mitmproxy.http import Headers as HttpHeaders
from mitmproxy.http import HTTPFlow, Response
from mitmproxy.net.http.url import hostport

from wiretape.observations import Headers, RequestStarted, ResponseStarted


def request_started(number: int, flow: HTTPFlow) -> RequestStarted:
    """The head of a flow's request, as exchange `number`; the moment is not told here."""
    request = flow.request
    # mitmproxy tells us of a request that it refuses before it knows where that was to go.
    host, port = (request.host, request.port) if request.host else (flow.server_conn.address or ("", 0))[:2]
    return RequestStarted(
        exchange=number,
        time_ns=0,
        client=flow.client_conn.peername[0],
        method=request.data.method.decode("latin-1"),
        scheme=request.scheme,
        authority=hostport(request.scheme, host, port),
        target=request.data.path.decode("latin-1"),
        http_version=request.http_version,
        headers=_headers(request.headers),
    )


def response_started(number: int, response: Response) -> ResponseStarted:
    """The head of a response, as that of exchange `number`; the moment is not told here."""
    return ResponseStarted(
        exchange=number,
        time_ns=0,
        status=response.status_code,
        reason=response.data.reason.decode("latin-1"),
        http_version=response.http_version,
        headers=_headers(response.headers),
    )


def _headers(headers: HttpHeaders) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.fields)
