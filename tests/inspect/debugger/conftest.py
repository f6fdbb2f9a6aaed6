"""Running debuggers, and clients of their API."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar

from wiretape_inspect.debugger.debugger_server import Debugger, serve_debugger
from wiretape_inspect.debugger.replay_forwarder import ReplayAddress


@dataclass
class Message:
    """A message of an event stream."""

    id: str
    event: str
    data: dict


class Listener:
    """Reads an event stream message by message."""

    def __init__(self, content) -> None:
        self._content = content

    async def next(self) -> Message | None:
        """Return the next message that has data; None at the end."""
        fields = {}
        async for raw in self._content:
            line = raw.decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                return Message(fields.get("id", ""), fields["event"], json.loads(fields["data"]))
            else:
                fields = {}
        return None

    async def until(self, condition: Callable[[Message], bool]) -> list[Message]:
        """Return all messages up to the first that meets the condition."""
        found = []
        while not found or not condition(found[-1]):
            message = await self.next()
            assert message is not None, f"the stream ended after {found}"
            found.append(message)
        return found


class DebuggerClient:
    """A browser, as the server sees it."""

    def __init__(self, debugger: Debugger, session: ClientSession) -> None:
        self.debugger = debugger
        self.session = session

    async def get(self, path: str, **headers: str) -> tuple[int, object]:
        """Return the status and the JSON document."""
        async with self.session.get(path, headers=headers) as response:
            return response.status, json.loads(await response.read())

    async def lines(self, path: str) -> list[dict]:
        """Return the JSON lines of a successful response."""
        async with self.session.get(path) as response:
            text = await response.text()
            assert (response.status, response.content_type) == (200, "application/x-ndjson"), text
            return [json.loads(line) for line in text.splitlines()]

    async def error(self, path: str, **headers: str) -> tuple[int, str]:
        """Return the status and the message of an error."""
        status, document = await self.get(path, **headers)
        return status, document["error"]["message"]

    @asynccontextmanager
    async def live(self, query: str = "", **headers: str) -> AsyncIterator[Listener]:
        """Open the stream of live updates."""
        async with self.session.get(f"/api/live{query}", headers=headers) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream"), await response.text()
            yield Listener(response.content)


@asynccontextmanager
async def _open_debugger(path: Path, replay: ReplayAddress | None = None) -> AsyncIterator[DebuggerClient]:
    jar = CookieJar(unsafe=True)
    async with serve_debugger(path, replay=replay) as debugger, ClientSession(debugger.url, cookie_jar=jar) as session:
        async with session.get(debugger.address) as page:
            assert page.status == 200
        yield DebuggerClient(debugger, session)


@pytest.fixture(scope="session")
def delta(message) -> Callable[[str], bytes]:
    """The bytes of one delta."""
    return lambda text: message("message.delta", run_id="r1", delta={"text": text})


@pytest.fixture
def open_debugger() -> Callable[..., AbstractAsyncContextManager[DebuggerClient]]:
    """Run a debugger and let a client in: `async with open_debugger(path) as client`."""
    return _open_debugger


@pytest.fixture
async def client(session: Path) -> AsyncIterator[DebuggerClient]:
    """A client of a debugger that shows the ordinary session."""
    async with _open_debugger(session) as found:
        yield found
