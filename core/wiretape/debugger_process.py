"""`wiretape debug` beside a command that has something to show: the programs do not import each other."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

TOKEN_VARIABLE = "WIRETAPE_TOKEN"  # noqa: S105 - a name
"""The environment variable that carries the token of a replay."""
_END_S = 3.0


class DebuggerProcess:
    """A debugger that runs while another command does.

    It ends when its standard input does: also when whoever started it is killed.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        """`say` takes the lines that the debugger says."""
        self._say = say
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def start(self, file: Path, *, replay: str | None = None, token: str | None = None) -> None:
        """Let it look at a recording, and drive the replay at a URL with its token."""
        arguments = [str(file), *(["--replay", replay] if replay is not None else [])]
        self._running = asyncio.create_task(self._run(arguments, token))

    async def stop(self) -> None:
        """End it, if it was started, and wait for that."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def _run(self, arguments: Sequence[str], token: str | None) -> None:
        # Modules are looked for where this process found them, and not where it happens to stand.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "wiretape", "debug", "--with-parent", *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=environment if token is None else {**environment, TOKEN_VARIABLE: token},
            # Ctrl-C is for the one who started it.
            start_new_session=True,
        )
        telling = asyncio.create_task(self._tell(process))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait((telling, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        await _end(process)
        await telling

    async def _tell(self, process: asyncio.subprocess.Process) -> None:
        if process.stderr is not None:
            async for line in process.stderr:
                self._say(line.decode("utf-8", "replace").rstrip())


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            await process.wait()
            return
    process.kill()
    await process.wait()
