"""The recorder: a process of its own that stores and checks what the proxy captures.

It reads a `RecorderConfig`, then batches of captured traffic (`wiretape_proxy.ipc_codec`) from standard input, and
writes messages (`wiretape_proxy.recorder_messages`) to standard output.  As a separate process it takes no time from
the event loop that serves the clients; and it outlives a proxy that is killed, until everything received is stored.
"""

import math
import os
import select
import signal
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from wiretape.config import find_config, load_config, override_base
from wiretape.errors import InputError, RecordingError, describe_failure
from wiretape.frame_reader import ReadObservation
from wiretape.observations import BytesArrived, ExchangeEnded, Observation
from wiretape.recording import LARGE_SLICE, SMALL_SLICE, TINY_SLICE, BacklogSlice, EarlierPart, Writer, redaction_policy
from wiretape.rules import CATALOGUE, Finding, Settings
from wiretape_proxy.addon_options import NO_CONFIG
from wiretape_proxy.ipc_codec import Batch, BatchReader, ObservationDecoder
from wiretape_proxy.live_checker import LiveChecker
from wiretape_proxy.recorder_messages import (
    MOST_HELD,
    RECORDER_FAILED,
    BatchesStored,
    BytesNotStored,
    CatchingUp,
    ChecksFailed,
    FindingsCorrected,
    HeldBody,
    MessageReader,
    RecorderConfig,
    RecorderFailed,
    RecorderMessage,
    RecordingClosed,
    RecordingLocked,
    RecordingMissing,
    RecordingOpened,
    RecordingRefused,
    ResumedCapture,
    decode_config,
    encode_message,
)
from wiretape_proxy.rotation import Rotation

COMMIT_AFTER_S = 0.14
"""Maximum age of uncommitted input: it arrives every 40 ms, and the goal is 200 ms in all."""
_COMMIT_PAUSE_S = 0.05
"""Minimum time between commits, so that each one is worth its cost if input is late."""
STATUS_EVERY_S = 0.5
_ALIVE_EVERY_S = 0.2
"""While commits are late for a known reason, the proxy must not take the recorder for one that hangs."""
_PATIENCE_S = 1.0
"""Checks for which something waits are reported if they take longer ..."""
_PROGRESS_EVERY_S = 5.0
"""... and then regularly."""
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
_MOST_WAITING_BYTES = 64 * 1024 * 1024
"""Input that is read while another process locks the recording."""


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
    _never_preempt()
    config, rest = _read_config()
    if config is None:
        return
    try:
        _record(config, rest)
    except Exception as error:  # noqa: BLE001 - a traceback could quote traffic
        _send(RecorderFailed(describe_failure(error)))
        sys.exit(1)


def _record(config: RecorderConfig, rest: bytes) -> None:
    """Record `rest` and then standard input."""
    try:
        recorder = _open(config)
    except InputError as error:
        _send(RecordingRefused(error.message))
        return
    _send(RecordingOpened(recorder.first_exchange, recorder.base_ns))
    recorder.run(sys.stdin.fileno(), rest)


def _open(config: RecorderConfig) -> "Recorder":
    """Open the recording.  Raises InputError."""
    given, resumed = config.settings, config.resumed
    settings = override_base(_rule_settings(given.config), given.base or None)
    policy = redaction_policy(given.redact_header, given.redact_query, given.redact_body)
    writer = Writer.create(
        given.output, upstream=config.upstream, append=given.append, policy=policy, resume=resumed is not None
    )
    rotation = Rotation(given, _send)
    return Recorder(writer, settings, _send, wants_status=config.wants_status, rotation=rotation, resumed=resumed)


def _never_preempt() -> None:
    """Wait for a free core or the end of a time slice: input must not interrupt a process that forwards an event."""
    with suppress(AttributeError, OSError):  # Linux only, and containers can forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _read_config() -> tuple[RecorderConfig | None, bytes]:
    """Return the first message, and what follows it; None if there is none."""
    reader = MessageReader()
    while data := os.read(sys.stdin.fileno(), _READ_BYTES):
        for message in reader.feed(data):
            return decode_config(message), bytes(reader.rest)
    return None, b""


