"""A service in the event loop of a test, with clients over real sockets; its traffic is checked."""

import asyncio
import io
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from wiretape.checker import Checker
from wiretape.recording import open_recording
from wiretape.rules import Party
from wiretape.sse import FrameKind, Parser
from wiretape_contracts.agent_sessions.stand_in.assumptions import default_settings
from wiretape_replay.access.access_settings import ApiKey
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.stand_in import ServeOptions, serve_scenario

PATIENCE_S = 45
_numbers = itertools.count(1)
KEYS = {
    "alice": ApiKey("acme", "wks_a"),
    "anna": ApiKey("acme", "wks_b"),
    "admin": ApiKey("acme"),
    "bob": ApiKey("globex"),
}
"""Keys of two tenants."""


def document_of(entry):
    """The JSON of an event of the engine; None for the end of a stream."""
    return json.loads(entry.data.partition(b"data: ")[2]) if entry.data else None


@dataclass
class Reply:
    """A complete response."""

    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """What the envelope holds, which must be one."""
        assert list(self.json) == ["error"], self.body
        assert self.headers["content-type"].startswith("application/json")
        return self.json["error"]

    @property
    def code(self):
        return self.error["code"]


@dataclass
class Stream:
    """An open stream."""

    response: aiohttp.ClientResponse
    parser: Parser = field(default_factory=Parser)
    raw: bytearray = field(default_factory=bytearray)
    comments: int = 0
    cursor: str | None = None
    _waiting: list = field(default_factory=list)

    async def next(self):
        """The next event; None when the stream has ended, however."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._waiting:
                if not await self._fill():
                    return None
        sse_id, event = self._waiting.pop(0)
        assert sse_id == event.get("id")
        self.cursor = sse_id or self.cursor
        return event

    async def _fill(self):
        """Read what has come; whether there may be more."""
        try:
            data = await self.response.content.readany()
        except aiohttp.ClientError:
            return False
        self.raw += data
        for frame in self.parser.feed(data):
            if frame.kind is FrameKind.COMMENT:
                self.comments += 1
            elif frame.kind is FrameKind.MESSAGE:
                self._waiting.append((frame.id, json.loads(frame.data)))
        return bool(data)

    async def until(self, *types):
        """The events up to the first of one of these types."""
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
            if event["type"] in types:
                return events
        raise AssertionError(f"the stream ended without any of {types}")

    def close(self):
        self.response.close()


class Stage:
    """A service and its client."""

    def __init__(self, service, http):
        self.service = service
        self._http = http

    async def ask(self, method, path, body=None, *, key="wiretape-key", idem=None, data=None, headers=None):
        """Send a request and read its answer."""
        sent = {} if key is None else {"Authorization": f"Bearer {key}"}
        sent |= {} if idem is None else {"Idempotency-Key": idem}
        content = json.dumps(body).encode() if data is None and body is not None else data
        content = io.BytesIO(content) if content is not None and len(content) > 2**20 else content
        request = self._http.request(
            method, self.service.url + path, data=content, headers=sent | (headers or {}), allow_redirects=False
        )
        async with asyncio.timeout(PATIENCE_S), request as response:
            found = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, found, await response.read())

    async def post(self, path, body=None, **how):
        return await self.ask("POST", path, {} if body is None else body, **how)

    async def get(self, path, **how):
        return await self.ask("GET", path, **how)

    async def session(self, **how):
        """Create a session; its path."""
        reply = await self.post("/v1/sessions", **how)
        assert reply.status == 201, reply.body
        return f"/v1/sessions/{reply.json['id']}"

    async def run(self, session, body=None, **how):
        """Create a run; its path."""
        reply = await self.post(f"{session}/runs", body, **how)
        assert reply.status == 201, reply.body
        return f"{session}/runs/{reply.json['id']}"

    async def stream(self, session, cursor=None, *, key="wiretape-key", deltas=True):
        """Open a stream, which has to begin."""
        headers = {"Authorization": f"Bearer {key}"} | ({} if cursor is None else {"Last-Event-ID": cursor})
        query = "?event_deltas=true" if deltas else ""
        response = await self._http.get(f"{self.service.url}{session}/events/stream{query}", headers=headers)
        assert response.status == 200, await response.read()
        return Stream(response, cursor=cursor)

    async def follow(self, session, act=lambda event: None, until="session.status_idle", cursor=None):
        """Read a session as a client should, reconnecting whenever the stream ends or asks for it; all events."""
        events, known = [], set()
        while True:
            stream = await self.stream(session, cursor)
            while (event := await stream.next()) is not None:
                cursor = stream.cursor
                assert event.get("id") not in known, "an event came twice"
                known |= {event["id"]} if "id" in event else set()
                events.append(event)
                if (done := act(event)) is not None:
                    await done
                if event["type"] == until:
                    stream.close()
                    return events
                if event["type"] == "stream.resync":
                    break
            stream.close()

    async def raw(self, data):
        """Send bytes on a connection of their own, and read until it ends; the head and body of the answer."""
        where = urlsplit(self.service.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            writer.write(data)
            async with asyncio.timeout(PATIENCE_S):
                answer = await reader.read()
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        return Reply(int(lines[0].split()[1]), headers, body)


@asynccontextmanager
async def serving(
    scenario, folder: Path, *, keys=None, settings=None, limits=True, checked=True, virtual=False, **options
) -> AsyncIterator[Stage]:
    """Serve a scenario; at the end of the block, the traffic must not have findings against the service."""
    settings = settings or default_settings()
    if keys is not None:
        settings = replace(settings, access=replace(settings.access, keys=keys))
    if not limits:
        settings = replace(settings, access=replace(settings.access, limits={}))
    clock = "virtual" if virtual else "real"
    record = folder / f"passed-{next(_numbers)}.db"
    checker = ClientChecker(record=record)
    async with (
        aiohttp.ClientSession(auto_decompress=False) as http,
        serve_scenario(scenario, ServeOptions(service=settings, clock=clock, **options), checker=checker) as service,
    ):
        yield Stage(service, http)
    if checked:
        assert against_service(record) == []


def against_service(record):
    """The findings against the service in a recording."""
    checker = Checker()
    with open_recording(record) as recording:
        findings = [finding for seen in recording.observations() for finding in checker.feed(seen)]
    findings += checker.finish()
    return [(finding.code, finding.message) for finding in findings if finding.side is Party.SERVICE]
