"""Attribute findings to the client, the recorded service, or an injected fault."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter

from wiretape.bounded_dict import put_bounded
from wiretape.contract import session_in
from wiretape.observations import Observation, RequestStarted, ResponseStarted, header
from wiretape.rules import Finding, Party, Severity
from wiretape_replay.http_server.response_writer import OWN_RESPONSE

_MOST_KEPT = 10_000
"""Findings kept for each party; all are counted."""
_MOST_EXCHANGES = 65_536
"""Exchanges whose session is kept."""
_OWN_HEADER = "x-wiretape"


@dataclass(slots=True)
class FindingCounts:
    """Findings about one party, or caused by faults; all are counted, and the first are kept."""

    kept: list[Finding] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    """The number of findings of each rule."""
    severities: Counter[Severity] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self.codes[finding.code] += 1
        self.severities[finding.severity] += 1
        if len(self.kept) < _MOST_KEPT:
            self.kept.append(finding)

    def reaches(self, threshold: Severity) -> bool:
        """Whether a finding is at least as severe as `threshold`."""
        return any(severity.reaches(threshold) for severity in self.severities)

    def __len__(self) -> int:
        return self.codes.total()


class Attribution:
    """Findings by who caused them.

    A finding about the service is attributed to the last fault before it in its exchange or else in its session,
    because the effect of a fault can show on another connection.
    """

    def __init__(self) -> None:
        self.client = FindingCounts()
        self.service = FindingCounts()
        """Findings about the service in the recording itself."""
        self.injected = FindingCounts()
        self.faults: list[tuple[Finding, str]] = []
        """Findings that a fault caused, and that fault."""
        self._sessions: dict[int, str | None] = {}
        self._by_exchange: dict[int, list[tuple[int, str]]] = {}
        self._by_session: dict[str, list[tuple[int, str]]] = {}
        self._own: dict[int, None] = {}
        """Exchanges whose response comes from wiretape."""

    def observe(self, seen: Observation) -> None:
        """Remember the session that an exchange names, and whether its response comes from wiretape."""
        if isinstance(seen, RequestStarted):
            put_bounded(self._sessions, seen.exchange, session_in(seen.target), _MOST_EXCHANGES)
        elif isinstance(seen, ResponseStarted) and header(seen.headers, _OWN_HEADER) is not None:
            put_bounded(self._own, seen.exchange, None, _MOST_EXCHANGES)

    def add_fault(self, exchange: int, time_ns: int, fault: str) -> None:
        """Remember that a fault changes a response after `time_ns`."""
        if fault == OWN_RESPONSE:
            put_bounded(self._own, exchange, None, _MOST_EXCHANGES)
            return
        self._by_exchange.setdefault(exchange, []).append((time_ns, fault))
        session = self._sessions.get(exchange)
        if session is not None:
            self._by_session.setdefault(session, []).append((time_ns, fault))

    def add(self, finding: Finding) -> None:
        """Attribute a finding."""
        if finding.side is Party.CLIENT:
            self.client.add(finding)
            return
        if finding.side is not Party.SERVICE or finding.exchange in self._own:
            return
        fault = self._fault(finding)
        if fault is None:
            self.service.add(finding)
            return
        self.injected.add(finding)
        if len(self.faults) < _MOST_KEPT:
            self.faults.append((finding, fault))

    def _fault(self, finding: Finding) -> str | None:
        session = self._sessions.get(finding.exchange)
        for faults in (self._by_exchange.get(finding.exchange, []), self._by_session.get(session or "", [])):
            before = bisect_left(faults, finding.time_ns, key=itemgetter(0))
            if before:
                return faults[before - 1][1]
        return None
