"""Ways to break each rule about the service, one at a time: a reverse proxy changes what a service sends."""

import json
import zlib
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import aiohttp
from aiohttp import web
from aiohttp_serving import serving
from yarl import URL

from wiretape.sse import FrameKind, Parser
from wiretape_inspect.report.case_results import case_name_of

A_STREAM, REPLAY, KEEP_ALIVE = "streams/run-with-deltas", "replay/after-each-event", "streams/keep-alive"
TWO_RUNS, UNKNOWN = "runs/two-in-a-row", "errors/unknown-session"


@dataclass
class Event:
    """An event on its way to the probe."""

    name: str
    id: str | None
    data: dict
    extra: bytes = b""

    def raw(self):
        lines = [f"event: {self.name}".encode()] if self.name else []
        lines += [self.extra] if self.extra else []
        lines += [f"id: {self.id}".encode()] if self.id is not None else []
        return b"\n".join([*lines, b"data: " + json.dumps(self.data).encode(), b"", b""])


@dataclass(eq=False)
class Reply:
    """A response on its way to the probe; a stream has no body yet."""

    method: str
    target: str
    request_headers: dict
    status: int
    headers: dict
    body: bytes = b""

    @property
    def document(self):
        return json.loads(self.body)

    @property
    def is_error(self):
        return self.status >= 400


def unchanged(raw):
    return raw


@dataclass
class Mutation:
    """What a service does wrong."""

    case: str
    event: Callable | None = None
    """Gets the event and the stream's Reply, and returns bytes, events, or None to leave it as it is.

    May also be a class, or a function without parameters, that makes such a function."""
    reply: Callable = unchanged
    """Changes a response."""
    request: Callable | None = None
    """Changes the head of a request (method, target, headers)."""
    comment: Callable = unchanged
    before_end: bytes = b""
    is_limited: bool = False


def on(*types, change):
    """A mutation of the events of these types: `change` gets the event, and returns what to send."""
    return lambda event, _stream: change(event) if event.name in types else None


def with_data(event, **fields):
    return replace(event, data=event.data | fields)


def without(event, *keys):
    return replace(event, data={key: value for key, value in event.data.items() if key not in keys})


def content(event, **fields):
    return with_data(event, content=event.data["content"] | fields)


def made(event, type_, **fields):
    """An ephemeral event of the same run."""
    return Event(type_, None, {"type": type_, "run_id": event.data.get("run_id")} | fields)


def delta(event, **fields):
    return made(event, "message.delta", delta={"text": "x"}, **fields)


def doubled(extra):
    """All sequences are doubled, which leaves room for `extra`, the events after another one."""

    def change(event, _stream):
        if "sequence" not in event.data:
            return None
        moved = with_data(event, sequence=2 * event.data["sequence"])
        return [moved, *(extra(moved) or ())]

    return change


def stored(event, type_, **fields):
    """A stored event after another one."""
    id_, sequence = f"{event.id}_x", event.data["sequence"] + 1
    return Event(type_, id_, event.data | {"type": type_, "id": id_, "sequence": sequence} | fields)


def on_error(change, status=None):
    """A mutation of all error responses: `change` gets the envelope and the reply."""

    def mutate(reply):
        if reply.is_error and (status is None or reply.status == status):
            document = reply.document
            reply.body = json.dumps(change(document, reply) or document).encode()

    return mutate


def error_field(status=None, **fields):
    return on_error(lambda document, _: document["error"].update(fields), status)


def drop_error_field(name, status=None):
    return on_error(lambda document, _: document["error"].pop(name, None) and None, status)


def refuse(reply, status, code, **fields):
    reply.status = status
    reply.headers = {"content-type": "application/json"}
    error = {"code": code, "message": "No.", "request_id": f"req-{id(reply)}"} | fields
    reply.body = json.dumps({"error": error}).encode()


def give_key(method, target, headers):
    """Accept requests without a key."""
    if not headers.get("authorization", "").startswith("Bearer "):
        headers["authorization"] = "Bearer main-key"
    if len(headers["authorization"].split()) == 1:
        headers["authorization"] = "Bearer main-key"


def forget_cursor(method, target, headers):
    headers.pop("last-event-id", None)


def has_cursor(stream):
    return "last-event-id" in stream.request_headers


class Repeat:
    """Sends the event of the cursor again."""

    def __init__(self):
        self.seen, self.repeated = {}, set()

    def __call__(self, event, stream):
        if event.id is not None:
            self.seen[event.id] = event
        cursor = stream.request_headers.get("last-event-id")
        if cursor in self.seen and id(stream) not in self.repeated:
            self.repeated.add(id(stream))
            return [self.seen[cursor], event]
        return None


