"""HTTP client of the service behind a replay: forwards a request, and streams the response back as it arrives."""

from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import IO

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    TraceConfig,
    TraceRequestHeadersSentParams,
)
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from wiretape.addresses import Upstream
from wiretape.network_errors import describe_connection_error
from wiretape.observations import Ending, Headers, ResponseStarted
from wiretape_replay.http_server.aiohttp_server import LONGEST_LINE
from wiretape_replay.http_server.http_messages import HttpRequest, ResponseHead
from wiretape_replay.http_server.response_writer import (
    ExchangeListener,
    RequestBodyPart,
    RequestComplete,
    ResponseWriter,
    TrafficListener,
)

_CONNECT_S = 10.0
_PART_BYTES = 64 * 1024
_CONNECTION_HEADERS = {"expect", "http2-settings", "transfer-encoding", "upgrade"}
"""Headers about the connection of the client, which the service does not get."""
_NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that aiohttp would add."""
_ERRORS = (ClientError, HttpProcessingError, OSError, ValueError)


class UpstreamClient:
    """Sends requests to a service, each on a connection of its own.  Create it in an event loop."""

    def __init__(self, upstream: Upstream, listener: TrafficListener) -> None:
        """`listener` observes what the service receives and sends."""
        self._upstream = upstream
        self._listener = listener
        tracing = TraceConfig()
        tracing.on_request_headers_sent.append(_notice_sent)
        self._session = ClientSession(
            timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S),
            # A service may close a connection that waits for the next request at any time.
            connector=TCPConnector(limit=0, keepalive_timeout=0),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_NOT_ADDED,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            trace_configs=[tracing],
        )
        self._session._retry_connection = False  # noqa: SLF001 - aiohttp sends a GET twice that gets no response

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def forward(self, request: HttpRequest, writer: ResponseWriter) -> str | None:
        """Forward a request, and send the response.  Returns why the service was not reached; None if it was.

        Raises ConnectionError if the client disconnects.
        """
        request = replace(request, headers=self._own_headers(request.headers))
        exchange: list[ExchangeListener] = []

        def on_sent() -> None:
            exchange.append(self._listener(request))
            if request.content is None:
                exchange[0](RequestComplete())

        ending: Ending | None = None
        try:
            body = None if request.content is None else _read(request.content, exchange)
            response = await self._session.request(
                request.method,
                self._url_of(request.target),
                headers=request.headers,
                data=body,
                allow_redirects=False,
                trace_request_ctx=on_sent,
            )
            with closing(response):
                ending = await _pass_on(response, writer, exchange[0])
        except _ERRORS as error:
            if not exchange:
                reason = describe_connection_error(error) if isinstance(error, OSError) else str(error)
                return f"{self._upstream.origin} cannot be reached: {reason}."
            if writer.head is not None:
                raise  # the client has disconnected
            ending = _ending_of(error)
        finally:
            if exchange:
                exchange[0](ending or writer.ending or Ending.CLIENT_CLOSED)
        await writer.end(ending)
        return None

    def _url_of(self, target: str) -> URL:
        """The URL of a target.  Raises ValueError for one that does not begin with a slash."""
        path, _, query = target.partition("?")
        where = self._upstream
        return URL.build(
            scheme=where.scheme, host=where.host, port=where.port, path=path, query_string=query, encoded=True
        )

    def _own_headers(self, headers: Headers) -> Headers:
        """The headers of a request as the service gets them."""
        host = self._upstream.authority.removesuffix(":443" if self._upstream.scheme == "https" else ":80")
        dropped = _CONNECTION_HEADERS
        if any(name.lower() == "upgrade" for name, _ in headers):
            dropped = dropped | {"connection"}
        kept = ((name, value) for name, value in headers if name.lower() not in dropped)
        return tuple((name, host if name.lower() == "host" else value) for name, value in kept)


async def _notice_sent(_: ClientSession, context: SimpleNamespace, __: TraceRequestHeadersSentParams) -> None:
    on_sent: Callable[[], None] = context.trace_request_ctx
    on_sent()


async def _read(content: IO[bytes], exchange: list[ExchangeListener]) -> AsyncIterator[bytes]:
    """Read the body of a request from its beginning."""
    content.seek(0)
    while data := content.read(_PART_BYTES):
        exchange[0](RequestBodyPart(data))
        yield data
    exchange[0](RequestComplete())


async def _pass_on(response: ClientResponse, writer: ResponseWriter, listener: ExchangeListener) -> Ending:
    """Send a response as it arrives, and return how the service ended it.  Raises ConnectionError."""
    version = "HTTP/1.1" if response.version is None else f"HTTP/{response.version.major}.{response.version.minor}"
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers)
    started = ResponseStarted(0, 0, response.status, response.reason or "", version, headers)
    head = ResponseHead.of(response.method, started)
    listener(head)
    await writer.start(head)
    while True:
        try:
            data = await response.content.read(_PART_BYTES)
        except _ERRORS as error:
            return _ending_of(error)
        if not data:
            return Ending.COMPLETE
        listener(data)
        await writer.write(data)


def _ending_of(error: Exception) -> Ending:
    """How a service ended an exchange that aiohttp reports as an error."""
    if isinstance(error, ClientError | OSError):
        # The error about an incomplete body only quotes that of the connection.
        is_reset = isinstance(error, ConnectionResetError) or "ConnectionResetError" in f"{error!r}"
        return Ending.SERVICE_RESET if is_reset else Ending.SERVICE_CLOSED
    return Ending.SERVICE_INVALID
