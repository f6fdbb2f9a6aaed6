"""The HTTP server of the debugger: the page with its modules, the API, which the package describes, and their access.

Only the owner can read a recording's file, but every user of the machine can connect to a port, and so can every
page that a browser on this machine shows.  So a request needs the cookie that the URL with the token sets.  A page
of another site is recognized by its Origin; a site whose name points here (DNS rebinding) by the Host.  Browsers
send cookies to every port of a host, so the name of the cookie contains the port.
"""

import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError

from wiretape.addresses import is_loopback, refuse_caller
from wiretape.control_protocol import is_secret
from wiretape.errors import InputError, RecordingError
from wiretape.json_codec import dump_json
from wiretape.listening import listening_url, start_listening, stop_listening
from wiretape.recording import Recording, open_recording
from wiretape_inspect.debugger.api_endpoints import (
    DOCUMENTS,
    LINES,
    NotFoundError,
    error_document,
    export,
    parse_query,
)
from wiretape_inspect.debugger.live_updates import RecorderLock, format_position, live_response
from wiretape_inspect.debugger.recording_thread import RecordingThread
from wiretape_inspect.debugger.replay_forwarder import ReplayAddress, ReplayForwarder, UnreachableError
from wiretape_inspect.diff.diff_model import TOLERANCE_NS, DiffOptions, DiffTotal
from wiretape_inspect.diff.diff_output import json_lines
from wiretape_inspect.diff.recording_diff import RecordingDiff
from wiretape_inspect.page import CONTENT_TYPES, read_page_file, served_page
from wiretape_inspect.timeline_json import recording_document

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Reader = Callable[[web.Request, RecordingThread], Awaitable[web.StreamResponse]]
_NO_TOKEN = "Open the URL that `wiretape debug` printed: it contains the access token."  # noqa: S105 - a sentence


_WRITE_HEADER = "X-Wiretape-Debug"
"""Requests that change something need this header: no form and no page of another origin can send it."""
_NO_CONTENT_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The Content-Security-Policy of responses other than the page."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": _NO_CONTENT_POLICY,
}
_WRITING = frozenset({"POST", "DELETE"})
_OWN_SITE = frozenset({"same-origin", "none"})


@dataclass(frozen=True, slots=True)
class Access:
    """The secrets of one debugger: the token in its URL, and the cookie that the browser gets for it."""

    token: str = field(default_factory=lambda: secrets.token_hex(16))
    cookie: str = field(default_factory=lambda: secrets.token_hex(16))

    def has_token(self, request: web.Request) -> bool:
        """Whether the URL contains the token."""
        return is_secret(request.query.get("token", ""), self.token)

    def has_cookie(self, request: web.Request) -> bool:
        """Whether the browser was let in before."""
        return is_secret(request.cookies.get(_cookie_name(request), ""), self.cookie)

    def set_cookie(self, request: web.Request, response: web.StreamResponse) -> None:
        """Let the browser in from now on."""
        response.set_cookie(_cookie_name(request), self.cookie, httponly=True, samesite="Strict", path="/")


@dataclass(frozen=True, slots=True)
class Debugger:
    """A running debugger."""

    url: str
    """Its origin, without a slash at the end."""
    access: Access

    @property
    def address(self) -> str:
        """The URL that a browser opens, with the access token."""
        return f"{self.url}/?token={self.access.token}"


@asynccontextmanager
async def serve_debugger(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    replay: ReplayAddress | None = None,
    opening: Callable[[], Recording] | None = None,
    compare: Callable[[], Recording] | None = None,
) -> AsyncIterator[Debugger]:
    """Serve the page of a recording, which also drives `replay`.  Port 0 chooses a free port.

    `opening` opens the recording; by default, its path is opened for each request.  `compare` opens another recording
    that it is compared with.
    Raises InputError if the recording cannot be read or the port is not available.
    """
    opening = opening or partial(open_recording, path)
    opening().close()
    read_page_file("page.js")  # which is made now, so that the first request need not wait for it
    if compare is not None:
        compare().close()
    if host != "localhost" and not is_loopback(host):
        raise InputError(f"Invalid host {host}: the debugger serves only this machine; use 127.0.0.1:{port}.")
    access, lock = Access(), RecorderLock(path)
    forwarder = ReplayForwarder(replay) if replay is not None else None
    logger = logging.getLogger(__name__)
    logger.addFilter(_is_internal)
    runner = web.AppRunner(
        _Routes(path, opening, access, lock, forwarder, compare).app(),
        access_log=None,
        logger=logger,
        handler_cancellation=True,
        shutdown_timeout=0.1,
    )
    await runner.setup()
    try:
        assert runner.server is not None  # noqa: S101 - the runner is set up
        listening = await start_listening(runner.server, host, port)
        try:
            yield Debugger(listening_url(listening), access)
        finally:
            await stop_listening(listening)
    finally:
        await runner.cleanup()
        lock.close()


