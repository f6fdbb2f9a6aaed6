"""The recorder process as the proxy sees it: start it, send it the captured traffic, and receive its messages.

If it cannot keep up, this applies backpressure, or drops bytes.
"""

import asyncio
import fcntl
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from wiretape.errors import InputError
from wiretape.labels import count_of
from wiretape_proxy.addon_options import Settings
from wiretape_proxy.capture_buffer import CaptureBuffer, count_body_bytes, drop_chunks
from wiretape_proxy.ipc_codec import encode_stop, pack_batch
from wiretape_proxy.recorder_messages import (
    BytesNotStored,
    CatchingUp,
    ChecksFailed,
    ExchangeSummary,
    FileClosed,
    FindingsCorrected,
    LiveFinding,
    RecorderConfig,
    RecorderMessage,
    RecorderStatus,
    RecordingClosed,
    RecordingLocked,
    RecordingMissing,
    RecordingOpened,
    RecordingRefused,
    RotationFailed,
    decode_line,
    encode_line,
)
from wiretape_proxy.stderr_writer import REDACTED

FLUSH_EVERY_S = 0.04
_OVERDUE_NS = 60_000_000
"""With about ten streams at full speed, one iteration of the event loop can take several times as long."""
_PIPE_BYTES = 1 << 20
_LONGEST_LINE = 1 << 20
# `-m` would search the path of the new interpreter, which need not contain this package.
_START = (
    "import sys; sys.path += [p for p in sys.argv[1:] if p not in sys.path]; "
    "from wiretape_proxy.recorder import main; main()"
)

log = logging.getLogger(__name__)


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


