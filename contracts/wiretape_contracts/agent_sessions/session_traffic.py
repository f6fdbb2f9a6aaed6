"""Traffic of the service: what its rules remember about the sessions and clients of one recording."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from wiretape.contract.contract_model import Contract
from wiretape.event import is_header_safe
from wiretape.json_codec import find_repeated_keys
from wiretape.observations import RequestStarted, ResponseStarted, header
from wiretape.rules.catalogue import ANY_SHAPE, LOST_EVENTS, Rule
from wiretape.rules.engine import Engine, RuleBook
from wiretape.rules.exchange import ScopeCount, SilenceLimit, SilenceMonitor
from wiretape.rules.finding import Location
from wiretape.rules.traffic import Traffic, TrafficSettings
from wiretape_contracts.agent_sessions import (
    EVENT_TYPES,
    KEEP_ALIVE_SECONDS,
    RUN_STARTED,
    TERMINAL_RUN_TYPES,
    may_create_session,
)
from wiretape_contracts.agent_sessions.schemas import is_valid_delta, is_valid_durable
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.client_state import ClientRegistry
from wiretape_contracts.agent_sessions.state.exchange_state import ExchangeState
from wiretape_contracts.agent_sessions.state.service_body import ErrorBody, SuccessBody
from wiretape_contracts.agent_sessions.state.service_traffic import ServicePaths
from wiretape_contracts.agent_sessions.state.session_state import OVERLAP, SessionRegistry
from wiretape_contracts.agent_sessions.state.stream_state import REPLAY_END, ResumeState, StreamState

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
        _contract: Contract,
        engine: Engine,
        rules: Iterable[Rule],
        settings: TrafficSettings,
        upstream: str | None,
    ) -> None:
        super().__init__(SessionRules(engine, rules))
        self._paths = ServicePaths(settings.base, upstream)
        self._idempotency_header = settings.idempotency_header
        self._tolerance_s = settings.keep_alive_tolerance_s
        self._clients = ClientRegistry()
        self.sessions = SessionRegistry()

    def start(self, request: RequestStarted) -> ExchangeState | None:
        """Return the exchange of a request to the service."""
        base, match = self._paths.add(request)
        if base is None:
            return None
        return ExchangeState(
            request,
            self,
            match=match,
            base=base,
            client=self._clients.client_of(request),
            sessions=self.sessions,
            idempotency_key=header(request.headers, self._idempotency_header),
        )

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
