"""The channels of a recording: what several streams are positions in, such as the session of a service.

A stream belongs to the channel that its path names, or that its events name, or else to that of all streams whose
requests are alike apart from their cursor.  Where no cursor can name an event, each recorded stream is a channel of its
own.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from wiretape.agent_sessions import operation_of, session_in
from wiretape.recording import Exchange, Recording
from wiretape.rules import quote
from wiretape_replay.channel.channel_log import RecordedChannels
from wiretape_replay.channel.log_builder import build_channel, find_codes, is_served, read_connections
from wiretape_replay.channel.log_warnings import LogWarnings
from wiretape_replay.channel.stream_facts import SERVICE, StreamFacts, StreamOpening
from wiretape_replay.verbatim.request_matching import Matching, RequestKey, recorded_key, with_body, without_paths
from wiretape_replay.verbatim.verbatim_player import read_request_body

_MOST_EVENTS = 100
"""How many events of a stream are searched for the name of its channel."""


@dataclass(slots=True)
class _Group:
    """The requests for the streams of one channel."""

    name: str
    by_key: dict[RequestKey | None, list[Exchange]] = field(default_factory=lambda: defaultdict(list))
    """The key is None if the path names the channel."""

    @property
    def exchanges(self) -> Iterator[Exchange]:
        return (exchange for exchanges in self.by_key.values() for exchange in exchanges)


def build_channels(
    recording: Recording,
    warn: Callable[[str], None],
    facts: StreamFacts = SERVICE,
    matching: Matching | None = None,
) -> RecordedChannels:
    """The channels with a recorded stream.

    `warn` gets one sentence for each problem.  Raises RecordingError if the file is damaged.
    """
    groups = _Grouping(recording, facts, matching or Matching()).groups
    codes, found, taken = find_codes(recording), RecordedChannels(), Counter[str]()
    for group in groups:
        warnings = LogWarnings()
        connections, events = read_connections(recording, group.exchanges, facts, codes, warnings)
        is_split = facts.is_split and not any(connection.durable for connection in connections)
        parts = [[each] for each in connections] if is_split else [connections] if connections else []
        if is_split:
            warnings.refused.clear()  # they are replayed
        for part in parts:
            taken[group.name] += 1
            name = group.name if taken[group.name] == 1 else f"{group.name}#{taken[group.name]}"
            channel = build_channel(name, part, events, facts, warnings, restarts=is_split)
            found.by_name[name] = channel
            if is_split:
                found.by_exchange[part[0].exchange.number] = channel
                continue
            found.left_out.update(exchange.number for exchange in group.exchanges)
            for key, exchanges in group.by_key.items():
                if key is None:
                    found.by_path[group.name] = channel
                else:
                    first = next(exchange.number for exchange in exchanges if is_served(exchange))
                    found.by_exchange[first] = channel
                    found.left_out.discard(first)
        for sentence in warnings.sentences(expects_durable=not is_split):
            warn(f"{facts.noun.capitalize()} {quote(group.name)}: {sentence}")
    if not found.by_name:
        warn(f"The recording contains no stream of any {facts.noun}.")
    return found


class _Grouping:
    """Groups the requests for streams by their channels."""

    def __init__(self, recording: Recording, facts: StreamFacts, matching: Matching) -> None:
        self._recording = recording
        self._facts = facts
        self._matching = matching
        self._groups: dict[Hashable, _Group] = {}
        refused: list[tuple[Exchange, StreamOpening]] = []
        for exchange in recording.exchanges():
            opening = facts.read_opening(exchange.request)
            if opening is None:
                continue
            if opening.channel is not None:
                self._group(opening.channel, opening.channel).by_key[None].append(exchange)
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

    def _group(self, key: Hashable, name: str) -> _Group:
        return self._groups.setdefault(key, _Group(name))

    def _add(self, exchange: Exchange, opening: StreamOpening) -> None:
        key = self._key(exchange, opening)
        name = self._find_name(exchange)
        group = self._group(key, opening.target) if name is None else self._group(name, name)
        group.by_key[key].append(exchange)

    def _add_refused(self, exchange: Exchange, opening: StreamOpening) -> None:
        """Add a refused request to the group of the streams that were requested in the same way."""
        key = self._key(exchange, opening)
        group = self._groups.get(key)
        if group is not None:
            group.by_key[key].append(exchange)

    def _key(self, exchange: Exchange, opening: StreamOpening) -> RequestKey:
        request = exchange.request
        key = recorded_key(request.method, opening.target, request.headers, self._matching)
        body = read_request_body(self._recording, exchange)
        return key if body is None else with_body(key, without_paths(body, self._matching.ignored_body))

    def _find_name(self, exchange: Exchange) -> str | None:
        """The channel that the events of a stream name."""
        for seen in self._recording.events(exchange.number) if self._facts.names_channels else ():
            name = self._facts.find_channel(seen)
            if name is not None or seen.number == _MOST_EVENTS:
                return name
        return None


def find_session_ids(recording: Recording) -> frozenset[str]:
    """The ids of all sessions that requests of the recording name.  Raises RecordingError."""
    ids = (exchange.channel or session_in(exchange.request.target) for exchange in recording.exchanges())
    return frozenset(session_id for session_id in ids if session_id is not None)


def find_service_bases(recording: Recording) -> frozenset[str]:
    """The base paths under which operations were requested.  Raises RecordingError."""
    requests = (exchange.request for exchange in recording.exchanges() if exchange.operation is not None)
    matches = (operation_of(request.method, request.target) for request in requests)
    return frozenset(match.base.rstrip("/") for match in matches if match is not None)
