"""The state of runs, tool calls and waits."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any


class RunStatus(StrEnum):
    """The status of a run.  Only `waiting_for_input` is from the specification; the others are assumptions."""

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


class CallOutcome(Enum):
    """The outcome of a tool call."""

    OPEN = auto()
    RESOLVED = auto()
    """It completed or failed."""
    EXPIRED = auto()
    """Its deadline passed."""
    DROPPED = auto()
    """Its run ended first."""


@dataclass(slots=True)
class ToolCall:
    """A tool call of a run."""

    id: str
    name: str
    input: Mapping[str, Any]
    is_of_application: bool = False
    outcome: CallOutcome = CallOutcome.OPEN

    @property
    def summary(self) -> dict[str, Any]:
        """What every event of the call contains."""
        return {"tool_call_id": self.id, "name": self.name}


@dataclass(slots=True)
class Wait:
    """A point at which a run waits to be resumed."""

    call: ToolCall | None
    """The call whose result it waits for; None if it waits for input."""
    deadline_ns: int | None
    unavailable: int
    """How many more times resuming is refused because the runtime is unavailable."""
    result: Mapping[str, Any] | None = None
    """What it was resumed with."""

    def snapshot(self) -> "WaitSnapshot":
        """The wait as it is now, for clients that read the run."""
        call = self.call
        if call is None:
            return WaitSnapshot(None, None, None, self.deadline_ns)
        return WaitSnapshot(call.id, call.name, call.input, self.deadline_ns)


@dataclass(frozen=True, slots=True)
class WaitSnapshot:
    """What a run waits for: the result of an application tool, or input."""

    tool_call_id: str | None
    """None for input."""
    name: str | None
    input: Mapping[str, Any] | None
    deadline_ns: int | None
    """On the engine's clock; None: no deadline."""


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run as it is at one moment."""

    id: str
    number: int
    """The run's number in its session, from 1."""
    status: RunStatus
    created_ns: int
    ended_ns: int | None = None
    waiting: tuple[WaitSnapshot, ...] = ()
