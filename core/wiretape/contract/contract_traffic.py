"""Traffic of a contract: its exchanges, streams and channels, and the triggers at which its rules run."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from wiretape.agent_sessions import is_event_stream
from wiretape.bounded_dict import make_room, put_bounded
from wiretape.contract.entity_tracker import EntityTracker
from wiretape.contract.facts import EventFacts, EventType, shorten_value
from wiretape.contract.patterns import LONGEST, MISSING
from wiretape.event import Event, TimedFrame
from wiretape.frame_reader import ReadObservation
from wiretape.json_codec import UnreadableJson
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.rules.catalogue import Scope, Trigger
from wiretape.rules.finding import Location
from wiretape.rules.rule_set import Channel, ChannelStream, RuleRunner, RunRules
from wiretape.rules.state.response_body import ErrorBody
from wiretape.rules.state.service_traffic import ScopeCount, ScopeReason
from wiretape.rules.state.stream_state import Silence, SilenceMonitor, StreamEnd
from wiretape.sse import FrameKind

if TYPE_CHECKING:
    from wiretape.contract.contract_model import Contract, Operation

T = TypeVar("T")
_MOST_CHANNELS = 1000
_MOST_TYPES = 1000
_TOO_COMPLEX = [UnreadableJson.TOO_COMPLEX, UnreadableJson.NOT_AN_OBJECT]


class _Memory:
    """What primitives remember; rules themselves store nothing."""

    def __init__(self) -> None:
        self._items: dict[int, Any] = {}

    def get(self, primitive: object, make: Callable[[], T]) -> T:
        """Return what a primitive remembers here, which `make` begins."""
        found: T | None = self._items.get(id(primitive))
        if found is None:
            found = self._items[id(primitive)] = make()
        return found


class ContractChannel(Channel):
    """What several streams of a contract are positions in."""

    def __init__(self, *, may_be_known: bool = False) -> None:
        self.memory = _Memory()
        self.streams = 0
        """The number of open streams."""
        self.may_be_known = may_be_known
        """Whether what was known about this channel may have been dropped."""


class ContractExchange:
    """One exchange of an operation."""

    def __init__(self, request: RequestStarted, operation: "Operation", parameters: Mapping[str, str]) -> None:
        self.request = request
        self.operation = operation
        self.parameters = parameters
        """The segments of the path that the operation names."""
        self.response: ResponseStarted | None = None
        self.stream: ContractStream | None = None
        self.body: ErrorBody | None = None
        """The body of a response with a status of 400 or above."""

    @property
    def cursor(self) -> str | None:
        """The cursor in the request; None without any."""
        return self.operation.cursor.read(self.request) if self.operation.cursor is not None else None


class ContractStream(ChannelStream):
    """One stream of an operation."""

    channel: ContractChannel

    def __init__(self, exchange: ContractExchange, contract: "Contract", channel: ContractChannel) -> None:
        super().__init__(exchange.request.exchange, channel)
        channel.streams += 1
        self.memory = _Memory()
        self.cursor = exchange.cursor
        is_known = not exchange.request.is_invented
        self.is_from_start = is_known and self.cursor is None and exchange.operation.begins_at_start
        """Whether it begins with the first event of its channel."""
        self.is_complete = self.is_from_start
        """Whether it has carried every event of its channel, up to now."""
        self.has_named_channel = exchange.operation.channel is not None or contract.format.channel is None
        """Whether its channel is known: from the request, or from an event."""
        self.last: EventFacts | None = None
        """The event before the current one."""
        self.silences: list[SilenceMonitor] = []
        self.trackers = {
            each.name: EntityTracker(each, is_complete=self.is_from_start) for each in contract.tracked_entities
        }
        for tracker in self.trackers.values():
            tracker.parent = self.trackers.get(tracker.entity.within or "")
            if tracker.parent is not None:
                tracker.parent.children.append(tracker)

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


EVENT: Trigger[[EventFacts, ContractStream]] = Trigger("contract event", Scope.MESSAGE)
"""An event with data arrived on a stream of an operation."""
LOSS: Trigger[[ContractStream]] = Trigger("contract loss", Scope.STREAM)
"""Bytes of a stream were lost, or cannot be understood."""
END: Trigger[[StreamEnd, ContractStream]] = Trigger("contract stream end", Scope.STREAM)
"""A stream ended."""
QUIET: Trigger[[Silence, ContractStream]] = Trigger("contract silence", Scope.STREAM)
"""A stream was silent for too long, or ended without being so."""
REQUEST: Trigger[[ContractExchange]] = Trigger("contract request", Scope.EXCHANGE)
RESPONSE: Trigger[[ContractExchange]] = Trigger("contract response", Scope.EXCHANGE)
"""The headers of a response arrived."""
ERROR_BODY: Trigger[[ErrorBody, ContractExchange]] = Trigger("contract error", Scope.EXCHANGE)
"""A response with a status of 400 or above ended."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done with the events of one type."""

    event_type: EventType
    entities: tuple[str, ...]
    """The names of the entities that its events can show something about."""
    run: RunRules
    """Runs the rules about it."""


