"""The streams of sessions: which client requested which, who is connected, and what is sent as the playhead moves."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, takewhile

from wiretape.agent_sessions import (
    CURSOR_HEADER,
    INVALID_CURSOR,
    RESOURCE_NOT_FOUND,
    STREAM,
    cursor_in,
    deltas_requested,
    operation_of,
    session_in,
)
from wiretape_replay.access.auth_and_rate_limits import session_not_found
from wiretape_replay.access.error_envelope import error_response
from wiretape_replay.generated_ids import RequestIdCounter
from wiretape_replay.http_server.aiohttp_server import Handler
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.http_server.response_writer import CHUNKS_PER_TURN, ResponseWriter
from wiretape_replay.session.playhead_clock import IdleTimer, PlayheadClock, Playheads
from wiretape_replay.session.session_log import (
    LogEntry,
    LogReader,
    PlayableSession,
    UnknownCursorError,
)


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A request for a stream, served or refused."""

    session_id: str
    cursor: str | None
    deltas: bool
    position: int
    """The playhead's position at the time of the request."""
    refusal: str | None = None
    """The error code of the response, if the request was refused."""


@dataclass(frozen=True, slots=True, eq=False)
class ConnectedStream:
    """A stream that is connected now."""

    clock: PlayheadClock
    reader: LogReader
    cursor: str | None
    """As the client sent it."""
    deltas: bool


FaultySender = Callable[[LogEntry | None], Awaitable[bool]]
"""Sends an event or comment with faults; None sends what is held back, because nothing follows it.

Returns True if a fault ended the stream.  Raises ConnectionError.
"""


class SessionStreams:
    """Serves streams by the playheads of their sessions, and refuses invalid stream requests."""

    def __init__(
        self,
        playheads: Playheads,
        request_ids: RequestIdCounter,
        faulty_sender: Callable[[ResponseWriter], FaultySender | None] | None = None,
    ) -> None:
        """`faulty_sender` returns the sender of a stream that faults can hit, None for other streams."""
        self.playheads = playheads
        self.requests: list[StreamRequest] = []
        """In order of arrival."""
        self.connected: list[ConnectedStream] = []
        """In order of their beginning."""
        self._request_ids = request_ids
        self._faulty_sender = faulty_sender

    async def serve(self, request: HttpRequest, writer: ResponseWriter, session: PlayableSession) -> None:
        """Answer a request for the stream of a session."""
        log = session.log
        sent_cursor, deltas = request.header(CURSOR_HEADER), deltas_requested(request.target)
        cursor = cursor_in(sent_cursor)
        clock = self.playheads.for_stream(log, request, cursor)
        if cursor is not None:
            clock.start_after(cursor)
        position = clock.playhead.position
        try:
            reader = LogReader(log, position, cursor=cursor, deltas=deltas)
        except UnknownCursorError:
            refused = StreamRequest(log.session_id, cursor or sent_cursor, deltas, position, INVALID_CURSOR)
            self.requests.append(refused)
            message = f"The cursor {cursor} names no persisted event of session {log.session_id}."
            await self.refuse(request, writer, INVALID_CURSOR, message)
            if log.position_of(cursor or "") is not None:
                writer.log(f"  The event is in the log, but ahead of the playhead (at {position} of {len(log)}).")
            return
        self.requests.append(StreamRequest(log.session_id, cursor or sent_cursor, deltas, position))
        start = f"after {cursor}" if cursor else "from the beginning"
        writer.log_outcome(request, f"session {log.session_id} {start}, playhead at {position} of {len(log)}")
        with self._connect(ConnectedStream(clock, reader, cursor or sent_cursor, deltas)):
            await writer.start(session.head)
            faulty = None if self._faulty_sender is None else self._faulty_sender(writer)
            await send_stream(writer, clock, reader, session.keep_alive, faulty)

    async def refuse(self, request: HttpRequest, writer: ResponseWriter, code: str, message: str) -> None:
        """Answer with an error."""
        response = error_response(code, message, self._request_ids.next())
        writer.log_outcome(request, f"{response.status} {code}")
        await writer.respond(response)

    @contextmanager
    def _connect(self, stream: ConnectedStream) -> Iterator[None]:
        self.connected.append(stream)
        self.playheads.changes.notify()
        try:
            yield
        finally:
            self.connected.remove(stream)
            self.playheads.changes.notify()


class SessionPlayer:
    """Handles the requests of session mode: serves streams by the playhead, and passes on all others."""

    def __init__(
        self,
        sessions: Mapping[str, PlayableSession],
        *,
        known_ids: frozenset[str],
        others: Handler,
        streams: SessionStreams,
    ) -> None:
        """`known_ids` are the ids of all sessions, including those without a stream."""
        self.sessions = sessions
        self.streams = streams
        self._known_ids = known_ids
        self._others = others

    async def respond(self, request: HttpRequest, writer: ResponseWriter) -> None:
        """Respond to one request."""
        match = operation_of(request.method, request.target)
        session_id = match.session_id if match else session_in(request.target)
        if session_id is not None and session_id not in self._known_ids:
            await self.streams.refuse(request, writer, RESOURCE_NOT_FOUND, session_not_found(session_id))
        elif match is not None and match.operation is STREAM and match.session_id in self.sessions:
            await self.streams.serve(request, writer, self.sessions[match.session_id])
        else:
            await self._others(request, writer)


async def send_stream(
    writer: ResponseWriter,
    clock: PlayheadClock,
    reader: LogReader,
    keep_alive: bytes,
    faulty: FaultySender | None = None,
) -> None:
    """Send a stream, whose head is sent already, until it ends.  Raises ConnectionError if the client leaves."""
    idle = clock.idle_timer()
    try:
        await _send_entries(writer, clock, reader, keep_alive, faulty, idle=idle)
    finally:
        idle.stop()


async def _send_entries(
    writer: ResponseWriter,
    clock: PlayheadClock,
    reader: LogReader,
    keep_alive: bytes,
    faulty: FaultySender | None,
    *,
    idle: IdleTimer,
) -> None:
    playhead, resets = clock.playhead, clock.playhead.resets
    clock.start()
    while playhead.resets == resets:
        before = reader.position
        due = reader.read(playhead.position)
        has_sent = False
        while batch := list(islice(due, 1 if faulty is not None else CHUNKS_PER_TURN)):
            has_sent = True
            if await _send_batch(batch, writer, faulty):
                return
            if playhead.resets != resets:
                break
        if has_sent:
            idle.stop()
        if playhead.resets != resets or reader.position < playhead.position:
            continue  # a slow client kept this task waiting in the meantime
        if not playhead.is_moving or (reader.position > before and not has_sent):
            # The playhead may pass entries that this client does not get, such as deltas: the client sees silence.
            # But while the playhead moves through a recorded silence, only the recorded keep-alives are sent.
            idle.start()
        if not await clock.wait_for_move(idle):
            if faulty is not None and await faulty(None):
                return
            await writer.write(keep_alive)
            idle.stop()
    writer.close()


async def _send_batch(batch: Sequence[LogEntry], writer: ResponseWriter, faulty: FaultySender | None) -> bool:
    """Send entries, one at a time if there are faults; return True if that ended the stream."""
    ending = next((entry.ending for entry in batch if entry.ending is not None), None)
    if faulty is not None:
        if await faulty(batch[0] if ending is None else None):
            return True
    else:
        await writer.write_all([entry.data for entry in takewhile(lambda entry: entry.ending is None, batch)])
    if ending is not None:
        await writer.end(ending)
    return ending is not None
