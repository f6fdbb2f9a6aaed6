"""The other programs of the demo: started, waited for, stopped, and never left behind."""

import asyncio
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import click

from wiretape.errors import InputError

_READY_SECONDS = 30
_STOP_SECONDS = 10
_LISTENING = re.compile(r" on (http://127\.0\.0\.1:\d+)\b")


class DemoError(click.ClickException):
    """The demo did not go as planned.  Exit status 1."""


class Child:
    """A `wiretape` command that says on stderr where it listens."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, say: Callable[[str], None]) -> None:
        if process.stderr is None:
            raise ValueError("A child is listened to on stderr.")
        self._process = process
        self._stderr = process.stderr
        self._name = name
        self._say = say
        self._last: deque[str] = deque(maxlen=3)
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._listening = asyncio.create_task(self._listen())

    async def ready(self) -> str:
        """The address that it listens on, once it does.  Raises InputError when it never will."""
        told = (self._ready, self._listening)
        await asyncio.wait(told, timeout=_READY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if self._listening.done():
            # Raises what made it stop listening: perhaps nobody reads what is said.
            self._listening.result()
        if not self._ready.done():
            # Its last line is the sentence that says why; usage may stand before it.
            why = self._last[-1].removeprefix("Error: ") if self._last else "it said nothing."
            raise InputError(f"{self._name} did not start: {why}")
        return self._ready.result()

    async def stop(self) -> None:
        """Ask it to stop, as Ctrl-C does, and wait.  Raises DemoError when it ends in another way than well."""
        self._process.send_signal(signal.SIGINT)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                await self._listening
                if await self._process.wait() == 0:
                    return
                raise DemoError(f"{self._name} ended with status {self._process.returncode}: {' '.join(self._last)}")
        raise DemoError(f"{self._name} did not stop within {_STOP_SECONDS} seconds.")

    async def clean_up(self) -> None:
        """End it, whatever it does, and at once when this is interrupted, too."""
        try:
            if self._process.returncode is None:
                # One that says nothing more is ending; a signal could take its status before it is waited for.
                if not self._stderr.at_eof():
                    self._process.terminate()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_STOP_SECONDS):
                        await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
        await self._process.wait()
        self._listening.cancel()
        self._ready.cancel()
        await asyncio.gather(self._listening, self._ready, return_exceptions=True)

    async def _listen(self) -> None:
        async for raw in self._stderr:
            line = raw.decode("utf-8", "replace").rstrip()
            self._last.append(line)
            self._say(line)
            listening = _LISTENING.search(line)
            if listening is not None and not self._ready.done():
                self._ready.set_result(listening[1])


@asynccontextmanager
async def wiretape(*args: str, say: Callable[[str], None]) -> AsyncIterator[Child]:
    """Run `wiretape ARGS` as a program of its own while the context is open; `say` hears its stderr line by line."""
    process = await asyncio.create_subprocess_exec(
        *_command(args),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C is for the demo, which then stops its children in order.
        start_new_session=True,
    )
    child = Child(process, f"wiretape {args[0]}", say)
    try:
        yield child
    finally:
        await child.clean_up()


def _command(args: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "wiretape", *args]
