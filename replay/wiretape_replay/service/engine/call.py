"""One call of a tool, and what is waited for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from wiretape_replay.service.engine.model import Waiting


class Outcome(Enum):
    """How far a call is."""

    OPEN = auto()
    RESOLVED = auto()
    """It completed or failed."""
    EXPIRED = auto()
    """Its deadline passed."""
    DROPPED = auto()
    """Its run ended first."""


@dataclass(slots=True)
class Call:
    """A tool call of a run."""

    id: str
    name: str
    input: Mapping[str, Any]
    of_application: bool = False
    outcome: Outcome = Outcome.OPEN

    @property
    def summary(self) -> dict[str, Any]:
        """What every event of the call says."""
        return {"tool_call_id": self.id, "name": self.name}


@dataclass(slots=True)
class Wait:
    """A place at which a run waits to be resumed."""

    call: Call | None
    """Whose result it waits for; None where it waits for input."""
    deadline_ns: int | None
    unavailable: int
    """So many times the runtime cannot take what is given."""
    given: Mapping[str, Any] | None = field(default=None)
    """What it was resumed with."""

    @property
    def shown(self) -> Waiting:
        """The same, for those who look at the run."""
        call = self.call
        if call is None:
            return Waiting(None, None, None, self.deadline_ns)
        return Waiting(call.id, call.name, call.input, self.deadline_ns)
