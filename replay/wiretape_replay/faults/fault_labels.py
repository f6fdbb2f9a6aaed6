"""Describe faults to people: the lines of the log and of a dry run."""

from wiretape.safe_text import shorten
from wiretape_replay.faults.fault_script import (
    Corrupt,
    Error,
    ExpireCursor,
    Fault,
    FaultRequest,
    Position,
    Split,
    as_tuple,
)
from wiretape_replay.session.session_log import LogEntry

_LONGEST_NAME = 60


def action_label(fault: Fault) -> str:
    """What a fault does, in a few words."""
    if isinstance(fault, Error):
        return f"error {fault.code}"
    if isinstance(fault, Corrupt):
        return f"corrupt ({fault.how})"
    if isinstance(fault, Split):
        return f"split ({fault.where or 'at offsets'})"
    return fault.action


def position_label(position: Position, entry: LogEntry, number: int | None = None) -> str:
    """Where a fault is applied: `before event 3, run.started, sequence 2`."""
    parts = [f"event {number}"] if number is not None else []
    parts += [_short(entry.type)] if entry.type else []
    parts += [f"sequence {entry.sequence}"] if entry.sequence is not None else []
    if not parts and entry.id is not None:
        parts = [f"id {_short(entry.id)}"]
    return f"{position} {', '.join(parts) or 'an event'}"


def event_fault_line(fault: Fault, request: FaultRequest, position: Position, entry: LogEntry, number: int) -> str:
    """The line of the log for a fault that is applied to an event."""
    where = f"session {_short(request.session or '')}, connection {request.connection}"
    return f"Fault {_short(fault.name)}: {action_label(fault)} {position_label(position, entry, number)} ({where})"


def response_fault_line(fault: Fault, request: FaultRequest) -> str:
    """The line of the log for a fault that is applied to a whole response."""
    connection = f", connection {request.connection}" if request.connection is not None else ""
    when = "instead of the response" if isinstance(fault, Error | ExpireCursor) else "before the response"
    where = f"{shorten(f'{request.method} {request.path}')}{connection}"
    return f"Fault {_short(fault.name)}: {action_label(fault)} {when} ({where})"


def requests_label(fault: Fault) -> str:
    """Which requests a fault applies to, without their sessions and connections."""
    names = [shorten(operation.name, 80) for operation in fault.operations]
    label = f"any {' or '.join(names)} request" if names else "any request"
    if isinstance(fault, ExpireCursor):
        cursors = " or ".join(map(_short, as_tuple(fault.cursor)))
        label += f" with the cursor {cursors}" if cursors else " with a cursor"
    runs = " or ".join(map(_short, as_tuple(fault.run)))
    return label + (f" of run {runs}" if runs else "")


def _short(text: str) -> str:
    return shorten(text, _LONGEST_NAME)
