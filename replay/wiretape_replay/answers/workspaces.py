"""The workspaces of sessions, as their events tell them."""

from collections.abc import Callable, Mapping

import orjson

from wiretape.sse import Parser
from wiretape_replay.session.session_log import EntryKind, SessionLog


def workspaces_of(logs: Mapping[str, SessionLog]) -> Callable[[str], str | None]:
    """Gives the workspace of a session by its id; None when none of its events so far tells it."""
    known: dict[str, str] = {}

    def workspace_of(session_id: str) -> str | None:
        if session_id not in known and session_id in logs:
            told = _workspace(logs[session_id])
            if told is not None:
                known[session_id] = told
        return known.get(session_id)

    return workspace_of


def _workspace(log: SessionLog) -> str | None:
    events = (entry.data for entry in log.entries if entry.kind is EntryKind.DURABLE)
    return next((workspace for data in events if (workspace := _told_by(data)) is not None), None)


def _told_by(data: bytes) -> str | None:
    """What an event says; None for one that is not as it should be."""
    for frame in Parser().feed(data):
        try:
            document = orjson.loads(frame.data)
        except orjson.JSONDecodeError:
            continue
        workspace = document.get("workspace_id") if isinstance(document, dict) else None
        if isinstance(workspace, str):
            return workspace
    return None
