"""An Agent Session Service written from the specification alone, with Starlette and sse-starlette.

It shares no code with wiretape.  It knows nothing of idempotency keys, and leaves unknown paths to Starlette.
"""

import asyncio
import contextlib
import itertools
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TENANTS = {"Bearer main-key": "acme", "Bearer other-key": "globex"}
STATUSES = {
    "invalid_request": 400,
    "invalid_cursor": 400,
    "authentication_required": 401,
    "resource_not_found": 404,
    "event_already_resolved": 409,
    "event_expired": 409,
    "run_not_resumable": 409,
    "SESSION_BUSY": 409,
    "RUN_NOT_CANCELLABLE": 409,
    "tool_result_invalid": 422,
}
numbers = itertools.count(1)


class RefusedError(Exception):
    def __init__(self, code, message="Refused.", **fields):
        super().__init__(code)
        self.error = {"code": code, "message": message, "request_id": f"r{next(numbers)}", **fields}


async def refuse(_request, refused):
    return JSONResponse({"error": refused.error}, STATUSES[refused.error["code"]])


@dataclass
class Run:
    id: str
    status: str = "running"
    task: asyncio.Task | None = None
    calls: dict = field(default_factory=dict)
    """The result of each application tool call: a future."""


@dataclass
class Session:
    id: str
    tenant: str
    log: list = field(default_factory=list)
    """The stored events; the id of an event is its number."""
    queues: list = field(default_factory=list)
    runs: dict = field(default_factory=dict)

    @property
    def active(self):
        return next((run for run in self.runs.values() if run.status in {"running", "waiting_for_input"}), None)

    def store(self, run, type_, content=None, data=None):
        number = len(self.log) + 1
        event = {
            "id": str(number),
            "sequence": number,
            "type": type_,
            "workspace_id": "w",
            "session_id": self.id,
            "run_id": run.id,
            "created_at": datetime.now(UTC).isoformat(),
            "content": {} if content is None else content,
            "data": {} if data is None else data,
        }
        self.log.append(event)
        for queue in self.queues:
            queue.put_nowait(event)

    def send(self, run, text):
        for queue in self.queues:
            queue.put_nowait({"type": "message.delta", "run_id": run.id, "delta": {"text": text}})

    def end(self, run, status, content=None):
        run.status = status
        self.store(run, f"run.{status}", content)
        self.store(run, "session.status_idle")


async def work(session, run, kind):
    """What a run does."""
    await asyncio.sleep(0.01)
    session.store(run, "run.started")
    if kind == "fail":
        session.end(run, "failed", {"error": "It is broken."})
        return
    if kind == "wait":
        await asyncio.sleep(60)
    if kind in {"ask", "hurry"} and not await ask(session, run, 0.2 if kind == "hurry" else 60):
        session.end(run, "failed", {"error": "Too late."})
        return
    for word in ("It ", "works."):
        session.send(run, word)
        await asyncio.sleep(0.005)
    session.store(run, "message.completed", [{"type": "text", "text": "It works."}])
    session.end(run, "completed")


async def ask(session, run, patience):
    """Ask for the result of an application tool; whether it came."""
    call = f"c{next(numbers)}"
    run.calls[call] = result = asyncio.get_running_loop().create_future()
    about = {"tool_call_id": call, "name": "weather"}
    session.store(run, "tool.started", about | {"input": {}}, about)
    run.status = "waiting_for_input"
    session.store(run, "agent.custom_tool_use", about | {"input": {}}, about)
    try:
        async with asyncio.timeout(patience):
            output = await asyncio.shield(result)
    except TimeoutError:
        result.cancel()
        session.store(run, "tool.failed", about, about)
        return False
    run.status = "running"
    session.store(run, "tool.completed", about | {"output": output}, about)
    return True


