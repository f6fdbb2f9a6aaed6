"""Reading the addresses of faults: which requests and which events they are for, and what cannot be."""

from wiretape.contract import CANCEL, DELTA_TYPES, EVENT_TYPES, OPERATIONS, RESUME, STREAM, TOOL_TYPES
from wiretape.safe_text import closest_match, printable
from wiretape.toml import Table, hint
from wiretape_replay.answers.requests import Requests
from wiretape_replay.faults.deed import Do
from wiretape_replay.faults.script import Address, Events, Moment
from wiretape_replay.faults.values import counts, texts

REQUEST_KEYS = ("operation", "session", "run", "connection")
EVENT_KEYS = ("sequence", "event", "type", "id", "run", "tool-call")

_STREAMS = Requests.of(STREAM.name)
_WITH_RUN = (CANCEL.name, RESUME.name)


def address_in(table: Table, do: Do, events: Events | None) -> Address:
    """Which requests a fault is for.  Raises InputError for what cannot be."""
    address = Address(
        operations=tuple(_requests(table, name) for name in texts(table, "operation")),
        sessions=texts(table, "session"),
        runs=texts(table, "run"),
        connections=counts(table, "connection"),
    )
    if events is not None:
        return _of_streams(table, address, "events come on streams only")
    if do is Do.EXPIRE_CURSOR:
        return _of_streams(table, address, "only streams are asked for with a cursor")
    if address.connections:
        return _of_streams(table, address, "only streams are counted as connections")
    if address.runs and any(operation.name not in _WITH_RUN for operation in address.operations):
        raise table.wrong("run", f"only the paths of {' and '.join(_WITH_RUN)} are known to name a run")
    return address


def events_in(table: Table, moment: Moment) -> Events:
    """Which events a fault is for.  Raises InputError for what cannot be."""
    table.only(EVENT_KEYS, "key for an event")
    events = Events(
        moment=moment,
        sequences=counts(table, "sequence", 0),
        numbers=counts(table, "event"),
        types=texts(table, "type"),
        ids=texts(table, "id"),
        runs=texts(table, "run"),
        tool_calls=texts(table, "tool-call"),
    )
    for wanted in events.types:
        if wanted not in EVENT_TYPES and "*" not in wanted:
            raise table.wrong("type", f"the service has no event type {printable(wanted)!r}{hint(wanted, EVENT_TYPES)}")
    _refuse_impossible(table, events)
    return events


def _requests(table: Table, name: str) -> Requests:
    try:
        return Requests.of(name)
    except ValueError as error:
        similar = closest_match(name, OPERATIONS)
        raise table.wrong("operation", f"{error}{f'; did you mean {similar}?' if similar else ''}") from None


def _of_streams(table: Table, address: Address, why: str) -> Address:
    """The same, narrowed to streams, if that can be."""
    if any(operation.name != STREAM.name for operation in address.operations):
        raise table.wrong("operation", f"{why}, so it has to be {STREAM.name}, or to be left out")
    if address.runs:
        raise table.wrong("run", f"{why}, and their paths name no run; that of an event goes where the event is named")
    return Address(operations=(_STREAMS,), sessions=address.sessions, connections=address.connections)


def _refuse_impossible(table: Table, events: Events) -> None:
    """Refuse an event that has what events of its type never have."""
    if not events.types:
        return
    said = " or ".join(events.types)
    if all(name in DELTA_TYPES for name in events.types):
        for key in ("sequence", "id"):
            if key in table:
                raise table.wrong(key, f"{said} is ephemeral and has none")
    if events.tool_calls and all(name in EVENT_TYPES and name not in TOOL_TYPES for name in events.types):
        raise table.wrong("tool-call", f"{said} belongs to no tool call")
