"""How the server changes aiohttp: malformed requests, the end of connections, and error logs."""

import asyncio
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from wiretape.recording import RedactionPolicy
from wiretape.safe_text import shorten
from wiretape_replay.http_server.response import Response

MalformedRequestHandler = Callable[[str], Response]
"""Returns the response to a malformed request; the argument describes what is wrong."""

LINGER_S = 10.0
"""How long a client may take to send the rest of a request, or to close its side, after the last response."""
_LINGER_BYTES = 64 * 1024 * 1024
"""Bytes that a client may send after the last response."""

_SECRET_HEADER = re.compile(
    rf"({'|'.join((*RedactionPolicy().credential_headers, *RedactionPolicy().secret_headers))})\s*:.*", re.IGNORECASE
)
"""A header with a secret, and everything after it, in a message that quotes a request."""


class ServerRunner(web.AppRunner):
    """Runs an application with the connections of this module."""

    __slots__ = ("_malformed",)

    def __init__(self, app: web.Application, malformed: MalformedRequestHandler | None, **options: Any) -> None:
        """`malformed` responds to requests that aiohttp rejects; None: aiohttp does."""
        super().__init__(app, **options)
        self._malformed = malformed

    async def _make_server(self) -> web.Server:
        return _Server(await super()._make_server(), self._malformed)


class _Server(web.Server):
    """Creates the connections."""

    def __init__(self, server: web.Server, malformed: MalformedRequestHandler | None) -> None:
        super().__init__(
            server.request_handler,
            request_factory=server.request_factory,
            handler_cancellation=server.handler_cancellation,
            **server._kwargs,  # noqa: SLF001 - the options of the runner
        )
        self._handle = server.request_handler
        self._malformed = malformed
        self.request_handler = self._respond

    def __call__(self) -> web.RequestHandler:
        return _Connection(self._malformed, self, loop=self._loop, **self._kwargs)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._handle(request)
        except web.HTTPException as error:  # for example an unknown Expect header
            if self._malformed is None:
                raise
            return _FinalResponse(self._malformed(error.text or error.reason))


class _Connection(web.RequestHandler):
    """A connection that is closed in two steps (RFC 9112, 9.6): first by the server, then by the client.

    A system that receives data on a closed connection, or closes one with unread data, resets it, and a client that
    has not read the last response yet loses it.
    """

    __slots__ = ("_bytes_left", "_malformed", "_stop_lingering")

    def __init__(self, malformed: MalformedRequestHandler | None, manager: web.Server, **options: Any) -> None:
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
        response = super().handle_error(request, status, exc, message)
        if self._malformed is None:
            return response
        if status >= 500:
            # The service has no error code for a bug in the server.
            raise ConnectionError("There is no response")
        response.force_close()
        return _FinalResponse(self._malformed(message or "This is not HTTP."))

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
        transport.write_eof()
        transport.resume_reading()  # aiohttp may have paused it
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await self._stop_lingering.wait()


class _FinalResponse(web.StreamResponse):
    """A response sent without the headers that aiohttp adds; closes the connection."""

    def __init__(self, response: Response) -> None:
        super().__init__(status=response.status)
        self._response = replace(response, headers=(*response.headers, ("Connection", "close")))
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send the response."""
        if request.transport is not None:
            body = b"" if request.method == "HEAD" else self._response.body
            request.transport.write(self._response.head().raw + body)

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: the response is sent."""


class SentResponse(web.StreamResponse):
    """Stands for a response that a ResponseWriter has sent."""

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

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__(logging.getLogger("wiretape_replay"), {})
        self._log_line = log

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """See logging.LoggerAdapter."""
        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError):
            message = _SECRET_HEADER.sub(r"\1: …", " ".join(error.message.split()))
            self._log_line(shorten(f"Malformed request → 400: {message}"))
        elif isinstance(error, Exception):
            message = shorten(f"{type(error).__name__}: {' '.join(str(error).split())}")
            super().log(level, "Internal error while handling a request: %s", message)
            super().log(logging.DEBUG, msg, *args, **kwargs)
        else:
            super().log(level, msg, *args, **kwargs)
