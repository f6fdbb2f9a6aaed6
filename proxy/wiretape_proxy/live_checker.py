"""Check traffic while it is recorded, and keep counts for each exchange."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from wiretape.contract import is_event_stream, operation_of
from wiretape.errors import describe_failure
from wiretape.frame_reader import ReadObservation, StreamReaders
from wiretape.labels import ending_label
from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.rules import Checker, Finding, Settings, Verdict
from wiretape_proxy.recorder_messages import (
    MOST_FINDINGS,
    MOST_STREAMS,
    ExchangeSummary,
    FindingCount,
    LiveFinding,
    OpenStream,
    RecorderStatus,
)

SHOWN_PER_RULE = 3
"""How many findings of a rule are reported for each exchange while it is open; all are stored."""


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
    def session(self) -> str | None:
        match = operation_of(self.request.method, self.request.target)
        return match.session_id if match is not None else None

    def summary(self, ended: ExchangeEnded) -> ExchangeSummary:
        return ExchangeSummary(
            exchange=ended.exchange,
            method=self.request.method,
            path=self.request.target.partition("?")[0],
            status=self.response.status if self.response is not None else None,
            is_complete=ended.ending is Ending.COMPLETE,
            ending=ending_label(ended.ending, stream=self.is_stream),
            detail=ended.detail,
            seconds=(ended.time_ns - self.request.time_ns) / 1e9,
            size=self.size,
            events=self.events if self.is_stream else None,
            findings=self.findings.total(),
        )


class LiveChecker:
    """Feeds the checker, and survives a failing rule.  Its counts are those of this capture."""

    def __init__(
        self,
        settings: Settings,
        readers: StreamReaders,
        upstream: str,
        *,
        first_exchange: int = 1,
        wants_status: bool = False,
    ) -> None:
        """`upstream` is that of the recording, and `first_exchange` the first one of this capture.

        `wants_status`: whether `status` is called regularly, which takes the new findings.
        """
        self.exchanges = 0
        self.streams = 0
        self.severities: Counter[str] = Counter()
        """Number of findings by severity."""
        self.failure: str | None = None
        """Why the checks stopped.  Recording continues without them."""
        self._checker = Checker(settings, readers=readers, upstream=upstream)
        self._first_exchange = first_exchange
        self._earlier_events = 0
        self._open: dict[int, _Exchange] = {}
        self._wants_status = wants_status
        self._new_findings: Counter[tuple[int, str, str]] = Counter()

    @property
    def events(self) -> int:
        """Number of events in the service's streams."""
        return self._checker.events - self._earlier_events

    @property
    def inconclusive(self) -> list[str]:
        """The codes of inconclusive rules."""
        return [code for code, verdict in self._checker.verdicts().items() if verdict is Verdict.INCONCLUSIVE]

    @property
    def has_new_findings(self) -> bool:
        """Whether there are findings for another status."""
        return bool(self._new_findings)

    @property
    def findings(self) -> int:
        """Number of findings."""
        return self.severities.total()

    def status(self, now_ns: int, unchecked_bytes: int) -> RecorderStatus:
        """Return the counts at `now_ns` of the recording, and take new findings: not all if there are many."""
        streams = [exchange for exchange in self._open.values() if exchange.is_stream]
        keys = list(islice(self._new_findings, MOST_FINDINGS))
        new_findings = [FindingCount(*key, self._new_findings.pop(key)) for key in keys]
        return RecorderStatus(
            requests=self.exchanges,
            events=self.events,
            findings=self.findings,
            open_count=len(streams),
            open_streams=[self._open_stream(exchange, now_ns) for exchange in streams[-MOST_STREAMS:]],
            new_findings=new_findings,
            unchecked_bytes=unchecked_bytes,
        )

    def _open_stream(self, exchange: _Exchange, now_ns: int) -> OpenStream:
        number = exchange.request.exchange
        return OpenStream(
            exchange=number,
            session=exchange.session,
            events=exchange.events,
            sequence=self._checker.sequence_of(number),
            idle_seconds=max(0.0, (now_ns - exchange.last_ns) / 1e9),
        )

    def fail(self, reason: str) -> None:
        """Stop the checks."""
        self.failure = self.failure or reason

    def feed_earlier(self, reads: Iterable[ReadObservation]) -> list[Finding]:
        """Check observations that are in the file already; return their findings.

        Those from before this capture are not counted; the others are in the file if another recorder failed.
        """
        found: list[Finding] = []
        for read in reads:
            seen = read.observation
            if seen.exchange < self._first_exchange:
                found += self._run(partial(self._checker.feed_read, read))
                self._earlier_events = self._checker.events
            else:
                found += self.feed(read)
                if isinstance(seen, ExchangeEnded):
                    self.end(seen)
        return found

    def feed(self, read: ReadObservation) -> list[Finding]:
        """Check an observation; return its findings."""
        seen = read.observation
        if isinstance(seen, RequestStarted):
            self.exchanges += 1
            self._open[seen.exchange] = _Exchange(seen)
        before = self._checker.events
        found = self._count_findings(self._run(lambda: self._checker.feed_read(read)))
        self._count(self._open[seen.exchange], seen, self._checker.events - before)
        return found

    def finish(self) -> list[Finding]:
        """Return the findings that follow from the end of the recording."""
        return self._count_findings(self._run(self._checker.finish))

    def report(self, finding: Finding) -> LiveFinding | None:
        """Return the message about a finding; None after the first few of a rule in an exchange."""
        exchange = self._open.get(finding.exchange)
        count = 1
        if exchange is not None:
            exchange.findings[finding.code] += 1
            count = exchange.findings[finding.code]
        if count > SHOWN_PER_RULE:
            return None
        return LiveFinding(
            code=finding.code,
            severity=finding.severity,
            exchange=finding.exchange,
            event=finding.event,
            message=finding.message,
            is_last_shown=count == SHOWN_PER_RULE,
        )

    def end(self, ended: ExchangeEnded) -> ExchangeSummary:
        """Close an exchange; return its summary."""
        return self._open.pop(ended.exchange).summary(ended)

    def _run(self, check: Callable[[], list[Finding]]) -> list[Finding]:
        if self.failure is not None:
            return []
        try:
            return check()
        except Exception as error:  # noqa: BLE001 - a failing rule must not end the recording
            self.failure = describe_failure(error)
            return []

    def _count_findings(self, found: list[Finding]) -> list[Finding]:
        for finding in found:
            self.severities[finding.severity.value] += 1
            if self._wants_status:
                self._new_findings[finding.exchange, finding.code, finding.severity.value] += 1
        return found

    def _count(self, exchange: _Exchange, seen: Observation, events: int) -> None:
        exchange.events += events
        if isinstance(seen, ResponseStarted):
            exchange.response = seen
            exchange.last_ns = seen.time_ns
            exchange.is_stream = is_event_stream(header(seen.headers, "content-type"))
            self.streams += exchange.is_stream
        elif isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE:
            exchange.size += len(seen.data)
            exchange.last_ns = seen.times[-1]
