"""Drives Firefox over WebDriver BiDi (https://w3c.github.io/webdriver-bidi/)."""

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse
from programs import find_program

TIMEOUT_S = 45
_KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowDown": "\ue015", "ArrowUp": "\ue013"}


class Firefox:
    """One tab, with its errors and its requests."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._count = 0
        self._context = ""
        self.errors: list[str] = []
        self.requests: list[str] = []

    async def start(self) -> None:
        await self.call("session.new", capabilities={})
        await self.call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])
        tree = await self.call("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]
        await self.call("browsingContext.setViewport", context=self._context, viewport={"width": 1280, "height": 800})

    async def call(self, method: str, **parameters: object) -> Any:
        """Send a command and return its result; events that arrive before it are noted."""
        self._count += 1
        await self._socket.send_json({"id": self._count, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive(TIMEOUT_S)).data)
            if message.get("id") == self._count:
                assert message["type"] == "success", message
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "log.entryAdded" and parameters["level"] in {"error", "warn"}:
            self.errors.append(parameters["text"])
        elif message.get("method") == "network.beforeRequestSent":
            self.requests.append(parameters["request"]["url"])

    async def open(self, url: str) -> None:
        await self.call("browsingContext.navigate", context=self._context, url=url, wait="complete")

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression, which must be JSON."""
        found = await self.call(
            "script.evaluate",
            expression=f"JSON.stringify({expression}) ?? 'null'",
            target={"context": self._context},
            awaitPromise=False,
        )
        assert found["type"] == "success", found
        return json.loads(found["result"]["value"])

    async def until(self, expression: str, value: object) -> None:
        """Wait until an expression has a value."""
        deadline = time.monotonic() + TIMEOUT_S
        while (found := await self.evaluate(expression)) != value:
            assert time.monotonic() < deadline, (expression, found, value)
            await asyncio.sleep(0.05)

    async def keys(self, *keys: str) -> None:
        """Press keys, or type texts."""
        pressed = [_KEYS.get(key, key) for key in keys]
        actions = [{"type": kind, "value": char} for key in pressed for char in key for kind in ("keyDown", "keyUp")]
        await self.call(
            "input.performActions",
            context=self._context,
            actions=[{"type": "key", "id": "keyboard", "actions": actions}],
        )

    async def drag(self, begin: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse button at one place and release it at another."""
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y)} for x, y in (begin, end)]
        down, up = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
        await self.call(
            "input.performActions",
            context=self._context,
            actions=[{"type": "pointer", "id": "mouse", "actions": [moves[0], down, moves[1], up]}],
        )


@asynccontextmanager
async def firefox(profile: Path) -> AsyncIterator[Firefox]:
    """Start Firefox with a new profile."""
    executable = find_program("firefox-esr", "firefox")
    process = await asyncio.create_subprocess_exec(
        executable,
        *("--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", str(profile), "about:blank"),
        env={**os.environ, "HOME": str(profile), "MOZ_HEADLESS": "1"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        address = await asyncio.wait_for(_address(process), TIMEOUT_S)
        async with ClientSession() as session, session.ws_connect(f"{address}/session", max_msg_size=0) as socket:
            driver = Firefox(socket)
            await driver.start()
            yield driver
    finally:
        process.kill()
        await process.communicate()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", line.decode()):
            return found[1]
    raise AssertionError("Firefox did not start")
