"""Traffic of a contract: which exchanges, streams and channels it has, and the triggers at which its rules run."""

from collections.abc import Iterable

from msgspec import Struct

from wiretape.bounded_dict import make_room, put_bounded
from wiretape.contract.contract_model import Contract
from wiretape.contract.contract_stream import ContractChannel, ContractExchange, ContractStream
from wiretape.event import Event
from wiretape.event_format import shorten_value
from wiretape.json_codec import UnreadableJson
from wiretape.observations import RequestStarted, ResponseStarted, header
from wiretape.patterns import LONGEST, MISSING
from wiretape.rules.catalogue import LOSS, Rule
from wiretape.rules.engine import Engine, RuleBook, RunRules
from wiretape.rules.exchange import ScopeCount, ScopeReason, SilenceMonitor
from wiretape.rules.finding import Location
from wiretape.rules.traffic import Traffic, TrafficSettings

_MOST_CHANNELS = 1000
_MOST_TYPES = 1000
_TOO_COMPLEX = [UnreadableJson.TOO_COMPLEX, UnreadableJson.NOT_AN_OBJECT]


class _Plan(Struct, frozen=True):
    """What is done with the events of one type."""

    entities: tuple[str, ...]
    """The names of the entities that its events can show something about."""
    run: RunRules
    """Runs the rules about it."""


class ContractTraffic(Traffic[ContractExchange, ContractStream]):
    """The exchanges of a contract's operations in one recording."""

    def __init__(
        self,
        contract: Contract,
        engine: Engine,
        rules: Iterable[Rule],
        settings: TrafficSettings,
        _upstream: str | None,
    ) -> None:
        super().__init__(RuleBook(engine, rules))
        self._contract = contract
        self._tolerance_s = settings.keep_alive_tolerance_s
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
        return ContractExchange(request, self, operation, parameters, reads_body=self._contract.reads_requests)

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
        contract, channel = self._contract, self._find_channel(exchange)
        return ContractStream(exchange, contract.format, contract.tracked_entities, channel, silences)

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