def _is_internal(record: logging.LogRecord) -> bool:
    """Whether to log an error.  Malformed requests get a response and are not logged."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


@dataclass(frozen=True, slots=True)
class _Routes:
    """The routes, each behind access control."""

    path: Path
    opening: Callable[[], Recording]
    access: Access
    lock: RecorderLock
    forwarder: ReplayForwarder | None
    compare: Callable[[], Recording] | None

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(middlewares=[self._check_access, _handle_errors], client_max_size=1 << 20)
        app.router.add_get("/", _page, allow_head=False)
        app.router.add_get("/page/{name}", _page_file, allow_head=False)
        readers: dict[str, _Reader] = {"recording": self._recording, "live": self._live}
        readers |= {name: partial(_document_response, endpoint) for name, endpoint in DOCUMENTS.items()}
        readers["export"] = _export_response
        readers |= {name: partial(_lines_response, endpoint) for name, endpoint in LINES.items()}
        for name, reader in readers.items():
            app.router.add_get(f"/api/{name}", self._in_thread(reader, self.opening), allow_head=False)
        if self.compare is not None:
            event = partial(_document_response, DOCUMENTS["event"])
            differences = partial(_lines_response, _differences(self.compare))
            app.router.add_get("/api/other/event", self._in_thread(event, self.compare), allow_head=False)
            app.router.add_get("/api/differences", self._in_thread(differences, self.opening), allow_head=False)
        app.router.add_route("*", "/api/replay/{name:[a-z]+}", self._forward)
        app.on_response_prepare.append(_add_security_headers)
        if self.forwarder is not None:
            app.cleanup_ctx.append(self.forwarder.lifetime)
        return app

    @web.middleware
    async def _check_access(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        refusal = _find_refusal(request)
        if refusal is not None:
            return _error_response(403, refusal)
        if request.path == "/" and self.access.has_token(request):
            # The token disappears from the address bar; the browser keeps what follows the #.
            response = web.Response(status=303, headers={"Location": "/"})
            self.access.set_cookie(request, response)
            return response
        if self.access.has_cookie(request):
            return await handler(request)
        if request.path == "/":
            return web.Response(status=401, text=f"{_NO_TOKEN}\n")
        return _error_response(401, _NO_TOKEN)

    async def _recording(self, request: web.Request, thread: RecordingThread) -> web.StreamResponse:
        is_recording = self.lock.is_held

        def document(recording: Recording) -> dict[str, Any]:
            return recording_document(recording) | {
                "path": str(self.path),
                "live": is_recording and recording.info.ended_ns is None,
                "other": self._other_name(),
                "replay": {"url": self.forwarder.replay.url} if self.forwarder is not None else None,
                "position": format_position(recording.tail_position()),
            }

        return await _document_response(document, request, thread)

    def _other_name(self) -> str | None:
        if self.compare is None:
            return None
        with self.compare() as other:
            return other.path.name

    async def _live(self, request: web.Request, thread: RecordingThread) -> web.StreamResponse:
        return await live_response(request, thread, self.lock)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if self.forwarder is None:
            raise NotFoundError("No replay is attached: start one with `wiretape replay --debug`.")
        return await self.forwarder.forward(request)

    def _in_thread(self, reader: _Reader, opening: Callable[[], Recording]) -> _Handler:
        """Give each request a thread that reads the recording."""

        async def handle(request: web.Request) -> web.StreamResponse:
            thread = RecordingThread(opening)
            try:
                return await reader(request, thread)
            finally:
                thread.stop()

        return handle


def _find_refusal(request: web.Request) -> str | None:
    """Return why a request is refused with status 403, whatever its cookie; None if it is not."""
    hosts, origins = request.headers.getall("Host", []), request.headers.getall("Origin", [])
    if refusal := refuse_caller("The debugger", request.remote or "", hosts, origins):
        return refusal
    if request.path.startswith("/api/") and request.headers.get("Sec-Fetch-Site", "none") not in _OWN_SITE:
        return "The debugger does not serve pages of other origins."
    if request.method in _WRITING and request.headers.get(_WRITE_HEADER) != "1":
        return f"{request.method} requests need the header {_WRITE_HEADER}: 1."
    return None


async def _add_security_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Forbid caching, framing and use by other sites; an `on_response_prepare` signal of aiohttp."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


def _cookie_name(request: web.Request) -> str:
    transport = request.transport
    name = transport.get_extra_info("sockname") if transport is not None else None
    return f"wiretape-{name[1]}" if name else "wiretape"


async def _document_response(
    endpoint: Callable[..., Any], request: web.Request, thread: RecordingThread
) -> web.Response:
    """Respond with what an endpoint returns; it is also encoded in the thread."""
    query = parse_query(request, endpoint)
    return _json_response(await thread.run(lambda recording: dump_json(endpoint(recording, **query))))


async def _lines_response(
    endpoint: Callable[..., Iterator[str]], request: web.Request, thread: RecordingThread
) -> web.StreamResponse:
    """Respond with the lines of an endpoint, each sent soon after it is made.

    An error before the first line is raised; a later error becomes the last line.
    """
    query = parse_query(request, endpoint)
    parts = thread.lines(lambda recording: endpoint(recording, **query))
    response = await _begin_response(request, parts, {"Content-Type": "application/x-ndjson"})
    try:
        async for data in parts:
            await response.write(data)
    except InputError as error:
        await response.write(f"{dump_json(error_document(str(error)))}\n".encode())
    await response.write_eof()
    return response


async def _export_response(request: web.Request, thread: RecordingThread) -> web.StreamResponse:
    """Respond with a file to save.  After an error, the browser reports that the file is incomplete."""
    query = parse_query(request, export)
    parts = thread.parts(lambda recording: export(recording, **query))
    response = await _begin_response(request, parts, {"Content-Disposition": "attachment"})
    async for data in parts:
        await response.write(data)
    await response.write_eof()
    return response


async def _begin_response(
    request: web.Request, parts: AsyncIterator[bytes], headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send the head of a response and the first part; an error before this part is raised, and can have a status."""
    first = await anext(parts, b"")
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    await response.write(first)
    return response


