"""Which exchanges are the service's own: the rules of the specification apply only to those.

The path of a request alone decides, together with what the user named: the base of the service, or the upstream of the
proxy.  So it is known when the request arrives.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from wiretape.addresses import split_upstreams
from wiretape.observations import RequestStarted
from wiretape.rules.exchange import ScopeCount, ScopeReason
from wiretape.rules.service_base import ServiceBase, parse_service_base
from wiretape_contracts.agent_sessions import INTERFACE, SESSION_PARTS, SESSIONS, Match, bases_of, operation_of


def _services_of(upstream: str) -> list[ServiceBase]:
    """Return where the services are that an upstream names; it may be any text."""
    found = []
    for url in split_upstreams(upstream):
        with suppress(ValueError):
            parts = urlsplit(url)
            # A password was redacted.
            found.append(parse_service_base(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()))
    return [service for service in found if service.origin is not None]


class ServicePaths:
    """Decides which exchanges are the service's, and counts them."""

    def __init__(self, base: ServiceBase | None = None, upstream: str | None = None) -> None:
        """`base` is where the user configured the service to be: everything under it and `/v1` is the service's.

        Without it, everything under `/v1/sessions` is the service's on the upstream that a recording names; None stands
        for every origin.  On other origins, which may have other APIs, only the paths below a session are.
        """
        self._base = base
        self._services = [ServiceBase("")] if upstream is None else _services_of(upstream)
        self._counts: Counter[ScopeReason] = Counter()

    def add(self, request: RequestStarted) -> tuple[str | None, Match | None]:
        """Return the base path of the service and the operation, if a request is for them, and count it."""
        reason, bases = self._find_bases(request)
        if not bases:
            return None, None
        self._counts[reason] += 1
        match = operation_of(request.method, request.target)
        if match is not None and (base := match.base.rstrip("/")) in bases:
            return base, match
        return bases[-1], None

    def scopes(self, others: int) -> list[ScopeCount]:
        """Return how many exchanges are judged by which rules, and why; `others` are not the service's."""
        sessions, parts = SESSIONS, " or ".join(SESSION_PARTS)
        known = f"{sessions} on the upstream" if self._services else parts
        texts = {
            "base": f"{str(self._base or '').rstrip('/')}{INTERFACE}",
            "root": sessions,
            "parts": parts,
            "known": known,
        }
        counts = {**self._counts, ScopeReason.OTHER if self._base is None else ScopeReason.OUTSIDE: others}
        found = [(reason, count) for reason in ScopeReason if (count := counts.get(reason, 0))]
        return [ScopeCount(reason, count, reason.value.format_map(texts)) for reason, count in found]

    def _find_bases(self, request: RequestStarted) -> tuple[ScopeReason, Sequence[str]]:
        """Return the base paths of the service that a path allows; none if the request is not for the service."""
        if self._base is not None:
            path = self._base.path
            if self._base.includes(request) and path in bases_of(request.target, INTERFACE):
                return ScopeReason.CONFIGURED, [path]
            return ScopeReason.OUTSIDE, ()
        # Clients may have a base path that the upstream does not name.
        paths = [service.path for service in self._services if service.includes(request)]
        bases = [base for base in bases_of(request.target, SESSIONS) if "" in paths or base in paths]
        if bases:
            return ScopeReason.UPSTREAM, bases
        parts = bases_of(request.target, *SESSION_PARTS)
        return (ScopeReason.PART, parts) if parts else (ScopeReason.OTHER, ())
