"""HTTP server: reads requests and passes them to a handler, which writes the responses.

What depends on aiohttp's internals is here: malformed requests, the end of connections, and error logs.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from wiretape.control_protocol import CONTROL_ROOT
from wiretape.credential_names import SECRET_HEADERS
from wiretape.errors import InputError
from wiretape.listening import listening_url, start_listening, stop_listening
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import LARGEST_BODY, NO_BODY, BodyReader, HttpRequest, HttpResponse
from wiretape_replay.http_server.response_writer import (
    ExchangeListener,
    ExchangePart,
    RequestBodyPart,
    RequestComplete,
    ResponseWriter,
    TrafficListener,
)

MalformedRequestHandler = Callable[[str], HttpResponse]
"""Returns the response to a malformed request; the argument describes what is wrong."""

RouteHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""Responds to a request by means of aiohttp."""

LINGER_S = 10.0
"""How long a client may take to send the rest of a request, or to close its side, after the last response."""
_LINGER_BYTES = 64 * 1024 * 1024
"""Bytes that a client may send after the last response."""

_SECRET_HEADER = re.compile(rf"({'|'.join(SECRET_HEADERS)})\s*:.*", re.IGNORECASE)
"""A header with a secret, and everything after it, in a message that quotes a request."""


class _Server(web.Server):
    """Creates the connections."""

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    """A connection that is closed in two steps (RFC 9112, 9.6): first by the server, then by the client.

    A system that receives data on a closed connection, or closes one with unread data, resets it, and a client that
    has not read the last response yet loses it.
    """

    __slots__ = ("_bytes_left", "_malformed", "_stop_lingering")

    def __init__(self, manager: web.Server, *, malformed: MalformedRequestHandler, **options: Any) -> None:
        super().__init__(manager, **options)
        self._malformed = malformed
        self._stop_lingering = asyncio.Event()
        self._bytes_left: int | None = None
        """Bytes that the client may still send; None while requests are read."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """See aiohttp, which logs the error."""
        super().handle_error(request, status, exc, message)
        if status >= 500:
            # The service has no error code for a bug in the server.
            raise ConnectionError("There is no response")
        return _send_last(request, self._malformed(message or "This is not HTTP."))

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """See aiohttp; after the last response, returns when the client has disconnected."""
        resp, is_reset = await super().finish_response(request, resp, start_time)
        if is_reset or resp.keep_alive:
            return resp, is_reset
        await self._linger()
        return resp, True

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._bytes_left is None:
            super().data_received(data)
            return
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self._stop_lingering.set()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - aiohttp's
        """See aiohttp; does not wait for clients that have received their response."""
        self._stop_lingering.set()
        if not self._request_in_progress and self._task_handler is not None:
            self._task_handler.cancel()  # aiohttp is reading the rest of a request
        await super().shutdown(timeout)

    async def _linger(self) -> None:
        """Close the server's side, and drop what the client still sends for a while."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self._bytes_left = _LINGER_BYTES
        with suppress(OSError):  # the client has just reset the connection
            transport.write_eof()
        transport.resume_reading()  # aiohttp may have paused it
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await self._stop_lingering.wait()


def _send_last(request: web.BaseRequest, response: HttpResponse) -> "SentResponse":
    """Send a response without the headers that aiohttp adds, and close the connection."""
    head = replace(response, headers=(*response.headers, ("Connection", "close"))).head()
    if request.transport is not None:
        request.transport.write(head.raw + (b"" if request.method == "HEAD" else response.body))
    return SentResponse(keep_alive=False)


class SentResponse(web.StreamResponse):
    """Stands for a response that was sent without aiohttp."""

    def __init__(self, *, keep_alive: bool) -> None:
        super().__init__()
        self._stays_open = keep_alive

    @property
    def keep_alive(self) -> bool:
        """Whether the connection stays open."""
        return self._stays_open

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing: the head is sent."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: the body is sent."""


class HttpLog(logging.LoggerAdapter[logging.Logger]):
    """Logs one line for each error of aiohttp; tracebacks are logged at debug level."""

    def __init__(self, log: Callable[[str], None] | None) -> None:
        super().__init__(logging.getLogger("wiretape_replay"), {})
        self._log_line = log

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """See logging.LoggerAdapter."""
        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError):
            if self._log_line is None:
                return
            message = _SECRET_HEADER.sub(r"\1: …", " ".join(error.message.split()))
            self._log_line(shorten(f"Malformed request → 400: {message}"))
        elif isinstance(error, Exception):
            message = shorten(f"{type(error).__name__}: {' '.join(str(error).split())}")
            super().log(level, "Internal error while handling a request: %s", message)
            super().log(logging.DEBUG, msg, *args, **kwargs)
        else:
            super().log(level, msg, *args, **kwargs)


Handler = Callable[[HttpRequest, ResponseWriter], Awaitable[None]]
"""Writes the whole response to a request.

Raises ConnectionError when the client disconnects, or is cancelled then.
"""

