"""The proxy's end of the recorder: starting it, feeding it, hearing from it."""

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from wiretape.errors import InputError
from wiretape_proxy.order import Order
from wiretape_proxy.outlet import Outlet
from wiretape_proxy.reports import Opened, Refused, Report, read

_PIPE_BYTES = 1 << 20
_LONGEST_LINE = 1 << 20
# `-m` would look for the package where the new interpreter looks, which need not be where this one found it.
_START = (
    "import sys; sys.path += [p for p in sys.argv[1:] if p not in sys.path]; "
    "from wiretape_proxy.recorder import main; main()"
)


class RecorderProcess:
    """One recorder.  `spawn`, `open`, then `send` as often as needed, then `close`."""

    def __init__(self, on_report: Callable[[Report], None], on_death: Callable[[], None]) -> None:
        """`on_report` hears what the recorder says once it is open; `on_death` that it died before `close`."""
        self._on_report = on_report
        self._on_death = on_death
        self._input: Outlet | None = None
        self._listening: asyncio.Task[None] | None = None
        self._answer: Opened | Refused | None = None
        self._answered = asyncio.Event()
        self._closing = False

    async def spawn(self) -> None:
        """Start the process; until `open` it touches nothing."""
        end, begin = os.pipe()
        os.set_blocking(begin, False)
        _widen(begin)
        self._input = Outlet(begin)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _START,
                *sys.path,
                stdin=end,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                # A Ctrl-C in the terminal, or a kill of the whole group, must not reach it.
                start_new_session=True,
            )
        finally:
            os.close(end)
        self._listening = asyncio.create_task(self._listen(process))

    async def open(self, order: Order) -> int:
        """Have the recording opened; returns the number of its next exchange.

        Raises InputError with the recorder's own sentence when that cannot be.
        """
        self.send(order.dump())
        await self._answered.wait()
        if self._answer is None:
            raise InputError("The recorder did not start; what it said stands above.")
        if isinstance(self._answer, Refused):
            await self.close()
            raise InputError(self._answer.sentence)
        return self._answer.first_exchange

    @property
    def alive(self) -> bool:
        """Whether what is sent is recorded."""
        return self._input is not None and not self._input.is_closing

    @property
    def backlog(self) -> int:
        """How many bytes wait in this process to be taken by the recorder."""
        return self._input.backlog if self._input is not None else 0

    def send(self, data: bytes) -> None:
        """Pass a batch of notes on.  Never waits."""
        if self._input is not None:
            self._input.write(data)

    async def close(self) -> None:
        """End the recorder's input and wait until it has put the recording in order."""
        self._closing = True
        if self._input is not None:
            self._input.close()
        if self._listening is not None:
            await self._listening

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is not None:
            async for line in process.stdout:
                self._hear(read(line))
        await process.wait()
        if self._input is not None:
            self._input.abandon()
        if not self._answered.is_set():
            self._answered.set()
        elif not self._closing:
            self._on_death()

    def _hear(self, report: Report) -> None:
        if isinstance(report, Opened | Refused):
            self._answer = report
            # It ends by itself then, and may have ended before `open` hears of it.
            self._closing |= isinstance(report, Refused)
            self._answered.set()
        else:
            self._on_report(report)


def _widen(pipe: int) -> None:
    """What is in the pipe is recorded even if this process is killed: let it hold much."""
    with suppress(AttributeError, OSError):  # only Linux can
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
