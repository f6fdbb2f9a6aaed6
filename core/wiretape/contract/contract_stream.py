"""Exchanges, streams and channels of a contract, which the functions of its rules read."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from wiretape.contract.contract_operation import Operation
from wiretape.contract.entity_tracker import EntityTracker
from wiretape.event import Event
from wiretape.event_format import Entity, EventFormat
from wiretape.json_codec import read_json
from wiretape.observations import BytesArrived, RequestStarted, Side, header
from wiretape.patterns import MISSING
from wiretape.rules.catalogue import Scope
from wiretape.rules.exchange import EventStream, Exchange, Memory, SilenceMonitor
from wiretape.rules.finding import Location
from wiretape.rules.traffic import Traffic

_LARGEST_REQUEST = 1 << 20


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
        self,
        request: RequestStarted,
        traffic: Traffic[Any, Any],
        operation: Operation,
        parameters: Mapping[str, str],
        *,
        reads_body: bool,
    ) -> None:
        """`reads_body` says whether rules read the body of the request."""
        super().__init__(request, traffic)
        self.operation = operation
        self.parameters = parameters
        """The segments of the path that the operation names."""
        self._request_body: bytearray | None = bytearray() if reads_body else None

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
        event_format: EventFormat,
        entities: Iterable[Entity],
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
        self.can_resume = exchange.operation.cursor is not None
        """Whether its request can have a cursor."""
        is_known = not exchange.request.is_invented
        self.is_from_start = is_known and self.cursor is None and exchange.operation.begins_at_start
        """Whether it begins with the first event of its channel."""
        self.is_complete = self.is_from_start
        """Whether it has carried every event of its channel, up to now."""
        deltas = exchange.operation.deltas
        self.deltas_requested = deltas.is_in(exchange.request.target) if deltas is not None and is_known else None
        """Whether the request asks for deltas; None if streams always have them, or it is unknown."""
        self.has_named_channel = exchange.operation.channel is not None or event_format.channel is None
        """Whether its channel is known: from the request, or from an event."""
        self.last: Event | None = None
        """The event before the current one."""
        self.trackers = {each.name: EntityTracker(each, is_complete=self.is_from_start) for each in entities}
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
