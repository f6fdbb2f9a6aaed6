"""HTTP server: reads requests and passes them to a handler, which writes the responses."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web
from aiohttp.typedefs import Handler as RouteHandler

from wiretape.addresses import listen_error, origin_of
from wiretape.errors import InputError
from wiretape.safe_text import shorten
from wiretape_replay.http_server.aiohttp_connection import (
    LINGER_S,
    HttpLog,
    MalformedRequestHandler,
    SentResponse,
    ServerRunner,
)
from wiretape_replay.http_server.request import NO_BODY, BodyReader, HttpRequest
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.http_server.traffic_listener import ExchangeListener, NullListener, TrafficListener

Handler = Callable[[HttpRequest, ResponseWriter], Awaitable[None]]
"""Writes the whole response to a request.

Raises ConnectionError when the client disconnects, or is cancelled then.
"""

_LONGEST_LINE = 256 * 1024
"""Maximum size of a request line or header in bytes, large enough for everything that services accept."""
_MOST_HEADERS = 1000
_LAST_PORT = 65535
_SHUTDOWN_S = 5.0
"""How long aiohttp waits for responses to end after they were aborted."""


class HttpServer:
    """An HTTP/1.1 server.

    Routes added to `app` come first; every other request, whatever its method and target, goes to the handler.
    """

    def __init__(
        self,
        handler: Handler,
        log: Callable[[str], None],
        listener: TrafficListener | None = None,
        malformed: MalformedRequestHandler | None = None,
    ) -> None:
        """`malformed` responds to requests that cannot be parsed; None: aiohttp does."""
        self.app = web.Application(middlewares=[self._handle])
        self._handler = handler
        self._listener: TrafficListener = listener or NullListener()
        self._log = log
        self._writers: set[ResponseWriter] = set()
        self._runner = ServerRunner(
            self.app,
            malformed,
            access_log=None,
            logger=HttpLog(log),
            auto_decompress=False,
            handler_cancellation=True,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            max_headers=_MOST_HEADERS,
            lingering_time=LINGER_S,
            shutdown_timeout=_SHUTDOWN_S,
        )

    async def start(self, host: str, port: int) -> str:
        """Listen, on a free port if `port` is 0.  Returns the base URL.  Raises InputError."""
        if port not in range(_LAST_PORT + 1):
            raise InputError(f"Invalid port {shorten(str(port), 60)}: expected 0 to {_LAST_PORT}.")
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise InputError(listen_error(host, port, error)) from None
        return origin_of(*self._runner.addresses[0][:2])

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        for site in self._runner.sites:
            await site.stop()
        for writer in list(self._writers):
            writer.abort()
        await self._runner.cleanup()

    @web.middleware
    async def _handle(self, request: web.Request, handler: RouteHandler) -> web.StreamResponse:
        if request.match_info.http_exception is None:
            return await handler(request)
        head = _request_head(request)
        listener = self._listener.request_started(head)
        writer = ResponseWriter(request, listener)
        self._writers.add(writer)
        try:
            await self._handler(await _read_request(request, head, listener), writer)
        except InputError as error:
            self._log(f"Error: {error.message}")
            writer.close()
        except (ConnectionError, web.RequestPayloadError):
            writer.keep_alive = False  # the client disconnected, or the request body is malformed
        except Exception:
            writer.close()  # the service has no error code for a bug in the server
            raise
        finally:
            self._writers.discard(writer)
            writer.report_ending()
        return SentResponse(keep_alive=writer.keep_alive)


def _request_head(request: web.Request) -> HttpRequest:
    return HttpRequest(
        method=request.method,
        target=request.raw_path.encode("utf-8", "surrogateescape").decode("latin-1"),
        body=NO_BODY,
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers),
        http_version=f"HTTP/{request.version.major}.{request.version.minor}",
        client=request.remote or "",
    )


async def _read_request(request: web.Request, head: HttpRequest, listener: ExchangeListener) -> HttpRequest:
    """Read the request to its end."""
    body = BodyReader()
    async for data in request.content.iter_any():
        body.feed(data)
        listener.request_body(data)
    listener.request_ended()
    return replace(head, body=body.finish())
