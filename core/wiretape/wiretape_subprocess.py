"""Run a `wiretape` command next to another, in a process of its own: the programs do not import each other."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path

TOKEN_VARIABLE = "WIRETAPE_TOKEN"  # noqa: S105 - a name
"""The environment variable for the token of a replay."""
_LONGEST_LINE = 1 << 16


class WiretapeSubprocess:
    """A `wiretape` command that runs as long as another.

    It exits at the end of its standard input, and so also if the other command is killed.
    """

    def __init__(self, write_line: Callable[[str], None], *, patience_s: float = 3.0) -> None:
        """`write_line` receives the lines that it prints; `patience_s` is how long it may take to exit."""
        self._write_line = write_line
        self._patience_s = patience_s
        self._running: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def start(self, *arguments: str, token: str | None = None) -> None:
        """Start a command, with the token of a replay in its environment."""
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
            *(sys.executable, "-P", "-m", "wiretape", *arguments, "--with-parent"),
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
        problem = await self._end(process)
        await forwarding
        if problem:
            self._write_line(f"`wiretape {arguments[0]}` {problem}.")

    async def _forward_lines(self, process: asyncio.subprocess.Process) -> None:
        if process.stderr is not None:
            async for line in read_lines(process.stderr):
                self._write_line(line)

    async def _end(self, process: asyncio.subprocess.Process) -> str:
        """Wait until it exits; return what went wrong, if anything did."""
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                status = await process.wait()
                return f"was killed by signal {-status}" if status < 0 else ""
        process.kill()
        await process.wait()
        return f"was killed, because it did not exit within {self._patience_s:g} s"


async def read_lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yield the lines of a stream; of a line that is longer than `_LONGEST_LINE`, only the beginning."""
    rest = b""
    while data := await stream.read(_LONGEST_LINE):
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[:_LONGEST_LINE]
        for line in lines:
            yield _decode_line(line)
    if rest:
        yield _decode_line(rest)


def _decode_line(line: bytes) -> str:
    return line[:_LONGEST_LINE].decode("utf-8", "replace").rstrip()


class DebuggerProcess(WiretapeSubprocess):
    """A debugger next to another command."""

    def show(self, file: Path, *, replay: str | None = None, token: str | None = None) -> None:
        """Show a recording, and control the replay at a URL with its token."""
        self.start("debug", str(file), *(["--replay", replay] if replay is not None else []), token=token)
