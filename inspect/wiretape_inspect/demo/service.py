"""A small stand-in of the Agent Session Service: one session, in memory, with three planted violations.

What the specification does not show (how a run is created, what most events hold) is made up here.
"""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, Self

from aiohttp import web

from wiretape.contract import CANCEL, CURSOR_HEADER, ERROR_CODES, EVENT_STREAM, RESUME, STREAM, deltas_requested

SESSION = "wiretape-demo"
KEEP_ALIVE_SECONDS = 0.5
"""Far more often than the 15 s of the specification, so that the demo shows some."""

_RUN = "run_1"
_TOOL = {"tool_call_id": "call_1", "name": "look_up"}
_WORDS = "The library is open until eight this evening, so there is time enough for a walk."
_THOUGHTS = "They ask for opening hours; the tool knows them."
_PAUSE = 0.02
_CUT = None
"""Put in place of bytes, it ends a connection without ending the response."""


class StandIn:
    """The service, listening on a free port of the loopback address while its context is open."""

    def __init__(self) -> None:
        self.url = ""
        self._stored: list[tuple[str, bytes]] = []
        """Every durable event: its id and its bytes."""
        self._live: dict[asyncio.Queue[bytes | None], bool] = {}
        """The open streams, and whether each asked for deltas."""
        self._read = asyncio.Event()
        """Set when a client reads the stream, and `_resumed` when it has come back with a cursor."""
        self._resumed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._errors = 0
        app = web.Application()
        app.router.add_get(STREAM.path, self._stream)
        app.router.add_post("/v1/sessions/{session_id}/runs", self._create_run)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._work is not None:
            self._work.cancel()
        await self._runner.cleanup()

    async def _create_run(self, request: web.Request) -> web.Response:
        if refusal := self._refusal(request):
            return refusal
        if self._work is not None and not self._work.done():
            ids = {"session_id": SESSION, "run_id": _RUN}
            return self._error(
                "SESSION_BUSY",
                f"Session {SESSION} has an active run {_RUN} with status running.",
                active_run_id=_RUN,
                active_run_status="running",
                recovery=[f"POST {operation.path.format(**ids)}" for operation in (CANCEL, RESUME)],
            )
        self._work = asyncio.create_task(self._run())
        return web.json_response({"run_id": _RUN, "session_id": SESSION}, status=202)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refusal(request):
            return refusal
        cursor = request.headers.get(CURSOR_HEADER)
        ids = [sse_id for sse_id, _ in self._stored]
        if cursor is not None and cursor not in ids:
            return self._error("invalid_cursor", f"There is no event {cursor} in session {SESSION}.")
        response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM, "Cache-Control": "no-store"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for _, raw in self._stored[ids.index(cursor) + 1 :] if cursor is not None else self._stored:
            queue.put_nowait(raw)
        self._live[queue] = deltas_requested(request.raw_path)
        (self._read if cursor is None else self._resumed).set()
        try:
            await _deliver(queue, response)
        except ConnectionError:
            pass
        finally:
            del self._live[queue]
        if request.transport is not None:
            request.transport.close()
        return response

    def _refusal(self, request: web.Request) -> web.Response | None:
        if not request.headers.get("Authorization", "").startswith("Bearer "):
            return self._error("authentication_required", "Send a key as Authorization: Bearer.")
        if request.match_info["session_id"] != SESSION:
            # Planted, ERR004: the status of this code is 404.
            return self._error("resource_not_found", "There is no such session in this workspace.", status=400)
        return None

    def _error(self, code: str, message: str, *, status: int | None = None, **more: object) -> web.Response:
        self._errors += 1
        error = {"code": code, "message": message, "request_id": f"req_{self._errors}", **more}
        return web.json_response({"error": error}, status=status or ERROR_CODES[code].status)

    async def _run(self) -> None:
        """What the one run does, from its beginning to the idle session."""
        self._store("run.started", {})
        await self._read.wait()
        await self._speak("reasoning.delta", _THOUGHTS)
        self._store("reasoning.message", [{"type": "text", "text": _THOUGHTS}])
        self._store("tool.started", {**_TOOL, "input": {"of": "library"}}, _TOOL)
        await asyncio.sleep(1.3)
        # Planted, SEQ001: the sequence of the event before, once more.
        self._store("tool.completed", {**_TOOL, "output": {"until": "20:00"}}, _TOOL, sequence=len(self._stored))
        await self._speak("message.delta", _WORDS, mark=7)
        message = self._store("message.completed", [{"type": "text", "text": _WORDS}], send=False)
        self._send(message[: len(message) // 2])
        await asyncio.sleep(0.3)
        self._send(_CUT)
        await self._resumed.wait()
        await asyncio.sleep(0.2)
        self._store("run.completed", {})
        self._store("session.status_idle", {})

    async def _speak(self, kind: str, text: str, *, mark: int | None = None) -> None:
        for index, word in enumerate(text.split()):
            said = {"type": kind, "run_id": _RUN, "delta": {"text": f"{word} "}}
            # Planted, DUR004: a delta is not stored, so it must carry no id.
            self._send(_event(kind, said, f"live_{index}" if index == mark else None), delta=True)
            await asyncio.sleep(_PAUSE)

    def _store(
        self, kind: str, content: object, data: object = None, *, sequence: int | None = None, send: bool = True
    ) -> bytes:
        number = len(self._stored) + 1
        said = {
            "id": f"evt_{number}",
            "sequence": sequence or number,
            "type": kind,
            "workspace_id": "wks_demo",
            "session_id": SESSION,
            "run_id": _RUN,
            "created_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "content": content,
            "data": data or {},
        }
        raw = _event(kind, said, f"evt_{number}")
        self._stored.append((f"evt_{number}", raw))
        if send:
            self._send(raw)
        return raw

    def _send(self, raw: bytes | None, *, delta: bool = False) -> None:
        for queue, deltas in self._live.items():
            if deltas or not delta:
                queue.put_nowait(raw)


async def _deliver(queue: asyncio.Queue[bytes | None], response: web.StreamResponse) -> None:
    """Write what comes until the connection is to be cut; raises ConnectionError once the client has left."""
    while True:
        try:
            raw = await asyncio.wait_for(queue.get(), KEEP_ALIVE_SECONDS)
        except TimeoutError:
            raw = b": keep-alive\n"
        if raw is _CUT:
            return
        await response.write(raw)


def _event(kind: str, said: dict[str, Any], sse_id: str | None) -> bytes:
    id_line = f"id: {sse_id}\n" if sse_id is not None else ""
    return f"event: {kind}\n{id_line}data: {json.dumps(said)}\n\n".encode()