LONGEST_LINE = 256 * 1024
"""Maximum size of a request line or header in bytes, large enough for everything that services accept."""
_MOST_HEADERS = 1000
_LAST_PORT = 65535
_SHUTDOWN_S = 5.0
"""How long aiohttp waits for responses to end after they were aborted."""


def _bad_request(error: str) -> HttpResponse:
    return HttpResponse(400, error.encode(), content_type="text/plain")


class HttpServer:
    """An HTTP/1.1 server.  Create it in an event loop.

    `control` responds to requests under `/_wiretape/`; every other request, whatever its method and target, goes to
    the handler.
    """

    def __init__(
        self,
        handler: Handler,
        log: Callable[[str], None] | None = None,
        listener: TrafficListener | None = None,
        malformed: MalformedRequestHandler = _bad_request,
        *,
        control: RouteHandler | None = None,
        keeps_bodies: bool = False,
    ) -> None:
        """`log` receives lines about requests; `malformed` responds to invalid requests.

        `keeps_bodies` says whether requests have their `content`.
        """
        self._handler = handler
        self._listener = listener or (lambda _: _ignore)
        self._log = log
        self._malformed = malformed
        self._control = control
        self._keeps_bodies = keeps_bodies
        self._writers: set[ResponseWriter] = set()
        self._listening: asyncio.Server | None = None
        """Between `start` and `stop`."""
        self._server = _Server(
            self._respond,
            malformed=malformed,
            access_log=None,
            logger=HttpLog(log),
            auto_decompress=False,
            handler_cancellation=True,
            max_line_size=LONGEST_LINE,
            max_field_size=LONGEST_LINE,
            max_headers=_MOST_HEADERS,
            lingering_time=LINGER_S,
        )

    async def start(self, host: str, port: int) -> str:
        """Listen, on a free port if `port` is 0.  Returns the base URL.  Raises InputError."""
        if port not in range(_LAST_PORT + 1):
            raise InputError(f"Invalid port {shorten(str(port), 60)}: expected 0 to {_LAST_PORT}.")
        self._listening = await start_listening(self._server, host, port)
        return listening_url(self._listening)

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        listening, self._listening = self._listening, None
        if listening is not None:
            await stop_listening(listening)
        for writer in list(self._writers):
            writer.abort()
        transports = [connection.transport for connection in self._server.connections]
        self._server.pre_shutdown()
        await self._server.shutdown(_SHUTDOWN_S)
        for transport in transports:
            if transport is not None:
                transport.abort()  # aiohttp leaves it open while the client does not read the last response

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        expect = request.headers.get("Expect")
        if expect and request.version >= HttpVersion11:
            if expect.lower() != "100-continue":
                return _send_last(request, self._malformed(f"Unknown Expect: {expect}"))
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # the response has not started
        if self._control is not None and _is_control(request):
            return await self._control(request)
        return await self._serve(request)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._listening is None:
            return _SENT_LAST
        head = _request_head(request)
        listener = self._listener(head)
        writer = ResponseWriter(request, listener, self._log)
        self._writers.add(writer)
        content = SpooledTemporaryFile(LARGEST_BODY) if self._keeps_bodies and request.body_exists else None  # noqa: SIM115
        try:
            await self._handler(await _read_request(request, head, listener, content), writer)
        except InputError as error:
            writer.log(f"Error: {error.message}")
            writer.close()
        except (ConnectionError, web.RequestPayloadError):
            writer.keep_alive = False  # the client disconnected, or the request body is malformed
        except Exception:
            writer.close()  # the service has no error code for a bug in the server
            raise
        finally:
            self._writers.discard(writer)
            writer.report_ending()
            if content is not None:
                content.close()
        return _SENT if writer.keep_alive else _SENT_LAST


_SENT, _SENT_LAST = SentResponse(keep_alive=True), SentResponse(keep_alive=False)


def _is_control(request: web.BaseRequest) -> bool:
    """Whether a request is for the control API, also if its path is percent-encoded."""
    is_plain = "%" not in request.raw_path and CONTROL_ROOT.rstrip("/") not in request.raw_path
    return not is_plain and f"{request.path}/".startswith(CONTROL_ROOT)


def _ignore(_: ExchangePart) -> None:
    """Listen to nothing."""


def _request_head(request: web.BaseRequest) -> HttpRequest:
    return HttpRequest(
        method=request.method,
        target=request.raw_path.encode("utf-8", "surrogateescape").decode("latin-1"),
        body=NO_BODY,
        headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers),
        http_version=f"HTTP/{request.version.major}.{request.version.minor}",
        client=request.remote or "",
    )


async def _read_request(
    request: web.BaseRequest, head: HttpRequest, listener: ExchangeListener, content: IO[bytes] | None
) -> HttpRequest:
    """Read the request to its end, and write its body to `content`."""
    if not request.body_exists:
        listener(RequestComplete())
        return head
    body = BodyReader()
    async for data in request.content.iter_any():
        body.feed(data)
        if content is not None:
            content.write(data)
        listener(RequestBodyPart(data))
    listener(RequestComplete())
    return replace(head, body=body.finish(), content=content)
