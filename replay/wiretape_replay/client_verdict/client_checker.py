"""The client checker: listens to the traffic, checks it when streams pause, and can record it."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.errors import RecordingError
from wiretape.files import exists_error, path_exists
from wiretape.observations import Observation
from wiretape.recording import Writer, check_output
from wiretape.rules import Checker, Finding, Party, Settings, codes_of
from wiretape_replay.client_verdict.attribution import Attribution
from wiretape_replay.client_verdict.deferred_recording import DeferredWriter
from wiretape_replay.client_verdict.traffic_buffer import BufferListener, ObservationBuilder, TrafficBuffer
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.http_server.response_writer import ExchangeListener

_QUIET_NS = 20_000_000
"""If nothing was sent for this long, everything that waits is checked."""
_OLDEST_NS = 3_000_000_000
"""If streams never pause, traffic of this age is checked in slices."""
_SLICE_NS = 1_000_000
"""Duration of a slice."""
_PAUSE_NS = 4_000_000
"""Pause between slices; shorter if more traffic waits."""
_MOST_WAITING = 64 * 1024 * 1024
"""Bytes that may wait; beyond, every write waits for the checks."""
_BATCH = 16
"""Notes that are checked between two looks at the clock."""
_OUR_DOING = codes_of("AUTH")
"""Rules that are turned off: the options of the replay decide whether keys are needed."""


class ClientChecker:
    """A TrafficListener.  `open` it when the address is known, `finish` it when the server has stopped.

    What passes is noted, and judged when nothing was written for a moment, so that the streams are not slowed.
    All of it happens in the event loop of the front; `settle` and what looks at findings belong there too.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        record: Path | None = None,
        late: bool = False,
        told: Callable[[Finding], None] = lambda _: None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`record` is where to keep what passes, a new file; `late` says that it is made when `keep` asks for it.

        `told` is called with each finding against the client.

        Raises RecordingError when that file cannot be made.
        """
        if record is not None:
            _check(record)
        self.blame = Attribution()
        """Whose findings they are."""
        self.failed: str | None = None
        """What kept the checks from going on."""
        self._record = record
        self._told = told
        self._late = late
        self._writer: Writer | DeferredWriter | None = None
        settings = settings or Settings()
        self._checker = Checker(replace(settings, off=settings.off | _OUR_DOING))
        self._observer = ObservationBuilder("")
        self._numbers = count(1)
        self._monotonic = clock
        self._began_ns = clock()
        self._notes = TrafficBuffer(self._clock, self._noted)
        self._timer: asyncio.Handle | None = None
        self._finished = False

    def keep_time(self, clock: Callable[[], int]) -> None:
        """Go by another clock (ns).  To be called before anything passes."""
        self._monotonic, self._began_ns = clock, clock()

    def open(self, url: str) -> None:
        """Say where the replay is to be found.  Raises RecordingError when the recording cannot be written."""
        self._observer = ObservationBuilder(urlsplit(url).netloc)
        if self._record is not None:
            make = DeferredWriter if self._late else Writer.create
            self._writer = make(self._record, upstream=url)

    def keep(self) -> None:
        """Make the recording that is made late.  Raises RecordingError when it cannot be written."""
        self.settle()
        if isinstance(self._writer, DeferredWriter):
            self._writer.make()

    def request_started(self, request: HttpRequest) -> ExchangeListener:
        """See TrafficListener."""
        return BufferListener(self._notes, next(self._numbers), request)

    def settle(self) -> None:
        """Judge everything that has passed so far."""
        while self._notes:
            self._batch()
        if self._writer is not None:
            self._writer.commit()

    def finish(self) -> None:
        """Judge the rest, and close the recording.  Finishing again does nothing."""
        if self._finished:
            return
        self._finished = True
        if self._timer is not None:
            self._timer.cancel()
        self.settle()
        self._found(self._check(self._checker.finish))
        if self._writer is not None:
            self._writer.close(max(self._clock(), self._observer.last_ns + 1))

    @property
    def against_client(self) -> Sequence[Finding]:
        """What the client did wrong so far (of very many the first 10,000)."""
        self.settle()
        return self.blame.client.kept

    def _clock(self) -> int:
        """Nanoseconds since the judge was made."""
        return self._monotonic() - self._began_ns

    def _noted(self) -> None:
        if self._notes.waiting > _MOST_WAITING:
            self._work()
        if self._timer is None and not self._finished:
            self._timer = asyncio.get_running_loop().call_later(_QUIET_NS / 1e9, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now_ns, pause_ns = self._clock(), _QUIET_NS
        if self._notes:
            quiet = now_ns - self._notes.last_ns >= _QUIET_NS
            if quiet or now_ns - self._notes.first_ns > _OLDEST_NS:
                self._work()
                pause_ns = 0 if quiet else int(_PAUSE_NS * max(0, 1 - self._notes.waiting / _MOST_WAITING))
        elif self._writer is not None and self._writer.has_backlog:
            self._writer.derive()
            pause_ns = 0
        if self._notes or (self._writer is not None and self._writer.has_backlog):
            self._timer = asyncio.get_running_loop().call_later(pause_ns / 1e9, self._tick)

    def _work(self) -> None:
        """Judge for a moment."""
        until_ns = self._clock() + _SLICE_NS
        while self._notes and self._clock() < until_ns:
            self._batch()
        if self._writer is not None:
            self._writer.commit()

    def _batch(self) -> None:
        for seen in self._observer.observations(self._notes.take(_BATCH)):
            if isinstance(seen, tuple):
                exchange, injected = seen
                self.blame.inject(exchange, self._observer.last_ns, injected.fault)
            else:
                self._judge(seen)

    def _judge(self, seen: Observation) -> None:
        self.blame.see(seen)
        if self._writer is not None:
            self._writer.feed([seen])
        self._found(self._check(lambda: self._checker.feed(seen)))

    def _check(self, check: Callable[[], list[Finding]]) -> list[Finding]:
        if self.failed is not None:
            return []
        try:
            return check()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a rule must not end the replay
            self.failed = f"{type(error).__name__}: {error}"
            return []

    def _found(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self.blame.sort(finding)
            if finding.side is Party.CLIENT:
                self._told(finding)
        if self._writer is not None:
            self._writer.add_findings(findings)


def _check(record: Path) -> None:
    """Raises RecordingError when a file cannot be a new recording."""
    if path_exists(record):
        raise RecordingError(exists_error(record, "--record"))
    check_output(record, append=False)
