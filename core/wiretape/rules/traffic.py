"""Traffic: what a contract remembers about one recording.

The checker walks over the observations of a recording once.  Each exchange belongs to the first contract that has an
operation for its request, or to none.  The traffic of a contract makes its exchanges and streams, and says how events
are remembered and which rules run on them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from wiretape.event import Event
from wiretape.observations import RequestStarted, ResponseStarted
from wiretape.rules.engine import RuleBook
from wiretape.rules.exchange import EventStream, Exchange, Memory, ScopeCount
from wiretape.rules.finding import Location
from wiretape.rules.response_body import ResponseBody
from wiretape.rules.service_base import ServiceBase

S = TypeVar("S", bound=EventStream)
E = TypeVar("E", bound=Exchange)


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """What a user says about traffic; the defaults are those of the specification."""

    idempotency_header: str = "Idempotency-Key"
    """The header with the idempotency key; the specification does not name it."""
    keep_alive_tolerance_s: float = 2.0
    """Seconds by which a keep-alive may be late."""
    base: ServiceBase | None = None
    """Where the paths of the service begin; None if the upstream of the recording decides."""


class Traffic(ABC, Generic[E, S]):
    """The exchanges and streams of a recording that belong to one contract."""

    def __init__(self, rules: RuleBook) -> None:
        self.rules = rules
        self.memory = Memory()

    @abstractmethod
    def start(self, request: RequestStarted) -> E | None:
        """Return the exchange of a request, and count it; None if it does not belong to the contract."""

    @abstractmethod
    def scopes(self, others: int) -> list[ScopeCount]:
        """Return how many exchanges belong to the contract, and why, and that `others` do not."""

    @abstractmethod
    def open_stream(self, exchange: E, response: ResponseStarted) -> S | None:
        """Return the stream of a response that it claims, after the rules about its headers have run."""

    @abstractmethod
    def add_event(self, stream: S, event: Any) -> None:
        """Run the rules on an event, and remember it; it is of the class that the contract names."""

    def claims_stream(self, exchange: E) -> bool:
        """Whether the response of an exchange begins a stream of the contract."""
        return exchange.has_event_stream

    def open_body(self, exchange: E, response: ResponseStarted) -> ResponseBody | None:
        """Return the body of a response, if rules may read it."""
        is_error = response.status >= 400 and exchange.request.method != "HEAD"
        return ResponseBody(response) if is_error else None

    def lose(self, stream: S, time_ns: int) -> None:
        """Bytes of a stream were lost, could not be decoded, or are too large to be read."""
        del time_ns
        stream.lose()

    def after_stream_end(self, stream: S, location: Location) -> None:
        """Forget a stream, after the rules about its end have run."""


class OtherTraffic(Traffic[Exchange, EventStream]):
    """The exchanges and streams that belong to no contract: only the common rules apply to them."""

    def start(self, request: RequestStarted) -> Exchange:
        """Return the exchange of any request."""
        return Exchange(request, self)

    def scopes(self, others: int) -> list[ScopeCount]:
        """Return nothing: the contracts say why exchanges do not belong to them."""
        del others
        return []

    def open_stream(self, exchange: Exchange, _response: ResponseStarted) -> EventStream:
        """Return a stream, which may also be that of an exchange of a contract."""
        return EventStream(exchange.number, self)

    def open_body(self, _exchange: Exchange, _response: ResponseStarted) -> None:
        """Return nothing: no common rule is about bodies."""

    def add_event(self, stream: EventStream, event: Event) -> None:
        """Run the rules on an event."""
        self.rules.run_common(event, stream)
