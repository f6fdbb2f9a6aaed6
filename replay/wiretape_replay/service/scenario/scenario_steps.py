"""Scenarios: the types of the file, which are also what the engine runs.  Pure data: no I/O, no clock.

A step takes its `pace` from its run and its `deadline` from the scenario, unless it has its own.  A `Scenario` fills
in these values, so within it every step has them.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field
from msgspec.structs import force_setattr, replace

from wiretape.contract import DELTA_TYPES, INVALID_REQUEST, SANDBOX_PROVISION_FAILED, STREAM_RESYNC, TOOL_INPUT_INVALID
from wiretape.observations import Ending

STEP_TAG = "(step)"
"""The tag of a step: in the file, the key that names a step is its tag, for example `say`."""

DEFAULT_PACE = 0.05
DEFAULT_DEADLINE = 300
_SECOND_NS = 1_000_000_000
_PIECES = re.compile(r"\S+\s*|\s+")

EPHEMERAL_TYPES = DELTA_TYPES | {STREAM_RESYNC}
"""The event types that are not stored unless a scenario adds others.  That `stream.resync` is one of them is an
assumption: if it were stored, everybody who reads the session from its beginning would be told to reconnect again."""

Text = Annotated[str, Meta(min_length=1)]
TextOrPieces = Text | Annotated[tuple[str, ...], Meta(min_length=1)]
Seconds = Annotated[float, Meta(ge=0, le=1_000_000)]
Deadline = Seconds | bool | None
"""None: the default; false: no deadline."""
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, Meta(ge=1, le=2**63 - 1)]
JsonObject = dict[str, Any]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of a scenario."""


class BaseStep(_Table, frozen=True, kw_only=True, tag_field=STEP_TAG):
    """A step."""

    @property
    def after_ns(self) -> int:
        """Time between the previous event and the first action of the step."""
        return 0


class TimedStep(BaseStep, frozen=True, kw_only=True):
    """A step with its own timing."""

    after: Seconds | None = None
    """Seconds before its first event; the run's pace by default."""
    pace: Seconds | None = None
    """Seconds between its events; the run's pace by default."""

    @property
    def after_ns(self) -> int:
        """See BaseStep."""
        return to_ns(DEFAULT_PACE if self.after is None else self.after)

    @property
    def pace_ns(self) -> int:
        """Time between the events of the step."""
        return to_ns(DEFAULT_PACE if self.pace is None else self.pace)


class Cut(StrEnum):
    """Where a text is cut into pieces."""

    WORDS = "words"
    CHARACTERS = "characters"
    LINES = "lines"
    WHOLE = "whole"


class TextStep(TimedStep, frozen=True, kw_only=True):
    """A text that is sent in pieces."""

    text: TextOrPieces
    """The text, or its pieces."""
    cut: Cut | Number | None = None
    """Where the text is cut, or the number of characters of a piece; words by default."""

    @property
    def pieces(self) -> Sequence[str]:
        """The pieces that are sent; joined they are the text."""
        if not isinstance(self.text, str):
            return self.text
        if isinstance(self.cut, int):
            return [self.text[begin : begin + self.cut] for begin in range(0, len(self.text), self.cut)]
        match self.cut:
            case Cut.CHARACTERS:
                return list(self.text)
            case Cut.LINES:
                return self.text.splitlines(keepends=True)
            case Cut.WHOLE:
                return [self.text]
            case _:
                return _PIECES.findall(self.text)


class Say(TextStep, frozen=True, kw_only=True, tag="say"):
    """A message: its start, deltas, and the stored message."""

    text: TextOrPieces = field(name="say")


class Think(TextStep, frozen=True, kw_only=True, tag="think"):
    """Reasoning: deltas, and the stored reasoning."""

    text: TextOrPieces = field(name="think")


class Intermediate(TextStep, frozen=True, kw_only=True, tag="intermediate"):
    """Intermediate output: deltas only."""

    text: TextOrPieces = field(name="intermediate")


class Tool(TimedStep, frozen=True, kw_only=True, tag="tool"):
    """A call of a tool that the service executes."""

    name: Text = field(name="tool")
    input: JsonObject = {}
    output: JsonObject | None = None
    error: Text | None = None
    """Why it fails, if it does."""
    takes: Seconds | None = None
    """Seconds between its start and its end; the step's pace by default."""

    @property
    def takes_ns(self) -> int:
        """Time between its start and its end."""
        return self.pace_ns if self.takes is None else to_ns(self.takes)


