"""The live checks, and the account of each exchange that goes with them."""

from dataclasses import dataclass

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


@dataclass(slots=True)
class _Account:
    """What is told of an exchange when it ends."""

    request: RequestStarted
    response: ResponseStarted | None = None
    is_stream: bool = False
    bytes: int = 0
    events: int = 0

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

    def feed(self, seen: Observation) -> tuple[list[Finding], Ended | None]:
        """What the observation makes certain: findings, and the end of an exchange."""
        before = self._checker.events
        found = self._checker.feed(seen)
        self.findings += len(found)
        return found, self._count(seen, self._checker.events - before)

    def finish(self) -> list[Finding]:
        """The findings that the end of the recording makes certain."""
        found = self._checker.finish()
        self.findings += len(found)
        return found

    def _count(self, seen: Observation, events: int) -> Ended | None:
        if isinstance(seen, RequestStarted):
            self._accounts[seen.exchange] = _Account(seen)
            return None
        account = self._accounts[seen.exchange]
        account.events += events
        if isinstance(seen, ResponseStarted):
            account.response = seen
            account.is_stream = is_event_stream(header(seen.headers, "content-type"))
            self.streams += account.is_stream
        elif isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE:
            account.bytes += len(seen.data)
        elif isinstance(seen, ExchangeEnded):
            return self._accounts.pop(seen.exchange).close(seen)
        return None

    @staticmethod
    def report(finding: Finding) -> Found:
        """A finding as the proxy is told of it."""
        return Found(finding.code, finding.severity, finding.exchange, finding.event, finding.message)
