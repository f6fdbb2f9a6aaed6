"""Child processes: start a `wiretape` command, wait until it listens, stop it, never leave it behind."""

import asyncio
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from wiretape.errors import InputError
from wiretape.wiretape_subprocess import read_lines

_START_TIMEOUT_S = 30
_STOP_TIMEOUT_S = 10
_LISTENING = re.compile(r" on (http://127\.0\.0\.1:\d+)\b")


class DemoError(Exception):
    """The demo did not go as planned."""


class ChildProcess:
    """A `wiretape` command that prints on stderr where it listens."""

    def __init__(self, process: asyncio.subprocess.Process, name: str, on_line: Callable[[str], None]) -> None:
        if process.stderr is None:
            raise ValueError("The stderr of a child process has to be a pipe.")
        self._process = process
        self._stderr = process.stderr
        self._name = name
        self._on_line = on_line
        self._last_lines: deque[str] = deque(maxlen=3)
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read_lines())

    async def address(self) -> str:
        """Wait until it listens, and return its base URL.  Raises InputError if it ends or is silent for too long."""
        await asyncio.wait(
            (self._address, self._reading), timeout=_START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if self._reading.done():
            # Raises what ended the reading: perhaps our own output is closed.
            self._reading.result()
        if not self._address.done():
            # Its last line is the error message; usage may precede it.
            reason = self._last_lines[-1].removeprefix("Error: ") if self._last_lines else "it printed nothing."
            raise InputError(f"{self._name} did not start: {reason}")
        return self._address.result()

    async def stop(self) -> None:
        """Interrupt it as Ctrl-C does, and wait.  Raises DemoError if its exit status is not 0."""
        with suppress(ProcessLookupError):  # it was killed; its status is reported below
            self._process.send_signal(signal.SIGINT)
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await self._reading
                if await self._process.wait() == 0:
                    return
                lines = " ".join(self._last_lines)
                raise DemoError(f"{self._name} exited with status {self._process.returncode}: {lines}")
        raise DemoError(f"{self._name} did not stop within {_STOP_TIMEOUT_S} seconds.")

    async def clean_up(self) -> None:
        """Terminate it whatever it does; kill it at once if this is interrupted."""
        try:
            if self._process.returncode is None:
                # At the end of its stderr it is exiting already; a signal could then replace its exit status.
                if not self._stderr.at_eof():
                    self._process.terminate()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_STOP_TIMEOUT_S):
                        await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._process.kill()
        await self._process.wait()
        self._reading.cancel()
        self._address.cancel()
        await asyncio.gather(self._reading, self._address, return_exceptions=True)

    async def _read_lines(self) -> None:
        async for line in read_lines(self._stderr):
            self._last_lines.append(line)
            self._on_line(line)
            listening = _LISTENING.search(line)
            if listening is not None and not self._address.done():
                self._address.set_result(listening[1])


@asynccontextmanager
async def run_wiretape(*args: str, on_line: Callable[[str], None]) -> AsyncIterator[ChildProcess]:
    """Run `wiretape ARGS` while the context is open; `on_line` gets each line of its stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wiretape", *args),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C interrupts the demo, which then stops its child processes in order.
        start_new_session=True,
    )
    child = ChildProcess(process, f"wiretape {args[0]}", on_line)
    try:
        yield child
    finally:
        await child.clean_up()
