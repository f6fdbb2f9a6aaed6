"""The event stream by which others follow the playheads."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict

from wiretape_replay.control.control_state import SessionState
from wiretape_replay.control.playhead_control import PlayheadControl

KEEP_ALIVE_S = 15.0
LEAST_PAUSE_S = 0.02
"""Between two looks at the playheads: what happens in between is told as one change."""


async def changes(operations: PlayheadControl, keep_alive_s: float = KEEP_ALIVE_S) -> AsyncIterator[bytes]:
    """SSE messages: first the state of every session, then of each whose state is not what was told last.

    A message is a session's state without its breakpoints and without what is ahead, which `state` tells.  Its id
    counts the changes of the replay.  Ends with the replay.
    """
    told: dict[str, dict[str, object]] = {}
    while not operations.changes.closed:
        count = operations.changes.count
        for session_id in operations.session_ids:
            state = _short(operations.session_state(session_id))
            if told.get(session_id) != state:
                told[session_id] = state
                yield f"id: {count}\nevent: playhead\ndata: {json.dumps(state)}\n\n".encode()
        try:
            async with asyncio.timeout(keep_alive_s):
                await operations.changes.after(count)
        except TimeoutError:
            yield b": keep-alive\n\n"
        await asyncio.sleep(LEAST_PAUSE_S)


def _short(state: SessionState) -> dict[str, object]:
    document = asdict(state)
    document["streams"] = len(state.streams)
    document["breakpoints"] = len(state.breakpoints)
    if state.next is not None:
        document["next"] = {name: document["next"][name] for name in ("kind", "type", "sequence", "id")}
    return document
