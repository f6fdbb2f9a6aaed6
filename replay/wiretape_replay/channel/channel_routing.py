"""The request handler of channel mode: finds the channel whose stream a request opens, and passes on all others."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from wiretape.contract.contract_tables import ErrorCase
from wiretape_replay.channel.channel_log import PlayableChannel, RecordedChannels
from wiretape_replay.channel.channel_streams import ChannelStreams
from wiretape_replay.channel.stream_facts import StreamOpening
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.replayed_contracts import ReplayedContracts, channel_not_found
from wiretape_replay.verbatim.exchange_queues import ExchangeQueue, ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer


class ChannelFinder:
    """Finds the channel of a request: by its path, or as the recorded request that it is like has it.

    Like recorded responses, the channels of like requests come in recorded order; after the last one, it comes again.
    """

    def __init__(
        self,
        channels: RecordedChannels,
        queues: ExchangeQueues,
        contracts: ReplayedContracts,
        streams: Collection[int] = (),
    ) -> None:
        """`streams` are the exchanges whose streams are served as recorded."""
        self.channels = channels
        self._queues = queues
        self._streams = streams
        self.contracts = contracts

    def find(self, request: HttpRequest, opening: StreamOpening) -> tuple[PlayableChannel | None, str | None]:
        """Return the channel of a request, which stays the next of its kind, and what its kind is called.

        The kind is None if the response is not a stream.
        """
        channel = self._find_named(request, opening)
        if channel is not None:
            return channel, f"channel {channel.log.name}"
        queues = self._queues.find(replace(request, target=opening.target))
        following = self._queues.following(queues)
        channel = self._last(queues) if following is None else self._channel_of(following)
        number = queues[-1].requests[-1].number if queues and following is None else following and following.number
        is_stream = channel is not None or number in self._streams
        return channel, f"exchange {queues[0].first.number}" if is_stream else None

    def take(self, request: HttpRequest) -> PlayableChannel | RecordedRequest | None:
        """Return the channel whose stream a request opens, or the recorded request that it is like."""
        opening = self.contracts.read_opening(request)
        if opening is None:
            return self._queues.take(request)
        channel = self._find_named(request, opening)
        if channel is not None:
            return channel
        request = replace(request, target=opening.target)
        recorded = self._queues.take(request)
        if recorded is not None:
            return self._channel_of(recorded) or recorded
        queues = self._queues.find(request)
        return self._last(queues) if all(queue.is_used_up for queue in queues) else None

    def _find_named(self, request: HttpRequest, opening: StreamOpening) -> PlayableChannel | None:
        """The channel that a request names, by its path or by its cursor."""
        name = opening.channel
        channel = None if name is None else self.channels.by_path.get((opening.facts.contract.name, name))
        if channel is not None or not opening.cursor:
            return channel
        queues = self._queues.find(replace(request, target=opening.target))
        cursor = opening.cursor
        return next((each for each in self._channels_of(queues) if each.log.position_of(cursor) is not None), None)

    def _last(self, queues: Iterable[ExchangeQueue]) -> PlayableChannel | None:
        return next(self._channels_of(queues), None)

    def _channels_of(self, queues: Iterable[ExchangeQueue]) -> Iterator[PlayableChannel]:
        """The channels of recorded requests, the last one first."""
        numbers = sorted((recorded.number for queue in queues for recorded in queue.requests), reverse=True)
        by_exchange = self.channels.by_exchange
        return (by_exchange[number] for number in numbers if number in by_exchange)

    def _channel_of(self, recorded: RecordedRequest) -> PlayableChannel | None:
        return self.channels.by_exchange.get(recorded.number)


class ChannelRouter:
    """Serves streams by the playhead, and everything else as recorded."""

    def __init__(
        self,
        finder: ChannelFinder,
        others: VerbatimPlayer,
        streams: ChannelStreams,
        *,
        known: frozenset[str] = frozenset(),
    ) -> None:
        """`known` are the channels that paths of the recording name, including those without a stream."""
        self.streams = streams
        self._finder = finder
        self._known = known
        self._others = others

    @property
    def channels(self) -> Mapping[str, PlayableChannel]:
        """The channels by their names."""
        return self._finder.channels.by_name

    @property
    def by_exchange(self) -> Mapping[int, PlayableChannel]:
        """The channels that are found by comparing requests, by the exchanges that stand for them."""
        return self._finder.channels.by_exchange

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Respond to one request."""
        unknown = self._find_unknown_channel(request) if self._others.forward is None else None
        if unknown is not None:
            message = channel_not_found(self._finder.contracts.of(request).noun, unknown)
            await self.streams.refuse(request, writer, ErrorCase.UNKNOWN_CHANNEL, message)
            return
        found = self._finder.take(request)
        if found is None:
            await self._others.respond_no_match(request, writer)
        elif isinstance(found, RecordedRequest):
            await self._others.respond_recorded(found, request, writer)
        else:
            await self.streams.serve(request, writer, found)

    def _find_unknown_channel(self, request: HttpRequest) -> str | None:
        """The channel that a path names, if the recording has none of that name and the contract a code for that."""
        described = self._finder.contracts.describe(request.method, request.target)
        errors = described.facts.errors
        if errors is None or errors.code_of(ErrorCase.UNKNOWN_CHANNEL) is None:
            return None
        return None if described.channel in self._known | self.channels.keys() else described.channel
