"""The recorder: a process of its own that stores and checks what the proxy captures.

It reads a `RecorderConfig`, then batches of captured traffic (`wiretape_proxy.ipc_codec`) from standard input, and
writes messages (`wiretape_proxy.recorder_messages`) to standard output.  As a separate process it takes no time from
the event loop that serves the clients; and it outlives a proxy that is killed, until everything received is stored.
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
from wiretape.recording import LARGE_SLICE, SMALL_SLICE, TINY_SLICE, BacklogSlice, Writer
from wiretape.rules import CATALOGUE, Finding, Settings
from wiretape_proxy.addon_options import NO_CONFIG
from wiretape_proxy.ipc_codec import BatchReader, ObservationDecoder
from wiretape_proxy.live_checker import LiveChecker
from wiretape_proxy.recorder_messages import (
    BytesNotStored,
    CatchingUp,
    ChecksFailed,
    RecorderConfig,
    RecorderMessage,
    RecordingClosed,
    RecordingMissing,
    RecordingOpened,
    RecordingRefused,
    decode_config,
    encode_line,
)

COMMIT_AFTER_S = 0.14
"""Maximum age of uncommitted input: it arrives every 40 ms, and the goal is 200 ms in all."""
_COMMIT_PAUSE_S = 0.05
"""Minimum time between commits, so that each one is worth its cost if input is late."""
STATUS_EVERY_S = 0.5
_PATIENCE_S = 1.0
"""A close that takes longer is reported."""
_CHECK_FILE_EVERY_S = 1.0
_READ_BYTES = 1 << 20
_NEVER = math.inf

_FLOOD_BYTES = 64 * 1024
"""Input in one read that counts as a flood. The proxy sends 25 times a second."""
_INPUT_LIKELY_S = 0.1
"""For this long after input, more is likely, and must not wait for a long turn to end."""
_LITTLE_BYTES = 16 * 1024
"""Input in one read, and unchecked bytes in total, that the smallest turns can handle before the next read."""
_REST_S = 0.0015
"""Pause between the smallest turns, so that a core is free for a process that forwards an event at this moment."""
_OWN_CORE_SHARE = 0.85
"""A turn that had a core for a smaller share of its time shares the core with others."""
_TURN_AT_LEAST_EVERY_S = 0.25
MOST_UNCHECKED_BYTES = 64 * 1024 * 1024
"""Beyond this, storing and checking take turns, and the traffic is slowed down if necessary."""


class CheckScheduler:
    """Decides before each turn of indexing and checking whether to run it now, and how long it may be.

    Storing is a tenth of the recorder's work and cannot wait.  Checking is postponed while much traffic arrives and
    other processes want the cores too: those that produce, forward and read it.  A low process priority does not
    achieve this: it postpones storing as well, and has no effect where sessions are scheduled as groups.
    All times are in seconds.
    """

    def __init__(self) -> None:
        self._input_at = self._flood_at = self._turn_at = -math.inf
        self._has_own_core = True
        self._input_bytes = 0

    def note_input(self, now: float, size: int) -> None:
        """Note input of `size` bytes."""
        self._input_at = now
        self._input_bytes = size
        if size >= _FLOOD_BYTES:
            self._flood_at = now

    def note_turn(self, now: float, wall: float, cpu: float) -> None:
        """Note a turn that took `wall` and had a core for `cpu` of it."""
        self._turn_at = now
        self._has_own_core = cpu >= _OWN_CORE_SHARE * wall

    def delay(self, now: float, unchecked: int) -> float:
        """Return how long to wait before the next turn, with this many unchecked bytes."""
        if self.turn_size(now, unchecked) is TINY_SLICE:
            return max(0.0, self._turn_at + _REST_S - now)
        if self._has_own_core or unchecked > MOST_UNCHECKED_BYTES:
            return 0
        return max(0.0, min(self._flood_at + _INPUT_LIKELY_S, self._turn_at + _TURN_AT_LEAST_EVERY_S) - now)

    def turn_size(self, now: float, unchecked: int) -> BacklogSlice:
        """Return how much a turn may handle."""
        if now - self._input_at >= _INPUT_LIKELY_S or unchecked > MOST_UNCHECKED_BYTES:
            return LARGE_SLICE
        return TINY_SLICE if max(self._input_bytes, unchecked) <= _LITTLE_BYTES else SMALL_SLICE


def main() -> None:
    """Record standard input until it ends.  Signals are ignored: the proxy decides when to stop."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    config, rest = _read_config()
    if config is None:
        return
    try:
        settings = _rule_settings(config.config)
        writer = Writer.create(config.output, upstream=config.upstream, append=config.append)
    except InputError as error:
        _send(RecordingRefused(error.message))
    else:
        _send(RecordingOpened(writer.first_exchange))
        _Recorder(writer, settings, wants_status=config.wants_status).run(rest)


def _read_config() -> tuple[RecorderConfig | None, bytes]:
    data = b""
    while b"\n" not in data:
        more = os.read(sys.stdin.fileno(), _READ_BYTES)
        if not more:
            return None, b""
        data += more
    line, _, rest = data.partition(b"\n")
    return decode_config(line), rest


def _rule_settings(config: str) -> Settings:
    """Return the settings of the rules; rules that are not selected are off, as in a report.  Raises InputError."""
    if config == NO_CONFIG:
        return Settings()
    loaded = load_config(Path(config)) if config else find_config(Path.cwd())
    return replace(loaded.settings, off=frozenset(CATALOGUE) - loaded.rule_codes())


def _send(message: RecorderMessage) -> None:
    # If the proxy was killed, what it sent is still recorded.
    with suppress(BrokenPipeError):
        sys.stdout.buffer.write(encode_line(message))
        sys.stdout.buffer.flush()


