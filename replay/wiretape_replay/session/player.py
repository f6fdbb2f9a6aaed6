"""The source of session mode: streams by the playhead, everything else from the tape."""

from collections.abc import Mapping

from wiretape.contract import RESOURCE_NOT_FOUND, STREAM, operation_of, session_in
from wiretape_replay.http_server.request import HttpRequest
from wiretape_replay.http_server.response_writer import ResponseWriter
from wiretape_replay.responses.auth_and_rate_limits import session_not_found
from wiretape_replay.session.connected import Connected
from wiretape_replay.session.session import Session
from wiretape_replay.session.session_streams import SessionStreams, StreamRequest
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer


class SessionPlayer:
    """Answers streams by the playhead of their session, and all other requests as verbatim mode does."""

    def __init__(
        self, sessions: Mapping[str, Session], *, known: frozenset[str], others: VerbatimPlayer, streams: SessionStreams
    ) -> None:
        """`known` are the ids of all sessions there are, also of those without a stream.

        `others` holds the recorded exchanges that are no streams.
        """
        self.sessions = sessions
        self.others = others
        self.drives = streams.drives
        self._known = known
        self._streams = streams

    @property
    def streamed(self) -> list[StreamRequest]:
        """The streams that were asked for, in order."""
        return self._streams.streamed

    @property
    def connected(self) -> list[Connected]:
        """The streams that have not ended, in the order in which they began."""
        return self._streams.connected

    async def respond(self, asked: HttpRequest, line: ResponseWriter) -> None:
        """See Source."""
        match = operation_of(asked.method, asked.target)
        named = match.session_id if match else session_in(asked.target)
        if named is not None and named not in self._known:
            await self._streams.refuse(asked, line, RESOURCE_NOT_FOUND, session_not_found(named))
        elif match is not None and match.operation is STREAM and match.session_id in self.sessions:
            await self._streams.give(asked, line, self.sessions[match.session_id])
        else:
            await self.others.respond(asked, line)
