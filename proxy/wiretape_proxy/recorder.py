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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from wiretape.checker import Settings
from wiretape.config import Config, find_config, load_config, override_base
from wiretape.errors import InputError, describe_failure
from wiretape.observations import Observation
from wiretape.recording import RedactionPolicy, Writer
from wiretape.recording.recording_file import without_unused_part
from wiretape.rules import RuleSet
from wiretape_proxy import proxy_options
from wiretape_proxy.ipc_codec import Batch, BatchReader, ObservationDecoder
from wiretape_proxy.proxy_options import NO_CONFIG
from wiretape_proxy.recorder_messages import (
    MOST_HELD,
    RECORDER_FAILED,
    BatchesStored,
    BytesNotStored,
    HeldBody,
    LogLine,
    MessageReader,
    RecorderConfig,
    RecorderFailed,
    RecorderMessage,
    RecordingClosed,
    RecordingOpened,
    RecordingRefused,
    ResumedCapture,
    decode_config,
    encode_message,
)
from wiretape_proxy.recording_follower import RecordingFollower
from wiretape_proxy.rotation import Rotation

_GATHER_MS = 100
"""How long input waits to be read and committed together with later input: each wake-up and run has its cost."""
_CALM_BYTES = 48 * 1024
"""With more input than this, it is read at once, so that the pipe does not become full ..."""
COMMIT_AFTER_S = 0.14
"""... and committed at this age: it is sent every 40 ms, and the goal is 200 ms in all."""
_COMMIT_PAUSE_S = 0.05
"""Minimum time between commits, so that each one is worth its cost if input is late."""
_ALIVE_EVERY_S = 0.2
"""While commits are late for a known reason, the proxy must not take the recorder for one that hangs."""
_PATIENCE_S = 1.0
"""A lock is reported after this time ..."""
_PROGRESS_EVERY_S = 5.0
"""... and then regularly."""
_CHECK_FILE_EVERY_S = 1.0
_READ_BYTES = 1 << 20
_NEVER = math.inf
_MOST_WAITING_BYTES = 64 * 1024 * 1024
"""Input that is read while another process locks the recording."""


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


def _open(started: RecorderConfig) -> "Recorder":
    """Open the recording.  Raises InputError."""
    given, resumed = started.settings, started.resumed
    config, stored = _read_rules(given)
    policy = RedactionPolicy(given.redact_header, given.redact_query, given.redact_body)
    files = [Path(given.output)] if resumed is None else without_unused_part([Path(file) for file in resumed.files])
    writer = Writer.create(
        files[-1],
        upstream=started.upstream,
        append=given.append,
        policy=policy,
        contracts=stored,
        resume=resumed is not None,
    )
    if stored is None and writer.contracts is not None and not given.base:
        config = _with_recorded(config, writer.contracts, given)
    settings = override_base(config.effective_settings(), given.base or None)
    rotation = Rotation(given, _send, files[-1])
    for path in files[:-1]:
        rotation.finish_earlier(path, settings)
    return Recorder(
        writer,
        settings,
        _send,
        wants_status=started.wants_status,
        lists_requests=started.lists_requests,
        rotation=rotation,
        resumed=resumed,
    )


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


def _read_rules(given: proxy_options.Settings) -> tuple[Config, str | None]:
    """Return the configuration with the contracts that the options or it name, and these as a recording stores them.

    Raises InputError.
    """
    contracts, stored = _load_contracts(given.contract, given)
    config = Config()
    if given.config != NO_CONFIG:
        file = Path(given.config)
        config = load_config(file, contracts) if given.config else find_config(Path.cwd(), contracts)
    if not contracts and not given.base:
        contracts, stored = _load_contracts(config.contracts, given)
    config = config.with_contracts(contracts)
    config.effective_settings()  # a mistake must be known before the recording begins
    return config, stored


def _load_contracts(names: Sequence[str], given: proxy_options.Settings) -> tuple[Sequence[RuleSet], str | None]:
    if not names:
        return (), None
    # Contracts take long to import, and usually none is named.
    from wiretape.contract import CodeUse, load_contract  # noqa: PLC0415
    from wiretape.contract.recorded_contracts import dump_contracts  # noqa: PLC0415

    code = CodeUse.RUN if given.allow_code else CodeUse.REFUSE
    contracts = [load_contract(name, code=code) for name in names]
    return contracts, dump_contracts(contracts)