def _error_response(status: int, message: str) -> web.Response:
    """Respond with an error."""
    return _json_response(dump_json(error_document(message)), status)


def _json_response(text: str, status: int = 200) -> web.Response:
    """Respond with JSON."""
    return web.Response(body=text.encode(), status=status, content_type="application/json")


def _differences(compare: Callable[[], Recording]) -> Callable[[Recording], Iterator[str]]:
    """Return an endpoint for the differences.

    Ids are normalized if the recordings share no channel, and times unless they began at the same moment.
    """

    def lines(recording: Recording) -> Iterator[str]:
        with compare() as other:
            both = (recording, other)
            channels = [{exchange.channel for exchange in each.exchanges()} - {None} for each in both]
            own_ids = not channels[0] & channels[1]
            own_times = recording.info.started_unix_ns != other.info.started_unix_ns
            options = DiffOptions(ids=own_ids, times=own_times, tolerance_ns=TOLERANCE_NS)
            normalized = [name for name, is_own in (("ids", own_ids), ("times", own_times)) if is_own]
            head = {"a": recording.path.name, "b": other.path.name, "normalized": normalized}
            diffs = RecordingDiff(*both, options).compare_all()
            yield from json_lines(both, diffs, DiffTotal(), head, with_previews=True)

    return lines


async def _page(_request: web.Request) -> web.StreamResponse:
    page = served_page()
    headers = {"Content-Security-Policy": f"{page.policy}; frame-ancestors 'none'"}
    return web.Response(text=page.html, content_type="text/html", headers=headers)


async def _page_file(request: web.Request) -> web.StreamResponse:
    """Respond with the script or the style of the page."""
    name = request.match_info["name"]
    body = read_page_file(name)
    if body is None:
        raise web.HTTPNotFound
    return web.Response(body=body, content_type=CONTENT_TYPES[PurePath(name).suffix], charset="utf-8")


@web.middleware
async def _handle_errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _error_response(error.status, f"{error.reason}.")
    except InputError as error:
        return _error_response(_status_of(error), str(error))


def _status_of(error: InputError) -> int:
    match error:
        case NotFoundError():
            return 404
        case UnreachableError():
            return 502
        case RecordingError():
            return 500
        case _:
            return 400
