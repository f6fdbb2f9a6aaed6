"""Which exchanges are the service's own: the rules of the specification apply only to those.

They are the exchanges under the interface prefix `/v1`, after a base path under which an operation of the
specification was requested on the same origin.  Until that happens, the outcomes of rules are held.  So it makes no
difference when it happens, and no rule has to know later observations.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import nsmallest
from typing import Any
from urllib.parse import urlsplit

from wiretape.bounded_dict import put_bounded
from wiretape.contract import INTERFACE, Match, bases_of, operation_of
from wiretape.observations import RequestStarted

_MOST_GROUPS = 10_000
_MOST_BASES = 10_000
"""Detected base paths on all origins."""
_MOST_NAMED = 3
_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class ServiceBase:
    """Where the paths of the service begin, if that is not to be detected."""

    path: str
    """The path before `/v1`; empty, or with a slash at its beginning and none at its end."""
    origin: str | None = None
    """`http://host:port`; None for every origin on which an operation is requested."""

    def __str__(self) -> str:
        return f"{self.origin or ''}{self.path}" or "/"

    def includes(self, request: RequestStarted) -> bool:
        """Whether a request is to the origin."""
        return self.origin in {None, _origin_of(request.scheme, request.authority)}


def parse_service_base(text: str) -> ServiceBase:
    """Parse a path or a URL.  Raises ValueError."""
    expected = "expected the path before /v1, such as /api/agents, or a URL such as https://service.test/api/agents"
    try:
        parts = urlsplit(text)
        is_valid = not (parts.query or parts.fragment) and text.isprintable() and " " not in text
        if is_valid and parts.scheme in _PORTS and parts.hostname and parts.port != 0 and "@" not in parts.netloc:
            return ServiceBase(parts.path.rstrip("/"), _origin_of(parts.scheme, parts.netloc))
    except ValueError as error:
        raise ValueError(f"invalid base {text!r} ({error}): {expected}") from None
    if not is_valid or parts.scheme or parts.netloc or not text.startswith("/"):
        raise ValueError(f"invalid base {text!r}: {expected}")
    return ServiceBase(text.rstrip("/"))


class ScopeReason(StrEnum):
    """Why exchanges are judged by the rules of the specification, or are not."""

    DETECTED = "an operation of the specification was requested under {}"
    CONFIGURED = "the base is configured: {}"
    OUTSIDE = "their paths are not under {}"
    NO_OPERATION = "no operation of the specification was requested on their origin"

    @property
    def is_service(self) -> bool:
        """Whether the exchanges are the service's own."""
        return self in {ScopeReason.DETECTED, ScopeReason.CONFIGURED}


@dataclass(frozen=True, slots=True)
class ScopeCount:
    """How many exchanges are judged by which rules for one reason."""

    reason: ScopeReason
    exchanges: int
    text: str
    """The reason as a clause that can follow `because`; quotes recorded text."""


@dataclass(slots=True)
class PathGroup:
    """The exchanges of one origin whose paths allow the same base paths."""

    authority: str
    bases: tuple[str, ...]
    """The possible base paths; none if the exchanges cannot be the service's."""
    is_service: bool = False
    """Whether they are known to be the service's."""
    exchanges: int = 0
    held: list[Any] = field(default_factory=list)
    """The outcomes of rules while that was unknown, except those counted in `passed` and `dropped`."""
    passed: Counter[str] = field(default_factory=Counter)
    """For each rule how often it held meanwhile."""
    dropped: Counter[str] = field(default_factory=Counter)
    """For each rule how many outcomes were dropped because there were too many."""

    @property
    def may_be_service(self) -> bool:
        """Whether they are the service's, or may turn out to be."""
        return self.is_service or bool(self.bases)

    def forget(self) -> None:
        """Drop what was held."""
        self.held, self.passed, self.dropped = [], Counter(), Counter()


