"""The recorder: a process of its own that stores and judges what the proxy's event loop notes.

It reads a line of JSON (what to record to), then batches of notes (`wiretape_proxy.wire`) from standard
input until that ends, and answers on standard output with one line of JSON for each thing worth saying
(`wiretape_proxy.reports`).  Being apart, it takes none of the time in which the proxy serves its clients;
and it outlives a proxy that is killed, by as long as it takes to put in order what had come so far.
"""

import math
import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from wiretape.config import find_config, load_config
from wiretape.errors import InputError
from wiretape.observations import BytesArrived, ExchangeEnded
from wiretape.recording import LARGE_SLICE, BacklogSlice, Writer
from wiretape.rules import CATALOGUE, Finding, Settings
from wiretape_proxy.judge import Judge
from wiretape_proxy.order import NO_CONFIG, Order
from wiretape_proxy.pace import Pace
from wiretape_proxy.reports import CatchingUp, Closed, Losing, Misplaced, Opened, Refused, Report, Unchecked, write
from wiretape_proxy.wire import Assembler, Unpacker

COMMIT_AFTER_S = 0.14
"""What came is stored when the oldest of it is as old as this: it comes every 40 ms, and 200 ms are aimed at."""
_COMMIT_PAUSE_S = 0.05
"""So long there is no other commit: where input is late, each of them should be worth its while."""
PROGRESS_EVERY_S = 0.5
_PATIENT_S = 1.0
"""A close that takes longer than this is said."""
_LOOK_EVERY_S = 1.0
_READ_BYTES = 1 << 20
_NEVER = math.inf


