"""From an event to the bytes that streams carry.  The one place where they are made."""

import orjson

from wiretape_replay.service.engine.model import Emitted
from wiretape_replay.session.frames import event_frame
from wiretape_replay.session.session_log import LogEntry


def entry_of(emitted: Emitted) -> LogEntry:
    """The entry of the session's log."""
    document = emitted.document
    if document is None:
        return LogEntry(emitted.kind, emitted.time_ns, ending=emitted.ending)
    data = document.get("data")
    return LogEntry(
        kind=emitted.kind,
        time_ns=emitted.time_ns,
        data=event_frame(document["type"], orjson.dumps(document), document.get("id")),
        id=document.get("id"),
        type=document["type"],
        sequence=document.get("sequence"),
        run_id=document["run_id"],
        tool_call_id=data.get("tool_call_id") if data is not None else None,
    )