def _with_recorded(config: Config, stored: str, given: proxy_options.Settings) -> Config:
    """Return the configuration with the contracts that an existing recording names, if they can be used."""
    from wiretape.contract import CodeUse  # noqa: PLC0415
    from wiretape.contract.contract_builder import load_recorded  # noqa: PLC0415

    try:
        contracts = load_recorded(stored, given.output, CodeUse.RUN if given.allow_code else CodeUse.SKIP)
        checked = config.with_contracts(contracts)
        checked.effective_settings()
    except InputError as error:
        _send(LogLine(f"{error} The built-in rules check instead.", is_warning=True))
        return config
    return checked


def _send(message: RecorderMessage) -> None:
    # If the proxy was killed, what it sent is still recorded.
    with suppress(BrokenPipeError):
        sys.stdout.buffer.write(encode_message(message))
        sys.stdout.buffer.flush()


class Recorder:
    """Stores input as soon as it arrives.  Another thread checks what is stored."""

    def __init__(
        self,
        writer: Writer,
        settings: Settings,
        send: Callable[[RecorderMessage], None],
        *,
        wants_status: bool = False,
        lists_requests: bool = False,
        rotation: Rotation | None = None,
        resumed: ResumedCapture | None = None,
    ) -> None:
        """`send` is called with each message for the proxy, by both threads."""
        self._rotation = rotation
        self._writer = writer
        writer.wait_for_locks(self._on_locked, self._report_lock)
        self._send = send
        self._is_resumed = resumed is not None
        self.first_exchange = writer.first_exchange if resumed is None else resumed.first_exchange
        """The number of the first exchange of the capture."""
        self._batches = BatchReader()
        # The monotonic clock is the same in all processes of a machine.
        self.base_ns = writer.began_clock_ns - writer.began_ns if resumed is None else resumed.base_ns
        """The monotonic clock at time 0 of the recording."""
        self.checker = RecordingFollower(
            writer.tables,
            settings,
            send,
            first_exchange=self.first_exchange,
            base_ns=self.base_ns if wants_status else None,
            lists_requests=lists_requests,
        )
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
        self._check_file_at = 0.0
        self._is_missing = False
        self._source: int | None = None
        """The pipe, until it ends."""
        self._is_calm = True
        """Whether there was little input when it was last read."""
        self._waiting: deque[bytes] = deque()
        """Input that was read while the recording was locked."""
        self._waiting_bytes = 0
        self._report_lock_at = 0.0

    def run(self, source: int, data: bytes = b"") -> None:
        """Record `data` and then the pipe `source` until it ends."""
        self._source = source
        self.checker.start()
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
        self.close()

    @property
    def _has_input(self) -> bool:
        """Whether there is or may be input that was not stored."""
        return self._source is not None or bool(self._waiting)

    def _read_input(self, timeout: float | None) -> bytes:
        """Return input; nothing if there is none in time, or if the pipe has ended."""
        data = b""
        if self._source is not None and select.select([self._source], [], [], timeout)[0]:
            if self._is_calm and self._commit_at == _NEVER:
                waiting = select.poll()
                waiting.register(self._source, 0)  # more input does not end the wait, the end of the pipe does
                waiting.poll(_GATHER_MS)
            data = os.read(self._source, _READ_BYTES)
            self._is_calm = len(data) < _CALM_BYTES
            if not data:
                self._source = None
        return data

    def _on_locked(self, seconds: float) -> bool:
        """Another process locks the recording: wait, but read what the proxy sends, which could be killed."""
        while self._waiting_bytes < _MOST_WAITING_BYTES and (data := self._read_input(0)):
            self._waiting.append(data)
            self._waiting_bytes += len(data)
        self._show_life()
        return self._report_lock(seconds)

    def _report_lock(self, seconds: float) -> bool:
        """Report regularly that another process locks the recording, and wait."""
        now = time.monotonic()
        if seconds >= _PATIENCE_S and now >= self._report_lock_at:
            self._report_lock_at = now + _PROGRESS_EVERY_S
            self._warn(f"Another program has locked the recording for {seconds:,.0f} s: {self._lock_effect}")
        return True

    @property
    def _lock_effect(self) -> str:
        if self._source is not None:
            return "traffic is kept in memory until the lock is released."
        return (
            "the recording cannot be closed before the lock is released. Press Ctrl-C to exit now; the recorder then "
            "closes the file later."
        )

    def _warn(self, line: str) -> None:
        self._send(LogLine(line, is_warning=True))

    def _timeout(self) -> float | None:
        """Return how long to wait for input."""
        return None if self._commit_at == _NEVER else max(0.0, self._commit_at - time.monotonic())

    def store(self, data: bytes) -> None:
        """Decode input, and store it with the next commit."""
        batches = list(self._batches.feed(data))
        self._received += len(batches)
        if batches := [batch for batch in batches if not self._is_stored(batch)]:
            self._writer.feed(self._observations(batches))
            due = self._committed_at + _COMMIT_PAUSE_S
            if not self._is_calm:
                due = max(due, batches[0].times[0] / 1e9 + COMMIT_AFTER_S)
            self._commit_at = min(self._commit_at, due)

    def _is_stored(self, batch: Batch) -> bool:
        """Whether the recorder that failed has stored a batch: it may not have been able to tell."""
        return self._is_resumed and batch.times[0] - self.base_ns < self._writer.began_ns

    def _observations(self, batches: Sequence[Batch]) -> Iterator[Observation]:
        for seen in self._decoder.feed(batches):
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
        """Let the proxy know that this process works, even if a lock or a long head delays the commit."""
        if time.monotonic() >= self._alive_at:
            self._alive_at = time.monotonic() + _ALIVE_EVERY_S
            self._send(BatchesStored(self._stored))

    def commit(self) -> None:
        """Write what was stored to the disk."""
        with self.checker.pause():
            self._writer.commit()
            self._stored = self._received
            # At once: if this process is killed before, the proxy does not know which bytes were held back.
            self._send(BatchesStored(self._stored, self._held_bodies()))
        self.checker.wake(is_busy=not self._is_calm)
        self._commit_at = _NEVER
        self._committed_at = time.monotonic()
        if time.monotonic() >= self._check_file_at:
            self._check_file()
        if self._rotation is not None and self._source is not None and self._rotation.is_due(self._writer):
            self._rotation.rotate(self._writer)
            self._decoder.last_ns = max(self._decoder.last_ns, self._writer.last_ns)
        not_stored = self._writer.lost_bytes - self._decoder.lost_bytes
        if not_stored > self._not_stored:
            if not self._not_stored:
                why = self._writer.last_error or "unknown reason"
                self._warn(f"The recording cannot be written ({why}): traffic continues unrecorded.")
            self._not_stored = not_stored
            self._send(BytesNotStored(not_stored))

    def _check_file(self) -> None:
        """Report once if the file was deleted, moved or replaced."""
        self._check_file_at = time.monotonic() + _CHECK_FILE_EVERY_S
        if not self._is_missing and not self._writer.is_in_place:
            self._is_missing = True
            self._warn("The recording was deleted, moved or replaced: traffic continues unrecorded.")

    def close(self) -> None:
        """Store and check the rest, and close the recording."""
        self.commit()
        self._writer.store_rest()
        checker = self.checker
        checker.close()
        self._check_file()
        self._writer.close(self._decoder.time_at(time.monotonic_ns()) if self._decoder.stopped else None)
        if why := self._writer.tables.last_error:
            self._warn(
                f"The tables frame and finding lack rows ({why}): reports do not need them, and --append adds them."
            )
        checker.send_status()
        if self._rotation is not None:
            self._rotation.finish(is_missing=self._is_missing)
        self._send(
            RecordingClosed(
                exchanges=checker.exchanges,
                streams=checker.streams,
                events=checker.events,
                findings=checker.findings,
                severities=dict(checker.severities),
                inconclusive=checker.inconclusive,
                is_missing=self._is_missing,
                files=self._rotation.files if self._rotation is not None else "",
                checks_failed=checker.failure is not None,
                lost_bytes=self._not_stored,
                dropped_bytes=self._decoder.lost_bytes - self._held_bytes,
                held_bytes=self._held_bytes,
            )
        )
