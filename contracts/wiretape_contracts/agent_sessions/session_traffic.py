"""Traffic of the service: which exchanges are its own, and what its rules remember about sessions and clients.

The path of a request alone decides whether it is for the service, together with what the user named: the base of the
service, or the upstream of the proxy.  So it is known when the request arrives.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from wiretape.addresses import split_upstreams
from wiretape.contract.contract_model import Contract
from wiretape.contract.contract_operation import Operation
from wiretape.event import is_header_safe
from wiretape.json_codec import find_repeated_keys
from wiretape.observations import RequestStarted, ResponseStarted
from wiretape.rules.catalogue import ANY_SHAPE, LOST_EVENTS, Rule
from wiretape.rules.engine import Engine, RuleBook
from wiretape.rules.exchange import ScopeCount, ScopeReason, SilenceLimit, SilenceMonitor
from wiretape.rules.finding import Location
from wiretape.rules.service_base import ServiceBase, parse_service_base
from wiretape.rules.traffic import Traffic, TrafficSettings
from wiretape_contracts.agent_sessions import (
    EVENT_TYPES,
    INTERFACE,
    KEEP_ALIVE_SECONDS,
    RUN_STARTED,
    SESSION_PARTS,
    SESSIONS,
    TERMINAL_RUN_TYPES,
    bases_of,
    may_create_session,
)
from wiretape_contracts.agent_sessions.schemas import is_valid_delta, is_valid_durable
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.client_state import ClientRegistry
from wiretape_contracts.agent_sessions.state.exchange_state import ExchangeState
from wiretape_contracts.agent_sessions.state.service_body import ErrorBody, SuccessBody
from wiretape_contracts.agent_sessions.state.session_state import OVERLAP, SessionRegistry
from wiretape_contracts.agent_sessions.state.stream_state import REPLAY_END, ResumeState, StreamState


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

    def __init__(self, contract: Contract, base: ServiceBase | None, upstream: str | None) -> None:
        """`base` is where the user configured the service to be: everything under it and `/v1` is the service's.

        Without it, everything under `/v1/sessions` is the service's on the upstream that a recording names; None stands
        for every origin.  On other origins, which may have other APIs, only the paths below a session are.
        """
        self._contract = contract
        self._base = base
        self._services = [ServiceBase("")] if upstream is None else _services_of(upstream)
        self._counts: Counter[ScopeReason] = Counter()

    def add(self, request: RequestStarted) -> tuple[str | None, Operation | None, Mapping[str, str]]:
        """Return the base path of the service, the operation and its parameters, if a request is for it, and count it.

        The base path is None for other requests.
        """
        reason, bases = self._find_bases(request)
        if not bases:
            return None, None, {}
        self._counts[reason] += 1
        operation, parameters = self._contract.find_operation(request.method, request.target)
        if operation is not None and (base := operation.pattern.base_of(request.target).rstrip("/")) in bases:
            return base, operation, parameters
        return bases[-1], None, {}

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


_KEEP_ALIVE = SilenceLimit(KEEP_ALIVE_SECONDS, is_interval=True)
_TYPES_WITH_RUN = TERMINAL_RUN_TYPES | {RUN_STARTED}
_PLAIN_TEXT = re.compile(rb"[ !#-\[\]-~]*")
"""What a JSON string without escapes can contain, in ASCII."""
_DELTA_TEXT = re.compile(rb'"delta":\{"text":"(%b)"' % _PLAIN_TEXT.pattern)
"""The text of a delta.  Wherever this is in valid JSON, the group is all of a string that is the value of a `text`."""
_ENCODED_TYPES = {name: name.encode() for name in EVENT_TYPES}


def is_ordinary(event: SessionEvent) -> bool:
    """Whether an event is a delta or a durable event with unremarkable framing and JSON."""
    name = _ENCODED_TYPES.get(event.type)
    if name is None or event.event_line != name or event.has_rare_fields or event.has_unusual_json:
        return False
    if event.is_delta:
        if event.id_line is not None or not is_valid_delta(event.document):
            return False
    elif not (event.is_durable and _has_ordinary_id(event) and is_valid_durable(event.document, event.type)):
        return False
    return (event.frame[2].isascii() or event.is_utf8) and find_repeated_keys(event.data, event.document) == []


def _has_ordinary_id(event: SessionEvent) -> bool:
    identity = event.cursor
    if event.sequence is None or identity is None or not is_header_safe(identity):
        return False
    return bool(event.document.get("id") == identity)


class SteadyDelta(NamedTuple):
    """An ordinary delta for which all rules held, and its bytes before and after the text.

    An event with the same bytes there, and a text without escapes between them, differs only in that text.  So it is
    as ordinary, and has the same type and run, which is known without reading it.
    """

    event: SessionEvent
    begin: bytes
    end: bytes
    """Empty if the text is not where it usually is."""

    @classmethod
    def of(cls, event: SessionEvent) -> "SteadyDelta":
        """Find the text of an ordinary delta."""
        raw, found = event.raw, _DELTA_TEXT.search(event.raw)
        return cls(event, b"", b"") if found is None else cls(event, raw[: found.start(1)], raw[found.end(1) :])

    def is_repeated_by(self, raw: bytes) -> bool:
        """Whether the bytes of an event differ only in the text."""
        begin, end = self.begin, self.end
        return (
            end != b""
            and raw.startswith(begin)
            and raw.endswith(end)
            and _PLAIN_TEXT.fullmatch(raw, len(begin), len(raw) - len(end)) is not None
        )


class SessionRules(RuleBook):
    """The rules of the service.

    Most ordinary events are deltas that follow another one of the same type and run.  If all rules that have to run on
    them are `steady`, and held for the one before, they hold for this as well: it is only counted.
    """

    def __init__(self, engine: Engine, rules: Iterable[Rule]) -> None:
        super().__init__(engine, rules)
        self._steady_deltas: dict[int, SteadyDelta] = {}
        """For each stream its last delta, if all rules held for it that are steady."""

    def run_event(self, event: SessionEvent, stream: StreamState) -> None:
        """Run the rules on an event of a stream of the service."""
        ordinary = self._count_ordinary(event.type, event, stream) if is_ordinary(event) else None
        entries = self._entries(event) if ordinary is None else ordinary.run
        have_held = self._engine.run(entries, (event, stream), event)
        if have_held and ordinary is not None and event.is_delta and ordinary.is_steady:
            self._steady_deltas[stream.exchange] = SteadyDelta.of(event)
        elif (delta := self._steady_deltas.get(stream.exchange)) is not None and (
            event.run_id != delta.event.run_id or event.type in _TYPES_WITH_RUN
        ):
            del self._steady_deltas[stream.exchange]

    def repeat_delta(self, event: SessionEvent) -> bool:
        """Count an ordinary delta with the type and the run of the one before for which all rules held.

        Returns False for any other event: the rules have to run.
        """
        delta = self._steady_deltas.get(event.exchange)
        if delta is None:
            return False
        before = delta.event
        if not delta.is_repeated_by(event.frame[2]) and (
            event.type != before.type or event.run_id != before.run_id or not is_ordinary(event)
        ):
            return False
        ordinary = self._ordinary[before.type]
        ordinary.count += 1
        ordinary.repeated += 1
        return True

    def end_stream(self, exchange: int) -> None:
        """Forget a stream that has ended."""
        self._steady_deltas.pop(exchange, None)

    def count_lost_events(self, exchange: int) -> None:
        """Count the rules about every event as inconclusive, because events of a stream were lost."""
        self._steady_deltas.pop(exchange, None)
        for entry in self._on_event:
            if entry.check.shapes == ANY_SHAPE and entry.check.types is None:
                entry.tally.add_inconclusive(LOST_EVENTS.reason)


class SessionTraffic(Traffic[ExchangeState, StreamState]):
    """The exchanges and streams of the service in one recording."""

    rules: SessionRules

    def __init__(
        self,
        contract: Contract,
        engine: Engine,
        rules: Iterable[Rule],
        settings: TrafficSettings,
        upstream: str | None,
    ) -> None:
        super().__init__(SessionRules(engine, rules))
        self._paths = ServicePaths(contract, settings.base, upstream)
        self.idempotency_header = settings.idempotency_header
        self._tolerance_s = settings.keep_alive_tolerance_s
        self.clients = ClientRegistry()
        self.sessions = SessionRegistry()

    def start(self, request: RequestStarted) -> ExchangeState | None:
        """Return the exchange of a request to the service."""
        base, operation, parameters = self._paths.add(request)
        return None if base is None else ExchangeState(request, self, base, operation, parameters)

    def scopes(self, others: int) -> list[ScopeCount]:
        """Return how many exchanges are the service's, and why, and how many are not."""
        return self._paths.scopes(others)

    def claims_stream(self, exchange: ExchangeState) -> bool:
        """Whether the response to a stream request is a success, even if it is no event stream."""
        return exchange.is_stream_request and exchange.response is not None and exchange.response.status == 200

    def open_stream(self, exchange: ExchangeState, response: ResponseStarted) -> StreamState | None:
        """Return the stream of a session."""
        return exchange.open_stream(SilenceMonitor(response.time_ns, _KEEP_ALIVE, self._tolerance_s))

    def open_body(self, exchange: ExchangeState, response: ResponseStarted) -> ErrorBody | None:
        """Return a body that may have an error envelope, or name a new session."""
        request = exchange.request
        if response.status >= 400 and request.method != "HEAD":
            return ErrorBody(response)
        if response.status // 100 != 2 or request.method == "HEAD" or exchange.has_event_stream:
            return None
        return SuccessBody(response, may_name_session=may_create_session(request.method, request.target))

    def add_event(self, stream: StreamState, event: SessionEvent) -> None:
        """Run the rules on an event, and then remember it."""
        if self.rules.repeat_delta(event):
            return
        session = stream.session
        stream.receive(event)
        self.rules.run_event(event, stream)
        stream.add(event)
        overlaps = session.runs.overlaps
        while overlaps:
            overlap = overlaps.pop(0)
            self.rules.run(OVERLAP, (overlap, session), overlap.location)
        resume = stream.resume
        if resume is not None and resume.is_over and not resume.is_checked:
            self._end_replay(resume, Location.of(event))

    def lose(self, stream: StreamState, time_ns: int) -> None:
        """Count the rules about every event as inconclusive."""
        super().lose(stream, time_ns)
        self.rules.count_lost_events(stream.exchange)

    def after_stream_end(self, stream: StreamState, location: Location) -> None:
        """Run the rules on a replay that the end of its stream has ended."""
        self.rules.end_stream(stream.exchange)
        if stream.resume is not None and not stream.resume.is_checked:
            self._end_replay(stream.resume, location)

    def _end_replay(self, resume: ResumeState, location: Location) -> None:
        resume.is_checked = True
        self.rules.run(REPLAY_END, (resume,), resume.location or location)