class _WaitingStep(TimedStep, frozen=True, kw_only=True):
    deadline: Deadline = None
    unavailable: Count = 0
    """How many valid results are refused with `runtime_resume_unavailable` first."""

    @property
    def deadline_ns(self) -> int | None:
        """How long the run waits; None: forever."""
        return None if self.deadline is None or isinstance(self.deadline, bool) else to_ns(self.deadline)


class Ask(_WaitingStep, frozen=True, kw_only=True, tag="ask"):
    """A call of an application tool: the run waits for its result or its deadline (the scenario's by default)."""

    name: Text = field(name="ask")
    input: JsonObject = {}


class WaitForInput(_WaitingStep, frozen=True, kw_only=True, tag="wait-for-input"):
    """The run waits until it is resumed, or for its deadline (none by default)."""

    wait_for_input: bool = True


class Pause(BaseStep, frozen=True, kw_only=True, tag="wait"):
    """Nothing happens for this many seconds."""

    wait: Seconds

    @property
    def after_ns(self) -> int:
        """See BaseStep."""
        return to_ns(self.wait)


class SandboxChange(StrEnum):
    """What happens to the run's sandbox."""

    RECREATED = "recreated"
    """A missing sandbox is replaced here."""
    MISSING = "missing"
    """It disappears; the next tool call notices, and the sandbox is replaced first."""
    QUOTA = "quota"
    """It disappears and cannot be replaced, because the quota is used up: the run fails."""


class Sandbox(TimedStep, frozen=True, kw_only=True, tag="sandbox"):
    """Something happens to the sandbox."""

    change: SandboxChange = field(name="sandbox")


class Resync(TimedStep, frozen=True, kw_only=True, tag="resync"):
    """Clients are asked to read the replay and reconnect."""

    resync: bool = True


class SessionError(TimedStep, frozen=True, kw_only=True, tag="session-error"):
    """An error of the session, after which the run continues."""

    message: Text = field(name="session-error")
    code: Text = "session_error"


class Fail(TimedStep, frozen=True, kw_only=True, tag="fail"):
    """The run stops with an error."""

    message: Text = field(name="fail")
    code: Text = "run_failed"


class StreamEnding(StrEnum):
    """How the connected streams end."""

    CLOSE = "close"
    RESET = "reset"
    END = "end"


class EndStream(TimedStep, frozen=True, kw_only=True, tag="end-stream"):
    """The service ends the connected streams; the run continues."""

    how: StreamEnding = field(name="end-stream")

    @property
    def ending(self) -> Ending:
        """The ending of the streams."""
        return _ENDINGS[self.how]


_ENDINGS = {
    StreamEnding.CLOSE: Ending.SERVICE_CLOSED,
    StreamEnding.RESET: Ending.SERVICE_RESET,
    StreamEnding.END: Ending.COMPLETE,
}


class Repeat(TimedStep, frozen=True, kw_only=True, tag="repeat"):
    """Steps that are done several times, one time after the other."""

    times: Number = field(name="repeat")
    steps: "Steps"


class Together(TimedStep, frozen=True, kw_only=True, tag="together"):
    """Steps that are done at the same time; the run continues when all of them are done."""

    steps: "Annotated[Steps, Meta(max_length=50)]" = field(name="together")


Step = (
    Say
    | Think
    | Intermediate
    | Tool
    | Ask
    | WaitForInput
    | Pause
    | Sandbox
    | Resync
    | SessionError
    | Fail
    | EndStream
    | Repeat
    | Together
)
Steps = Annotated[tuple[Step, ...], Meta(min_length=1)]


class RefusalCode(StrEnum):
    """The codes that a scenario can refuse a run with; the others result from what clients do."""

    SANDBOX = SANDBOX_PROVISION_FAILED
    TOOL_INPUT = TOOL_INPUT_INVALID
    INVALID_REQUEST = INVALID_REQUEST


_REFUSAL_MESSAGES = {
    RefusalCode.SANDBOX: "A sandbox cannot be provisioned: the provider's quota is exhausted.",
    RefusalCode.TOOL_INPUT: "The agent called a tool with an input that its schema does not allow.",
    RefusalCode.INVALID_REQUEST: "The run cannot be created as requested.",
}


