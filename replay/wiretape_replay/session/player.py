"""The source of session mode: streams by the playhead, everything else from the tape."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from wiretape.contract import (
    CURSOR_HEADER,
    INVALID_CURSOR,
    RESOURCE_NOT_FOUND,
    STREAM,
    deltas_requested,
    operation_of,
    session_in,
)
from wiretape.observe import header
from wiretape.text import shown
from wiretape_replay.answers.envelope import envelope
from wiretape_replay.answers.guard import no_session
from wiretape_replay.answers.request_ids import RequestIds
from wiretape_replay.faults.performing import FaultyLines
from wiretape_replay.front.asked import Asked
from wiretape_replay.front.line import Line
from wiretape_replay.session.connected import Connected
from wiretape_replay.session.drives import Drives
from wiretape_replay.session.follower import Follower, UnknownCursorError
from wiretape_replay.session.session import Session
from wiretape_replay.session.stream import give
from wiretape_replay.tape.player import TapePlayer


@dataclass(frozen=True, slots=True)
class Streamed:
    """A stream that was given, or refused."""

    session_id: str
    cursor: str | None
    deltas: bool
    place: int
    """Of the playhead when it was asked for."""
    refusal: str | None = None
    """The code of the error that was answered instead."""


class SessionPlayer:
    """Answers streams by the playhead of their session, and all other requests as tape mode does."""

    def __init__(
        self,
        sessions: Mapping[str, Session],
        *,
        known: frozenset[str],
        others: TapePlayer,
        drives: Drives,
        request_ids: RequestIds,
        log: Callable[[str], None],
        faulty: FaultyLines | None = None,
    ) -> None:
        """`known` are the ids of all sessions there are, also of those without a stream.

        `others` holds the recorded exchanges that are no streams.  `log` takes a line for each request.
        `faulty` says which streams are sent with faults.
        """
        self.sessions = sessions
        self._known = known
        self.others = others
        self.drives = drives
        self.streamed: list[Streamed] = []
        self.connected: list[Connected] = []
        """The streams that have not ended, in the order in which they began."""
        self._log = log
        self._request_ids = request_ids
        self._faulty = faulty

    async def answer(self, asked: Asked, line: Line) -> None:
        """See Source."""
        match = operation_of(asked.method, asked.target)
        named = match.session_id if match else session_in(asked.target)
        if named is not None and named not in self._known:
            await self._refuse(asked, line, RESOURCE_NOT_FOUND, no_session(named))
        elif match is not None and match.operation is STREAM and match.session_id in self.sessions:
            await self._stream(asked, line, self.sessions[match.session_id])
        else:
            await self.others.answer(asked, line)

    async def _stream(self, asked: Asked, line: Line, session: Session) -> None:
        cursor, deltas = header(asked.headers, CURSOR_HEADER), deltas_requested(asked.target)
        # An empty cursor is what a client sends that has received none.
        drive = self.drives.for_stream(session.log, asked, cursor or None)
        place = drive.playhead.place
        try:
            follower = Follower(session.log, place, cursor=cursor or None, deltas=deltas)
        except UnknownCursorError:
            self.streamed.append(Streamed(session.log.session_id, cursor, deltas, place, INVALID_CURSOR))
            message = f"The cursor {cursor} names no persisted event of session {session.log.session_id}."
            await self._refuse(asked, line, INVALID_CURSOR, message)
            return
        self.streamed.append(Streamed(session.log.session_id, cursor, deltas, place))
        since = f"after {cursor}" if cursor else "from the beginning"
        self._say(asked, f"session {session.log.session_id} {since}, playhead at {place} of {len(session.log)}")
        with self._counted(Connected(drive, follower, cursor, deltas)):
            await line.begin(session.head.unchunked() if asked.http_version == "HTTP/1.0" else session.head)
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

    async def _refuse(self, asked: Asked, line: Line, code: str, message: str) -> None:
        answer = envelope(code, message, self._request_ids.next())
        self._say(asked, f"{answer.status} {code}")
        await answer.send(line, with_body=asked.method != "HEAD")

    def _say(self, asked: Asked, outcome: str) -> None:
        # The query may hold secrets.
        self._log(shown(f"{asked.method} {asked.target.partition('?')[0]} → {outcome}"))
