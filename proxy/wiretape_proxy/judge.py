"""The live checks, and the account of each exchange that goes with them."""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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
        self.exchanges = 0
        self.streams = 0
        self.findings = 0
        self.failed: str | None = None
        """What kept the checks from going on.  Capture does not depend on them."""
        self._checker = Checker()
        self._accounts: dict[int, _Account] = {}

    @property
    def events(self) -> int:
        """How many events the service's streams carried."""
        return self._checker.events

    def feed(self, seen: Observation) -> list[Finding]:
        """The findings that the observation makes certain."""
        if isinstance(seen, RequestStarted):
            self.exchanges += 1
            self._accounts[seen.exchange] = _Account(seen)
        before = self._checker.events
        found = self._check(lambda: self._checker.feed(seen))
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
        more = count == SHOWN
        return Found(finding.code, finding.severity, finding.exchange, finding.event, finding.message, more=more)

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
        self.findings += len(found)
        return found

    def _count(self, account: _Account, seen: Observation, events: int) -> None:
        account.events += events
        if isinstance(seen, ResponseStarted):
            account.response = seen
            account.is_stream = is_event_stream(header(seen.headers, "content-type"))
            self.streams += account.is_stream
        elif isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE:
            account.bytes += len(seen.data)


def _where(error: Exception) -> str:
    """The place in our code, without what passed through it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(place.filename).name}:{place.lineno}"
