"""Traffic of the service: what its rules remember about the sessions and clients of one recording."""

from typing import TYPE_CHECKING

from wiretape.agent_sessions import KEEP_ALIVE_SECONDS, may_create_session
from wiretape.event import Event
from wiretape.observations import RequestStarted, ResponseStarted, header
from wiretape.rules.catalogue import OVERLAP, REPLAY_END
from wiretape.rules.engine import RuleBook
from wiretape.rules.exchange import ScopeCount, SilenceMonitor
from wiretape.rules.finding import Location
from wiretape.rules.state.client_state import ClientRegistry
from wiretape.rules.state.exchange_state import ExchangeState, RequestIds
from wiretape.rules.state.response_body import ErrorBody, SuccessBody
from wiretape.rules.state.service_traffic import ServicePaths
from wiretape.rules.state.session_state import SessionRegistry
from wiretape.rules.state.stream_state import ResumeState, StreamState
from wiretape.rules.traffic import Traffic

if TYPE_CHECKING:
    from wiretape.rules.selection import Settings


class SessionTraffic(Traffic[ExchangeState, StreamState]):
    """The exchanges and streams of the service in one recording."""

    def __init__(self, rules: RuleBook, settings: "Settings", upstream: str | None) -> None:
        super().__init__(rules)
        self._paths = ServicePaths(settings.base, upstream)
        self._idempotency_header = settings.idempotency_header
        self._silence_ns = round((KEEP_ALIVE_SECONDS + settings.keep_alive_tolerance_s) * 1e9)
        self._clients = ClientRegistry()
        self.request_ids = RequestIds()
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
            request_ids=self.request_ids,
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
        return exchange.open_stream(SilenceMonitor(response.time_ns, self._silence_ns))

    def open_body(self, exchange: ExchangeState, response: ResponseStarted) -> ErrorBody | None:
        """Return a body that may have an error envelope, or name a new session."""
        request = exchange.request
        if response.status >= 400 and request.method != "HEAD":
            return ErrorBody(response)
        if response.status // 100 != 2 or request.method == "HEAD" or exchange.has_event_stream:
            return None
        return SuccessBody(response, may_name_session=may_create_session(request.method, request.target))

    def add_event(self, stream: StreamState, event: Event) -> None:
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
