"""From the notes of the event loop to the recorder, and what is done when that cannot keep up."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from wiretape.observations import Ending
from wiretape_proxy import lines, stderr
from wiretape_proxy.notes import Notes, volume, without_chunks
from wiretape_proxy.order import Order
from wiretape_proxy.process import RecorderProcess
from wiretape_proxy.reports import CatchingUp, Closed, Ended, Found, Losing, Misplaced, Progress, Report, Unchecked
from wiretape_proxy.settings import Settings
from wiretape_proxy.wire import pack, put_stop

FLUSH_EVERY_S = 0.04
_OVERDUE_NS = 60_000_000
"""A turn of the event loop may take several times as long, with some ten streams that are as fast as they can be."""

log = logging.getLogger(__name__)


class Feed:
    """Passes notes on to the recorder every few hundredths of a second.

    It does so on the loop itself: a thread would have to fight with it for the interpreter, and lose time
    on both sides.
    """

    def __init__(self, notes: Notes, slow_down: Callable[[bool], None]) -> None:
        """`slow_down` is called with True as long as no more can be taken, and with False once it can."""
        self.lost_bytes = 0
        """Bytes of bodies that passed but were not recorded."""
        self.failed = False
        """Whether the recorder died."""
        self.first_exchange = 1
        """The number that the first exchange has in the recording."""
        self.closed: Closed | None = None
        """What the recording holds, once it is closed."""
        self._notes = notes
        self._slow_down = slow_down
        self._settings = Settings()
        self._slowed = False
        self._dropped = 0
        self._unstored = 0
        self._watchers: list[Callable[[Progress], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._recorder = RecorderProcess(self._hear, self._died)

    def watch(self, watcher: Callable[[Progress], None]) -> None:
        """Have `watcher` told now and then how things stand; to be called before `open`."""
        self._watchers.append(watcher)

    async def spawn(self) -> None:
        """Start the recorder, which takes a moment and touches nothing; `open` does it too."""
        await self._recorder.spawn()

    async def open(self, settings: Settings, upstream: str) -> None:
        """Have the recording opened and feed it from now on.  Raises InputError."""
        self._settings = settings
        if not self._recorder.alive:
            await self._recorder.spawn()
        order = Order(settings.output, upstream, settings.append, settings.config, progress=bool(self._watchers))
        self.first_exchange = await self._recorder.open(order)
        self._notes.overdue = self._overdue
        self._tick()

    async def close(self) -> None:
        """Pass on what is left and wait until the recording is in order."""
        if self._timer is not None:
            self._timer.cancel()
        self._notes.word(put_stop())
        self._flush()
        await self._recorder.close()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self._tick)
        self._flush()

    def _overdue(self) -> None:
        """Pass notes on within a long turn of the event loop; what that means for the streams, `_flush` decides."""
        self._put_off()
        if self._recorder.alive and self._recorder.backlog <= self._settings.memory // 2:
            self._recorder.send(pack(self._notes.take()))

    def _put_off(self) -> None:
        self._notes.due_ns = time.monotonic_ns() + _OVERDUE_NS

    def _flush(self) -> None:
        self._put_off()
        notes = self._notes.take()
        if not self._recorder.alive:
            self.lost_bytes += volume(notes)
            return
        full = self._recorder.backlog > self._settings.memory
        if full and self._settings.on_overload == "drop":
            notes = self._drop(notes)
        else:
            self._slow(full)
        if notes:
            self._recorder.send(pack(notes))

    def _drop(self, notes: list[Any]) -> list[Any]:
        dropped = volume(notes)
        if dropped and not self._dropped:
            log.warning("Recording cannot keep up: bytes pass unrecorded until it can again.")
        self._dropped += dropped
        self.lost_bytes += dropped
        return without_chunks(notes, "recording could not keep up")

    def _slow(self, full: bool) -> None:
        if full and not self._slowed:
            log.warning("Recording cannot keep up: streams are slowed down until it can again.")
        if self._dropped and self._recorder.backlog < self._settings.memory // 2:
            log.warning("Recording keeps up again; %s passed unrecorded.", lines.volume(self._dropped))
            self._dropped = 0
        if full or (self._slowed and self._recorder.backlog > self._settings.memory // 2):
            self._slowed = True
            self._slow_down(True)
        elif self._slowed:
            self._slowed = False
            self._slow_down(False)
            log.warning("Recording keeps up again.")

    def _hear(self, report: Report) -> None:
        if isinstance(report, Found):
            log.warning(lines.finding(report), extra=stderr.REDACTED)
        elif isinstance(report, Ended) and _is_worth_a_line(report):
            log.info(lines.ending(report))
        elif isinstance(report, Progress):
            for watcher in self._watchers:
                watcher(report)
        elif isinstance(report, Misplaced):
            log.warning("The recording was deleted, moved or replaced: what passes from now on is not in it.")
        elif isinstance(report, Losing):
            self._lose(report)
        elif isinstance(report, Unchecked):
            log.warning("The live checks failed (%s): what passes is recorded, but not checked.", report.why)
        elif isinstance(report, CatchingUp):
            log.info(lines.catching_up(report))
        elif isinstance(report, Closed):
            self.closed = report

    def _lose(self, report: Losing) -> None:
        if not self._unstored:
            log.warning("The recording cannot be written (%s): traffic passes on unrecorded.", report.why)
        self.lost_bytes += report.lost_bytes - self._unstored
        self._unstored = report.lost_bytes

    @property
    def whole(self) -> bool:
        """Whether all that passed is in the recording; known once that is closed."""
        return self.closed is not None and not self.closed.misplaced and not self.lost_bytes

    def _died(self) -> None:
        self.failed = True
        self._slow(False)
        log.warning("The recorder died: traffic passes on unrecorded.")


def _is_worth_a_line(ended: Ended) -> bool:
    return ended.events is not None or ended.ending != Ending.COMPLETE or bool(ended.detail)
