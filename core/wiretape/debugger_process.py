"""Run `wiretape debug` in a process next to another command; the programs do not import each other."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

TOKEN_VARIABLE = "WIRETAPE_TOKEN"  # noqa: S105 - a name
"""The environment variable for the token of a replay."""
_END_S = 3.0


class DebuggerProcess:
    """A debugger that runs as long as another command.

    It exits at the end of its standard input, and so also if the command is killed.
    """

    def __init__(self, write_line: Callable[[str], None]) -> None:
        """`write_line` receives the lines that the debugger prints."""
        self._write_line = write_line
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def start(self, file: Path, *, replay: str | None = None, token: str | None = None) -> None:
        """Show a recording, and control the replay at a URL with its token."""
        arguments = [str(file), *(["--replay", replay] if replay is not None else [])]
        self._running = asyncio.create_task(self._run(arguments, token))

    async def stop(self) -> None:
        """Stop it, if it was started, and wait until it exits."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def _run(self, arguments: Sequence[str], token: str | None) -> None:
        # Modules are imported from where this process found them, not from the current folder.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "wiretape", "debug", "--with-parent", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=environment if token is None else {**environment, TOKEN_VARIABLE: token},
            # Ctrl-C must reach only the command that started it.
            start_new_session=True,
        )
        forwarding = asyncio.create_task(self._forward_lines(process))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait((forwarding, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await _end(process)
        await forwarding

    async def _forward_lines(self, process: asyncio.subprocess.Process) -> None:
        if process.stderr is not None:
            async for line in process.stderr:
                self._write_line(line.decode("utf-8", "replace").rstrip())


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            await process.wait()
            return
    process.kill()
    await process.wait()