class First:
    """Puts something before the first event of streams with a cursor."""

    def __init__(self, make):
        self.make, self.done = make, set()

    def __call__(self, event, stream):
        if has_cursor(stream) and id(stream) not in self.done:
            self.done.add(id(stream))
            return [self.make(event), event]
        return None


class OtherIds:
    """Every second stream has other ids for one type."""

    def __init__(self):
        self.streams = []

    def __call__(self, event, stream):
        if stream not in self.streams:
            self.streams.append(stream)
        if event.name == "message.completed" and self.streams.index(stream) % 2:
            return replace(with_data(event, id=f"{event.id}_x"), id=f"{event.id}_x")
        return None


class RepeatId:
    """One event has the id of the one before."""

    def __init__(self):
        self.last = None

    def __call__(self, event, _stream):
        if event.name == "message.completed":
            return replace(with_data(event, id=self.last), id=self.last)
        self.last = event.id or self.last
        return None


class EndedRun:
    """Refuses a new run because of the run before."""

    def __init__(self):
        self.runs = {}

    def __call__(self, reply):
        if reply.method == "POST" and reply.target.endswith(("/runs", "/turns")):
            session = reply.target.split("/")[3]
            if session in self.runs:
                run, status = self.runs[session], "running"
                base = f"/v1/sessions/{session}/runs/{run}"
                refuse(
                    reply,
                    409,
                    "SESSION_BUSY",
                    message=f"Session {session} has an active run: {run} is {status}.",
                    active_run_id=run,
                    active_run_status=status,
                    recovery=[f"POST {base}/cancel", f"POST {base}/resume"],
                )
            else:
                document = reply.document
                self.runs[session] = document["id"] if "id" in document else document["data"]["run"]["key"]


def other_status(reply):
    if reply.status == 404:
        reply.status = 400


def refuse_cursor(reply):
    if reply.status == 200 and "last-event-id" in reply.request_headers:
        refuse(reply, 400, "invalid_cursor")


def not_cancellable(reply):
    if reply.target.endswith("/cancel"):
        refuse(reply, 409, "RUN_NOT_CANCELLABLE")


def lose_cancel(_method, target, _headers):
    return target.replace("/cancel", "/nowhere")


def keyless_404(reply):
    if reply.status == 401:
        refuse(reply, 404, "resource_not_found")


def no_run_created(reply):
    if reply.status == 400:
        reply.status = 200


def text_plain(reply):
    if reply.is_error:
        reply.headers["content-type"] = "text/plain"


def stream_type(reply):
    if reply.headers.get("content-type") == "text/event-stream":
        reply.headers["content-type"] = "text/plain"


def not_json(reply):
    if reply.is_error:
        reply.body = b"<h1>No.</h1>"


def no_retry_after(reply):
    reply.headers.pop("retry-after", None)


def later_retry(reply):
    if "retry-after" in reply.headers:
        reply.headers["retry-after"] = str(int(reply.headers["retry-after"]) + 5)


def other_limit(reply):
    if reply.status == 429:
        document = reply.document
        document["error"]["details"]["limit"] = 4
        reply.body = json.dumps(document).encode()


def compressed(reply):
    if reply.headers.get("content-type") == "text/event-stream":
        reply.headers["content-encoding"] = "gzip"


def message(change):
    return on("message.completed", change=change)


def tool_end(change):
    return on("tool.completed", change=change)


