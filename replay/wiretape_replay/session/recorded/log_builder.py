"""Builds the logs of a recording's sessions."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter

from wiretape.contract import STREAM, session_in
from wiretape.observations import ResponseStarted, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.rules import quote
from wiretape_replay.http_server.http_messages import Framing, ResponseHead
from wiretape_replay.session.recorded.draft_entry import DraftEntry
from wiretape_replay.session.recorded.durable_events import DurableEvents, sort_events
from wiretape_replay.session.recorded.log_warnings import LogWarnings
from wiretape_replay.session.recorded.overlap import merge_stretches
from wiretape_replay.session.recorded.recorded_connection import (
    KEEP_ALIVE_NS,
    ConnectionReader,
    FindingCodes,
    RecordedConnection,
    Stretch,
)
from wiretape_replay.session.session_log import KEEP_ALIVE, EntryKind, PlayableSession, SessionLog

_FRAMING_HEADERS = {"content-length", "content-encoding", "transfer-encoding"}
_CHUNKED = ("Transfer-Encoding", "chunked")
_MOST_KEEP_ALIVES = 10_000
"""In one gap: a recording may be continued weeks later."""


def build_sessions(recording: Recording, warn: Callable[[str], None]) -> dict[str, PlayableSession]:
    """The sessions with a recorded stream, by id.

    `warn` gets one sentence for each problem.  Raises RecordingError if the file is damaged.
    """
    requests: defaultdict[str, list[Exchange]] = defaultdict(list)
    for exchange in recording.exchanges():
        if exchange.operation == STREAM.name and exchange.session_id is not None:
            requests[exchange.session_id].append(exchange)
    findings = _findings_by_event(recording)
    sessions = {}
    for session_id, exchanges in requests.items():
        warnings = LogWarnings()
        session = _build_session(recording, session_id, exchanges, findings, warnings)
        if session is not None:
            sessions[session_id] = session
        for sentence in warnings.sentences():
            warn(f"Session {quote(session_id)}: {sentence}")
    if not sessions:
        warn("The recording contains no stream of any session.")
    return sessions


def find_session_ids(recording: Recording) -> frozenset[str]:
    """The ids of all sessions that requests of the recording name.  Raises RecordingError."""
    ids = (exchange.session_id or session_in(exchange.request.target) for exchange in recording.exchanges())
    return frozenset(session_id for session_id in ids if session_id is not None)


def _build_session(
    recording: Recording,
    session_id: str,
    exchanges: Iterable[Exchange],
    findings: FindingCodes,
    warnings: LogWarnings,
) -> PlayableSession | None:
    """One session from all requests for its stream; None if none of them got a stream."""
    events = DurableEvents(warnings)
    connections = []
    for exchange in sorted(exchanges, key=_begin_ns):
        if _is_served(exchange):
            body = recording.body(exchange.number, Side.RESPONSE)
            connections.append(ConnectionReader(exchange, events, findings, warnings).read(body))
        else:
            warnings.refused[_outcome(exchange)] += 1
    if not connections or connections[0].exchange.response is None:
        return None
    comment = _most_common_comment(connections) or KEEP_ALIVE
    log = _build_log(session_id, connections, events, comment, warnings)
    return PlayableSession(log, _stream_head(connections[0].exchange.response), comment)


def _build_log(
    session_id: str,
    connections: Sequence[RecordedConnection],
    events: DurableEvents,
    comment: bytes,
    warnings: LogWarnings,
) -> SessionLog:
    """The log from all connections, which are in the order of their beginning."""
    durable, warnings.out_of_order = sort_events([connection.durable for connection in connections])
    warnings.durable = durable
    unknown = [one for one in connections if one.cursor is not None and events.find(one.cursor) is None]
    warnings.unknown_cursors = [(one.exchange.number, one.cursor or "") for one in unknown]
    warnings.outlived = _drop_outlived_endings(connections)
    _drop_concurrent_comments(connections)
    entries = _merge_connections(connections, durable, events)
    _make_times_ascend(entries)
    entries = _fill_gaps(entries, connections, comment)
    origin_ns = min(connection.exchange.request.time_ns for connection in connections)
    log = SessionLog(session_id, [entry.finish(origin_ns) for entry in entries])
    _add_unknown_cursors(log, unknown, entries)
    return log


def _merge_connections(
    connections: Iterable[RecordedConnection], durable: Sequence[DraftEntry], events: DurableEvents
) -> list[DraftEntry]:
    """The durable events, and after each what arrived before the next."""
    _make_times_ascend(durable)
    times = [event.time_ns for event in durable]
    stretches: defaultdict[int, list[Stretch]] = defaultdict(list)
    for connection in connections:
        cursor = events.find(connection.cursor)
        for stretch in connection.stretches:
            if not stretch.is_empty:
                stretches[_index_before(stretch, cursor, times)].append(stretch)
    entries = list(merge_stretches(stretches.get(-1, ())))
    for index, event in enumerate(durable):
        entries.append(event)
        if index in stretches:
            entries += merge_stretches(stretches[index])
    return entries


def _index_before(stretch: Stretch, cursor: DraftEntry | None, times: Sequence[int]) -> int:
    """The index of the durable event before a stretch; -1 if it comes before all."""
    if stretch.after is not None:
        return stretch.after.index
    if cursor is not None:
        return cursor.index
    if stretch.before is not None:
        return stretch.before.index - 1
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


def _make_times_ascend(entries: Sequence[DraftEntry]) -> None:
    """Give no entry a later time than the entries after it: it was recorded late, but happened before them."""
    latest_ns = entries[-1].time_ns if entries else 0
    for entry in reversed(entries):
        latest_ns = entry.time_ns = min(latest_ns, entry.time_ns)


def _fill_gaps(
    entries: Sequence[DraftEntry], connections: Sequence[RecordedConnection], comment: bytes
) -> list[DraftEntry]:
    """The entries, with keep-alives added where no connection was open."""
    times = [entry.time_ns for entry in entries]
    filled: list[DraftEntry] = []
    done = 0
    for time_ns in _missing_keep_alives(connections):
        position = bisect_right(times, time_ns, done)
        filled += entries[done:position]
        filled.append(DraftEntry(EntryKind.EPHEMERAL, time_ns, comment, 0))
        done = position
    return [*filled, *entries[done:]]


def _missing_keep_alives(connections: Sequence[RecordedConnection]) -> Iterator[int]:
    """When keep-alives are due while no connection is open."""
    covered_ns = connections[0].begin_ns
    for connection in connections:
        gap = range(covered_ns + KEEP_ALIVE_NS, connection.begin_ns, KEEP_ALIVE_NS)
        yield from gap[:_MOST_KEEP_ALIVES]
        covered_ns = max(covered_ns, connection.end_ns)


def _add_unknown_cursors(
    log: SessionLog, connections: Sequence[RecordedConnection], entries: Sequence[DraftEntry]
) -> None:
    """Let cursors that the service accepted, though their events are not recorded, resume where they resumed then."""
    positions = {entry: position for position, entry in enumerate(entries)} if connections else {}
    for connection in connections:
        if connection.durable:
            position = positions[connection.durable[0]]
        else:
            position = bisect_right(entries, connection.begin_ns, key=attrgetter("time_ns"))
        log.add_cursor(connection.cursor or "", position - 1)


def _begin_ns(exchange: Exchange) -> int:
    return exchange.response.time_ns if exchange.response else exchange.request.time_ns


def _is_served(exchange: Exchange) -> bool:
    """Whether the response is a stream."""
    return exchange.response is not None and exchange.response.status == 200 and exchange.is_stream


def _outcome(exchange: Exchange) -> str:
    """What a request got instead of a stream."""
    if exchange.response is None:
        return "no response"
    status = exchange.response.status
    return f"{status} without an event stream" if status == 200 else str(status)


def _findings_by_event(recording: Recording) -> FindingCodes:
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
    """Status line and headers of every stream of a session: as recorded, but chunked and not encoded."""
    headers = tuple(pair for pair in response.headers if pair[0].lower() not in _FRAMING_HEADERS)
    keep_alive = "close" not in (header(headers, "connection") or "").lower()
    return ResponseHead(response.status, response.reason, (*headers, _CHUNKED), Framing.CHUNKED, keep_alive=keep_alive)
