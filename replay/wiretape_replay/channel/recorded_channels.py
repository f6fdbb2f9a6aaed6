"""The channels of a recording: what several streams are positions in.

A stream belongs to the channel that its path names, or that its events name, or else to that of all streams whose
requests are alike apart from their cursor.  Where no cursor can name an event, each recorded stream is a channel of its
own.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from wiretape.recording import Exchange, Recording
from wiretape.rules import quote
from wiretape_replay.channel.channel_log import RecordedChannels
from wiretape_replay.channel.log_builder import build_channel, find_codes, is_served, read_connections
from wiretape_replay.channel.log_warnings import LogWarnings
from wiretape_replay.channel.stream_facts import StreamFacts, StreamOpening
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.verbatim.request_matching import Matching, RequestKey, recorded_key, with_body, without_paths
from wiretape_replay.verbatim.verbatim_player import read_request_body

_MOST_EVENTS = 100
"""How many events of a stream are searched for the name of its channel."""


@dataclass(slots=True)
class _Group:
    """The requests for the streams of one channel."""

    name: str
    opening: StreamOpening
    """That of its first request."""
    by_key: dict[RequestKey | None, list[Exchange]] = field(default_factory=lambda: defaultdict(list))
    """The key is None if the path names the channel."""

    @property
    def exchanges(self) -> Iterator[Exchange]:
        return (exchange for exchanges in self.by_key.values() for exchange in exchanges)


def build_channels(
    recording: Recording,
    warn: Callable[[str], None],
    contracts: ReplayedContracts,
    matching: Matching | None = None,
) -> RecordedChannels:
    """The channels with a recorded stream.

    `warn` gets one sentence for each problem.  Raises RecordingError if the file is damaged.
    """
    groups = _Grouping(recording, contracts, matching or Matching()).groups
    codes, found, taken = find_codes(recording), RecordedChannels(), Counter[str]()
    for group in groups:
        warnings, facts = LogWarnings(), group.opening.facts
        is_open_ended = group.opening.is_open_ended
        connections, events = read_connections(recording, group.exchanges, facts, codes, warnings)
        # Where no cursor can name an event, and streams end, each is a channel of its own.
        is_split = not is_open_ended and not any(connection.durable for connection in connections)
        parts = [[each] for each in connections] if is_split else [connections] if connections else []
        if is_split:
            warnings.refused.clear()  # they are replayed
        for part in parts:
            taken[group.name] += 1
            name = group.name if taken[group.name] == 1 else f"{group.name}#{taken[group.name]}"
            channel = build_channel(name, part, events, facts, warnings, restarts=is_split, is_open_ended=is_open_ended)
            found.by_name[name] = channel
            if is_split:
                found.by_exchange[part[0].exchange.number] = channel
                continue
            found.left_out.update(exchange.number for exchange in group.exchanges)
            # A path can also name a channel that only events named in the recording.
            found.by_path[facts.contract.name, group.name] = channel
            for key, exchanges in group.by_key.items():
                if key is not None:
                    first = next(exchange.number for exchange in exchanges if is_served(exchange))
                    found.by_exchange[first] = channel
                    found.left_out.discard(first)
        for sentence in warnings.sentences(expects_durable=not is_split):
            warn(f"{facts.noun.capitalize()} {quote(group.name)}: {sentence}")
    if not found.by_name:
        warn(f"The recording contains no stream of any {contracts.main.noun}.")
    return found


class _Grouping:
    """Groups the requests for streams by their channels."""

    def __init__(self, recording: Recording, contracts: ReplayedContracts, matching: Matching) -> None:
        self._recording = recording
        self._matching = matching
        self._groups: dict[Hashable, _Group] = {}
        refused: list[tuple[Exchange, StreamOpening]] = []
        for exchange in recording.exchanges():
            opening = contracts.read_opening(exchange.request)
            if opening is None:
                continue
            if opening.channel is not None:
                self._group(opening.channel, opening.channel, opening).by_key[None].append(exchange)
            elif is_served(exchange):
                self._add(exchange, opening)
            elif exchange.response is None or exchange.response.status >= 400:
                refused.append((exchange, opening))
        paths = {(key.method, key.path) for group in self._groups.values() for key in group.by_key if key is not None}
        for exchange, opening in refused:
            key = recorded_key(exchange.request.method, opening.target, exchange.request.headers, matching)
            if (key.method, key.path) in paths:
                self._add_refused(exchange, opening)

    @property
    def groups(self) -> list[_Group]:
        """The groups, in the order of their first request."""
        return list(self._groups.values())

    def _group(self, key: Hashable, name: str, opening: StreamOpening) -> _Group:
        return self._groups.setdefault((opening.facts, key), _Group(name, opening))

    def _add(self, exchange: Exchange, opening: StreamOpening) -> None:
        key = self._key(exchange, opening)
        name = self._find_name(exchange, opening.facts)
        group = self._group(name or key, name or opening.target, opening)
        group.by_key[key].append(exchange)

    def _add_refused(self, exchange: Exchange, opening: StreamOpening) -> None:
        """Add a refused request to the group of the streams that were requested in the same way."""
        key = self._key(exchange, opening)
        group = self._groups.get((opening.facts, key))
        if group is not None:
            group.by_key[key].append(exchange)

    def _key(self, exchange: Exchange, opening: StreamOpening) -> RequestKey:
        request = exchange.request
        key = recorded_key(request.method, opening.target, request.headers, self._matching)
        body = read_request_body(self._recording, exchange)
        return key if body is None else with_body(key, without_paths(body, self._matching.ignored_body))

    def _find_name(self, exchange: Exchange, facts: StreamFacts) -> str | None:
        """The channel that the events of a stream name."""
        for seen in self._recording.events(exchange.number) if facts.names_channels else ():
            name = facts.find_channel(seen)
            if name is not None or seen.number == _MOST_EVENTS:
                return name
        return None


def find_known_channels(recording: Recording, contracts: ReplayedContracts) -> frozenset[str]:
    """The channels that paths of the recording name.  Raises RecordingError."""
    requests = (exchange.request for exchange in recording.exchanges())
    channels = (contracts.describe(request.method, request.target).channel for request in requests)
    return frozenset(channel for channel in channels if channel is not None)


def find_bases(recording: Recording, contracts: ReplayedContracts) -> frozenset[str]:
    """The base paths under which operations were requested.  Raises RecordingError."""
    requests = (exchange.request for exchange in recording.exchanges())
    described = (contracts.describe(request.method, request.target) for request in requests)
    return frozenset(each.base for each in described if each.operation is not None)
