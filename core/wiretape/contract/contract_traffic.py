"""Traffic of a contract: its exchanges, streams and channels, and the triggers at which its rules run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wiretape.bounded_dict import make_room, put_bounded
from wiretape.contract.entity_tracker import EntityTracker
from wiretape.event import Event
from wiretape.event_format import shorten_value
from wiretape.json_codec import UnreadableJson, read_json
from wiretape.observations import BytesArrived, RequestStarted, ResponseStarted, Side, header
from wiretape.patterns import LONGEST, MISSING
from wiretape.rules.catalogue import LOSS, Scope
from wiretape.rules.exchange import EventStream, Exchange, Memory, ScopeCount, ScopeReason, SilenceMonitor
from wiretape.rules.finding import Location
from wiretape.rules.traffic import Traffic

if TYPE_CHECKING:
    from wiretape.contract.contract_facts import Operation
    from wiretape.contract.contract_model import Contract
    from wiretape.rules.engine import RuleBook, RunRules

_LARGEST_REQUEST = 1 << 20
_MOST_CHANNELS = 1000
_MOST_TYPES = 1000
_TOO_COMPLEX = [UnreadableJson.TOO_COMPLEX, UnreadableJson.NOT_AN_OBJECT]


class ContractChannel:
    """What several streams of a contract are positions in; findings can be limited to one for each channel."""

    def __init__(self, name: str | None = None, *, may_be_known: bool = False) -> None:
        self.name = name
        """The name in the path of its requests, if the operations say where that is."""
        self.memory = Memory()
        self.streams = 0
        """The number of open streams."""
        self.may_be_known = may_be_known
        """Whether what was known about this channel may have been dropped."""


class ContractExchange(Exchange):
    """One exchange of an operation."""

    def __init__(
        self, request: RequestStarted, traffic: "ContractTraffic", operation: "Operation", parameters: Mapping[str, str]
    ) -> None:
        super().__init__(request, traffic)
        self.operation = operation
        self.parameters = parameters
        """The segments of the path that the operation names."""
        self._request_body: bytearray | None = bytearray() if traffic.reads_requests else None

    def add_request_bytes(self, span: BytesArrived) -> None:
        """Add bytes of the request body, up to 1 MiB."""
        if self._request_body is not None:
            self._request_body += span.data
            if len(self._request_body) > _LARGEST_REQUEST:
                self._request_body = None

    @cached_property
    def request_json(self) -> Any:
        """The JSON in the body of the request, or an `UnreadableJson`; MISSING if the body is not known as a whole."""
        request, body = self.request, self._request_body
        length = header(request.headers, "content-length")
        is_partial = body is None or Side.REQUEST in self.lost or length not in {None, str(len(body))}
        if body is None or is_partial or request.is_invented or header(request.headers, "content-encoding"):
            return MISSING
        return read_json(bytes(body))

    @property
    def request_size(self) -> int:
        """The number of bytes of the request body, as far as they are known."""
        return len(self._request_body or b"")

    @property
    def cursor(self) -> str | None:
        """The cursor in the request; None without any."""
        return self.operation.cursor.read(self.request) if self.operation.cursor is not None else None


class ContractStream(EventStream):
    """One stream of an operation."""

    def __init__(
        self,
        exchange: ContractExchange,
        contract: "Contract",
        channel: ContractChannel,
        silences: Sequence[SilenceMonitor],
    ) -> None:
        super().__init__(exchange.number, exchange.traffic, silences)
        self.request = exchange.request
        self.request_json = exchange.request_json
        """The JSON in the body of its request, as `ContractExchange.request_json`."""
        self.channel = channel
        channel.streams += 1
        self.cursor = exchange.cursor
        is_known = not exchange.request.is_invented
        self.is_from_start = is_known and self.cursor is None and exchange.operation.begins_at_start
        """Whether it begins with the first event of its channel."""
        self.is_complete = self.is_from_start
        """Whether it has carried every event of its channel, up to now."""
        deltas = exchange.operation.deltas
        self.deltas_requested = deltas.is_in(exchange.request.target) if deltas is not None and is_known else None
        """Whether the request asks for deltas; None if streams always have them, or it is unknown."""
        self.has_named_channel = exchange.operation.channel is not None or contract.format.channel is None
        """Whether its channel is known: from the request, or from an event."""
        self.last: Event | None = None
        """The event before the current one."""
        self.trackers = {
            each.name: EntityTracker(each, is_complete=self.is_from_start) for each in contract.tracked_entities
        }
        for tracker in self.trackers.values():
            tracker.parent = self.trackers.get(tracker.entity.within or "")
            if tracker.parent is not None:
                tracker.parent.children.append(tracker)

    @property
    def last_location(self) -> Location:
        """Where the last event with data is, with the sequence that the contract reads."""
        return Location(self.exchange, 0) if self.last is None else Location.of(self.last)

    @property
    def channel_name(self) -> str | None:
        """The name of its channel in the path of the request."""
        return self.channel.name

    def holder(self, scope: object) -> object:
        """Return itself, or its channel for a finding per channel."""
        return self.channel if scope is Scope.CHANNEL else self

    def join(self, channel: ContractChannel) -> None:
        """Go on as a stream of the channel that its events name."""
        self.has_named_channel = True
        self.channel.streams -= 1
        channel.streams += 1
        self.channel = channel

    def lose(self) -> None:
        """Bytes were lost, could not be decoded, or could not be understood."""
        self.is_complete = False
        self.has_unknown_end = True
        for tracker in self.trackers.values():
            tracker.lose()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done with the events of one type."""

    entities: tuple[str, ...]
    """The names of the entities that its events can show something about."""
    run: "RunRules"
    """Runs the rules about it."""