class ContractTraffic:
    """Follows the exchanges of a contract's operations, and runs its rules."""

    def __init__(self, contract: "Contract", runner: RuleRunner) -> None:
        self._contract = contract
        self._runner = runner
        self._plans: dict[str, _Plan] = {}
        self._open: dict[int, ContractExchange] = {}
        self._channels: dict[tuple[str, str | int], ContractChannel] = {}
        self._has_dropped = False
        self._counts: Counter[ScopeReason] = Counter()

    def observe(self, read: ReadObservation) -> None:
        """Run the rules that an observation concerns."""
        seen = read.observation
        exchange = self._open.get(seen.exchange)
        if isinstance(seen, RequestStarted):
            self._start_request(seen)
        elif exchange is None:
            return
        elif isinstance(seen, ResponseStarted):
            self._start_response(exchange, seen)
        elif isinstance(seen, ExchangeEnded):
            self._end(exchange, seen, read.frames)
        elif isinstance(seen, BytesArrived | BytesLost) and seen.side is Side.RESPONSE:
            if exchange.stream is not None:
                self._add_bytes(exchange, exchange.stream, seen, read)
            elif exchange.body is not None and isinstance(seen, BytesArrived):
                exchange.body.feed(seen)
            elif exchange.body is not None:
                exchange.body.give_up()

    def scopes(self) -> list[ScopeCount]:
        """Return how many exchanges are of an operation, and how many are not."""
        return [
            ScopeCount(reason, self._counts[reason], reason.value.format(contract=self._contract.name))
            for reason in (ScopeReason.OPERATION, ScopeReason.NO_OPERATION)
            if self._counts[reason]
        ]

    def _start_request(self, request: RequestStarted) -> None:
        operation, parameters = self._contract.find_operation(request.method, request.target)
        self._counts[ScopeReason.NO_OPERATION if operation is None else ScopeReason.OPERATION] += 1
        if operation is None:
            return
        exchange = self._open[request.exchange] = ContractExchange(request, operation, parameters)
        if not request.is_invented:
            self._runner.run(REQUEST, (exchange,), Location(request.exchange, request.time_ns))

    def _start_response(self, exchange: ContractExchange, response: ResponseStarted) -> None:
        exchange.response = response
        self._runner.run(RESPONSE, (exchange,), Location(response.exchange, response.time_ns))
        if exchange.request.method == "HEAD":
            return
        if response.status // 100 == 2 and is_event_stream(header(response.headers, "content-type")):
            stream = exchange.stream = ContractStream(exchange, self._contract, self._find_channel(exchange))
            stream.silences = [SilenceMonitor(response.time_ns, limit) for limit in self._contract.silence_limits]
        elif response.status >= 400:
            exchange.body = ErrorBody(response)

    def _add_bytes(
        self, exchange: ContractExchange, stream: ContractStream, seen: BytesArrived | BytesLost, read: ReadObservation
    ) -> None:
        frames, has_lost = read.frames, isinstance(seen, BytesLost)
        if isinstance(seen, BytesArrived):
            silences = [silence for monitor in stream.silences for silence in monitor.feed(seen)]
            for silence in sorted(silences, key=lambda silence: silence.ended_ns):
                before = [each for each in frames if each.time_ns < silence.ended_ns]
                frames = frames[len(before) :]
                self._add_frames(exchange, stream, before)
                self._add_silence(stream, silence)
        else:
            for monitor in stream.silences:
                monitor.lose()
        self._add_frames(exchange, stream, frames)
        if read.undecodable is not None and stream.undecodable is None:
            stream.undecodable, has_lost = read.undecodable, True
        if has_lost:
            self._lose(stream, seen.time_ns)

    def _add_frames(self, exchange: ContractExchange, stream: ContractStream, frames: Sequence[TimedFrame]) -> None:
        for seen in frames:
            kind = seen.frame.kind
            if isinstance(seen, Event):
                stream.has_unknown_end = False
                if seen.has_data:
                    self._add_event(exchange, stream, seen)
            elif kind is FrameKind.OVERSIZED:
                if stream.add_oversized(seen):
                    self._lose(stream, seen.time_ns)
            elif kind is not FrameKind.TAIL:
                stream.has_unknown_end = False

    def _add_event(self, exchange: ContractExchange, stream: ContractStream, event: Event) -> None:
        if event.value in _TOO_COMPLEX or not event.is_utf8:
            self._lose(stream, event.time_ns)
            stream.has_unknown_end = False
            return
        plan = self._plan(self._contract.format.read_type(event))
        facts = EventFacts(event, self._contract.format, plan.event_type)
        if not stream.has_named_channel:
            pointer = self._contract.format.channel
            if pointer is not None and (value := pointer.read(facts.json)) is not MISSING:
                stream.join(self._channel(exchange.request, shorten_value(value)))
        for name in plan.entities:
            stream.trackers[name].begin_event()
        for name in plan.entities:
            stream.trackers[name].add(facts)
        plan.run((facts, stream), facts)
        stream.last = facts

    def _plan(self, name: str) -> _Plan:
        """Return what is done with events of a type; it is found once, unless the name is very long."""
        plan = self._plans.get(name)
        if plan is None:
            entities = tuple(each.name for each in self._contract.tracked_entities if each.is_checked_at(name))
            plan = _Plan(self._contract.format.describe(name), entities, self._runner.select(EVENT, name))
            if len(name) <= LONGEST:
                put_bounded(self._plans, name, plan, _MOST_TYPES)
        return plan

    def _lose(self, stream: ContractStream, time_ns: int) -> None:
        stream.lose()
        self._runner.run(LOSS, (stream,), Location(stream.exchange, time_ns))

    def _add_silence(self, stream: ContractStream, silence: Silence) -> None:
        at = Location(stream.exchange, 0) if stream.last is None else stream.last.location
        self._runner.run(QUIET, (silence, stream), replace(at, time_ns=silence.ended_ns))

    def _end(self, exchange: ContractExchange, ended: ExchangeEnded, frames: Sequence[TimedFrame]) -> None:
        del self._open[ended.exchange]
        location = Location(ended.exchange, ended.time_ns)
        stream, body = exchange.stream, exchange.body
        if stream is not None:
            self._add_frames(exchange, stream, frames)
            for monitor in stream.silences:
                if (silence := monitor.end(ended.time_ns)) is not None:
                    self._add_silence(stream, silence)
            self._runner.run(END, (StreamEnd.of(stream, ended, frames), stream), location)
            stream.channel.streams -= 1
        elif body is not None:
            body.close(ended.ending)
            self._runner.run(ERROR_BODY, (body, exchange), location)

    def _find_channel(self, exchange: ContractExchange) -> ContractChannel:
        """Return the channel that the request alone names, or else one of its own."""
        request, operation = exchange.request, exchange.operation
        if operation.channel is not None:
            return self._channel(request, shorten_value(unquote(exchange.parameters[operation.channel])))
        if self._contract.format.channel is not None or request.method != "GET":
            return ContractChannel()
        target = request.target if operation.cursor is None else operation.cursor.remove_from(request.target)
        # Others may read other events at the same URL.
        credentials = [header(request.headers, name) for name in ("authorization", "cookie")]
        return self._channel(request, shorten_value([target, *credentials]))

    def _channel(self, request: RequestStarted, name: str | int) -> ContractChannel:
        key = request.authority, name
        channel = self._channels.get(key)
        if channel is None:
            self._has_dropped |= make_room(self._channels, _MOST_CHANNELS, lambda each: not each.streams)
            channel = self._channels[key] = ContractChannel(may_be_known=self._has_dropped)
        return channel