def main() -> None:
    """Record what comes on standard input.  The proxy decides when it ends, and nobody else."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    order, rest = _read_order()
    if order is None:
        return
    try:
        settings = _settings(order.config)
        writer = Writer.create(order.output, upstream=order.upstream, append=order.append)
    except InputError as error:
        _say(Refused(error.message))
    else:
        _say(Opened(writer.first_exchange))
        _Recorder(writer, settings, progress=order.progress).run(rest)


def _read_order() -> tuple[Order | None, bytes]:
    data = b""
    while b"\n" not in data:
        more = os.read(sys.stdin.fileno(), _READ_BYTES)
        if not more:
            return None, b""
        data += more
    line, _, rest = data.partition(b"\n")
    return Order.load(line), rest


def _settings(config: str) -> Settings:
    """The settings of the rules; those that are not selected are off, as in a report.  Raises InputError."""
    if config == NO_CONFIG:
        return Settings()
    found = load_config(Path(config)) if config else find_config(Path.cwd())
    asked = found.rule_codes()
    return replace(found.settings, off=frozenset(CATALOGUE) - asked)


def _say(report: Report) -> None:
    # A proxy that was killed listens no longer; what it sent is recorded all the same.
    with suppress(BrokenPipeError):
        sys.stdout.buffer.write(write(report))
        sys.stdout.buffer.flush()


class _Recorder:
    """Stores what comes as soon as it comes, and judges it when there is nothing to store."""

    def __init__(self, writer: Writer, settings: Settings, *, progress: bool) -> None:
        self._writer = writer
        self._judge = Judge(settings, writer.stream_readers)
        self._unpacker = Unpacker()
        # The monotonic clock is the same in all processes of a machine.
        self._base_ns = time.monotonic_ns() - writer.began_ns
        self._judged_ns = writer.began_ns
        self._assembler = Assembler(
            base_ns=self._base_ns,
            last_ns=writer.began_ns,
            first_exchange=writer.first_exchange,
        )
        self._unstored = 0
        self._commit_at = _NEVER
        self._committed_at = 0.0
        self._pace = Pace()
        self._wants_progress = progress
        self._progress_at = _NEVER
        self._look_at = 0.0
        self._misplaced = False

    def run(self, data: bytes) -> None:
        """Until the pipe ends."""
        source = sys.stdin.fileno()
        self._take(data)
        while True:
            if select.select([source], [], [], self._patience())[0]:
                data = os.read(source, _READ_BYTES)
                if not data:
                    break
                self._pace.heard(time.monotonic(), len(data))
                self._take(data)
            if time.monotonic() >= self._commit_at:
                self._commit()
            elif self._writer.has_backlog and not self._pace.patience(time.monotonic(), self._writer.backlog_bytes):
                self._turn()
            if time.monotonic() >= self._progress_at:
                self._tell_progress()
        self._close()

    def _patience(self) -> float | None:
        """How long to wait for input: not at all while there is something that may be judged."""
        now = time.monotonic()
        patience = max(0.0, min(self._commit_at, self._progress_at) - now)
        if self._writer.has_backlog:
            patience = min(patience, self._pace.patience(now, self._writer.backlog_bytes))
        return None if patience == _NEVER else patience

    def _take(self, data: bytes) -> None:
        for batch in self._unpacker.feed(data):
            self._writer.feed(self._assembler.feed(batch))
            due = max(batch.times[0] / 1e9 + COMMIT_AFTER_S, self._committed_at + _COMMIT_PAUSE_S)
            self._commit_at = min(self._commit_at, due)
            if self._wants_progress:
                self._progress_at = min(self._progress_at, time.monotonic() + PROGRESS_EVERY_S)

    def _commit(self) -> None:
        self._writer.commit()
        self._commit_at = _NEVER
        self._committed_at = time.monotonic()
        if time.monotonic() >= self._look_at:
            self._look()
        unstored = self._writer.lost_bytes - self._assembler.lost_bytes
        if unstored > self._unstored:
            self._unstored = unstored
            _say(Losing(self._unstored, self._writer.last_error or "for no known reason"))

    def _look(self) -> None:
        """Whether the file is still where it was."""
        self._look_at = time.monotonic() + _LOOK_EVERY_S
        if not self._misplaced and not self._writer.is_in_place:
            self._misplaced = True
            _say(Misplaced())

    def _tell_progress(self) -> None:
        """Say how things stand; again in a while, as long as there is something to watch."""
        # What is not yet judged would look like silence.
        now_ns = time.monotonic_ns() - self._base_ns if not self._writer.has_backlog else self._judged_ns
        progress = self._judge.progress(now_ns, self._writer.backlog_bytes)
        _say(progress)
        more = progress.open or self._writer.has_backlog or self._commit_at != _NEVER
        self._progress_at = time.monotonic() + PROGRESS_EVERY_S if more else _NEVER

    def _turn(self) -> None:
        began, cpu = time.monotonic(), time.process_time()
        self._derive(self._pace.most(began, self._writer.backlog_bytes))
        now = time.monotonic()
        self._pace.turned(now, now - began, time.process_time() - cpu)

    def _derive(self, most: BacklogSlice = LARGE_SLICE) -> None:
        found: list[Finding] = []
        unchecked = self._judge.failed
        for read in self._writer.derive(most):
            seen = read.seen
            here = self._judge.feed(read)
            self._judged_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
            self._tell(here)
            found += here
            if isinstance(seen, ExchangeEnded):
                _say(self._judge.end(seen))
        self._writer.add_findings(found)
        if unchecked is None and self._judge.failed is not None:
            _say(Unchecked(self._judge.failed))

    def _tell(self, findings: list[Finding]) -> None:
        for finding in findings:
            if (report := self._judge.tell(finding)) is not None:
                _say(report)

    def _catch_up(self) -> None:
        """Check all that is left."""
        tell_at = time.monotonic() + _PATIENT_S
        while self._writer.has_backlog:
            self._derive()
            if time.monotonic() >= tell_at:
                tell_at = _NEVER
                _say(CatchingUp(self._writer.backlog_bytes))

    def _close(self) -> None:
        self._commit()
        self._catch_up()
        left = self._judge.finish()
        self._writer.add_findings(left)
        self._tell(left)
        self._look()
        self._writer.close(self._assembler.now(time.monotonic_ns()) if self._assembler.stopped else None)
        if self._wants_progress:
            self._tell_progress()
        _say(
            Closed(
                exchanges=self._judge.exchanges,
                streams=self._judge.streams,
                events=self._judge.events,
                findings=self._judge.findings,
                severities=dict(self._judge.severities),
                misplaced=self._misplaced,
                unchecked=self._judge.failed is not None,
                lost_bytes=self._unstored,
                redacted=self._writer.redacted,
            )
        )


if __name__ == "__main__":
    main()