def _rule_settings(config: str) -> Settings:
    """Return the settings of the rules; rules that are not selected are off, as in a report.  Raises InputError."""
    if config == NO_CONFIG:
        return Settings()
    loaded = load_config(Path(config)) if config else find_config(Path.cwd())
    return replace(loaded.settings, off=frozenset(CATALOGUE) - loaded.rule_codes())


def _send(message: RecorderMessage) -> None:
    # If the proxy was killed, what it sent is still recorded.
    with suppress(BrokenPipeError):
        sys.stdout.buffer.write(encode_message(message))
        sys.stdout.buffer.flush()


class Recorder:
    """Stores input as soon as it arrives, and checks it while there is nothing to store.

    What an existing recording contains is checked first, because later findings depend on it; that does not delay
    storing either.
    """

    def __init__(
        self,
        writer: Writer,
        settings: Settings,
        send: Callable[[RecorderMessage], None],
        *,
        wants_status: bool = False,
        rotation: Rotation | None = None,
        resumed: ResumedCapture | None = None,
    ) -> None:
        """`send` is called with each message for the proxy."""
        self._rotation = rotation
        self._writer = writer
        writer.wait_for_locks(self._on_locked)
        self._send = send
        self._is_resumed = resumed is not None
        self.first_exchange = writer.first_exchange if resumed is None else resumed.first_exchange
        """The number of the first exchange of the capture."""
        self._checker = LiveChecker(
            settings,
            writer.stream_readers,
            writer.upstream,
            first_exchange=self.first_exchange,
            wants_status=wants_status,
        )
        self._earlier = self._open_earlier_part()
        self._batches = BatchReader()
        # The monotonic clock is the same in all processes of a machine.
        self.base_ns = writer.began_clock_ns - writer.began_ns if resumed is None else resumed.base_ns
        """The monotonic clock at time 0 of the recording."""
        self._checked_ns = writer.began_ns
        self._decoder = ObservationDecoder(
            base_ns=self.base_ns,
            last_ns=writer.began_ns,
            first_exchange=self.first_exchange,
            ends=writer.open_bodies(),
        )
        self._held_bytes = self._lose_held(resumed.held) if resumed is not None else 0
        """How many bytes the recorder that failed had held back."""
        self._received = self._stored = 0
        """Numbers of batches."""
        self._alive_at = 0.0
        self._not_stored = 0
        self._commit_at = _NEVER
        self._committed_at = 0.0
        self._scheduler = CheckScheduler()
        self._wants_status = wants_status
        self._status_at = _NEVER
        self._progress_at = time.monotonic() + _PATIENCE_S
        self._check_file_at = 0.0
        self._is_missing = False
        self._source: int | None = None
        """The pipe, until it ends."""
        self._waiting: deque[bytes] = deque()
        """Input that was read while the recording was locked."""
        self._waiting_bytes = 0
        self._report_lock_at = 0.0

    @property
    def has_unchecked(self) -> bool:
        """Whether there is something that `take_turn` can check."""
        return self._earlier is not None or self._writer.has_backlog

    @property
    def _unchecked_bytes(self) -> int:
        return self._writer.backlog_bytes + (self._earlier.unread_bytes if self._earlier is not None else 0)

    @property
    def _urgent_bytes(self) -> int:
        """The unchecked bytes for the scheduler: only new traffic may be slowed down because of them."""
        return max(self._writer.backlog_bytes, min(self._unchecked_bytes, MOST_UNCHECKED_BYTES))

    def run(self, source: int, data: bytes = b"") -> None:
        """Record `data` and then the pipe `source` until it ends."""
        self._source = source
        self.store(data)
        while self._has_input:
            if self._waiting:
                data = self._waiting.popleft()
                self._waiting_bytes -= len(data)
                self.store(data)
            elif data := self._read_input(self._timeout()):
                self.store(data)
            if time.monotonic() >= self._commit_at:
                self.commit()
            elif self.has_unchecked and not self._scheduler.delay(time.monotonic(), self._urgent_bytes):
                self.take_turn()
            if time.monotonic() >= self._status_at:
                self._send_status()
        self.close()

    @property
    def _has_input(self) -> bool:
        """Whether there is or may be input that was not stored."""
        return self._source is not None or bool(self._waiting)

    def _read_input(self, timeout: float | None) -> bytes:
        """Return input; nothing if there is none in time, or if the pipe has ended."""
        data = b""
        if self._source is not None and select.select([self._source], [], [], timeout)[0]:
            data = os.read(self._source, _READ_BYTES)
            if not data:
                self._source = None
        return data

    def _on_locked(self, seconds: float) -> bool:
        """Another process locks the recording: wait, but read what the proxy sends, which could be killed."""
        while self._waiting_bytes < _MOST_WAITING_BYTES and (data := self._read_input(0)):
            self._waiting.append(data)
            self._waiting_bytes += len(data)
        self._show_life()
        now = time.monotonic()
        if seconds >= _PATIENCE_S and now >= self._report_lock_at:
            self._report_lock_at = now + _PROGRESS_EVERY_S
            self._send(RecordingLocked(seconds, is_closing=self._source is None))
        return True

    def _timeout(self) -> float | None:
        """Return how long to wait for input: not at all while there is something to check."""
        now = time.monotonic()
        timeout = max(0.0, min(self._commit_at, self._status_at) - now)
        if self.has_unchecked:
            timeout = min(timeout, self._scheduler.delay(now, self._urgent_bytes))
        return None if timeout == _NEVER else timeout

    def store(self, data: bytes) -> None:
        """Decode input, and store it with the next commit."""
        self._scheduler.note_input(time.monotonic(), len(data))
        for batch in self._batches.feed(data):
            self._received += 1
            if self._is_stored(batch):
                continue
            self._writer.feed(self._observations(batch))
            due = max(batch.times[0] / 1e9 + COMMIT_AFTER_S, self._committed_at + _COMMIT_PAUSE_S)
            self._commit_at = min(self._commit_at, due)
            if self._wants_status:
                self._status_at = min(self._status_at, time.monotonic() + STATUS_EVERY_S)

    def _is_stored(self, batch: Batch) -> bool:
        """Whether the recorder that failed has stored a batch: it may not have been able to tell."""
        return self._is_resumed and batch.times[0] - self.base_ns < self._writer.began_ns

    def _observations(self, batch: Batch) -> Iterator[Observation]:
        for seen in self._decoder.feed(batch):
            yield seen
            self._show_life()

    def _held_bodies(self) -> list[HeldBody]:
        """Return the bodies of which not all bytes are stored by this commit."""
        held: list[HeldBody] = []
        for (exchange, side), stored in self._writer.held_bodies().items():
            if (end := self._decoder.end_of(exchange, side)) > stored and len(held) < MOST_HELD:
                held.append(HeldBody(exchange, side, end))
        return held

    def _lose_held(self, held: Iterable[HeldBody]) -> int:
        """Record the loss of the bytes that the recorder that failed had held back; return their number."""
        before = self._decoder.lost_bytes
        for body in held:
            self._writer.feed(self._decoder.lose_until(body.exchange, body.side, body.end, RECORDER_FAILED))
        return self._decoder.lost_bytes - before

    def _show_life(self) -> None:
        """Let the proxy know that this process works, even if a lock, a long head or a long check delays the commit."""
        if time.monotonic() >= self._alive_at:
            self._alive_at = time.monotonic() + _ALIVE_EVERY_S
            self._send(BatchesStored(self._stored))

    def commit(self) -> None:
        """Write what was stored to the disk."""
        self._writer.commit()
        self._stored = self._received
        self._send(BatchesStored(self._stored, self._held_bodies()))
        self._commit_at = _NEVER
        self._committed_at = time.monotonic()
        if time.monotonic() >= self._check_file_at:
            self._check_file()
        if self._rotation is not None and self._source is not None and self._rotation.is_due(self._writer):
            self._rotate(self._rotation)
        not_stored = self._writer.lost_bytes - self._decoder.lost_bytes
        if not_stored > self._not_stored:
            self._not_stored = not_stored
            self._send(BytesNotStored(not_stored, self._writer.last_error or "unknown reason"))

    def _rotate(self, rotation: Rotation) -> None:
        """Check what the file contains, and continue in the next one.  Meanwhile, input waits in the pipe."""
        while self.has_unchecked:
            self._check()
        rotation.rotate(self._writer)
        self._decoder.last_ns = max(self._decoder.last_ns, self._writer.last_ns)

    def _check_file(self) -> None:
        """Report once if the file was deleted, moved or replaced."""
        self._check_file_at = time.monotonic() + _CHECK_FILE_EVERY_S
        if not self._is_missing and not self._writer.is_in_place:
            self._is_missing = True
            self._send(RecordingMissing())

    def _send_status(self) -> None:
        """Send the counts; schedule the next status while there is something to watch."""
        # Unchecked bytes must not look like silence.
        now_ns = time.monotonic_ns() - self.base_ns if not self._writer.has_backlog else self._checked_ns
        while True:
            status = self._checker.status(now_ns, self._unchecked_bytes)
            self._send(status)
            if not self._checker.has_new_findings:
                break
        more = status.open_count or self.has_unchecked or self._commit_at != _NEVER
        self._status_at = time.monotonic() + STATUS_EVERY_S if more else _NEVER

    def take_turn(self) -> None:
        """Check for a moment."""
        began, cpu = time.monotonic(), time.process_time()
        self._check(self._scheduler.turn_size(began, self._urgent_bytes))
        now = time.monotonic()
        self._scheduler.note_turn(now, now - began, time.process_time() - cpu)
        if self._earlier is not None:
            self._report_progress(is_closing=False)

    def _check(self, most: BacklogSlice = LARGE_SLICE) -> None:
        failure = self._checker.failure
        if self._earlier is not None:
            self._check_earlier(self._earlier, most)
        else:
            self._check_new(most)
        if failure is None and self._checker.failure is not None:
            self._send(ChecksFailed(self._checker.failure))

    def _open_earlier_part(self) -> EarlierPart | None:
        try:
            return self._writer.earlier_part()
        except RecordingError as error:
            self._checker.fail(error.message)
            self._send(ChecksFailed(error.message))
            return None

    def _check_earlier(self, earlier: EarlierPart, most: BacklogSlice) -> None:
        """Check observations from before this capture; after the last, correct the stored findings."""
        reads: list[ReadObservation] = []
        try:
            reads = earlier.take(most)
            earlier.compare(self._checker.feed_earlier(reads))
            if not reads and earlier.finish():
                self._send(FindingsCorrected())
        except (RecordingError, sqlite3.Error) as error:
            self._checker.fail(str(error))
        if not reads or self._checker.failure is not None:
            self._earlier = None
            earlier.close()

    def _check_new(self, most: BacklogSlice) -> None:
        """Index and check stored observations."""
        found: list[Finding] = []
        for read in self._writer.derive(most):
            self._show_life()
            seen = read.observation
            findings = self._checker.feed(read)
            self._checked_ns = seen.times[-1] if isinstance(seen, BytesArrived) else seen.time_ns
            self._report(findings)
            found += findings
            if isinstance(seen, ExchangeEnded):
                self._send(self._checker.end(seen))
        self._writer.add_findings(found)

    def _report(self, findings: list[Finding]) -> None:
        for finding in findings:
            if (message := self._checker.report(finding)) is not None:
                self._send(message)

    def _report_progress(self, *, is_closing: bool) -> None:
        """Report how much is left to check, if that takes long."""
        now = time.monotonic()
        if now >= self._progress_at:
            self._progress_at = now + _PROGRESS_EVERY_S
            self._send(CatchingUp(self._unchecked_bytes, is_closing=is_closing))

    def _catch_up(self) -> None:
        """Check the rest."""
        self._progress_at = time.monotonic() + _PATIENCE_S
        while self.has_unchecked:
            self._check()
            self._report_progress(is_closing=True)

    def close(self) -> None:
        """Store and check the rest, and close the recording."""
        self.commit()
        self._catch_up()
        findings = self._checker.finish()
        self._writer.add_findings(findings)
        self._report(findings)
        self._check_file()
        self._writer.close(self._decoder.time_at(time.monotonic_ns()) if self._decoder.stopped else None)
        if self._wants_status:
            self._send_status()
        if self._rotation is not None:
            self._rotation.finish(is_missing=self._is_missing)
        self._send(
            RecordingClosed(
                exchanges=self._checker.exchanges,
                streams=self._checker.streams,
                events=self._checker.events,
                findings=self._checker.findings,
                severities=dict(self._checker.severities),
                inconclusive=self._checker.inconclusive,
                is_missing=self._is_missing,
                files=self._rotation.files if self._rotation is not None else "",
                checks_failed=self._checker.failure is not None,
                lost_bytes=self._not_stored,
                dropped_bytes=self._decoder.lost_bytes - self._held_bytes,
                held_bytes=self._held_bytes,
            )
        )