class _Recorder:
    """Stores input as soon as it arrives, and checks it while there is nothing to store."""

    def __init__(self, writer: Writer, settings: Settings, *, wants_status: bool) -> None:
        self._writer = writer
        self._checker = LiveChecker(settings, writer.stream_readers)
        self._batches = BatchReader()
        # The monotonic clock is the same in all processes of a machine.
        self._base_ns = time.monotonic_ns() - writer.began_ns
        self._checked_ns = writer.began_ns
        self._decoder = ObservationDecoder(
            base_ns=self._base_ns,
            last_ns=writer.began_ns,
            first_exchange=writer.first_exchange,
        )
        self._not_stored = 0
        self._commit_at = _NEVER
        self._committed_at = 0.0
        self._scheduler = CheckScheduler()
        self._wants_status = wants_status
        self._status_at = _NEVER
        self._check_file_at = 0.0
        self._is_missing = False

    def run(self, data: bytes) -> None:
        """Record `data` and then the pipe until it ends."""
        source = sys.stdin.fileno()
        self._store(data)
        while True:
            if select.select([source], [], [], self._timeout())[0]:
                data = os.read(source, _READ_BYTES)
                if not data:
                    break
                self._scheduler.note_input(time.monotonic(), len(data))
                self._store(data)
            if time.monotonic() >= self._commit_at:
                self._commit()
            elif self._writer.has_backlog and not self._scheduler.delay(time.monotonic(), self._writer.backlog_bytes):
                self._take_turn()
            if time.monotonic() >= self._status_at:
                self._send_status()
        self._close()

    def _timeout(self) -> float | None:
        """Return how long to wait for input: not at all while there is something to check."""
        now = time.monotonic()
        timeout = max(0.0, min(self._commit_at, self._status_at) - now)
        if self._writer.has_backlog:
            timeout = min(timeout, self._scheduler.delay(now, self._writer.backlog_bytes))
        return None if timeout == _NEVER else timeout

    def _store(self, data: bytes) -> None:
        for batch in self._batches.feed(data):
            self._writer.feed(self._decoder.feed(batch))
            due = max(batch.times[0] / 1e9 + COMMIT_AFTER_S, self._committed_at + _COMMIT_PAUSE_S)
            self._commit_at = min(self._commit_at, due)
            if self._wants_status:
                self._status_at = min(self._status_at, time.monotonic() + STATUS_EVERY_S)

    def _commit(self) -> None:
        self._writer.commit()
        self._commit_at = _NEVER
        self._committed_at = time.monotonic()
        if time.monotonic() >= self._check_file_at:
            self._check_file()
        not_stored = self._writer.lost_bytes - self._decoder.lost_bytes
        if not_stored > self._not_stored:
            self._not_stored = not_stored
            _send(BytesNotStored(not_stored, self._writer.last_error or "unknown reason"))

    def _check_file(self) -> None:
        """Report once if the file was deleted, moved or replaced."""
        self._check_file_at = time.monotonic() + _CHECK_FILE_EVERY_S
        if not self._is_missing and not self._writer.is_in_place:
            self._is_missing = True
            _send(RecordingMissing())

    def _send_status(self) -> None:
        """Send the counts; schedule the next status while there is something to watch."""
        # Unchecked bytes must not look like silence.
        now_ns = time.monotonic_ns() - self._base_ns if not self._writer.has_backlog else self._checked_ns
        status = self._checker.status(now_ns, self._writer.backlog_bytes)
        _send(status)
        more = status.open_count or self._writer.has_backlog or self._commit_at != _NEVER
        self._status_at = time.monotonic() + STATUS_EVERY_S if more else _NEVER

    def _take_turn(self) -> None:
        began, cpu = time.monotonic(), time.process_time()
        self._check(self._scheduler.turn_size(began, self._writer.backlog_bytes))
        now = time.monotonic()
        self._scheduler.note_turn(now, now - began, time.process_time() - cpu)

    def _check(self, most: BacklogSlice = LARGE_SLICE) -> None:
        """Index and check stored observations."""
        found: list[Finding] = []
        failure = self._checker.failure
        for read in self._writer.derive(most):
            seen = read.observation
            findings = self._checker.feed(read)
            self._checked_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
            self._report(findings)
            found += findings
            if isinstance(seen, ExchangeEnded):
                _send(self._checker.end(seen))
        self._writer.add_findings(found)
        if failure is None and self._checker.failure is not None:
            _send(ChecksFailed(self._checker.failure))

    def _report(self, findings: list[Finding]) -> None:
        for finding in findings:
            if (message := self._checker.report(finding)) is not None:
                _send(message)

    def _catch_up(self) -> None:
        """Check the rest."""
        report_at = time.monotonic() + _PATIENCE_S
        while self._writer.has_backlog:
            self._check()
            if time.monotonic() >= report_at:
                report_at = _NEVER
                _send(CatchingUp(self._writer.backlog_bytes))

    def _close(self) -> None:
        self._commit()
        self._catch_up()
        findings = self._checker.finish()
        self._writer.add_findings(findings)
        self._report(findings)
        self._check_file()
        self._writer.close(self._decoder.time_at(time.monotonic_ns()) if self._decoder.stopped else None)
        if self._wants_status:
            self._send_status()
        _send(
            RecordingClosed(
                exchanges=self._checker.exchanges,
                streams=self._checker.streams,
                events=self._checker.events,
                findings=self._checker.findings,
                severities=dict(self._checker.severities),
                is_missing=self._is_missing,
                checks_failed=self._checker.failure is not None,
                lost_bytes=self._not_stored,
            )
        )
