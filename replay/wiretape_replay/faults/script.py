"""What a fault script says, read.  Pure data: no I/O, no clock."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from wiretape_replay.answers.requests import Requests
from wiretape_replay.faults.deed import Deed, Do
from wiretape_replay.session.session_log import LogEntry


class Moment(StrEnum):
    """Where a fault stands in relation to its event."""

    BEFORE = "before"
    AT = "at"
    """In the event itself."""
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as far as faults are addressed by it."""

    method: str
    target: str
    session: str | None = None
    run: str | None = None
    connection: int | None = None
    """Which stream of its session it is, from 1; None for other requests."""
    cursor: str | None = None

    @property
    def path(self) -> str:
        """Without the query, which may hold secrets."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class Address:
    """Addresses requests: those that fit all that is said; what is empty fits any."""

    operations: tuple[Requests, ...] = ()
    sessions: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    connections: tuple[int, ...] = ()

    def fits(self, request: Request) -> bool:
        """Whether a request is addressed."""
        operations = self.operations
        return (
            (not operations or any(operation.holds(request.method, request.target) for operation in operations))
            and _has(self.sessions, request.session)
            and _has(self.runs, request.run)
            and _has(self.connections, request.connection)
        )


@dataclass(frozen=True, slots=True)
class Events:
    """Addresses events of streams: those that fit all that is said; what is empty fits any."""

    moment: Moment
    sequences: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    """Which event of the connection it is, from 1; comments are not counted."""
    types: tuple[str, ...] = ()
    """With `*` for any characters."""
    ids: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    tool_calls: tuple[str, ...] = ()

    def fits(self, entry: LogEntry, number: int) -> bool:
        """Whether an event, the `number`-th of its connection, is addressed."""
        return (
            _has(self.sequences, entry.sequence)
            and _has(self.numbers, number)
            and (not self.types or any(fnmatchcase(entry.type or "", pattern) for pattern in self.types))
            and _has(self.ids, entry.id)
            and _has(self.runs, entry.run_id)
            and _has(self.tool_calls, entry.tool_call_id)
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    name: str
    do: Do
    deed: Deed
    address: Address = Address()
    events: Events | None = None
    """None: it stands before the answer, or in its place."""
    skip: int = 0
    """So many of what is addressed are let pass first."""
    times: int | None = None
    """How often it is done at most; None: always."""
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Script:
    """All faults, in the order of the file."""

    faults: tuple[Fault, ...] = ()
    seed: int = 0

    @property
    def on_events(self) -> tuple[Fault, ...]:
        """Those that are addressed at events of streams."""
        return tuple(fault for fault in self.faults if fault.events is not None)


def _has(wanted: Collection[object], value: object) -> bool:
    return not wanted or value in wanted