BUSY = "runs/busy"
MUTATIONS = {
    "SSE001": Mutation(A_STREAM, message(lambda e: e.raw().replace(b'"text": "H', b'"text": "\xff'))),
    "SSE002": Mutation("replay/resync", before_end=b"event: message.completed\nda"),
    "SSE003": Mutation(A_STREAM, message(lambda e: replace(e, extra=b"colour: red"))),
    "SSE004": Mutation(A_STREAM, message(lambda e: e.raw().replace(b"id: ", b"id: \0", 1))),
    "SSE005": Mutation(A_STREAM, message(lambda e: replace(e, extra=b"event: message.completed"))),
    "SSE006": Mutation(A_STREAM, message(lambda e: replace(e, name=""))),
    "SSE007": Mutation(A_STREAM, reply=stream_type),
    "SSE008": Mutation(A_STREAM, message(lambda e: [b"event: note\n\n", e])),
    "SSE009": Mutation("streams/compression", reply=compressed),
    "SSE010": Mutation(A_STREAM, message(lambda e: replace(e, extra=b"retry: 0"))),
    "SSE011": Mutation(A_STREAM, message(lambda e: replace(with_data(e, id=f"{e.id}é"), id=f"{e.id}é"))),
    "EVT001": Mutation(A_STREAM, message(lambda e: e.raw().replace(b"data: {", b"data: {{"))),
    "EVT002": Mutation(A_STREAM, message(lambda e: [made(e, "message.applauded"), e])),
    "EVT003": Mutation(A_STREAM, message(lambda e: replace(e, name="message.started"))),
    "EVT004": Mutation(A_STREAM, message(lambda e: without(e, "created_at"))),
    "EVT005": Mutation(A_STREAM, message(lambda e: with_data(e, created_at="today"))),
    "EVT006": Mutation(A_STREAM, message(lambda e: with_data(e, content="text"))),
    "EVT007": Mutation(A_STREAM, on("tool.started", change=lambda e: content(e, input=[]))),
    "EVT008": Mutation(
        A_STREAM, on("tool.started", change=lambda e: with_data(e, data=e.data["data"] | {"name": "x"}))
    ),
    "EVT009": Mutation(A_STREAM, message(lambda e: with_data(e, session_id="ses_other"))),
    "EVT010": Mutation(A_STREAM, message(lambda e: with_data(e, workspace_id="wks_other"))),
    "EVT011": Mutation(A_STREAM, on("message.delta", change=lambda e: without(e, "run_id"))),
    "EVT012": Mutation(A_STREAM, message(lambda e: e.raw().replace(b"data: {", b'data: {"run_id":"x",'))),
    "DUR001": Mutation(A_STREAM, message(lambda e: without(e, "sequence"))),
    "DUR002": Mutation(A_STREAM, message(lambda e: replace(e, id=None))),
    "DUR003": Mutation(A_STREAM, message(lambda e: with_data(e, id="evt_other"))),
    "DUR004": Mutation(A_STREAM, on("message.delta", change=lambda e: replace(e, id="delta_1"))),
    "DUR005": Mutation(A_STREAM, on("message.delta", change=lambda e: with_data(e, sequence=1))),
    "DUR006": Mutation(A_STREAM, message(lambda e: replace(without(e, "sequence", "id"), id=None))),
    "DUR007": Mutation("streams/deltas-on-and-off", message(lambda e: [delta(e), e])),
    "SEQ001": Mutation(A_STREAM, message(lambda e: with_data(e, sequence=0))),
    "SEQ002": Mutation("streams/two-readers", OtherIds),
    "SEQ003": Mutation(A_STREAM, RepeatId),
    "SEQ004": Mutation(A_STREAM, doubled(lambda _: None)),
    "SEQ005": Mutation(A_STREAM, message(lambda e: with_data(e, created_at="2001-01-01T00:00:00Z"))),
    "RES001": Mutation(REPLAY, Repeat),
    "RES002": Mutation(REPLAY, lambda e, s: b"" if e.name == "message.completed" and has_cursor(s) else None),
    "RES003": Mutation(
        REPLAY, lambda e, s: with_data(e, data={"x": 1}) if e.name == "message.completed" and has_cursor(s) else None
    ),
    "RES004": Mutation("streams/deltas-are-not-replayed", lambda: First(delta)),
    "RES005": Mutation(REPLAY, reply=refuse_cursor),
    "RES006": Mutation("replay/foreign-cursor", request=forget_cursor),
    "RUN001": Mutation(A_STREAM, on("tool.started", change=lambda e: [made(e, "run.started", run_id="ghost"), e])),
    "RUN002": Mutation(TWO_RUNS, on("run.completed", change=lambda e: [e, delta(e)])),
    "RUN003": Mutation(TWO_RUNS, doubled(lambda e: [stored(e, "run.failed")] if e.name == "run.completed" else None)),
    "RUN004": Mutation(A_STREAM, message(lambda e: [made(e, "session.status_idle"), e])),
    "RUN005": Mutation(A_STREAM, on("run.started", change=lambda e: [delta(e), e])),
    "RUN006": Mutation("runs/cancel", reply=not_cancellable, request=lose_cancel),
    "RUN007": Mutation(TWO_RUNS, reply=EndedRun),
    "TOOL001": Mutation(
        A_STREAM, tool_end(lambda e: with_data(e, content={"name": "web_search"}, data={"name": "web_search"}))
    ),
    "TOOL002": Mutation(A_STREAM, message(lambda e: [made(e, "tool.completed", content={"tool_call_id": "ghost"}), e])),
    "TOOL003": Mutation(
        A_STREAM, doubled(lambda e: [stored(e, "tool.failed")] if e.name == "tool.completed" else None)
    ),
    "TOOL004": Mutation(
        A_STREAM, tool_end(lambda e: with_data(content(e, name="x"), data=e.data["data"] | {"name": "x"}))
    ),
    "TOOL005": Mutation(A_STREAM, tool_end(lambda _: b"")),
    "KAL001": Mutation(KEEP_ALIVE, comment=lambda _: b""),
    "KAL002": Mutation(A_STREAM, message(lambda e: [Event("ping", None, {}), e])),
    "KAL003": Mutation("streams/keep-alive-during-run", comment=lambda raw: raw + b"\n"),
    "ERR001": Mutation(UNKNOWN, reply=not_json),
    "ERR002": Mutation(UNKNOWN, reply=drop_error_field("message")),
    "ERR003": Mutation(UNKNOWN, reply=error_field(code="RESOURCE_NOT_FOUND")),
    "ERR004": Mutation(UNKNOWN, reply=other_status),
    "ERR005": Mutation("errors/malformed-json", reply=error_field(details="none")),
    "ERR006": Mutation(UNKNOWN, reply=on_error(lambda document, _: document | {"status": 404})),
    "ERR007": Mutation("runs/no-sandbox", reply=error_field(503, provider="x")),
    "ERR008": Mutation(UNKNOWN, reply=text_plain),
    "ERR009": Mutation("errors/malformed-json", reply=error_field(request_id="req-same")),
    "ERR010": Mutation("errors/malformed-json", reply=no_run_created),
    "BUSY001": Mutation(BUSY, reply=drop_error_field("active_run_status", 409)),
    "BUSY002": Mutation(BUSY, reply=error_field(409, recovery=["wait"])),
    "BUSY003": Mutation(BUSY, reply=error_field(409, message="The session is busy.")),
    "RATE001": Mutation("limits/runs", reply=no_retry_after, is_limited=True),
    "RATE002": Mutation("limits/runs", reply=error_field(429, details={}), is_limited=True),
    "RATE003": Mutation("limits/runs", reply=later_retry, is_limited=True),
    "RATE004": Mutation("limits/runs", reply=other_limit, is_limited=True),
    "AUTH001": Mutation("authentication/stream-without-key", request=give_key),
    "AUTH002": Mutation("authentication/stream-without-key", reply=keyless_404),
}
"""One way to break each rule, and the case that finds it."""