class ContractTraffic(Traffic[ContractExchange, ContractStream]):
    """The exchanges of a contract's operations in one recording."""

    def __init__(self, contract: "Contract", rules: "RuleBook", tolerance_s: float = 0) -> None:
        """Keep-alives may be late by `tolerance_s`."""
        super().__init__(rules)
        self._contract = contract
        self.reads_requests = contract.reads_requests
        """Whether rules read the bodies of requests."""
        self._tolerance_s = tolerance_s
        self._plans: dict[tuple[str, tuple[str, ...]], _Plan] = {}
        self._channels: dict[tuple[str, str | int], ContractChannel] = {}
        self._has_dropped = False
        self._exchanges = 0

    def start(self, request: RequestStarted) -> ContractExchange | None:
        """Return the exchange of a request that matches an operation."""
        operation, parameters = self._contract.find_operation(request.method, request.target)
        if operation is None:
            return None
        self._exchanges += 1
        return ContractExchange(request, self, operation, parameters)

    def scopes(self, others: int) -> list[ScopeCount]:
        """Return how many exchanges are of an operation, and how many are not."""
        counts = {ScopeReason.OPERATION: self._exchanges, ScopeReason.NO_OPERATION: others}
        return [
            ScopeCount(reason, count, reason.value.format(contract=self._contract.name))
            for reason, count in counts.items()
            if count
        ]

    def claims_stream(self, exchange: ContractExchange) -> bool:
        """Whether a response is an event stream."""
        return exchange.request.method != "HEAD" and exchange.has_event_stream

    def open_stream(self, exchange: ContractExchange, response: ResponseStarted) -> ContractStream:
        """Return a stream of a channel."""
        silences = [
            SilenceMonitor(response.time_ns, limit, self._tolerance_s) for limit in self._contract.silence_limits
        ]
        return ContractStream(exchange, self._contract, self._find_channel(exchange), silences)

    def add_event(self, stream: ContractStream, event: Event) -> None:
        """Run the common rules on an event, and those of the contract if it has data that can be read."""
        self.rules.run_common(event, stream)
        if not event.has_data:
            return
        if event.value in _TOO_COMPLEX or not event.is_utf8:
            self.lose(stream, event.time_ns)
            return
        plan = self._plan(event.type, event.kinds)
        if not stream.has_named_channel:
            pointer = self._contract.format.channel
            if pointer is not None and (value := pointer.read(event.json)) is not MISSING:
                stream.join(self._channel(stream.request, shorten_value(value)))
        for name in plan.entities:
            stream.trackers[name].begin_event()
        for name in plan.entities:
            stream.trackers[name].add(event)
        plan.run((event, stream), event)
        stream.last = event

    def lose(self, stream: ContractStream, time_ns: int) -> None:
        """Run the rules that lost bytes concern."""
        super().lose(stream, time_ns)
        self.rules.run(LOSS, (stream,), Location(stream.exchange, time_ns))

    def after_stream_end(self, stream: ContractStream, _location: Location) -> None:
        """Count the open streams of the channel."""
        stream.channel.streams -= 1

    def _plan(self, name: str, kinds: tuple[str, ...]) -> _Plan:
        """Return what is done with events of a type and kinds; it is found once, unless the name is very long."""
        plan = self._plans.get((name, kinds))
        if plan is None:
            entities = tuple(each.name for each in self._contract.tracked_entities if each.is_checked_at(name))
            plan = _Plan(entities, self.rules.select(name, kinds))
            if len(name) <= LONGEST:
                put_bounded(self._plans, (name, kinds), plan, _MOST_TYPES)
        return plan

    def _find_channel(self, exchange: ContractExchange) -> ContractChannel:
        """Return the channel that the request alone names, or else one of its own."""
        request, operation = exchange.request, exchange.operation
        if operation.channel is not None:
            name = exchange.parameters[operation.channel]
            return self._channel(request, shorten_value(name), name)
        if self._contract.format.channel is not None or request.method != "GET":
            return ContractChannel()
        target = request.target if operation.cursor is None else operation.cursor.remove_from(request.target)
        # Others may read other events at the same URL.
        credentials = [header(request.headers, name) for name in ("authorization", "cookie")]
        return self._channel(request, shorten_value([target, *credentials]))

    def _channel(self, request: RequestStarted, value: str | int, name: str | None = None) -> ContractChannel:
        key = request.authority, value
        channel = self._channels.get(key)
        if channel is None:
            self._has_dropped |= make_room(self._channels, _MOST_CHANNELS, lambda each: not each.streams)
            channel = self._channels[key] = ContractChannel(name, may_be_known=self._has_dropped)
        return channel