class ServiceTraffic:
    """The exchanges of a recording, in groups: the exchanges of a group are all the service's, or all not."""

    def __init__(
        self,
        base: ServiceBase | None = None,
        known_paths: Collection[str] = (),
        *,
        on_drop: Callable[[PathGroup], None] = PathGroup.forget,
    ) -> None:
        """`base` says where the service is, instead of detecting it.

        `known_paths` are base paths under which everything is the service's without an operation.  `on_drop` is called
        with each group that is dropped because there are too many.
        """
        self._base = base
        self._known_paths = frozenset(known_paths)
        self._groups: dict[tuple[str, tuple[str, ...]], PathGroup] = {}
        self._on_drop = on_drop
        self._undecided: dict[tuple[str, str], dict[tuple[str, ...], PathGroup]] = {}
        """For each authority and base path the groups that are the service's if that base path is."""
        self._detected: dict[tuple[str, str], None] = {}
        """The authorities and base paths under which an operation was requested, the last requested at the end."""
        self._origins: dict[str, None] = {}
        """The authorities of which an operation was requested."""
        self._dropped: Counter[ScopeReason] = Counter()
        """The exchanges of dropped groups of the service."""

    def operation_of(self, request: RequestStarted) -> Match | None:
        """Return the operation of the service that a request is for, if it is for one."""
        match = operation_of(request.method, request.target)
        return match if match is None or self._may_have(match.base.rstrip("/"), request) else None

    def add(self, request: RequestStarted) -> PathGroup:
        """Return the group of a request."""
        bases = bases_of(request.target)
        if self._base is not None:
            bases = tuple(base for base in bases if self._may_have(base, request))
        key = (request.authority, bases)
        group = self._groups.get(key)
        if group is None:
            group = PathGroup(request.authority, bases, is_service=self._is_known(request.authority, bases))
            if len(self._groups) >= _MOST_GROUPS:
                self._drop_groups()
            self._groups[key] = group
            if not group.is_service:
                for base in bases:
                    self._undecided.setdefault((request.authority, base), {})[bases] = group
        group.exchanges += 1
        return group

    def recognize(self, authority: str, match: Match) -> list[PathGroup]:
        """An operation was requested: return the groups that were not known to be the service's and now are."""
        place = authority, match.base.rstrip("/")
        # Those in use are kept.
        self._detected.pop(place, None)
        put_bounded(self._detected, place, None, _MOST_BASES)
        put_bounded(self._origins, authority, None, _MOST_BASES)
        found = list(self._undecided.get(place, {}).values())
        for group in found:
            group.is_service = True
            self._decide(group)
        return found

    def counts(self, exchanges: int) -> list[ScopeCount]:
        """Return how many of all `exchanges` are judged by which rules, and why."""
        numbers = dict.fromkeys(ScopeReason, 0) | self._dropped
        for group in self._groups.values():
            numbers[self._reason_of(group)] += group.exchanges
        # Those of other dropped groups.
        numbers[ScopeReason.NO_OPERATION] += exchanges - sum(numbers.values())
        texts = dict.fromkeys(ScopeReason, self._name_prefixes()) | {ScopeReason.CONFIGURED: str(self._base or "")}
        found = [(reason, number) for reason, number in numbers.items() if number]
        return [ScopeCount(reason, number, reason.value.format(texts[reason])) for reason, number in found]

    def _may_have(self, base: str, request: RequestStarted) -> bool:
        """Whether the service may have a base path on the origin of a request."""
        return self._base is None or (base == self._base.path and self._base.includes(request))

    def _is_known(self, authority: str, bases: tuple[str, ...]) -> bool:
        if self._base is not None and self._base.origin is not None:
            return bool(bases)
        return any(base in self._known_paths or (authority, base) in self._detected for base in bases)

    def _decide(self, group: PathGroup) -> None:
        """Remove a group from those that may turn out to be the service's."""
        for base in group.bases:
            place = group.authority, base
            undecided = self._undecided.get(place, {})
            undecided.pop(group.bases, None)
            if not undecided:
                self._undecided.pop(place, None)

    def _drop_groups(self) -> None:
        """Drop the oldest groups, and those of the service last."""
        oldest = sorted(self._groups.items(), key=lambda item: (item[1].is_service, bool(item[1].bases)))
        for key, group in oldest[: max(1, len(oldest) // 2)]:
            del self._groups[key]
            self._decide(group)
            if group.is_service:
                self._dropped[self._reason_of(group)] += group.exchanges
            else:
                # Nothing can show any more that its open exchanges are the service's.
                group.bases = ()
            self._on_drop(group)

    def _reason_of(self, group: PathGroup) -> ScopeReason:
        is_detected = group.authority in self._origins
        if group.is_service:
            return ScopeReason.DETECTED if is_detected else ScopeReason.CONFIGURED
        return ScopeReason.OUTSIDE if is_detected else ScopeReason.NO_OPERATION

    def _name_prefixes(self) -> str:
        names = [f"{authority}{base}{INTERFACE}" for authority, base in nsmallest(_MOST_NAMED, self._detected)]
        more = len(self._detected) - _MOST_NAMED
        return " and ".join(names) + (f" and {more} more" if more > 0 else "")


def _origin_of(scheme: str, authority: str) -> str:
    """Return `http://host:port`, in lower case and with a port."""
    host = authority.lower()
    has_port = host.rpartition(":")[2].isdigit() and not host.endswith("]")
    return f"{scheme}://{host}" if has_port else f"{scheme}://{host}:{_PORTS.get(scheme, '')}"
