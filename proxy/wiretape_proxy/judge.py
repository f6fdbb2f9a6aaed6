"""The live checks, and the account of each exchange that goes with them."""

import traceback
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wiretape.contract import is_event_stream, operation_of
from wiretape.frame_reader import ReadObservation, StreamReaders
from wiretape.labels import ending_label
from wiretape.observations import (
    BytesArrived,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.rules import Checker, Finding, Settings
from wiretape_proxy.reports import Ended, Found, Mark, OpenStream, Progress

SHOWN = 3
"""How many findings of a rule are shown for each exchange while it lasts; all are stored."""
_LISTED = 50
"""How many open streams are told of."""
_LATEST = 100
"""How many findings are told of with the progress, the last ones."""


@dataclass(slots=True)
class _Account:
    """What is told of an exchange when it ends."""

    request: RequestStarted
    response: ResponseStarted | None = None
    is_stream: bool = False
    bytes: int = 0
    events: int = 0
    last_ns: int = 0
    """When the last byte of the response came."""
    findings: Counter[str] = field(default_factory=Counter)

    @property
    def session(self) -> str | None:
        match = operation_of(self.request.method, self.request.target)
        return match.session_id if match is not None else None

    def close(self, ended: ExchangeEnded) -> Ended:
        return Ended(
            exchange=ended.exchange,
            method=self.request.method,
            path=self.request.target.partition("?")[0],
            status=self.response.status if self.response is not None else None,
            ending=ended.ending,
            words=ending_label(ended.ending, stream=self.is_stream),
            detail=ended.detail,
            seconds=(ended.time_ns - self.request.time_ns) / 1e9,
            bytes=self.bytes,
            events=self.events if self.is_stream else None,
            findings=self.findings.total(),
        )


class Judge:
    """Feeds the checker and keeps count."""

    def __init__(self, settings: Settings, readers: StreamReaders) -> None:
        self.exchanges = 0
        self.streams = 0
        self.severities: Counter[str] = Counter()
        """How many findings there were of each severity."""
        self.failed: str | None = None
        """What kept the checks from going on.  Capture does not depend on them."""
        self._checker = Checker(settings, readers)
        self._accounts: dict[int, _Account] = {}
        self._marks: Counter[tuple[int, str, str]] = Counter()
        self._latest: deque[Finding] = deque(maxlen=_LATEST)

    @property
    def events(self) -> int:
        """How many events the service's streams carried."""
        return self._checker.events

    @property
    def findings(self) -> int:
        """How many findings there were."""
        return self.severities.total()

    def progress(self, now_ns: int, unchecked: int) -> Progress:
        """How things stand at `now_ns` of the recording, with so many bytes stored that were not fed yet."""
        streams = [account for account in self._accounts.values() if account.is_stream]
        marks = [Mark(*key, count) for key, count in self._marks.items()]
        latest = [_found(finding) for finding in self._latest]
        self._marks.clear()
        self._latest.clear()
        return Progress(
            requests=self.exchanges,
            events=self.events,
            findings=self.findings,
            open=len(streams),
            streams=[self._stream(account, now_ns) for account in streams[-_LISTED:]],
            marks=marks,
            latest=latest,
            unchecked=unchecked,
        )

    def _stream(self, account: _Account, now_ns: int) -> OpenStream:
        number = account.request.exchange
        return OpenStream(
            exchange=number,
            session=account.session,
            events=account.events,
            sequence=self._checker.sequence_of(number),
            silence=max(0.0, (now_ns - account.last_ns) / 1e9),
        )

    def feed(self, read: ReadObservation) -> list[Finding]:
        """The findings that the observation makes certain."""
        seen = read.seen
        if isinstance(seen, RequestStarted):
            self.exchanges += 1
            self._accounts[seen.exchange] = _Account(seen)
        before = self._checker.events
        found = self._check(lambda: self._checker.take(read))
        self._count(self._accounts[seen.exchange], seen, self._checker.events - before)
        return found

    def finish(self) -> list[Finding]:
        """The findings that the end of the recording makes certain."""
        return self._check(self._checker.finish)

    def tell(self, finding: Finding) -> Found | None:
        """What to say of a finding; None of one that is like many before."""
        account = self._accounts.get(finding.exchange)
        count = 1
        if account is not None:
            account.findings[finding.code] += 1
            count = account.findings[finding.code]
        if count > SHOWN:
            return None
        return _found(finding, more=count == SHOWN)

    def end(self, ended: ExchangeEnded) -> Ended:
        """What to say of the end of an exchange."""
        return self._accounts.pop(ended.exchange).close(ended)

    def _check(self, check: Callable[[], list[Finding]]) -> list[Finding]:
        if self.failed is not None:
            return []
        try:
            found = check()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a rule must not end the recording
            self.failed = f"{type(error).__name__} in {_where(error)}"
            return []
        for finding in found:
            self.severities[finding.severity.value] += 1
            self._marks[finding.exchange, finding.code, finding.severity.value] += 1
        self._latest += found
        return found

    def _count(self, account: _Account, seen: Observation, events: int) -> None:
        account.events += events
        if isinstance(seen, ResponseStarted):
            account.response = seen
            account.last_ns = seen.time_ns
            account.is_stream = is_event_stream(header(seen.headers, "content-type"))
            self.streams += account.is_stream
        elif isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE:
            account.bytes += len(seen.data)
            account.last_ns = seen.times[-1]


def _found(finding: Finding, *, more: bool = False) -> Found:
    return Found(finding.code, finding.severity, finding.exchange, finding.event, finding.message, more=more)


def _where(error: Exception) -> str:
    """The place in our code, without what passed through it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(place.filename).name}:{place.lineno}"
