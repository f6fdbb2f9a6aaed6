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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from wiretape.errors import InputError, describe_failure
from wiretape.labels import count_of
from wiretape_proxy.ipc_codec import (
    BatchReader,
    CaptureBuffer,
    count_body_bytes,
    count_requests,
    drop_chunks,
    encode_stop,
    pack_batch,
)
from wiretape_proxy.proxy_options import Settings
from wiretape_proxy.recorder_messages import (
    MOST_BYTES,
    RECORDER_FAILED,
    BatchesStored,
    BytesNotStored,
    HeldBody,
    LogLine,
    MessageReader,
    RecorderConfig,
    RecorderFailed,
    RecorderMessage,
    RecorderStatus,
    RecordingClosed,
    RecordingOpened,
    RecordingRefused,
    ResumedCapture,
    UnfinishedFiles,
    decode_message,
    encode_message,
)

FLUSH_EVERY_S = 0.04
_OVERDUE_NS = 60_000_000
"""With about ten streams at full speed, one iteration of the event loop can take several times as long."""
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_SILENCE_S = 0.8
"""A recorder that stores nothing for this long, although it should, is reported ..."""
_GIVE_UP_AFTER_S = 10.0
"""... and killed after this time: until then, it may only be slow, and traffic waits for it if memory is full."""
_LONGEST_STEP_S = 0.25
"""What counts of an iteration of the event loop: if this process stood still itself, the recorder is not to blame."""
_EXIT_S = 5.0
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

    If the recorder fails, recording stops, and traffic continues.  When the proxy stops, another recorder adds to the
    recording what was lost: the requests and responses, and the number of bytes of their bodies.
    """

    def __init__(self, buffer: CaptureBuffer, pause_reading: Callable[[bool], None]) -> None:
        """`pause_reading` is called with True while the recorder cannot keep up, and with False afterwards."""
        self.lost_bytes = 0
        """Bytes of bodies that passed but were not recorded."""
        self.lost_exchanges = 0
        """Exchanges of which the recording contains nothing."""
        self.first_exchange = 1
        """The number of the first exchange in the recording."""
        self.closed: RecordingClosed | None = None
        """What the recording contains, once it is closed."""
        self.on_status: Callable[[RecorderStatus], None] | None = None
        """Called with each status of the recorder; set before `open`."""
        self.lists_requests = False
        """Whether to log each exchange that ends, and not only streams and failures; set before `open`."""
        self._buffer = buffer
        self._pause_reading = pause_reading
        self._settings = Settings()
        self._upstream = ""
        self._files: Sequence[str] = ()
        """The file that is written now, and before it those that are rotated but not handled."""
        self._is_paused = False
        self._dropped = 0
        self._not_stored = 0
        self._timer: asyncio.TimerHandle | None = None
        self._pipe: PipeWriter | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._reply: RecordingOpened | RecordingRefused | None = None
        self._replied = asyncio.Event()
        self._is_closing = False
        self._resumed: ResumedCapture | None = None
        self._failure = ""
        """Why recording stopped."""
        self._unstored: deque[bytes] = deque()
        """Batches that the recorder has not stored yet."""
        self._stored_count = 0
        self._held: Sequence[HeldBody] = ()
        self._missed: list[bytes] = []
        """After a failure: batches without chunks, for the recorder that adds what was lost."""
        self._missed_size = self._missed_bytes = 0
        """Their size, and the number of bytes in the chunks."""
        self._watched_at = 0.0
        self._silence_s = 0.0
        """For how long the recorder has stored nothing, although it should."""

    @property
    def is_complete(self) -> bool:
        """Whether all traffic is in the recording; known once it is closed."""
        is_closed = self.closed is not None and not self.closed.is_missing
        return is_closed and not self._failure and not self.lost_bytes

    @property
    def lost(self) -> str:
        """What passed unrecorded; empty if nothing did."""
        lost = count_of(self.lost_bytes, "byte")
        if self.lost_exchanges:
            return f"{count_of(self.lost_exchanges, 'exchange')} with {lost}"
        return lost if self.lost_bytes else ""

    async def spawn(self) -> None:
        """Start the recorder process ahead of `open`, which takes a moment.  It touches nothing before `open`."""
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        with suppress(AttributeError, OSError):  # Linux only
            # What is in the pipe is recorded even if this process is killed.
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._pipe = PipeWriter(write_end)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _START,
                *sys.path,
                stdin=read_end,
                stdout=asyncio.subprocess.PIPE,
                # Ctrl-C in the terminal, or a kill of the process group, must not reach it.
                start_new_session=True,
            )
        finally:
            os.close(read_end)
        self._listening = asyncio.create_task(self._listen(self._process, self._pipe))

    async def open(self, settings: Settings, upstream: str, resumed: ResumedCapture | None = None) -> None:
        """Open the recording, and flush to it from now on.  Raises InputError with the recorder's own message.

        `resumed` is the capture to continue, whose recorder failed.
        """
        self._settings, self._upstream, self._resumed = settings, upstream, resumed
        self._files = [str(Path(settings.output))]
        if not self._is_alive:
            await self.spawn()
        config = encode_message(
            RecorderConfig(
                settings,
                upstream,
                wants_status=self.on_status is not None,
                lists_requests=self.lists_requests,
                resumed=resumed,
            )
        )
        if len(config) > MOST_BYTES:
            await self._end()
            raise InputError(f"The options have {len(config):,} bytes: use at most {MOST_BYTES:,}.")
        self._send(config)
        await self._replied.wait()
        if self._reply is None:
            raise InputError(f"{self._failure or 'The recorder process did not start'}; see its output above.")
        if isinstance(self._reply, RecordingRefused):
            await self._end()
            raise InputError(self._reply.error)
        self.first_exchange = self._reply.first_exchange
        self._buffer.on_overdue = self._flush_overdue
        self._watched_at = time.monotonic()
        self._tick()

    async def close(self) -> None:
        """Send the rest, and wait until the recording is closed."""
        self._buffer.add_message(encode_stop())
        self._flush()
        await self._end()
        if self._timer is not None:
            self._timer.cancel()
        if self._failure and self._resumed is None:
            await self._record_losses()

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

    def _send_batch(self, batch: bytes) -> None:
        """Send a batch, and keep it until it is stored: the recorder may have died, although that is not known yet."""
        self._unstored.append(batch)
        self._send(batch)

    async def _end(self) -> None:
        """Close the pipe, and wait until the recorder has ended."""
        self._is_closing = True
        if self._pipe is not None:
            self._pipe.close()
        if self._listening is not None:
            await asyncio.wait({self._listening})

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self._tick)
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not lose traffic silently
            self._fail(f"Captured traffic cannot be sent to the recorder process ({describe_failure(error)})")
        self._check_silence()

    def _flush_overdue(self) -> None:
        """Flush within a long iteration of the event loop; `_flush` handles overload."""
        self._set_due()
        if self._is_alive and self._backlog <= self._settings.memory // 2:
            self._send_batch(pack_batch(self._buffer.take()))

    def _set_due(self) -> None:
        self._buffer.due_ns = time.monotonic_ns() + _OVERDUE_NS

    def _flush(self) -> None:
        self._set_due()
        entries = self._buffer.take()
        if self._failure:
            self._miss(entries)
            return
        if self._is_closing and not self._is_alive:
            self.lost_bytes += count_body_bytes(entries)
            return
        is_full = self._backlog > self._settings.memory
        if is_full and self._settings.on_overload == "drop":
            entries = self._drop(entries)
        else:
            self._apply_backpressure(is_full)
        if entries:
            self._send_batch(pack_batch(entries))

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

    # Failures

    def _check_silence(self) -> None:
        """Report a recorder that stores nothing, although it should; kill it if that lasts."""
        now = time.monotonic()
        step, self._watched_at = min(now - self._watched_at, _LONGEST_STEP_S), now
        if not self._unstored or self._failure:
            return
        before = self._silence_s
        self._silence_s += step
        if before < _SILENCE_S <= self._silence_s:
            log.warning("The recorder process does not respond: traffic waits in memory.")
        if self._silence_s >= _GIVE_UP_AFTER_S:
            self._fail(f"The recorder process has not responded for {_GIVE_UP_AFTER_S:.0f} s")

    def _hear(self) -> None:
        """Note that the recorder works."""
        if self._silence_s >= _SILENCE_S:
            log.warning("The recorder process responds again.")
        self._silence_s = 0.0

    def _fail(self, why: str) -> None:
        """Stop recording, because of the recorder."""
        if self._failure:
            return
        self._failure = why
        if self._reply is None:
            return  # `open` reports it
        log.warning("%s: traffic continues unrecorded.", why)
        self._pause_reading(False)
        self._kill()
        if self._listening is not None:  # not even a kill ends a process that waits for a broken disk
            asyncio.get_running_loop().call_later(_EXIT_S, self._listening.cancel)
        if self._pipe is not None:
            self._pipe.abandon()
        reader = BatchReader()
        for data in self._unstored:
            for batch in reader.feed(data):
                self._miss(batch.entries())
        self._unstored.clear()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    def _miss(self, entries: list[Any]) -> None:
        """Count the bytes as lost, and keep the rest as long as there is room."""
        count = count_body_bytes(entries)
        self.lost_bytes += count
        if not entries:
            return
        if self._missed_size <= self._settings.memory:
            self._missed.append(pack_batch(drop_chunks(entries, RECORDER_FAILED)))
            self._missed_size += len(self._missed[-1])
            self._missed_bytes += count
        else:
            self.lost_exchanges += count_requests(entries)

    async def _record_losses(self) -> None:
        """Let another recorder add to the recording what was lost."""
        if not isinstance(self._reply, RecordingOpened):
            return
        other = RecorderClient(CaptureBuffer(), self._pause_reading)
        resumed = ResumedCapture(self._reply.first_exchange, self._reply.base_ns, self._files, self._held)
        try:
            async with asyncio.timeout(_GIVE_UP_AFTER_S):
                await other.open(replace(self._settings, append=True, rotate=None), self._upstream, resumed)
        except InputError as error:
            log.warning("What was lost cannot be recorded: %s", error)
        except TimeoutError:
            log.warning("What was lost cannot be recorded: the recorder process does not respond.")
            other._kill()
            await other._end()
        else:
            for batch in self._missed:
                other._send_batch(batch)
            await other.close()
        self.closed = other.closed
        if self.closed is not None:
            # The failed recorder may have stored more than it reported.
            self.lost_bytes += self.closed.held_bytes - max(0, self._missed_bytes - self.closed.dropped_bytes)
        else:
            batches = BatchReader().feed(b"".join(self._missed))
            self.lost_exchanges += sum(count_requests(batch.entries()) for batch in batches)

    # Messages

    async def _listen(self, process: asyncio.subprocess.Process, pipe: PipeWriter) -> None:
        reader = MessageReader()
        try:
            while process.stdout is not None and (data := await process.stdout.read(_READ_BYTES)):
                for message in reader.feed(data):
                    self._receive(decode_message(message))
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end silently
            self._fail(f"The recorder process sent an invalid message ({describe_failure(error)})")
        # Nothing is lost if it refused, or never started; `open` reports that.
        if isinstance(self._reply, RecordingOpened) and self.closed is None:
            self._fail("The recorder process died")
        try:
            async with asyncio.timeout(_EXIT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
        pipe.abandon()
        self._replied.set()

    def _receive(self, message: RecorderMessage) -> None:
        self._hear()
        match message:
            case RecordingOpened() | RecordingRefused() if self._reply is None:
                self._reply = message
                self._replied.set()
            case BatchesStored():
                self._note_stored(message)
            case RecorderStatus():
                if self.on_status is not None:
                    self.on_status(message)
            case BytesNotStored():
                self.lost_bytes += message.lost_bytes - self._not_stored
                self._not_stored = message.lost_bytes
            case RecorderFailed():
                self._fail(f"The recorder process failed ({message.why})")
            case LogLine():
                level = logging.WARNING if message.is_warning else logging.INFO
                log.log(level, "%s", message.text, extra={"facts": message.facts})
            case UnfinishedFiles():
                self._files = message.files
            case RecordingClosed() if self._is_closing:
                self.closed = message
            case _:
                raise ValueError("a message at the wrong time")

    def _note_stored(self, message: BatchesStored) -> None:
        while self._stored_count < message.count:
            self._held = message.held
            self._unstored.popleft()
            self._stored_count += 1
