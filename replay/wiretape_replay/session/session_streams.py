"""The streams of sessions: who asked for which, and who follows now."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from wiretape.contract import CURSOR_HEADER, INVALID_CURSOR, cursor_in, deltas_requested
from wiretape.observations import header
from wiretape.safe_text import shorten
from wiretape_replay.faults.fault_application import FaultApplier
from wiretape_replay.http_server.request import HttpRequest
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.responses.error_envelope import RequestIds, error_response
from wiretape_replay.session.connected import Connected
from wiretape_replay.session.follower import Follower, UnknownCursorError
from wiretape_replay.session.playheads import Playheads
from wiretape_replay.session.session import Session
from wiretape_replay.session.stream import give


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A stream that was given, or refused."""

    session_id: str
    cursor: str | None
    deltas: bool
    place: int
    """Of the playhead when it was asked for."""
    refusal: str | None = None
    """The code of the error that was answered instead."""


class SessionStreams:
    """Gives streams by the playheads of their sessions, and errors where something else is asked for."""

    def __init__(
        self,
        drives: Playheads,
        request_ids: RequestIds,
        log: Callable[[str], None],
        faulty: FaultApplier | None = None,
    ) -> None:
        """`log` takes a line for each request.  `faulty` says which streams are sent with faults."""
        self.drives = drives
        self.streamed: list[StreamRequest] = []
        self.connected: list[Connected] = []
        """The streams that have not ended, in the order in which they began."""
        self._log = log
        self._request_ids = request_ids
        self._faulty = faulty

    async def give(self, asked: HttpRequest, line: ResponseWriter, session: Session) -> None:
        """Answer a request for the stream of a session.  See Source."""
        sent, deltas = header(asked.headers, CURSOR_HEADER), deltas_requested(asked.target)
        cursor = cursor_in(sent)
        drive = self.drives.for_stream(session.log, asked, cursor)
        if cursor is not None:
            drive.begin_after(cursor)
        place = drive.playhead.place
        try:
            follower = Follower(session.log, place, cursor=cursor, deltas=deltas)
        except UnknownCursorError:
            self.streamed.append(StreamRequest(session.log.session_id, cursor or sent, deltas, place, INVALID_CURSOR))
            message = f"The cursor {cursor} names no persisted event of session {session.log.session_id}."
            await self.refuse(asked, line, INVALID_CURSOR, message)
            if session.log.place_of(cursor or "") is not None:
                self._log(f"  The event is on the log, but ahead of the playhead (at {place} of {len(session.log)}).")
            return
        self.streamed.append(StreamRequest(session.log.session_id, cursor or sent, deltas, place))
        since = f"after {cursor}" if cursor else "from the beginning"
        self._say(asked, f"session {session.log.session_id} {since}, playhead at {place} of {len(session.log)}")
        with self._counted(Connected(drive, follower, cursor or sent, deltas)):
            await line.start(session.head)
            faulty = self._faulty.stream(line) if self._faulty else None
            await give(line, drive, follower, session.keep_alive, faulty)

    @contextmanager
    def _counted(self, stream: Connected) -> Iterator[None]:
        self.connected.append(stream)
        self.drives.changes.note()
        try:
            yield
        finally:
            self.connected.remove(stream)
            self.drives.changes.note()

    async def refuse(self, asked: HttpRequest, line: ResponseWriter, code: str, message: str) -> None:
        """Answer with an error."""
        answer = error_response(code, message, self._request_ids.next())
        self._say(asked, f"{answer.status} {code}")
        await line.respond(answer)

    def _say(self, asked: HttpRequest, outcome: str) -> None:
        # The query may hold secrets.
        self._log(shorten(f"{asked.method} {asked.target.partition('?')[0]} → {outcome}"))
