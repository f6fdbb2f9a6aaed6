"""What goes into the engine of a session and what comes out of it: commands, runs, events, refusals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wiretape.observations import Ending
from wiretape_replay.responses.error_envelope import ActiveRun, ErrorDetail
from wiretape_replay.session.session_log import EntryKind


class RunStatus(StrEnum):
    """How far a run is.  Only `waiting_for_input` is a name of the specification; the others are assumptions."""

    RUNNING = "running"
    WAITING = "waiting_for_input"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self in _TERMINAL


_TERMINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a run waits for: the result of an application tool, or input."""

    tool_call_id: str | None
    """None for input."""
    name: str | None
    input: Mapping[str, Any] | None
    deadline_ns: int | None
    """When it is too late, on the engine's clock; None: never."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it is at one moment."""

    id: str
    number: int
    """Which run of its session, from 1."""
    status: RunStatus
    created_ns: int
    ended_ns: int | None = None
    waiting: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True)
class Emitted:
    """One thing that the streams of the session carry.  `kind` and `ending` are as in `session.log.Entry`."""

    kind: EntryKind
    time_ns: int
    document: Mapping[str, Any] | None = None
    """The event's JSON, keys in the order in which they are written; None for endings."""
    ending: Ending | None = None


class Refusal(Exception):  # noqa: N818 - it is no error of the program
    """A command is refused, with one of the 16 codes; the fields are what `answers.envelope.envelope` takes.

    What is refused counts too: such a command has to be kept as all others are.
    """

    def __init__(
        self, code: str, message: str, *, active: ActiveRun | None = None, reasons: Sequence[ErrorDetail] = ()
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.active = active
        self.reasons = reasons


class Do(StrEnum):
    """What a command wants done."""

    CREATE = "create"
    CANCEL = "cancel"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that was asked of the engine, refused or not: with all of them in order it can be built again."""

    do: Do
    time_ns: int
    run_id: str | None = None
    """None where a run is created."""
    body: Mapping[str, Any] | None = None
    """None for a cancellation."""