class RecorderClient:
    """Flushes the capture buffer to the recorder every 40 ms, and logs what the recorder reports.

    Call `spawn` (optional), `open`, then `close`.  This runs on the event loop itself: a thread would compete with it
    for the interpreter lock and slow both down.
    """

    def __init__(self, buffer: CaptureBuffer, pause_reading: Callable[[bool], None]) -> None:
        """`pause_reading` is called with True while the recorder cannot keep up, and with False afterwards."""
        self.lost_bytes = 0
        """Bytes of bodies that passed but were not recorded."""
        self.first_exchange = 1
        """The number of the first exchange in the recording."""
        self.closed: RecordingClosed | None = None
        """What the recording contains, once it is closed."""
        self._buffer = buffer
        self._pause_reading = pause_reading
        self._settings = Settings()
        self._is_paused = False
        self._dropped = 0
        self._not_stored = 0
        self._watchers: list[Callable[[RecorderStatus], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._pipe: PipeWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._reply: RecordingOpened | RecordingRefused | None = None
        self._replied = asyncio.Event()
        self._is_closing = False

    @property
    def is_complete(self) -> bool:
        """Whether all traffic is in the recording; known once it is closed."""
        return self.closed is not None and not self.closed.is_missing and not self.lost_bytes

    def watch(self, watcher: Callable[[RecorderStatus], None]) -> None:
        """Pass each status of the recorder to `watcher`; call this before `open`."""
        self._watchers.append(watcher)

    async def spawn(self) -> None:
        """Start the recorder process ahead of `open`, which takes a moment.  It touches nothing before `open`."""
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        with suppress(AttributeError, OSError):  # Linux only
            # What is in the pipe is recorded even if this process is killed.
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
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
        self._listening = asyncio.create_task(self._listen(process, self._pipe))

    async def open(self, settings: Settings, upstream: str) -> None:
        """Open the recording, and flush to it from now on.  Raises InputError with the recorder's own message."""
        self._settings = settings
        if not self._is_alive:
            await self.spawn()
        self._send(encode_line(RecorderConfig(settings, upstream, wants_status=bool(self._watchers))))
        await self._replied.wait()
        if self._reply is None:
            raise InputError("The recorder process did not start; see its output above.")
        if isinstance(self._reply, RecordingRefused):
            await self._end()
            raise InputError(self._reply.error)
        self.first_exchange = self._reply.first_exchange
        self._buffer.on_overdue = self._flush_overdue
        self._tick()

    async def close(self) -> None:
        """Send the rest, and wait until the recording is closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._buffer.add_message(encode_stop())
        self._flush()
        await self._end()

    @property
    def _is_alive(self) -> bool:
        """Whether sent bytes reach the recorder."""
        return self._pipe is not None and not self._pipe.is_closing

    @property
    def _backlog(self) -> int:
        """Bytes in this process that the recorder has yet to take."""
        return self._pipe.backlog if self._pipe is not None else 0

    def _send(self, data: bytes) -> None:
        if self._pipe is not None:
            self._pipe.write(data)

    async def _end(self) -> None:
        """Close the pipe, and wait until the recorder has ended."""
        self._is_closing = True
        if self._pipe is not None:
            self._pipe.close()
        if self._listening is not None:
            await self._listening

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self._tick)
        self._flush()

    def _flush_overdue(self) -> None:
        """Flush within a long iteration of the event loop; `_flush` handles overload."""
        self._set_due()
        if self._is_alive and self._backlog <= self._settings.memory // 2:
            self._send(pack_batch(self._buffer.take()))

    def _set_due(self) -> None:
        self._buffer.due_ns = time.monotonic_ns() + _OVERDUE_NS

    def _flush(self) -> None:
        self._set_due()
        entries = self._buffer.take()
        if not self._is_alive:
            self.lost_bytes += count_body_bytes(entries)
            return
        is_full = self._backlog > self._settings.memory
        if is_full and self._settings.on_overload == "drop":
            entries = self._drop(entries)
        else:
            self._apply_backpressure(is_full)
        if entries:
            self._send(pack_batch(entries))

    def _drop(self, entries: list[Any]) -> list[Any]:
        dropped = count_body_bytes(entries)
        if dropped and not self._dropped:
            log.warning("Recording cannot keep up: bytes pass unrecorded until it catches up.")
        self._dropped += dropped
        self.lost_bytes += dropped
        return drop_chunks(entries, "recording could not keep up")

    def _apply_backpressure(self, is_full: bool) -> None:
        has_room = self._backlog <= self._settings.memory // 2
        if is_full and not self._is_paused:
            log.warning("Recording cannot keep up: streams are slowed down until it catches up.")
        if self._dropped and has_room:
            log.warning("Recording has caught up; %s passed unrecorded.", count_of(self._dropped, "byte"))
            self._dropped = 0
        if is_full or (self._is_paused and not has_room):
            self._is_paused = True
            self._pause_reading(True)
        elif self._is_paused:
            self._is_paused = False
            self._pause_reading(False)
            log.warning("Recording has caught up.")

    async def _listen(self, process: asyncio.subprocess.Process, pipe: PipeWriter) -> None:
        if process.stdout is not None:
            async for line in process.stdout:
                message = decode_line(line)
                if isinstance(message, RecordingOpened | RecordingRefused):
                    self._reply = message
                    # A recorder that refuses ends by itself, perhaps before `open` continues.
                    self._is_closing |= isinstance(message, RecordingRefused)
                    self._replied.set()
                else:
                    self._receive(message)
        await process.wait()
        pipe.abandon()
        if not self._replied.is_set():
            self._replied.set()
        elif not self._is_closing:
            self._pause_reading(False)
            log.warning("The recorder process died: traffic continues unrecorded.")

    def _receive(self, message: RecorderMessage) -> None:
        match message:
            case LiveFinding():
                log.warning(message.line(), extra=REDACTED)
            case ExchangeSummary():
                if message.is_notable:
                    log.info(message.line())
            case RecorderStatus():
                for watcher in self._watchers:
                    watcher(message)
            case RecordingMissing() | RecordingLocked() | ChecksFailed() | RotationFailed():
                log.warning(message.line())
            case BytesNotStored():
                self._note_loss(message)
            case CatchingUp() | FindingsCorrected() | FileClosed():
                log.info(message.line())
            case RecordingClosed():
                self.closed = message

    def _note_loss(self, message: BytesNotStored) -> None:
        if not self._not_stored:
            log.warning(message.line())
        self.lost_bytes += message.lost_bytes - self._not_stored
        self._not_stored = message.lost_bytes
