"""From a recording to the logs of its sessions."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from wiretape.contract import STREAM, session_in
from wiretape.observations import ResponseStarted, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.rules import quote
from wiretape_replay.http_server.response import Framing, ResponseHead
from wiretape_replay.session.recorded.draft_entry import DraftEntry
from wiretape_replay.session.recorded.durable_events import DurableEvents
from wiretape_replay.session.recorded.log_warnings import LogWarnings
from wiretape_replay.session.recorded.order import in_order
from wiretape_replay.session.recorded.overlap import merge_stretches
from wiretape_replay.session.recorded.recorded_connection import ConnectionReader, Findings, RecordedConnection, Stretch
from wiretape_replay.session.recorded.timing import (
    drop_outlived_endings,
    keep_one_comment_source,
    never_back,
    with_keep_alives,
)
from wiretape_replay.session.session import KEEP_ALIVE, Session
from wiretape_replay.session.session_log import SessionLog

_RENEWED = {"content-length", "content-encoding", "transfer-encoding"}
"""Headers that say how a body was sent."""
_CHUNKED = ("Transfer-Encoding", "chunked")


def build_sessions(recording: Recording, say: Callable[[str], None]) -> dict[str, Session]:
    """The sessions of which a stream was recorded, by their ids.

    `say` takes a sentence for each thing that is odd about one.  Raises RecordingError when the file is damaged.
    """
    asked: defaultdict[str, list[Exchange]] = defaultdict(list)
    for exchange in recording.exchanges():
        if exchange.operation == STREAM.name and exchange.session_id is not None:
            asked[exchange.session_id].append(exchange)
    findings = _findings(recording)
    sessions = {}
    for session_id, exchanges in asked.items():
        odd = LogWarnings()
        session = _session(recording, session_id, exchanges, findings, odd)
        if session is not None:
            sessions[session_id] = session
        for sentence in odd.sentences():
            say(f"Session {quote(session_id)}: {sentence}")
    if not sessions:
        say("The recording holds no stream of any session.")
    return sessions


def find_session_ids(recording: Recording) -> frozenset[str]:
    """The ids of all sessions that requests of the recording name.  Raises RecordingError."""
    named = (exchange.session_id or session_in(exchange.request.target) for exchange in recording.exchanges())
    return frozenset(session_id for session_id in named if session_id is not None)


def _session(
    recording: Recording, session_id: str, exchanges: Iterable[Exchange], findings: Findings, odd: LogWarnings
) -> Session | None:
    """One session from all requests for its stream; None when none was answered with one."""
    join = DurableEvents(odd)
    connections = []
    for exchange in sorted(exchanges, key=_begun):
        if _is_given(exchange):
            body = recording.body(exchange.number, Side.RESPONSE)
            connections.append(ConnectionReader(exchange, join, findings, odd).read(body))
        else:
            odd.refused[_outcome(exchange)] += 1
    if not connections or connections[0].exchange.response is None:
        return None
    comment = _usual_comment(connections)
    log = _log(session_id, connections, join, comment or KEEP_ALIVE, odd)
    return Session(log, _stream_head(connections[0].exchange.response), comment or KEEP_ALIVE)


def _log(
    session_id: str, connections: Sequence[RecordedConnection], join: DurableEvents, comment: bytes, odd: LogWarnings
) -> SessionLog:
    durable, odd.out_of_order = in_order([connection.durable for connection in connections])
    odd.durable = durable
    earlier = [one for one in connections if one.cursor is not None and join.find(one.cursor) is None]
    odd.earlier = [(one.exchange.number, one.cursor or "") for one in earlier]
    odd.outlived = drop_outlived_endings(connections)
    keep_one_comment_source(connections)
    pieces = _in_place(connections, durable, join)
    never_back(pieces)
    pieces = with_keep_alives(pieces, connections, comment)
    origin_ns = min(connection.exchange.request.time_ns for connection in connections)
    log = SessionLog(session_id, [piece.entry(piece.time_ns - origin_ns) for piece in pieces])
    _know_earlier_cursors(log, earlier, pieces)
    return log


def _in_place(
    connections: Iterable[RecordedConnection], durable: Sequence[DraftEntry], join: DurableEvents
) -> list[DraftEntry]:
    """The durable events, and behind each what came between it and the next."""
    never_back(durable)
    times = [piece.time_ns for piece in durable]
    between: defaultdict[int, list[Stretch]] = defaultdict(list)
    for connection in connections:
        cursor = join.find(connection.cursor)
        for stretch in filter(None, connection.stretches):
            between[_place(stretch, cursor, times)].append(stretch)
    pieces = list(merge_stretches(between.get(-1, ())))
    for place, piece in enumerate(durable):
        pieces.append(piece)
        if place in between:
            pieces += merge_stretches(between[place])
    return pieces


def _place(stretch: Stretch, cursor: DraftEntry | None, times: Sequence[int]) -> int:
    """The place of the durable event that a stretch comes after; -1 when it comes before all."""
    if stretch.after is not None:
        return stretch.after.place
    if cursor is not None:
        return cursor.place
    if stretch.before is not None:
        return stretch.before.place - 1
    first_ns = min(piece.time_ns for piece in (*stretch.pieces, *stretch.comments, *stretch.last))
    return bisect_right(times, first_ns) - 1


def _know_earlier_cursors(log: SessionLog, earlier: Sequence[RecordedConnection], pieces: Sequence[DraftEntry]) -> None:
    """Let cursors that were accepted, though their events are not recorded, name the place before what they got."""
    places = {piece: place for place, piece in enumerate(pieces)} if earlier else {}
    for connection in earlier:
        if connection.durable:
            place = places[connection.durable[0]]
        else:
            place = bisect_right(pieces, connection.begin_ns, key=attrgetter("time_ns"))
        log.know(connection.cursor or "", place - 1)


def _begun(exchange: Exchange) -> int:
    return exchange.response.time_ns if exchange.response else exchange.request.time_ns


def _is_given(exchange: Exchange) -> bool:
    """Whether the service answered with a stream."""
    return exchange.response is not None and exchange.response.status == 200 and exchange.is_stream


def _outcome(exchange: Exchange) -> str:
    """What a request got instead of a stream."""
    if exchange.response is None:
        return "no answer"
    status = exchange.response.status
    return f"{status} without an event stream" if status == 200 else str(status)


def _findings(recording: Recording) -> Findings:
    """The codes of the recorded findings by the event that they are about."""
    codes: defaultdict[tuple[int, int], dict[str, None]] = defaultdict(dict)
    for finding in recording.findings():
        if finding.event is not None:
            codes[finding.exchange, finding.event][finding.code] = None
    return {place: tuple(found) for place, found in codes.items()}


def _usual_comment(connections: Iterable[RecordedConnection]) -> bytes | None:
    """The comment that came most often, with the blank line behind it if it had one; of several the first."""
    seen = Counter(
        piece.data for connection in connections for stretch in connection.stretches for piece in stretch.comments
    )
    return next((data for data, _ in seen.most_common() if data.startswith(b":")), None)


def _stream_head(response: ResponseStarted) -> ResponseHead:
    """The head of every stream of a session: as recorded, but chunked and not encoded."""
    headers = tuple(pair for pair in response.headers if pair[0].lower() not in _RENEWED)
    keep_alive = "close" not in (header(headers, "connection") or "").lower()
    return ResponseHead(response.status, response.reason, (*headers, _CHUNKED), Framing.CHUNKED, keep_alive=keep_alive)
