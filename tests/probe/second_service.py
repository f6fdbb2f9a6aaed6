"""An Agent Session Service written from the specification alone, with aiohttp.

It shares no code with wiretape, and differs from `wiretape serve` in what the specification leaves open; `Traits` says
how.  `service_mutations` breaks it on purpose: a mutation replaces methods of a Service.
"""

import asyncio
import itertools
import json
import math
import random
import zlib
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from aiohttp import web
from aiohttp_serving import serving

KEYS = {"main-key": "acme", "other-key": "globex", "limited-key": "acme"}
"""The tenants of the keys."""
STATUSES = {
    "invalid_request": 400,
    "invalid_cursor": 400,
    "authentication_required": 401,
    "permission_denied": 403,
    "resource_not_found": 404,
    "idempotency_conflict": 409,
    "event_already_resolved": 409,
    "event_expired": 409,
    "run_not_resumable": 409,
    "SESSION_BUSY": 409,
    "RUN_NOT_CANCELLABLE": 409,
    "tool_result_invalid": 422,
    "RATE_LIMITED": 429,
    "runtime_resume_unavailable": 503,
    "SANDBOX_PROVISION_FAILED": 503,
}
NAMED = {"tool.started", "message.completed", "reasoning.message"}
"""The types that the specification calls stored."""
DELTAS = {"message.delta", "reasoning.delta", "intermediate.delta"}
ENDED = {"completed", "failed", "cancelled"}
WINDOW_S = 60
LIMITS = {"sessions": 30, "runs": 60, "events": 120}


@dataclass(frozen=True)
class Traits:
    """What the specification leaves open."""

    crlf: bool = False
    one_counter: bool = False
    """Whether the sequences of all sessions come from one counter."""
    durable: str = "all"
    """`all`, or `named` for the types that the specification calls stored."""
    ids: str = "number"
    """The shape of ids: `number`, `uuid` or `text`."""
    step_s: float = 0.02
    """How long a step of a run takes (s)."""
    jitter: float = 0.0
    """How much of it is random, from 0 to 1."""
    calls: int = 1
    """How many application calls a run opens before it waits."""
    builtin: bool = True
    """Whether a built-in tool runs beside them."""
    replays_all: bool = False
    """Whether a stream without a cursor begins with all stored events."""
    greets: bool = False
    """Whether a stream begins with a comment."""
    cut: int = 0
    """Bytes after which the stream is cut into pieces that are sent one by one; 0 for none."""
    compresses: bool = False
    """Whether streams are compressed for clients that accept it."""
    has_limits: bool = False
    long_s: float = 25.0
    """How long a run of kind `wait` is active (s)."""
    deadline_s: float = 0.4
    """How long a run of kind `hurry` waits (s)."""
    many: int = 1000
    """Stored events of a run of kind `many`."""
    ends_resync: bool = True
    """Whether the service ends the streams after stream.resync."""
    ends_with_run: bool = False
    """Whether a stream ends after the event that ends a run."""
    ends_after: int = 0
    """Events after which a stream ends; 0 for never."""
    ends_after_s: float = 0.0
    """How long a stream lasts (s); 0 for ever."""
    keep_alive_s: float = 15.0
    seed: int = 0


class RefusedError(Exception):
    """An error envelope."""

    def __init__(self, code, message="Refused.", *, headers=None, **more):
        super().__init__(code)
        self.code, self.message, self.headers, self.more = code, message, headers or {}, more


@dataclass(eq=False)
class Call:
    """A call of an application tool."""

    id: str
    name: str = "get_weather"
    answer: asyncio.Future = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    state: str = "open"
    """`open`, `answered` or `expired`."""


@dataclass(eq=False)
class Run:
    id: str
    session: "Session"
    kind: str
    status: str = "queued"
    calls: dict = field(default_factory=dict)
    task: asyncio.Task | None = None
    refusals: int = 0
    """How many results are refused because the runtime is not available."""


