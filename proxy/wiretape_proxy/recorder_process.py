"""The recorder process as the proxy sees it: start it, write to its pipe, read its messages."""

import asyncio
import fcntl
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from wiretape.errors import InputError
from wiretape_proxy.recorder_messages import (
    RecorderConfig,
    RecorderMessage,
    RecordingOpened,
    RecordingRefused,
    decode_line,
    encode_line,
)

_PIPE_BYTES = 1 << 20
_LONGEST_LINE = 1 << 20
# `-m` would search the path of the new interpreter, which need not contain this package.
_START = (
    "import sys; sys.path += [p for p in sys.argv[1:] if p not in sys.path]; "
    "from wiretape_proxy.recorder import main; main()"
)


class PipeWriter:
    """Writes to a pipe without blocking.  What the pipe cannot take is kept, and retried with every write.

    asyncio's transports retry only once per iteration of the event loop; with many fast streams, an iteration takes
    longer than the pipe takes to empty.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over `descriptor`, which must be non-blocking."""
        self.backlog = 0
        """Bytes kept for later."""
        self.is_closing = False
        """Whether further writes are dropped."""
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._kept: deque[memoryview] = deque()
        self._is_waiting = False

    def write(self, data: bytes) -> None:
        """Write bytes; drop them once the pipe is closed or has no reader."""
        if not self.is_closing:
            self._kept.append(memoryview(data))
            self.backlog += len(data)
            self._push()

    def close(self) -> None:
        """Close the pipe after the kept bytes are written."""
        self.is_closing = True
        if self._descriptor >= 0 and not self._kept:
            self._end()

    def abandon(self) -> None:
        """Close the pipe and drop the kept bytes."""
        self._kept.clear()
        self.backlog = 0
        self.close()

    def _push(self) -> None:
        try:
            while self._kept:
                count = os.write(self._descriptor, self._kept[0])
                self.backlog -= count
                if count < len(self._kept[0]):
                    self._kept[0] = self._kept[0][count:]
                else:
                    self._kept.popleft()
        except BlockingIOError:
            if not self._is_waiting:
                self._is_waiting = True
                self._loop.add_writer(self._descriptor, self._push)
        except OSError:
            self.abandon()
        else:
            self._stop_waiting()
            if self.is_closing:
                self._end()

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._descriptor)

    def _end(self) -> None:
        self._stop_waiting()
        os.close(self._descriptor)
        self._descriptor = -1


class RecorderProcess:
    """One recorder process.  Call `spawn`, `open`, then `send` as often as needed, then `close`."""

    def __init__(self, on_message: Callable[[RecorderMessage], None], on_death: Callable[[], None]) -> None:
        """`on_message` receives messages after `open`; `on_death` is called if the process dies before `close`."""
        self._on_message = on_message
        self._on_death = on_death
        self._pipe: PipeWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._reply: RecordingOpened | RecordingRefused | None = None
        self._replied = asyncio.Event()
        self._closing = False

    async def spawn(self) -> None:
        """Start the process. It touches nothing before `open`."""
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        _enlarge(write_end)
        self._pipe = PipeWriter(write_end)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _START,
                *sys.path,
                stdin=read_end,
                stdout=asyncio.subprocess.PIPE,
                limit=_LONGEST_LINE,
                # Ctrl-C in the terminal, or a kill of the process group, must not reach it.
                start_new_session=True,
            )
        finally:
            os.close(read_end)
        self._listening = asyncio.create_task(self._listen(process))

    async def open(self, config: RecorderConfig) -> int:
        """Open the recording; return the number of its next exchange.

        Raises InputError with the recorder's own message.
        """
        self.send(encode_line(config))
        await self._replied.wait()
        if self._reply is None:
            raise InputError("The recorder process did not start; see its output above.")
        if isinstance(self._reply, RecordingRefused):
            await self.close()
            raise InputError(self._reply.error)
        return self._reply.first_exchange

    @property
    def is_alive(self) -> bool:
        """Whether sent bytes reach the recorder."""
        return self._pipe is not None and not self._pipe.is_closing

    @property
    def backlog(self) -> int:
        """Bytes in this process that the recorder has yet to take."""
        return self._pipe.backlog if self._pipe is not None else 0

    def send(self, data: bytes) -> None:
        """Send bytes, without blocking."""
        if self._pipe is not None:
            self._pipe.write(data)

    async def close(self) -> None:
        """Close the pipe and wait until the recorder has closed the recording."""
        self._closing = True
        if self._pipe is not None:
            self._pipe.close()
        if self._listening is not None:
            await self._listening

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is not None:
            async for line in process.stdout:
                self._receive(decode_line(line))
        await process.wait()
        if self._pipe is not None:
            self._pipe.abandon()
        if not self._replied.is_set():
            self._replied.set()
        elif not self._closing:
            self._on_death()

    def _receive(self, message: RecorderMessage) -> None:
        if isinstance(message, RecordingOpened | RecordingRefused):
            self._reply = message
            # A recorder that refuses ends by itself, perhaps before `open` continues.
            self._closing |= isinstance(message, RecordingRefused)
            self._replied.set()
        else:
            self._on_message(message)


def _enlarge(pipe: int) -> None:
    """Enlarge a pipe: its contents are recorded even if this process is killed."""
    with suppress(AttributeError, OSError):  # Linux only
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
