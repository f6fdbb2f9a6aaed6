"""What a scenario says, read.  Pure data: no I/O, no clock.  Times are ns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from wiretape.contract import DELTA_TYPES, INVALID_REQUEST, SANDBOX_PROVISION_FAILED, STREAM_RESYNC, TOOL_INPUT_INVALID
from wiretape.observations import Ending

SECOND_NS = 1_000_000_000
PACE_NS = SECOND_NS // 20
DEADLINE_NS = 300 * SECOND_NS
SESSION_ERROR = "session_error"
RUN_FAILED = "run_failed"

EPHEMERAL_TYPES = DELTA_TYPES | {STREAM_RESYNC}
"""What is not stored unless a scenario says more.  That `stream.resync` is one of them is an assumption: stored, it
would tell everybody who reads the session from its beginning to reconnect again."""


class Voice(StrEnum):
    """What a text is."""

    SAY = "say"
    """A message: its start, deltas, and the stored message."""
    THINK = "think"
    """Reasoning: deltas, and the stored reasoning."""
    INTERMEDIATE = "intermediate"
    """Intermediate output: deltas only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What every step has."""

    after_ns: int = PACE_NS
    """Between the event before and what the step does first."""
    pace_ns: int = PACE_NS
    """Between the events of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Timed):
    """A text, in the pieces in which it comes."""

    voice: Voice
    pieces: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Timed):
    """A call of a tool that the service executes."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """Why it fails, if it does."""
    takes_ns: int = PACE_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Timed):
    """A call of an application tool: the run waits until its result comes, or the deadline passes."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    deadline_ns: int | None = DEADLINE_NS
    """None: it waits for ever."""
    unavailable: int = 0
    """So many good results are refused with `runtime_resume_unavailable` first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForInput(Timed):
    """The run waits until it is resumed, or the deadline passes."""

    deadline_ns: int | None = None
    unavailable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Timed):
    """Nothing happens for as long as `after_ns` says."""


class SandboxDo(StrEnum):
    """What happens to the run's sandbox."""

    RECREATED = "recreated"
    """A missing sandbox is replaced here."""
    MISSING = "missing"
    """It goes missing, which the next tool call finds out: the sandbox is replaced first."""
    QUOTA = "quota"
    """It goes missing and cannot be replaced, for the quota is used up: the run fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox(Timed):
    """Something happens to the sandbox."""

    do: SandboxDo


@dataclass(frozen=True, slots=True, kw_only=True)
class Resync(Timed):
    """Clients are told to read the replay and reconnect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionError(Timed):
    """An error of the session, after which the run goes on."""

    message: str
    code: str = SESSION_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail(Timed):
    """The run stops with an error."""

    message: str
    code: str = RUN_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class EndStream(Timed):
    """The service ends the streams that are connected; the run goes on."""

    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Timed):
    """Steps, one time after the other."""

    times: int
    steps: "Sequence[Step]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Together(Timed):
    """Steps that go on beside each other; the run goes on when all are done."""

    steps: "Sequence[Step]"


Step = Text | Tool | Ask | WaitForInput | Pause | Sandbox | Resync | SessionError | Fail | EndStream | Repeat | Together


_TOLD = {
    SANDBOX_PROVISION_FAILED: "No sandbox can be had: the provider's quota is exhausted.",
    TOOL_INPUT_INVALID: "The agent called a tool with an input that its schema does not allow.",
    INVALID_REQUEST: "The run cannot be created as it was asked for.",
}
REFUSALS = tuple(_TOLD)
"""The codes with which a scenario can refuse a run; the others come about by what clients do."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """How the creation of a run is refused."""

    code: str
    message: str | None = None
    times: int | None = 1
    """So often, then the run is created; None: always."""

    @property
    def told(self) -> str:
        """What the error says."""
        return self.message or _TOLD[self.code]


@dataclass(frozen=True, slots=True)
class RunScript:
    """What one run of a session does."""

    steps: Sequence[Step] = ()
    after_ns: int = PACE_NS
    """Between its creation and its start."""
    pace_ns: int = PACE_NS
    """Before its end."""
    refuse: Refuse | None = None


@dataclass(frozen=True, slots=True)
class ToolSchemas:
    """An application tool as it is registered."""

    name: str
    input: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    output: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the runs of every session do: the n-th run the n-th script, and the last one repeats."""

    title: str
    runs: Sequence[RunScript]
    tools: Mapping[str, ToolSchemas] = field(default_factory=dict)
    ephemeral: frozenset[str] = EPHEMERAL_TYPES
    """The event types that are not stored."""

    def script(self, number: int) -> RunScript:
        """What the run does that is the `number`-th of its session, from 1."""
        return self.runs[min(number, len(self.runs)) - 1]
