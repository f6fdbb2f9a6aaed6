"""Send the captured traffic to the recorder process, and apply backpressure if it cannot keep up."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from wiretape.labels import count_of
from wiretape_proxy.addon_options import Settings
from wiretape_proxy.capture_buffer import CaptureBuffer, count_body_bytes, drop_chunks
from wiretape_proxy.ipc_codec import encode_stop, pack_batch
from wiretape_proxy.recorder_messages import (
    BytesNotStored,
    CatchingUp,
    ChecksFailed,
    ExchangeSummary,
    LiveFinding,
    RecorderConfig,
    RecorderMessage,
    RecorderStatus,
    RecordingClosed,
    RecordingMissing,
)
from wiretape_proxy.recorder_process import RecorderProcess
from wiretape_proxy.stderr_writer import REDACTED

FLUSH_EVERY_S = 0.04
_OVERDUE_NS = 60_000_000
"""With about ten streams at full speed, one iteration of the event loop can take several times as long."""

log = logging.getLogger(__name__)


class RecorderClient:
    """Flushes the capture buffer to the recorder every 40 ms, and logs what the recorder reports.

    This runs on the event loop itself: a thread would compete with it for the interpreter lock and slow both down.
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
        self._recorder = RecorderProcess(self._receive, self._recorder_died)

    @property
    def is_complete(self) -> bool:
        """Whether all traffic is in the recording; known once it is closed."""
        return self.closed is not None and not self.closed.is_missing and not self.lost_bytes

    def watch(self, watcher: Callable[[RecorderStatus], None]) -> None:
        """Pass each status of the recorder to `watcher`; call this before `open`."""
        self._watchers.append(watcher)

    async def spawn(self) -> None:
        """Start the recorder process ahead of `open`, which takes a moment."""
        await self._recorder.spawn()

    async def open(self, settings: Settings, upstream: str) -> None:
        """Open the recording, and flush to it from now on.  Raises InputError."""
        self._settings = settings
        if not self._recorder.is_alive:
            await self._recorder.spawn()
        config = RecorderConfig(
            settings.output, upstream, settings.append, settings.config, wants_status=bool(self._watchers)
        )
        self.first_exchange = await self._recorder.open(config)
        self._buffer.on_overdue = self._flush_overdue
        self._tick()

    async def close(self) -> None:
        """Send the rest, and wait until the recording is closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._buffer.add_message(encode_stop())
        self._flush()
        await self._recorder.close()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self._tick)
        self._flush()

    def _flush_overdue(self) -> None:
        """Flush within a long iteration of the event loop; `_flush` handles overload."""
        self._set_due()
        if self._recorder.is_alive and self._recorder.backlog <= self._settings.memory // 2:
            self._recorder.send(pack_batch(self._buffer.take()))

    def _set_due(self) -> None:
        self._buffer.due_ns = time.monotonic_ns() + _OVERDUE_NS

    def _flush(self) -> None:
        self._set_due()
        entries = self._buffer.take()
        if not self._recorder.is_alive:
            self.lost_bytes += count_body_bytes(entries)
            return
        is_full = self._recorder.backlog > self._settings.memory
        if is_full and self._settings.on_overload == "drop":
            entries = self._drop(entries)
        else:
            self._apply_backpressure(is_full)
        if entries:
            self._recorder.send(pack_batch(entries))

    def _drop(self, entries: list[Any]) -> list[Any]:
        dropped = count_body_bytes(entries)
        if dropped and not self._dropped:
            log.warning("Recording cannot keep up: bytes pass unrecorded until it catches up.")
        self._dropped += dropped
        self.lost_bytes += dropped
        return drop_chunks(entries, "recording could not keep up")

    def _apply_backpressure(self, is_full: bool) -> None:
        has_room = self._recorder.backlog <= self._settings.memory // 2
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
            case RecordingMissing() | ChecksFailed():
                log.warning(message.line())
            case BytesNotStored():
                self._note_loss(message)
            case CatchingUp():
                log.info(message.line())
            case RecordingClosed():
                self.closed = message

    def _note_loss(self, message: BytesNotStored) -> None:
        if not self._not_stored:
            log.warning(message.line())
        self.lost_bytes += message.lost_bytes - self._not_stored
        self._not_stored = message.lost_bytes

    def _recorder_died(self) -> None:
        self._pause_reading(False)
        log.warning("The recorder process died: traffic continues unrecorded.")