class Refuse(_Table, frozen=True, kw_only=True):
    """How the creation of a run is refused."""

    code: RefusalCode
    message: Text | None = None
    times: Number | bool = 1
    """How often, before the run is created; false: always."""

    @property
    def error_message(self) -> str:
        """The message of the error."""
        return self.message or _REFUSAL_MESSAGES[self.code]

    def applies(self, refused: int) -> bool:
        """Whether to refuse again, after so many refusals."""
        return isinstance(self.times, bool) or refused < self.times


class RunScript(_Table, frozen=True, kw_only=True):
    """What one run of a session does."""

    steps: Steps
    after: Seconds | None = None
    """Seconds between its creation and its start; its pace by default."""
    pace: Seconds | None = None
    """Seconds between events; the scenario's pace by default."""
    refuse: RefusalCode | Refuse | None = None
    input: Text | None = None
    """Runs that are created with this `input` follow it, whatever their number; no other runs do."""

    @property
    def pace_ns(self) -> int:
        """Time before its end, and between events of steps without their own pace."""
        return to_ns(DEFAULT_PACE if self.pace is None else self.pace)

    @property
    def after_ns(self) -> int:
        """Time between its creation and its start."""
        return self.pace_ns if self.after is None else to_ns(self.after)

    @property
    def refusal(self) -> Refuse | None:
        """How its creation is refused, if it is."""
        return Refuse(code=self.refuse) if isinstance(self.refuse, RefusalCode) else self.refuse


class ToolSchemas(_Table, frozen=True, kw_only=True):
    """A registered application tool."""

    name: Text
    input: JsonObject = field(default_factory=lambda: {"type": "object"})
    output: JsonObject = field(default_factory=lambda: {"type": "object"})


class Scenario(_Table, frozen=True, kw_only=True):
    """What the runs of every session do: the n-th run follows the n-th script, and the last script repeats.

    Scripts with an `input` do not count: they are for the runs that are created with it.
    """

    title: Text
    runs: Annotated[tuple[RunScript, ...], Meta(min_length=1)] = field(name="run")
    tools: tuple[ToolSchemas, ...] = field(default=(), name="tool")
    pace: Seconds = DEFAULT_PACE
    deadline: Deadline = DEFAULT_DEADLINE
    ephemeral: tuple[str, ...] = ()
    """Event types that are not stored, in addition to EPHEMERAL_TYPES."""

    def __post_init__(self) -> None:
        force_setattr(self, "runs", tuple(self._with_defaults(run) for run in self.runs))

    @property
    def ephemeral_types(self) -> frozenset[str]:
        """The event types that are not stored."""
        return EPHEMERAL_TYPES | frozenset(self.ephemeral)

    def script(self, number: int, run_input: object = None) -> RunScript:
        """The script of the run that is the `number`-th of its session, from 1, and was created with an `input`."""
        for run in self.runs:
            if run.input is not None and run.input == run_input:
                return run
        numbered = [run for run in self.runs if run.input is None]
        return numbered[min(number, len(numbered)) - 1]

    def _with_defaults(self, run: RunScript) -> RunScript:
        pace = self.pace if run.pace is None else run.pace
        return replace(run, pace=pace, steps=self._steps_with_defaults(run.steps, pace))

    def _steps_with_defaults(self, steps: Sequence[Step], pace: float) -> tuple[Step, ...]:
        return tuple(self._step_with_defaults(step, pace) for step in steps)

    def _step_with_defaults(self, step: Step, pace: float) -> Step:
        if isinstance(step, Pause):
            return step
        own: dict[str, Any] = {}
        own["after"] = pace if step.after is None else step.after
        own["pace"] = pace if step.pace is None else step.pace
        if isinstance(step, Ask) and step.deadline is None:
            own["deadline"] = self.deadline
        if isinstance(step, Repeat | Together):
            own["steps"] = self._steps_with_defaults(step.steps, pace)
        return replace(step, **own)


def walk_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield steps, and the steps inside them."""
    for step in steps:
        yield step
        if isinstance(step, Repeat | Together):
            yield from walk_steps(step.steps)


def to_ns(seconds: float) -> int:
    """Nanoseconds of seconds."""
    return round(seconds * _SECOND_NS)
