"""What a source knows of one session."""

from dataclasses import dataclass

from wiretape_replay.http_server.response import ResponseHead
from wiretape_replay.session.session_log import SessionLog

KEEP_ALIVE = b": keep-alive\n\n"


@dataclass(frozen=True, slots=True)
class Session:
    """A session's log, and how its streams look."""

    log: SessionLog
    head: ResponseHead
    """Of every stream of it; chunked."""
    keep_alive: bytes = KEEP_ALIVE
    """The comment that is sent when the playhead stands."""
