"""The live checks, and the account of each exchange that goes with them."""

from collections import Counter
from dataclasses import dataclass, field

from wiretape.contract import is_event_stream
from wiretape.observe import (
    BytesArrived,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.rules import Checker, Finding
from wiretape_proxy.reports import Ended, Found

SHOWN = 3
"""How many findings of a rule are shown for each exchange while it lasts; all are stored."""


@dataclass(slots=True)
class _Account:
    """What is told of an exchange when it ends."""

    request: RequestStarted
    response: ResponseStarted | None = None
    is_stream: bool = False
    bytes: int = 0
    events: int = 0
    findings: Counter[str] = field(default_factory=Counter)

    def close(self, ended: ExchangeEnded) -> Ended:
        return Ended(
            exchange=ended.exchange,
            method=self.request.method,
            path=self.request.target.partition("?")[0],
            status=self.response.status if self.response is not None else None,
            ending=ended.ending,
            detail=ended.detail,
            seconds=(ended.time_ns - self.request.time_ns) / 1e9,
            bytes=self.bytes,
            events=self.events if self.is_stream else None,
            findings=self.findings.total(),
        )


class Judge:
    """Feeds the checker and keeps count."""

    def __init__(self) -> None:
        self.streams = 0
        self.findings = 0
        self._checker = Checker()
        self._accounts: dict[int, _Account] = {}

    @property
    def exchanges(self) -> int:
        """How many exchanges there were."""
        return self._checker.exchanges

    @property
    def events(self) -> int:
        """How many events the service's streams carried."""
        return self._checker.events

    def feed(self, seen: Observation) -> list[Finding]:
        """The findings that the observation makes certain."""
        if isinstance(seen, RequestStarted):
            self._accounts[seen.exchange] = _Account(seen)
        before = self._checker.events
        found = self._checker.feed(seen)
        self.findings += len(found)
        self._count(self._accounts[seen.exchange], seen, self._checker.events - before)
        return found

    def finish(self) -> list[Finding]:
        """The findings that the end of the recording makes certain."""
        found = self._checker.finish()
        self.findings += len(found)
        return found

    def tell(self, finding: Finding) -> Found | None:
        """What to say of a finding; None of one that is like many before."""
        account = self._accounts.get(finding.exchange)
        count = 1
        if account is not None:
            account.findings[finding.code] += 1
            count = account.findings[finding.code]
        if count > SHOWN:
            return None
        more = count == SHOWN
        return Found(finding.code, finding.severity, finding.exchange, finding.event, finding.message, more=more)

    def end(self, ended: ExchangeEnded) -> Ended:
        """What to say of the end of an exchange."""
        return self._accounts.pop(ended.exchange).close(ended)

    def _count(self, account: _Account, seen: Observation, events: int) -> None:
        account.events += events
        if isinstance(seen, ResponseStarted):
            account.response = seen
            account.is_stream = is_event_stream(header(seen.headers, "content-type"))
            self.streams += account.is_stream
        elif isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE:
            account.bytes += len(seen.data)
