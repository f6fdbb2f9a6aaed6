"""What a script would do to a recording, without serving it.  Pure: no I/O, no clock."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from wiretape.contract import STREAM
from wiretape.safe_text import shorten
from wiretape_replay.faults import describing
from wiretape_replay.faults.actions import Write
from wiretape_replay.faults.deed import Reorder
from wiretape_replay.faults.script import Events, Fault, Moment, Script
from wiretape_replay.faults.within import can_be_done
from wiretape_replay.session.session_log import SessionLog

_LISTED = 20
"""How many events a listing names for each fault."""


@dataclass(frozen=True, slots=True)
class Hit:
    """An event, or all requests of a kind, that a fault would hit."""

    fault: str
    certain: bool
    """False where chance decides."""
    session: str | None
    """None: any."""
    place: int | None = None
    """Of the event on the log of its session; None for what is done before an answer."""
    type: str | None = None
    sequence: int | None = None
    text: str = ""
    """Where it would be, for people."""


def rehearse(script: Script, logs: Mapping[str, SessionLog]) -> list[Hit]:
    """What would be hit if each session's stream were asked for once, with deltas, from its beginning.

    The sessions come in the order of `logs`.  A fault on later connections is listed as if they began there as
    well; one that ends a stream is no reason to leave out what comes behind it, as clients come back.
    """
    return [hit for fault in script.faults for hit in _hits(fault, logs)]


def listing(script: Script, logs: Mapping[str, SessionLog], others: Collection[str] = ()) -> Iterator[str]:
    """The same in lines for people.  `others` are the sessions of the recording that have no log."""
    if not script.faults:
        yield "The script has no faults."
    for fault in script.faults:
        yield f"{shorten(fault.name, 60)}: {describing.deed(fault)}{_how_often(fault, logs)}"
        hits = list(_hits(fault, logs))
        for hit in hits[:_LISTED]:
            yield f"  {'' if hit.certain else 'may: '}{hit.text}"
        if len(hits) > _LISTED:
            yield f"  and {len(hits) - _LISTED} more"
        if not hits:
            yield "  hits nothing in this recording"
        for session in fault.address.sessions:
            if session not in logs and session not in others:
                yield f"  there is no session {shorten(session, 60)} in this recording"


def _hits(fault: Fault, logs: Mapping[str, SessionLog]) -> Iterator[Hit]:
    if fault.events is None:
        return _on_requests(fault, logs)
    # Where chance decides, any of them may be among those that are hit.
    most = fault.skip + fault.times if fault.times is not None and fault.probability == 1 else None
    return islice(_on_events(fault, fault.events, logs), fault.skip, most)


def _on_events(fault: Fault, events: Events, logs: Mapping[str, SessionLog]) -> Iterator[Hit]:
    for session, log in logs.items():
        if fault.address.sessions and session not in fault.address.sessions:
            continue
        number = 0
        for place, entry in enumerate(log.entries):
            number += entry.is_event
            if not entry.is_event or not events.fits(entry, number) or not _can_be(fault, entry.data):
                continue
            which = _connections(fault)
            text = f"session {shorten(session, 60)}, place {place}: {describing.place(events.moment, entry)}{which}"
            yield Hit(fault.name, fault.probability == 1, session, place, entry.type, entry.sequence, text)


def _on_requests(fault: Fault, logs: Mapping[str, SessionLog]) -> Iterator[Hit]:
    for session in fault.address.sessions or (None,):
        if session is not None and session not in logs and _for_streams(fault):
            continue
        of = f" of session {shorten(session, 60)}" if session is not None else ""
        text = f"{describing.requests(fault)}{of}{_connections(fault)}"
        yield Hit(fault.name, fault.probability == 1, session, text=text)


def _for_streams(fault: Fault) -> bool:
    return bool(fault.address.operations) and all(one.name == STREAM.name for one in fault.address.operations)


def _can_be(fault: Fault, frame: bytes) -> bool:
    """Whether the frame is one to which this can be done."""
    if fault.events is None or fault.events.moment is not Moment.AT or isinstance(fault.deed, Reorder):
        return True
    return can_be_done(fault, [Write(frame)])


def _connections(fault: Fault) -> str:
    numbers = " or ".join(str(number) for number in fault.address.connections)
    return f", on connection {numbers}" if numbers else ""


def _how_often(fault: Fault, logs: Mapping[str, SessionLog]) -> str:
    words = []
    if fault.skip:
        words.append(f"after the first {fault.skip}")
    if fault.times is not None:
        words.append("once" if fault.times == 1 else f"{fault.times} times")
        if len(fault.address.sessions or logs) > 1:
            words.append("counted over all sessions as they are asked for")
    if fault.probability < 1:
        words.append(f"with probability {fault.probability:g}")
    return f" ({', '.join(words)})" if words else ""
