"""Follow a recording while it grows: check it, report its exchanges, findings and status."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from threading import Event, Thread

from wiretape.checker import Checker, Settings
from wiretape.errors import RecordingError, describe_failure
from wiretape.frame_reader import ReadObservation
from wiretape.labels import count_of, ending_label, finding_line
from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
    last_time_ns,
)
from wiretape.recording import DerivedTables
from wiretape.rules import Finding, Verdict
from wiretape.safe_text import printable, shorten
from wiretape.sse import is_event_stream
from wiretape_proxy.recorder_messages import (
    MOST_FINDINGS,
    MOST_STREAMS,
    Facts,
    FindingCount,
    LogLine,
    OpenStream,
    RecorderMessage,
    RecorderStatus,
    unchecked_label,
)

STATUS_EVERY_S = 0.5
_FOLLOW_EVERY_S = 0.2
"""How long what is stored may wait to be checked: each time has its cost."""
_PATIENCE_S = 1.0
"""Checks for which something waits are reported if they take longer ..."""
_PROGRESS_EVERY_S = 5.0
"""... and then regularly."""
_OWN_CORE_SHARE = 0.85
"""A step that had a core for a smaller share of its time shares the core with others."""
_REST_FACTOR = 9
_LONGEST_REST_S = 0.25
_BUSY_REST_S = 1.0
"""The rest while traffic arrives faster than it can be checked: findings are late in any case."""
MOST_UNCHECKED_BYTES = 64 * 1024 * 1024
"""Beyond this, checks do not rest."""
SHOWN_PER_RULE = 3
"""How many findings of a rule are reported for each exchange while it is open; all are stored."""
_LONGEST_PATH = 1000
"""Characters of a path, or of a method, in the log."""
_LISTED_AT_ONCE = 10
"""How many ordinary requests are listed of those that end within `_FOLLOW_EVERY_S`; the others are counted."""

_FIRST_ERROR = 400
_BEGAN_MID_SESSION = "REC002"


@dataclass(slots=True)
class _Exchange:
    """Counts of an exchange that is open."""

    request: RequestStarted
    response: ResponseStarted | None = None
    is_stream: bool = False
    size: int = 0
    events: int = 0
    last_ns: int = 0
    """When the last byte of the response arrived."""
    findings: Counter[str] = field(default_factory=Counter)

    @property
    def status(self) -> int | None:
        """The status of the response, if there is one."""
        return self.response.status if self.response is not None else None

    def is_ordinary(self, ended: ExchangeEnded) -> bool:
        """Whether it is no stream, and ended as it should."""
        return not self.is_stream and ended.ending is Ending.COMPLETE and not ended.detail

    def summary(self, ended: ExchangeEnded) -> LogLine:
        """Return the log line about its end."""
        seconds = (ended.time_ns - self.request.time_ns) / 1e9
        # The query can contain secrets.
        path = shorten(self.request.target.partition("?")[0], _LONGEST_PATH)
        status = f" {self.status}" if self.status is not None else ""
        title = f"exchange {ended.exchange}: {self.request.method} {path}{status}"
        events = f"{count_of(self.events, 'event')}, " if self.is_stream and self.events else ""
        duration = f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"
        ending = ending_label(ended.ending, stream=self.is_stream)
        findings = f", {count_of(self.findings.total(), 'finding')}" if self.findings else ""
        detail = f". {ended.detail}" if ended.detail else ""
        size = count_of(self.size, "byte")
        return LogLine(
            printable(f"{title}: {events}{size} in {duration}, {ending}{findings}{detail}"),
            facts={
                "exchange": ended.exchange,
                "method": shorten(printable(self.request.method), _LONGEST_PATH),
                "path": printable(path),
                "status": self.status,
                "ending": ended.ending.value,
                "seconds": seconds,
                "bytes": self.size,
                "events": self.events,
                "findings": self.findings.total(),
            },
        )


class RecordingFollower:
    """Follows the recording and checks it, in a thread of its own.  Its counts are those of this capture.

    A failing rule ends the checks, not the recording.
    """

    def __init__(
        self,
        tables: DerivedTables,
        settings: Settings,
        send: Callable[[RecorderMessage], None],
        *,
        first_exchange: int = 1,
        base_ns: int | None = None,
        lists_requests: bool = False,
    ) -> None:
        """`first_exchange` is the first one of this capture; `send` is called with each message for the proxy.

        `base_ns` is the monotonic clock at time 0 of the recording; None if no status is wanted.  `lists_requests`:
        whether to send a line about each exchange, and not only about streams and failures.
        """
        self.exchanges = 0
        self.streams = 0
        self.events = 0
        """Number of events in the service's streams."""
        self.severities: Counter[str] = Counter()
        """Number of findings by severity."""
        self.failure: str | None = None
        """Why the checks stopped.  Recording continues without them."""
        self._tables = tables
        self._send = send
        self._checker = Checker(settings, readers=tables.readers, upstream=tables.first_file.upstream)
        self._first_exchange = first_exchange
        self._base_ns = base_ns
        self._lists_requests = lists_requests
        self._listed = self._unlisted = self._unlisted_errors = 0
        self._open: dict[int, _Exchange] = {}
        self._new_findings: Counter[tuple[int, str, str]] = Counter()
        self._checked_ns = tables.first_file.began_ns
        self._thread = Thread(target=self._follow, daemon=True)
        self._has_input = Event()
        self._is_busy = False
        self._is_closing = Event()
        self._may_run = Event()
        self._may_run.set()
        self._status_at = math.inf
        self._progress_at = time.monotonic() + _PATIENCE_S

    @property
    def inconclusive(self) -> list[str]:
        """The codes of inconclusive rules."""
        return [code for code, verdict in self._checker.verdicts().items() if verdict is Verdict.INCONCLUSIVE]

    @property
    def findings(self) -> int:
        """Number of findings."""
        return self.severities.total()

    # Called by the thread that stores

    def start(self) -> None:
        """Follow the recording from now on."""
        self._thread.start()

    def wake(self, *, is_busy: bool) -> None:
        """Note that something was stored; `is_busy` if there is very much to store."""
        self._is_busy = is_busy
        self._has_input.set()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Check nothing within the block, unless a rule takes long: storing goes first."""
        self._may_run.clear()
        try:
            yield
        finally:
            self._may_run.set()

    def close(self) -> None:
        """Check the rest, wait for that, and add what follows from the end of the recording."""
        self._progress_at = time.monotonic() + _PATIENCE_S
        self._is_closing.set()
        self._has_input.set()
        if self._thread.is_alive():
            self._thread.join()
        self.catch_up()
        self._end_list()
        found = self._count_findings(self._run(self._checker.finish))
        self._tables.write_findings(found)
        self._report(found)

    def catch_up(self) -> None:
        """Check everything that is stored, in the calling thread."""
        while self.step():
            pass

    # The thread

    def _follow(self) -> None:
        """Check what is stored, as it is stored, until the recording is closed."""
        is_closing = False
        while not is_closing:
            is_closing = self._is_closing.is_set()
            while self._step_in_turn():
                self._send_due_status()
            self._send_due_status()
            self._end_list()
            timeout = None if self._status_at == math.inf else max(0.0, self._status_at - time.monotonic())
            if self._has_input.wait(0 if is_closing else timeout):
                self._has_input.clear()
                self._status_at = min(self._status_at, time.monotonic() + STATUS_EVERY_S)
                # What is stored a moment later is checked together with it.
                self._is_closing.wait(_FOLLOW_EVERY_S)

    def _step_in_turn(self) -> bool:
        """Take a step; if others need the cores, too, rest in proportion, unless too much is unchecked."""
        began, cpu = time.monotonic(), time.thread_time()
        has_more = self.step()
        worked, cpu = time.monotonic() - began, time.thread_time() - cpu
        if cpu < _OWN_CORE_SHARE * worked and self._tables.unread_bytes <= MOST_UNCHECKED_BYTES:
            self._is_closing.wait(_BUSY_REST_S if self._is_busy else min(_REST_FACTOR * worked, _LONGEST_REST_S))
        return has_more

    def step(self) -> bool:
        """Check for a moment.  Returns whether there was anything to check."""
        was_earlier = self._tables.is_earlier
        try:
            has_more = self._tables.step(self._check)
        except Exception as error:  # noqa: BLE001 - whatever it is, recording continues
            self._fail(error.message if isinstance(error, RecordingError) else describe_failure(error))
            has_more = True
        if was_earlier and not self._tables.is_earlier and self._tables.has_replaced_findings:
            self._send(LogLine("The findings that were already in the recording have been corrected."))
        if (was_earlier or self._is_closing.is_set()) and time.monotonic() >= self._progress_at:
            self._progress_at = time.monotonic() + _PROGRESS_EVERY_S
            unchecked = unchecked_label(self._tables.unread_bytes)
            if self._is_closing.is_set():
                self._send(LogLine(f"Everything is stored ({unchecked}): closing will take a moment."))
            else:
                self._send(LogLine(f"Checking the existing recording first: {unchecked}."))
        return has_more

    def _check(self, read: ReadObservation) -> list[Finding] | None:
        """Check an observation, and report it, unless it was recorded before; None after a failure."""
        if not self._may_run.is_set():
            self._may_run.wait(_LONGEST_REST_S)
        seen = read.observation
        self._checked_ns = last_time_ns(seen)
        if isinstance(seen, RequestStarted) and seen.exchange >= self._first_exchange:
            self.exchanges += 1
            self._open[seen.exchange] = _Exchange(seen)
        before = self._checker.events
        found = self._run(lambda: self._checker.feed_read(read))
        exchange = self._open.get(seen.exchange)
        if exchange is not None:
            self._count_findings(found)
            self._count(exchange, seen, self._checker.events - before)
            is_new = self._checked_ns > self._tables.first_file.began_ns
            if is_new:
                self._report(found)
            if isinstance(seen, ExchangeEnded):
                del self._open[seen.exchange]
                if is_new:
                    self._list(exchange, seen)
        return found if self.failure is None else None

    def _run(self, check: Callable[[], list[Finding]]) -> list[Finding]:
        if self.failure is not None:
            return []
        try:
            return [finding for finding in check() if self._is_certain(finding)]
        except Exception as error:  # noqa: BLE001 - a failing rule must not end the recording
            self._fail(describe_failure(error))
            return []

    def _is_certain(self, finding: Finding) -> bool:
        """Whether earlier files of a rotated recording, which a restarted recorder does not read, cannot refute it."""
        earlier = self._tables.first_file.earlier_exchanges
        return not earlier or (finding.exchange > earlier and finding.code != _BEGAN_MID_SESSION)

    def _fail(self, reason: str) -> None:
        """Stop the checks."""
        if self.failure is None:
            self.failure = reason
            line = f"The live checks failed ({reason}): traffic is recorded, but no longer checked."
            self._send(LogLine(line, is_warning=True))

    # Counts and messages

    def _report(self, found: list[Finding]) -> None:
        """Report findings, except after the first few of a rule in an exchange."""
        for finding in found:
            exchange = self._open.get(finding.exchange)
            count = 1
            if exchange is not None:
                exchange.findings[finding.code] += 1
                count = exchange.findings[finding.code]
            if count <= SHOWN_PER_RULE:
                line = finding_line(finding.severity, finding.code, finding.exchange, finding.event, finding.message)
                more = " (further ones in this exchange are recorded but not shown)" if count == SHOWN_PER_RULE else ""
                facts: Facts = {"exchange": finding.exchange, "event": finding.event}
                facts |= {"code": finding.code, "severity": finding.severity.value}
                self._send(LogLine(line + more, is_warning=True, facts=facts))

    def _list(self, exchange: _Exchange, ended: ExchangeEnded) -> None:
        """Send the line about an exchange that ended; only count it if there are too many."""
        if exchange.is_ordinary(ended):
            if not self._lists_requests:
                return
            if self._listed == _LISTED_AT_ONCE:
                self._unlisted += 1
                self._unlisted_errors += (exchange.status or 0) >= _FIRST_ERROR
                return
            self._listed += 1
        self._send(exchange.summary(ended))

    def _end_list(self) -> None:
        """Report how many requests were not listed."""
        if self._unlisted:
            errors = f", {self._unlisted_errors:,} with a status of 400 or above" if self._unlisted_errors else ""
            self._send(LogLine(f"{count_of(self._unlisted, 'more request')} ended{errors}."))
        self._listed = self._unlisted = self._unlisted_errors = 0

    def _count_findings(self, found: list[Finding]) -> list[Finding]:
        for finding in found:
            self.severities[finding.severity.value] += 1
            if self._base_ns is not None:
                self._new_findings[finding.exchange, finding.code, finding.severity.value] += 1
        return found

    def _count(self, exchange: _Exchange, seen: Observation, events: int) -> None:
        self.events += events
        exchange.events += events
        if isinstance(seen, ResponseStarted):
            exchange.response = seen
            exchange.last_ns = seen.time_ns
            exchange.is_stream = is_event_stream(header(seen.headers, "content-type"))
            self.streams += exchange.is_stream
        elif isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE:
            exchange.size += len(seen.data)
            exchange.last_ns = seen.times[-1]

    def _send_due_status(self) -> None:
        """Send the status if it is due; schedule the next one while there is something to watch."""
        if time.monotonic() >= self._status_at:
            is_watched = any(exchange.is_stream for exchange in self._open.values())
            self._status_at = time.monotonic() + STATUS_EVERY_S if is_watched else math.inf
            self.send_status()

    def send_status(self) -> None:
        """Send the counts, and the new findings, in several messages if there are many; nothing if not wanted."""
        while self._base_ns is not None:
            unchecked = self._tables.unread_bytes
            # Unchecked bytes must not look like silence.
            now_ns = self._checked_ns if unchecked else time.monotonic_ns() - self._base_ns
            streams = [exchange for exchange in self._open.values() if exchange.is_stream]
            keys = list(islice(self._new_findings, MOST_FINDINGS))
            status = RecorderStatus(
                requests=self.exchanges,
                events=self.events,
                findings=self.findings,
                open_count=len(streams),
                open_streams=[self._open_stream(exchange, now_ns) for exchange in streams[-MOST_STREAMS:]],
                new_findings=[FindingCount(*key, self._new_findings.pop(key)) for key in keys],
                unchecked_bytes=unchecked,
            )
            self._send(status)
            if not self._new_findings:
                return

    def _open_stream(self, exchange: _Exchange, now_ns: int) -> OpenStream:
        number = exchange.request.exchange
        return OpenStream(
            exchange=number,
            channel=self._tables.contracts.channel_in(exchange.request.target),
            events=exchange.events,
            sequence=self._checker.sequence_of(number),
            idle_seconds=max(0.0, (now_ns - exchange.last_ns) / 1e9),
        )