class Service:
    """The service; `ping` is the interval of its keep-alives in seconds."""

    def __init__(self, ping):
        self.ping, self.sessions = ping, {}

    async def body_of(self, request):
        try:
            body = json.loads(await request.body() or b"{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise RefusedError("invalid_request", "Expected a JSON object.")
        return body

    def find(self, request):
        tenant = TENANTS.get(request.headers.get("authorization"))
        if tenant is None:
            raise RefusedError("authentication_required")
        session = self.sessions.get(request.path_params.get("session"))
        if session is None or session.tenant != tenant:
            raise RefusedError("resource_not_found")
        return session

    def find_run(self, request):
        session = self.find(request)
        if request.path_params["run"] not in session.runs:
            raise RefusedError("resource_not_found")
        return session, session.runs[request.path_params["run"]]

    async def create_session(self, request):
        tenant = TENANTS.get(request.headers.get("authorization"))
        if tenant is None:
            raise RefusedError("authentication_required")
        await self.body_of(request)
        session = Session(f"s{next(numbers)}", tenant)
        self.sessions[session.id] = session
        return JSONResponse({"session": {"id": session.id}}, 201)

    async def create_run(self, request):
        session, body = self.find(request), await self.body_of(request)
        if active := session.active:
            base = f"/v1/sessions/{session.id}/runs/{active.id}"
            raise RefusedError(
                "SESSION_BUSY",
                f"Session {session.id} is busy: run {active.id} is {active.status}.",
                active_run_id=active.id,
                active_run_status=active.status,
                recovery=[f"POST {base}/cancel", f"POST {base}/resume"],
            )
        run = Run(f"r{next(numbers)}")
        session.runs[run.id] = run
        run.task = asyncio.create_task(work(session, run, body.get("prompt")))
        return JSONResponse({"run": {"id": run.id, "status": run.status}}, 202)

    async def delete_session(self, request):
        del self.sessions[self.find(request).id]
        return Response(status_code=204)

    async def cancel(self, request):
        session, run = self.find_run(request)
        if run is not session.active:
            raise RefusedError("RUN_NOT_CANCELLABLE")
        run.task.cancel()
        session.end(run, "cancelled")
        return JSONResponse({"run": {"id": run.id, "status": run.status}})

    async def resume(self, request):
        session, run = self.find_run(request)
        body = await self.body_of(request)
        result = run.calls.get(body.get("call"))
        if result is not None and result.done():
            raise RefusedError("event_expired" if result.cancelled() else "event_already_resolved")
        if run is not session.active or run.status != "waiting_for_input":
            raise RefusedError("run_not_resumable")
        if result is None:
            raise RefusedError("invalid_request", "There is no such call.")
        if not isinstance(body.get("result"), dict):
            raise RefusedError("tool_result_invalid", details=[{"path": "result", "reason": "expected an object"}])
        result.set_result(body["result"])
        return JSONResponse({"run": {"id": run.id, "status": "running"}})

    async def stream(self, request):
        session = self.find(request)
        cursor = request.headers.get("last-event-id")
        if cursor is not None and cursor not in {event["id"] for event in session.log}:
            raise RefusedError("invalid_cursor")
        with_deltas = request.query_params.get("event_deltas") == "true"
        if request.query_params.get("event_deltas") not in {None, "true", "false"}:
            raise RefusedError("invalid_request")
        queue = asyncio.Queue()
        for event in session.log[int(cursor) :] if cursor is not None else ():
            queue.put_nowait(event)
        session.queues.append(queue)

        async def events():
            try:
                while True:
                    event = await queue.get()
                    if "id" in event or with_deltas:
                        yield ServerSentEvent(json.dumps(event), event=event["type"], id=event.get("id"))
            finally:
                session.queues.remove(queue)

        return EventSourceResponse(events(), ping=self.ping)

    def application(self):
        session = "/v1/sessions/{session}"
        routes = [
            Route("/v1/sessions", self.create_session, methods=["POST"]),
            Route(session, self.delete_session, methods=["DELETE"]),
            Route(f"{session}/turns", self.create_run, methods=["POST"]),
            Route(f"{session}/runs/{{run}}/cancel", self.cancel, methods=["POST"]),
            Route(f"{session}/runs/{{run}}/resume", self.resume, methods=["POST"]),
            Route(f"{session}/events/stream", self.stream, methods=["GET"]),
        ]
        return Starlette(routes=routes, exception_handlers={RefusedError: refuse}, middleware=[Middleware(Quiet)])


class Quiet:
    """Ends streams without an error when the service stops."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        with contextlib.suppress(asyncio.CancelledError):
            await self.app(scope, receive, send)
