"""Debuggers that run, and those who look at them."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar

from wiretape_inspect.debugging.forwarding import Replay
from wiretape_inspect.debugging.serving import Debugger, serve_debugger


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
        """The next message that has data; None at the end."""
        held = {}
        async for raw in self._content:
            line = raw.decode().rstrip("\n")
            if line:
                name, _, value = line.partition(": ")
                held[name] = value
            elif "data" in held:
                return Message(held.get("id", ""), held["event"], json.loads(held["data"]))
            else:
                held = {}
        return None

    async def until(self, holds: Callable[[Message], bool]) -> list[Message]:
        """All messages up to the first that holds."""
        found = []
        while not found or not holds(found[-1]):
            message = await self.next()
            assert message is not None, f"it ended after {found}"
            found.append(message)
        return found


class Looker:
    """A browser, as far as the server sees it."""

    def __init__(self, debugger: Debugger, session: ClientSession) -> None:
        self.debugger = debugger
        self.session = session

    async def get(self, path: str, **headers: str) -> tuple[int, object]:
        """Status and document."""
        async with self.session.get(path, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def lines(self, path: str) -> list[dict]:
        """The lines of an answer that is well."""
        async with self.session.get(path) as answer:
            text = await answer.text()
            assert (answer.status, answer.content_type) == (200, "application/x-ndjson"), text
            return [json.loads(line) for line in text.splitlines()]

    async def error(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and sentence of an answer that is an error."""
        status, document = await self.get(path, **headers)
        return status, document["error"]["message"]

    @asynccontextmanager
    async def live(self, query: str = "", **headers: str) -> AsyncIterator[Listener]:
        """What changes."""
        async with self.session.get(f"/api/live{query}", headers=headers) as answer:
            assert (answer.status, answer.content_type) == (200, "text/event-stream"), await answer.text()
            yield Listener(answer.content)


@asynccontextmanager
async def _looking(path: Path, replay: Replay | None = None) -> AsyncIterator[Looker]:
    jar = CookieJar(unsafe=True)
    async with (
        serve_debugger(path, replay=replay) as debugger,
        ClientSession(debugger.url, cookie_jar=jar) as session,
    ):
        async with session.get(debugger.address) as page:
            assert page.status == 200
        yield Looker(debugger, session)


@pytest.fixture(scope="session")
def delta(message) -> Callable[[str], bytes]:
    """The bytes of one delta."""
    return lambda text: message("message.delta", run_id="r1", delta={"text": text})


@pytest.fixture
def looking() -> Callable[..., AbstractAsyncContextManager[Looker]]:
    """A debugger, and one who was let in: `async with looking(path) as looker`."""
    return _looking


@pytest.fixture
async def looker(session: Path) -> AsyncIterator[Looker]:
    """One who looks at the session that goes as sessions go."""
    async with _looking(session) as found:
        yield found