@dataclass(eq=False)
class Reader:
    """An open stream."""

    with_deltas: bool
    queue: asyncio.Queue = field(default_factory=asyncio.Queue)


@dataclass(eq=False)
class Session:
    id: str
    tenant: str
    log: list = field(default_factory=list)
    """The stored events."""
    readers: list = field(default_factory=list)
    runs: dict = field(default_factory=dict)
    sequence: itertools.count = field(default_factory=lambda: itertools.count(1))

    @property
    def active(self):
        return next((run for run in self.runs.values() if run.status not in ENDED), None)


class Service:
    """The service.  Mutations replace the methods below "What a mutation may replace"."""

    def __init__(self, traits=None):
        self.traits = traits or Traits()
        self.sessions = {}
        self.random = random.Random(self.traits.seed)
        self.numbers = itertools.count(1000)
        self.counter = itertools.count(1)
        self.retries = {}
        """Responses by tenant, path and idempotency key, each with the body of the request."""
        self.spent = {}
        """The times of requests that count, by tenant and limit."""

    # What a mutation may replace.

    def make_event(self, run, type_, content=None, data=None, **more):
        """Return an event: stored if its type is, otherwise ephemeral."""
        if type_ in DELTAS:
            return {"type": type_, "run_id": run.id, **more}
        event = {"type": type_, "run_id": run.id, "content": {} if content is None else content, "data": data or {}}
        if self.is_stored(type_):
            event |= {
                "id": self.make_id("event"),
                "sequence": next(self.counter if self.traits.one_counter else run.session.sequence),
                "workspace_id": f"workspace of {run.session.tenant}",
                "session_id": run.session.id,
                "created_at": self.now().isoformat(),
            }
        return event

    def publish(self, session, event):
        """Store an event if it has an id, and send it to all readers."""
        if "id" in event:
            session.log.append(event)
        for reader in list(session.readers):
            reader.queue.put_nowait(event)

    def frame(self, event, _reader):
        """Return the bytes of an event on a stream."""
        lines = [f"event: {event['type']}"]
        lines += [f"id: {event['id']}"] if "id" in event else []
        lines += [f"data: {json.dumps(event)}", "", ""]
        return ("\r\n" if self.traits.crlf else "\n").join(lines).encode()

    def comment(self, _reader):
        """Return the bytes of a keep-alive comment."""
        return b": alive\r\n" if self.traits.crlf else b": alive\n"

    def replay(self, session, cursor):
        """Return the stored events that a new stream begins with.  Raises RefusedError."""
        if cursor is None:
            return session.log if self.traits.replays_all else []
        ids = [event["id"] for event in session.log]
        if cursor not in ids:
            raise RefusedError("invalid_cursor", "The cursor is not an event of this session.")
        return session.log[ids.index(cursor) + 1 :]

    def authenticate(self, request):
        """Return the tenant.  Raises RefusedError."""
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or key not in KEYS:
            raise RefusedError("authentication_required", "A valid key is required.")
        return KEYS[key]

    def count(self, tenant, limit):
        """Count a request towards a limit.  Raises RefusedError."""
        if not self.traits.has_limits:
            return
        now = asyncio.get_running_loop().time()
        times = self.spent.setdefault((tenant, limit), [])
        times[:] = [time for time in times if time > now - WINDOW_S]
        if len(times) >= LIMITS[limit]:
            wait = max(1, int(times[0] + WINDOW_S - now) + 1)
            details = {"limit": LIMITS[limit], "window_seconds": WINDOW_S, "retry_after": wait}
            raise RefusedError("RATE_LIMITED", "Too many.", headers={"Retry-After": str(wait)}, details=details)
        times.append(now)

    def refuse_busy(self, session, active):
        """Refuse a run because another one is active."""
        base = f"/v1/sessions/{session.id}/runs/{active.id}"
        raise RefusedError(
            "SESSION_BUSY",
            f"Session {session.id} has the active run {active.id}, which is {active.status}.",
            active_run_id=active.id,
            active_run_status=active.status,
            recovery=[f"POST {base}/cancel", f"POST {base}/resume"],
        )

    def envelope(self, refused, _request):
        """Return the body of an error."""
        error = {"code": refused.code, "message": refused.message, "request_id": self.make_id("request")}
        return {"error": error | refused.more}

    def refusal(self, refused, request):
        """Return an error response."""
        return web.json_response(
            self.envelope(refused, request), status=STATUSES[refused.code], headers=refused.headers
        )

    def recall(self, request, tenant, body):
        """Return the remembered response to a request with the same idempotency key.  Raises RefusedError."""
        key = request.headers.get("X-Request-Token")
        known = self.retries.get((tenant, request.path, key)) if key is not None else None
        if known is None:
            return None
        if known[0] != body:
            raise RefusedError("idempotency_conflict", "The key was used with another payload.")
        return web.json_response(known[1], status=known[2])

    def remember(self, request, tenant, body, document, status):
        """Remember a response for requests with the same idempotency key, and return it."""
        if (key := request.headers.get("X-Request-Token")) is not None:
            self.retries[tenant, request.path, key] = (body, document, status)
        return web.json_response(document, status=status)

    def cancel_run(self, run):
        """Cancel an active run.  Raises RefusedError."""
        if run.status in ENDED:
            raise RefusedError("RUN_NOT_CANCELLABLE", "The run has ended.")
        run.task.cancel()
        self.end(run, "cancelled")

    def check_result(self, run, call, result):
        """Refuse a result that cannot be accepted now, or does not match the schema.  Raises RefusedError."""
        if call is not None and call.state != "open":
            raise RefusedError({"answered": "event_already_resolved", "expired": "event_expired"}[call.state])
        if run.status in ENDED or not run.calls:
            raise RefusedError("run_not_resumable", "The run does not wait.")
        if call is None:
            raise RefusedError("invalid_request", "The call does not exist.")
        if run.refusals:
            run.refusals -= 1
            raise RefusedError("runtime_resume_unavailable", "Try again.")
        if not isinstance(result, dict) or not isinstance(result.get("celsius"), int | float):
            details = [{"path": "result.celsius", "reason": "expected a number"}]
            raise RefusedError("tool_result_invalid", "It does not match the schema.", details=details)

    def answer(self, call, result):
        """Accept a result."""
        call.state = "answered"
        call.answer.set_result(result)

    def is_stored(self, type_):
        """Whether events of a type are durable."""
        return type_ in NAMED or self.traits.durable == "all"

    def end_streams(self, session):
        """End all streams of a session."""
        for reader in session.readers:
            reader.queue.put_nowait(None)

    # What runs do.

    async def work(self, run):
        """Work on a run until its end."""
        await self.step()
        run.status = "running"
        self.send(run, "run.started")
        await self.step()
        if run.kind == "fail":
            self.end(run, "failed", {"reason": "The model is overloaded."})
            return
        await self.think(run)
        if run.kind == "wait":
            await asyncio.sleep(self.traits.long_s)
        if run.kind == "many":
            for number in range(self.traits.many):
                await self.use_tool(run, "count", quick=True)
                if number % 50 == 0:
                    await asyncio.sleep(0)
        if run.kind == "resync":
            self.resync(run)
            await self.step()
        if run.kind in {"ask", "hurry", "unavailable"} and not await self.ask(run):
            self.end(run, "failed", {"reason": "The deadline passed."})
            return
        if run.kind != "many":
            await self.use_tool(run, "web_search")
        await self.say(run)
        self.end(run, "completed")

    async def think(self, run):
        for word in ("They ", "ask."):
            self.send(run, "reasoning.delta", delta={"text": word})
            await self.step()
        self.send(run, "reasoning.message", [{"type": "text", "text": "They ask."}])
        self.send(run, "intermediate.delta", delta={"text": "Half of it."})
        await self.step()

    async def say(self, run):
        self.send(run, "message.started")
        for word in ("High water ", "is at ", "14:05."):
            self.send(run, "message.delta", delta={"text": word})
            await self.step()
        self.send(run, "message.completed", [{"type": "text", "text": "High water is at 14:05."}])
        await self.step()

    async def use_tool(self, run, name, *, quick=False):
        """Use a built-in tool."""
        about = {"tool_call_id": self.make_id("call"), "name": name}
        self.send(run, "tool.started", about | {"input": {"query": "tides"}}, about)
        if not quick:
            await self.step()
        self.send(run, "tool.completed", about | {"output": {"hits": 3}}, about)

    async def ask(self, run):
        """Open application calls, and wait for all results; return whether they came in time."""
        search = {"tool_call_id": self.make_id("call"), "name": "web_search"}
        if self.traits.builtin:
            self.send(run, "tool.started", search | {"input": {"query": "weather"}}, search)
            await self.step()
        run.refusals = int(run.kind == "unavailable")
        for _ in range(self.traits.calls):
            call = Call(self.make_id("call"))
            run.calls[call.id] = call
            about = {"tool_call_id": call.id, "name": call.name}
            self.send(run, "tool.started", about | {"input": {"city": "Oslo"}}, about)
            run.status = "waiting_for_input"
            self.send(run, "agent.custom_tool_use", about | {"input": {"city": "Oslo"}}, about)
            await self.step()
        if self.traits.builtin:
            self.send(run, "tool.completed", search | {"output": {"hits": 1}}, search)
        try:
            async with asyncio.timeout(self.traits.deadline_s if run.kind == "hurry" else 3600):
                for call in run.calls.values():
                    output = await asyncio.shield(call.answer)
                    about = {"tool_call_id": call.id, "name": call.name}
                    self.send(run, "tool.completed", about | {"output": output}, about)
        except TimeoutError:
            for call in run.calls.values():
                if call.state == "open":
                    call.state = "expired"
                    about = {"tool_call_id": call.id, "name": call.name}
                    self.send(run, "tool.failed", about | {"error": "No result in time."}, about)
            return False
        run.status = "running"
        return True

    def resync(self, run):
        """Tell all readers to reconnect."""
        for reader in list(run.session.readers):
            reader.queue.put_nowait({"type": "stream.resync", "run_id": run.id})
            if self.traits.ends_resync:
                reader.queue.put_nowait(None)

    def send(self, run, type_, content=None, data=None, **more):
        """Publish an event of a run."""
        self.publish(run.session, self.make_event(run, type_, content, data, **more))

    def end(self, run, status, content=None):
        """End a run; the session becomes idle a little later."""
        run.status = status
        self.send(run, f"run.{status}", content)
        run.task = asyncio.create_task(self.become_idle(run))

    async def become_idle(self, run):
        await self.step()
        if run.session.active is None:
            self.send(run, "session.status_idle")

    async def step(self):
        """Let the time of a step pass."""
        jitter = self.traits.jitter
        factor = 1 - jitter + 2 * jitter * self.random.random() if jitter else 1
        await asyncio.sleep(self.traits.step_s * factor)

    def make_id(self, kind):
        """Return a new id."""
        if self.traits.ids == "uuid":
            return "-".join(f"{self.random.getrandbits(4 * size):0{size}x}" for size in (8, 4, 4, 4, 12))
        if self.traits.ids == "text":
            return f"{kind}:{next(self.numbers)}/{self.random.getrandbits(24):x}="
        return str(next(self.numbers))

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())

    # Operations.

    def find_session(self, request):
        tenant = self.authenticate(request)
        session = self.sessions.get(request.match_info["session"])
        if session is None or session.tenant != tenant:
            raise RefusedError("resource_not_found", "There is no such session.")
        return session

    def find_run(self, request):
        session = self.find_session(request)
        run = session.runs.get(request.match_info["run"])
        if run is None:
            raise RefusedError("resource_not_found", "There is no such run.")
        return run

    async def body_of(self, request):
        try:
            body = json.loads(await request.read() or b"{}")
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise RefusedError("invalid_request", "Expected a JSON object.")
        return body

    async def create_session(self, request):
        tenant = self.authenticate(request)
        if "limited" in request.headers["Authorization"]:
            raise RefusedError("permission_denied", "The key lacks the scope sessions:write.")
        await self.body_of(request)
        self.count(tenant, "sessions")
        session = Session(self.make_id("session"), tenant)
        self.sessions[session.id] = session
        return web.json_response({"data": {"session": {"id": session.id}}}, status=201)

    async def read_session(self, request):
        return web.json_response({"data": {"session": {"id": self.find_session(request).id}}})

    async def delete_session(self, request):
        session = self.find_session(request)
        del self.sessions[session.id]
        self.end_streams(session)
        return web.Response(status=204)

    async def hook(self, request):
        session = self.find_session(request)
        what, run = request.match_info["what"], session.active
        if what == "close":
            self.end_streams(session)
        elif run is None:
            raise RefusedError("invalid_request", "There is no active run.")
        elif what == "resync":
            self.resync(run)
        else:
            for call in run.calls.values():
                call.answer.set_exception(TimeoutError())
        return web.Response(status=204)

    async def create_run(self, request):
        session, body = self.find_session(request), await self.body_of(request)
        if (known := self.recall(request, session.tenant, body)) is not None:
            return known
        self.count(session.tenant, "runs")
        if body.get("goal") == "no sandbox":
            raise RefusedError("SANDBOX_PROVISION_FAILED", "The provider's quota is exhausted.")
        if session.active is not None:
            self.refuse_busy(session, session.active)
        run = Run(self.make_id("run"), session, body.get("goal", "work"))
        session.runs[run.id] = run
        run.task = asyncio.create_task(self.work(run))
        return self.remember(request, session.tenant, body, {"data": {"run": {"key": run.id}}}, 202)

    async def read_run(self, request):
        run = self.find_run(request)
        return web.json_response({"data": {"run": {"key": run.id, "status": run.status}}})

    async def cancel(self, request):
        run = self.find_run(request)
        self.count(run.session.tenant, "runs")
        self.cancel_run(run)
        return web.json_response({"data": {"run": {"key": run.id, "status": run.status}}}, status=202)

    async def resume(self, request):
        run, body = self.find_run(request), await self.body_of(request)
        if (known := self.recall(request, run.session.tenant, body)) is not None:
            return known
        call = run.calls.get(body.get("call"))
        self.check_result(run, call, body.get("result"))
        self.answer(call, body["result"])
        return self.remember(request, run.session.tenant, body, {"data": {"accepted": True}}, 202)

    async def stream(self, request):
        session = self.find_session(request)
        deltas = request.query.get("event_deltas")
        if deltas not in {None, "true", "false"}:
            raise RefusedError("invalid_request", "event_deltas is a boolean.")
        replayed = self.replay(session, request.headers.get("Last-Event-ID"))
        self.count(session.tenant, "events")
        reader = Reader(deltas == "true")
        for event in replayed:
            reader.queue.put_nowait(event)
        session.readers.append(reader)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        packer = None
        if self.traits.compresses and "gzip" in request.headers.get("Accept-Encoding", ""):
            response.headers["Content-Encoding"] = "gzip"
            packer = zlib.compressobj(wbits=31)
        try:
            with suppress(ConnectionError):  # the client may leave at any time
                await response.prepare(request)
                await self.feed(reader, response, packer)
        finally:
            session.readers.remove(reader)
        return response

    async def feed(self, reader, response, packer):
        """Send events and comments to a reader until the stream ends."""
        if self.traits.greets:
            await self.write(response, packer, b": welcome\r\n" if self.traits.crlf else b": welcome\n")
        clock, sent = asyncio.get_running_loop().time, 0
        ends_at = clock() + (self.traits.ends_after_s or math.inf)
        while clock() < ends_at:
            left_s = ends_at - clock()
            try:
                async with asyncio.timeout(min(self.traits.keep_alive_s, left_s)):
                    event = await reader.queue.get()
            except TimeoutError:
                if left_s <= self.traits.keep_alive_s:
                    return
                await self.write(response, packer, self.comment(reader))
                continue
            if event is None:
                return
            if event["type"] not in DELTAS or reader.with_deltas:
                await self.write(response, packer, self.frame(event, reader))
                sent += 1
                is_run_end = event["type"].removeprefix("run.") in ENDED
                if sent == self.traits.ends_after or (is_run_end and self.traits.ends_with_run):
                    return

    async def write(self, response, packer, data):
        if packer is not None:
            data = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
        size = self.traits.cut or len(data)
        for begin in range(0, len(data), size):
            await response.write(data[begin : begin + size])
            if self.traits.cut:
                await asyncio.sleep(0)

    # The application.

    def application(self):
        @web.middleware
        async def errors(request, handler):
            try:
                return await handler(request)
            except RefusedError as refused:
                return self.refusal(refused, request)
            except web.HTTPException:
                return self.refusal(RefusedError("resource_not_found", "There is no such path."), request)

        session = "/v1/sessions/{session}"
        run = f"{session}/runs/{{run}}"
        app = web.Application(middlewares=[errors])
        app.add_routes(
            [
                web.put("/v1/projects/tides/sessions", self.create_session),
                web.get("/v1/projects/tides/sessions/{session}", self.read_session),
                web.delete("/v1/projects/tides/sessions/{session}", self.delete_session),
                web.post("/v1/hooks/{session}/{what}", self.hook),
                web.post(f"{session}/turns", self.create_run),
                web.get(f"{session}/turns/{{run}}", self.read_run),
                web.post(f"{run}/cancel", self.cancel),
                web.post(f"{run}/resume", self.resume),
                web.get(f"{session}/events/stream", self.stream),
            ]
        )
        return app

    async def stop(self):
        """End all runs and streams."""
        tasks = [run.task for session in self.sessions.values() for run in session.runs.values() if run.task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


DESCRIPTION = {
    "create-session": {"request": "PUT /v1/projects/tides/sessions", "id": "/data/session/id"},
    "create-run": {
        "request": "POST /v1/sessions/{session_id}/turns",
        "body": {"model": "small"},
        "id": "/data/run/key",
    },
    "read-session": {"request": "GET /v1/projects/tides/sessions/{session_id}"},
    "read-run": {"request": "GET /v1/sessions/{session_id}/turns/{run_id}"},
    "idempotency-header": "X-Request-Token",
    "runs": {
        "plain": {"goal": "work"},
        "tool": {"goal": "ask"},
        "brief-tool": {"goal": "hurry"},
        "unavailable-tool": {"goal": "unavailable"},
        "long": {"goal": "wait"},
        "failing": {"goal": "fail"},
        "many": {"goal": "many"},
        "resync": {"goal": "resync"},
        "no-sandbox": {"goal": "no sandbox"},
    },
    "tool-result": {
        "correct": {"call": "{tool_call_id}", "result": {"celsius": 1}},
        "wrong": {"call": "{tool_call_id}", "result": {"celsius": "cold"}},
    },
    "hooks": {"closing": {"request": "POST /v1/hooks/{session_id}/close"}},
    "limits": LIMITS,
}
"""What a probe file says about the service, without its address and keys."""


@asynccontextmanager
async def listening(service):
    """Serve until the end of the block; yield the address."""
    runner = web.AppRunner(service.application(), handler_cancellation=True, shutdown_timeout=0.1)
    async with serving(runner) as url:
        try:
            yield url
        finally:
            await service.stop()
