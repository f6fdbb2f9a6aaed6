"""Faults in words: what the log says when one is done, and what a rehearsal lists."""

from wiretape.safe_text import shorten
from wiretape_replay.faults.deed import Corrupt, Do, ExpireCursor, Refuse, Split
from wiretape_replay.faults.script import Fault, Moment, Request
from wiretape_replay.session.session_log import LogEntry


def deed(fault: Fault) -> str:
    """What a fault does, as briefly as can be."""
    if isinstance(fault.deed, Refuse):
        return f"error {fault.deed.code}"
    if isinstance(fault.deed, Corrupt):
        return f"corrupt ({fault.deed.how})"
    if isinstance(fault.deed, Split):
        return f"split ({fault.deed.where if isinstance(fault.deed.where, str) else 'at offsets'})"
    return str(fault.do)


def place(moment: Moment, entry: LogEntry, number: int | None = None) -> str:
    """Where a fault stands: `before event 3, run.started, sequence 2`."""
    words = [f"event {number}"] if number is not None else []
    words += [shorten(entry.type, 60)] if entry.type else []
    words += [f"sequence {entry.sequence}"] if entry.sequence is not None else []
    if not words and entry.id is not None:
        words = [f"id {shorten(entry.id, 60)}"]
    return f"{moment} {', '.join(words) or 'an event'}"


def on_event(fault: Fault, request: Request, moment: Moment, entry: LogEntry, number: int) -> str:
    """The line for the log when a fault is done to an event."""
    where = f"session {shorten(request.session or '', 60)}, connection {request.connection}"
    return f"Fault {_name(fault)}: {deed(fault)} {place(moment, entry, number)} ({where})"


def on_request(fault: Fault, request: Request) -> str:
    """The line for the log when a fault is done to the answer to a request."""
    which = f", connection {request.connection}" if request.connection is not None else ""
    instead = " instead of the answer" if fault.do in {Do.ERROR, Do.EXPIRE_CURSOR} else " before the answer"
    return f"Fault {_name(fault)}: {deed(fault)}{instead} ({shorten(f'{request.method} {request.path}')}{which})"


def _name(fault: Fault) -> str:
    return shorten(fault.name, 60)


def requests(fault: Fault) -> str:
    """Which requests a fault is for, without their sessions and connections."""
    names = [shorten(operation.name, 80) for operation in fault.address.operations]
    which = f"any {' or '.join(names)} request" if names else "any request"
    if isinstance(fault.deed, ExpireCursor):
        cursors = " or ".join(shorten(cursor, 60) for cursor in fault.deed.cursors)
        which += f" with the cursor {cursors}" if cursors else " with a cursor"
    return which + (
        f" of run {' or '.join(shorten(run, 60) for run in fault.address.runs)}" if fault.address.runs else ""
    )
