"""Build the log of a channel from its recorded connections.

Connections that were open at the same time received the same live output, which belongs into the log once.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter

from wiretape.observations import Ending, ResponseStarted, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.rules import format_number
from wiretape_replay.channel.channel_log import KEEP_ALIVE, ChannelLog, EntryKind, LogEntry, PlayableChannel
from wiretape_replay.channel.log_warnings import LogWarnings
from wiretape_replay.channel.recorded_connection import (
    ConnectionReader,
    DurableEvents,
    FindingCodes,
    RecordedConnection,
    Stretch,
)
from wiretape_replay.channel.stream_facts import StreamFacts
from wiretape_replay.http_server.http_messages import BodyFraming, ResponseHead

_FRAMING_HEADERS = {"content-length", "content-encoding", "transfer-encoding"}
_CHUNKED = ("Transfer-Encoding", "chunked")
_MOST_KEEP_ALIVES = 10_000
"""In one gap: a recording may be continued weeks later."""


def read_connections(
    recording: Recording,
    exchanges: Iterable[Exchange],
    facts: StreamFacts,
    findings: FindingCodes,
    warnings: LogWarnings,
) -> tuple[list[RecordedConnection], DurableEvents]:
    """Read the connections of a channel from all requests for its streams, in the order of their beginning."""
    events = DurableEvents(warnings)
    connections = []
    for exchange in sorted(exchanges, key=attrgetter("began_ns")):
        if is_served(exchange):
            body = recording.body(exchange.number, Side.RESPONSE)
            connections.append(ConnectionReader(exchange, facts, events, findings, warnings).read(body))
        else:
            warnings.refused[_outcome(exchange)] += 1
    return connections, events


def build_channel(
    name: str,
    connections: Sequence[RecordedConnection],
    events: DurableEvents,
    facts: StreamFacts,
    warnings: LogWarnings,
    *,
    restarts: bool,
    is_open_ended: bool,
) -> PlayableChannel:
    """Build a channel from its connections, which are in the order of their beginning; `restarts`: see ChannelLog.

    If it is open-ended, the end of the last recorded stream is not the end of later ones.  If not, streams also end
    after an event after which the channel is idle, if the client closed the last recorded one before the service did.
    """
    response = connections[0].exchange.response
    if response is None:
        raise ValueError("A connection without a response is none.")
    comment = _most_common_comment(connections) or KEEP_ALIVE
    log = ChannelLog(name, _build_entries(connections, events, comment, warnings, facts), facts.noun)
    _add_unknown_cursors(log, _with_unknown_cursor(connections, events))
    origin_ns = min(connection.exchange.request.time_ns for connection in connections)
    for entry in log.entries:
        entry.time_ns -= origin_ns
    request = connections[0].exchange.request
    log.opened_by = request.method, request.target
    log.restarts = restarts
    if not is_open_ended and facts.is_over(log.entries):
        log.append(LogEntry(EntryKind.ENDING, log.entries[-1].time_ns, ending=Ending.COMPLETE))
    log.is_finite = not is_open_ended and bool(log.entries) and log.entries[-1].kind is EntryKind.ENDING
    return PlayableChannel(log, _stream_head(response), comment)


def _build_entries(
    connections: Sequence[RecordedConnection],
    events: DurableEvents,
    comment: bytes,
    warnings: LogWarnings,
    facts: StreamFacts,
) -> list[LogEntry]:
    """The entries of the log from all connections, which are in the order of their beginning."""
    durable, problem = _sort_events([connection.durable for connection in connections])
    warnings.out_of_order = problem if facts.has_sequences else ""
    unknown = _with_unknown_cursor(connections, events)
    warnings.unknown_cursors = [(one.exchange.number, one.cursor or "") for one in unknown]
    warnings.outlived = _drop_outlived_endings(connections)
    _drop_concurrent_comments(connections)
    entries = _merge_connections(connections, durable, events)
    _make_times_ascend(entries)
    warnings.durable = durable
    return _fill_gaps(entries, connections, comment, facts.keep_alive_ns)


def _sort_events(connections: Sequence[Sequence[LogEntry]]) -> tuple[list[LogEntry], str]:
    """Every event once, in order; and why they are not in the order of their sequences, empty if they are.

    Each item of `connections` holds the events of one connection, each event once, in the order in which they
    arrived.  The connections are in the order of their beginning.
    """
    events = list(dict.fromkeys(event for carried in connections for event in carried))
    problem = _sequence_problem(connections, events)
    return _sort_by_arrival(connections) if problem else sorted(events, key=attrgetter("sequence")), problem


def _sequence_problem(connections: Sequence[Sequence[LogEntry]], events: Sequence[LogEntry]) -> str:
    """Why the sequences define no order; empty if they do."""
    without_sequence = sum(event.sequence is None for event in events)
    if without_sequence:
        have = "has" if without_sequence == 1 else "have"
        return f"{without_sequence} of its {len(events)} durable events {have} no sequence"
    for carried in connections:
        for before, after in pairwise(carried):
            if (after.sequence or 0) <= (before.sequence or 0):
                later, earlier = format_number(after.sequence or 0), format_number(before.sequence or 0)
                return f"on one connection, sequence {later} comes after sequence {earlier}"
    if len({event.sequence for event in events}) < len(events):
        return "different events have the same sequence"
    return ""


def _sort_by_arrival(connections: Sequence[Sequence[LogEntry]]) -> list[LogEntry]:
    """By time; but events that a connection replayed before a known event stay before that event."""
    known: set[LogEntry] = set()
    predecessors: dict[LogEntry, list[LogEntry]] = {}
    unbound: list[LogEntry] = []
    for carried in connections:
        new: list[LogEntry] = []
        for event in carried:
            if event not in known:
                new.append(event)
            elif new:
                predecessors.setdefault(event, []).extend(new)
                new = []
        unbound += new
        known.update(carried)
    unbound.sort(key=attrgetter("time_ns"))
    return list(_insert_predecessors(unbound, predecessors))


def _insert_predecessors(
    events: Sequence[LogEntry], predecessors: dict[LogEntry, list[LogEntry]]
) -> Iterator[LogEntry]:
    """Each event, after its predecessors."""
    stack = list(reversed(events))
    while stack:
        before = predecessors.pop(stack[-1], None)
        if before is None:
            yield stack.pop()
        else:
            stack += reversed(before)


def _merge_connections(
    connections: Iterable[RecordedConnection], durable: Sequence[LogEntry], events: DurableEvents
) -> list[LogEntry]:
    """The durable events, and after each what arrived before the next."""
    _make_times_ascend(durable)
    times = [event.time_ns for event in durable]
    indexes = {event: index for index, event in enumerate(durable)}
    stretches: defaultdict[int, list[Stretch]] = defaultdict(list)
    for connection in connections:
        cursor = events.find(connection.cursor)
        for stretch in connection.stretches:
            if not stretch.is_empty:
                stretches[_index_before(stretch, cursor, indexes, times)].append(stretch)
    entries = list(merge_stretches(stretches.get(-1, ())))
    for index, event in enumerate(durable):
        entries.append(event)
        if index in stretches:
            entries += merge_stretches(stretches[index])
    return entries


def _index_before(
    stretch: Stretch, cursor: LogEntry | None, indexes: Mapping[LogEntry, int], times: Sequence[int]
) -> int:
    """The index of the durable event before a stretch; -1 if it comes before all."""
    if stretch.after is not None:
        return indexes[stretch.after]
    if cursor is not None:
        return indexes[cursor]
    if stretch.before is not None:
        return indexes[stretch.before] - 1
    first_ns = min(entry.time_ns for entry in (*stretch.events, *stretch.comments, *stretch.last))
    return bisect_right(times, first_ns) - 1


def _drop_concurrent_comments(connections: Sequence[RecordedConnection]) -> None:
    """Drop the comments of every connection while an earlier one was open."""
    covered_ns = 0
    for connection in connections:
        for stretch in connection.stretches:
            stretch.comments = [comment for comment in stretch.comments if comment.time_ns >= covered_ns]
        covered_ns = max(covered_ns, connection.end_ns)


def _drop_outlived_endings(connections: Sequence[RecordedConnection]) -> list[int]:
    """Drop the endings by the service that another connection survived; return the exchanges of these endings."""
    begins = [connection.begin_ns for connection in connections]
    ends = list(accumulate((connection.end_ns for connection in connections), max))
    dropped = []
    for connection in connections:
        begun = bisect_left(begins, connection.end_ns)
        if connection.ended_by_service and begun and ends[begun - 1] > connection.end_ns:
            connection.stretches[-1].last = []
            dropped.append(connection.exchange.number)
    return dropped


def _make_times_ascend(entries: Sequence[LogEntry]) -> None:
    """Give no entry a later time than the entries after it: it was recorded late, but happened before them."""
    latest_ns = entries[-1].time_ns if entries else 0
    for entry in reversed(entries):
        latest_ns = entry.time_ns = min(latest_ns, entry.time_ns)


def _fill_gaps(
    entries: Sequence[LogEntry], connections: Sequence[RecordedConnection], comment: bytes, keep_alive_ns: int
) -> list[LogEntry]:
    """The entries, with keep-alives added where no connection was open."""
    times = [entry.time_ns for entry in entries]
    filled: list[LogEntry] = []
    done = 0
    for time_ns in _missing_keep_alives(connections, keep_alive_ns):
        position = bisect_right(times, time_ns, done)
        filled += entries[done:position]
        filled.append(LogEntry(EntryKind.EPHEMERAL, time_ns, comment))
        done = position
    return [*filled, *entries[done:]]


def _missing_keep_alives(connections: Sequence[RecordedConnection], keep_alive_ns: int) -> Iterator[int]:
    """When keep-alives are due while no connection is open."""
    covered_ns = connections[0].begin_ns
    for connection in connections:
        gap = range(covered_ns + keep_alive_ns, connection.begin_ns, keep_alive_ns)
        yield from gap[:_MOST_KEEP_ALIVES]
        covered_ns = max(covered_ns, connection.end_ns)


def _with_unknown_cursor(connections: Iterable[RecordedConnection], events: DurableEvents) -> list[RecordedConnection]:
    return [each for each in connections if each.cursor is not None and events.find(each.cursor) is None]


def _add_unknown_cursors(log: ChannelLog, connections: Sequence[RecordedConnection]) -> None:
    """Let cursors that the service accepted, though their events are not recorded, resume where they resumed then."""
    positions = {entry: position for position, entry in enumerate(log.entries)} if connections else {}
    for connection in connections:
        if connection.durable:
            position = positions[connection.durable[0]]
        else:
            position = bisect_right(log.entries, connection.begin_ns, key=attrgetter("time_ns"))
        log.add_cursor(connection.cursor or "", position - 1)


def is_served(exchange: Exchange) -> bool:
    """Whether the response is a stream."""
    return exchange.response is not None and exchange.response.status == 200 and exchange.is_stream


def _outcome(exchange: Exchange) -> str:
    """What a request got instead of a stream."""
    if exchange.response is None:
        return "no response"
    status = exchange.response.status
    return f"{status} without an event stream" if status == 200 else str(status)


def find_codes(recording: Recording) -> FindingCodes:
    """The codes of the findings about each event.  Raises RecordingError."""
    codes: defaultdict[tuple[int, int], dict[str, None]] = defaultdict(dict)
    for finding in recording.findings():
        if finding.event is not None:
            codes[finding.exchange, finding.event][finding.code] = None
    return {event: tuple(found) for event, found in codes.items()}


def _most_common_comment(connections: Iterable[RecordedConnection]) -> bytes | None:
    """The most common comment, with the blank line after it if it has one; the first of equally common ones."""
    counts = Counter(
        comment.data for connection in connections for stretch in connection.stretches for comment in stretch.comments
    )
    return next((data for data, _ in counts.most_common() if data.startswith(b":")), None)


def _stream_head(response: ResponseStarted) -> ResponseHead:
    """Status line and headers of every stream of a channel: as recorded, but chunked and not encoded."""
    headers = tuple(pair for pair in response.headers if pair[0].lower() not in _FRAMING_HEADERS)
    keep_alive = "close" not in (header(headers, "connection") or "").lower()
    return ResponseHead(
        response.status, response.reason, (*headers, _CHUNKED), BodyFraming.CHUNKED, keep_alive=keep_alive
    )


_BY_TIME = attrgetter("time_ns")
_TOLERANCE_NS = 1_000_000_000
"""How much later the same event may arrive on another connection."""


def merge_stretches(stretches: Sequence[Stretch]) -> Iterator[LogEntry]:
    """The entries of stretches between the same two durable events, in the order of the log.

    Of stretches that overlap in time, each event is taken once; others follow one another.
    """
    for group in _group_overlapping(stretches):
        merged = group[0]
        for stretch in group[1:]:
            merged = _merge(merged, stretch)
        comments = sorted((comment for stretch in group for comment in stretch.comments), key=_BY_TIME)
        yield from heapq.merge(merged.events, comments, key=_BY_TIME)
        for stretch in group:
            yield from stretch.last


def _group_overlapping(stretches: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    """Groups in which each stretch begins before another of the group has ended."""
    group: list[Stretch] = []
    end_ns = 0
    for stretch in sorted(stretches, key=attrgetter("begin_ns")):
        if group and stretch.begin_ns >= end_ns:
            yield group
            group = []
        group.append(stretch)
        end_ns = max(end_ns, stretch.end_ns)
    if group:
        yield group


def _merge(first: Stretch, second: Stretch) -> Stretch:
    """Everything that either carried; the one with deltas determines the order."""
    if first.deltas != second.deltas:
        rich, poor = (first, second) if first.deltas else (second, first)
    else:
        rich, poor = (first, second) if len(first.events) >= len(second.events) else (second, first)
    merged = Stretch(rich.deltas, first.after, first.begin_ns, max(first.end_ns, second.end_ns))
    merged.events = _add_missing(rich, poor)
    return merged


def _add_missing(rich: Stretch, poor: Stretch) -> list[LogEntry]:
    """The events of `rich`, and those of `poor` that it lacks."""
    shared = rich.events
    if rich.deltas != poor.deltas:
        shared = [event for event in shared if not event.is_optional]
    rich_data, poor_data = [event.data for event in shared], [event.data for event in poor.events]
    poor_outlives = poor.end_ns > rich.end_ns + _TOLERANCE_NS
    if not poor_outlives and _is_subsequence(poor_data, rich_data):
        return rich.events
    behind, ahead = _count_overlap(rich_data, poor_data), 0 if poor_outlives else _count_overlap(poor_data, rich_data)
    if behind == ahead == 0:
        if rich.deltas == poor.deltas:
            both = sorted((rich, poor), key=attrgetter("begin_ns"))
            return both[0].events + both[1].events
        return list(heapq.merge(rich.events, poor.events, key=_BY_TIME))
    if behind >= ahead:
        # The end of `rich` is the beginning of `poor`, which continues after it.
        cut = rich.events.index(shared[-1]) + 1
        return rich.events[:cut] + list(heapq.merge(rich.events[cut:], poor.events[behind:], key=_BY_TIME))
    cut = rich.events.index(shared[0])
    return list(heapq.merge(rich.events[:cut], poor.events[:-ahead], key=_BY_TIME)) + rich.events[cut:]


def _is_subsequence(some: Sequence[bytes], others: Sequence[bytes]) -> bool:
    """Whether all of `some` occur in `others` in the same order."""
    remaining = iter(others)
    return all(data in remaining for data in some)


def _count_overlap(before: Sequence[bytes], after: Sequence[bytes]) -> int:
    """The length of the longest end of `before` that is a beginning of `after` (Knuth, Morris and Pratt)."""
    borders = [0] * len(after)
    length = 0
    for at in range(1, len(after)):
        length = _extend_border(after, borders, length, after[at])
        borders[at] = length
    length = 0
    for data in before[-len(after) :] if after else ():
        length = _extend_border(after, borders, length, data)
    return length


def _extend_border(items: Sequence[bytes], borders: Sequence[int], length: int, data: bytes) -> int:
    """The longest beginning of `items` that ends with `data`, after a beginning of `length` items."""
    while length and (length == len(items) or items[length] != data):
        length = borders[length - 1]
    return length + 1 if length < len(items) and items[length] == data else length