def started(mutation):
    """A mutation without state."""
    event, reply = mutation.event, mutation.reply
    has_state = isinstance(event, type) or (event and event.__code__.co_argcount == 0)
    return replace(mutation, event=event() if has_state else event, reply=reply() if isinstance(reply, type) else reply)


class MutatingProxy:
    """A reverse proxy that applies to each case its mutation."""

    def __init__(self, upstream, mutations, client):
        self._upstream, self._client = upstream, client
        self._mutations = {name: started(mutation) for name, mutation in mutations.items()}

    async def handle(self, request):
        mutation = self._mutations.get(case_name_of(request.headers["User-Agent"]), Mutation(""))
        headers = {name.lower(): value for name, value in request.headers.items()}
        sent = {name: value for name, value in headers.items() if name not in {"host", "content-length"}}
        method, target = request.method, request.raw_path
        upstream = self._upstream + ((mutation.request and mutation.request(method, target, sent)) or target)
        asked = self._client.request(
            method, URL(upstream, encoded=True), headers=sent, data=await request.read() or None, allow_redirects=False
        )
        async with asked as answer:
            found = {name.lower(): value for name, value in answer.headers.items()}
            for name in ("transfer-encoding", "content-length"):
                found.pop(name, None)
            reply = Reply(method, target, headers, answer.status, found)
            is_stream = found.get("content-type") == "text/event-stream"
            reply.body = b"" if is_stream else await answer.read()
            mutation.reply(reply)
            if reply.body or not is_stream:
                return web.Response(status=reply.status, headers=reply.headers, body=reply.body)
            return await self._stream(request, answer, mutation, reply)

    async def _stream(self, request, answer, mutation, reply):
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        await response.prepare(request)
        parser = Parser()
        packer = zlib.compressobj(wbits=31) if "content-encoding" in reply.headers else None
        try:
            async for received in answer.content.iter_any():
                data = b"".join(self._frame(mutation, frame, reply) for frame in parser.feed(received))
                if packer is not None and data:
                    data = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
                await response.write(data)
            await response.write(mutation.before_end)
        except aiohttp.ClientError:  # the service broke off
            request.transport.abort()
        return response

    def _frame(self, mutation, frame, reply):
        if frame.kind is FrameKind.COMMENT:
            return mutation.comment(frame.raw)
        if frame.kind is not FrameKind.MESSAGE or mutation.event is None:
            return frame.raw
        changed = mutation.event(Event(frame.event, frame.id, json.loads(frame.data)), reply)
        if changed is None:
            return frame.raw
        parts = changed if isinstance(changed, list) else [changed]
        return b"".join(part if isinstance(part, bytes) else part.raw() for part in parts)


@asynccontextmanager
async def mutated(upstream, mutations):
    """Yield the address of a proxy; `mutations` has names of cases, and None for what is not a probe."""
    connector, timeout = aiohttp.TCPConnector(limit=0, force_close=True), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as client:
        server = web.Server(MutatingProxy(upstream, mutations, client).handle, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        async with serving(runner) as url:
            yield url
