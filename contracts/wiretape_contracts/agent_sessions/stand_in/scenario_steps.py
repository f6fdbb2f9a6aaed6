"""Scenarios: the types of the file, which are also what the engine runs.  Pure data: no I/O, no clock."""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from wiretape_contracts.agent_sessions import (
    DELTA_TYPES,
    INVALID_REQUEST,
    SANDBOX_PROVISION_FAILED,
    STREAM_RESYNC,
    TOOL_INPUT_INVALID,
)

STEP_TAG = "(step)"
"""The tag of a step: in the file, the key that names a step is its tag, for example `say`."""

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


class TimedStep(_Table, frozen=True, kw_only=True, tag_field=STEP_TAG):
    """A step with its own timing."""

    after: Seconds | None = None
    """Seconds before its first event; the run's pace by default."""
    pace: Seconds | None = None
    """Seconds between its events; the run's pace by default."""


class TextStep(TimedStep, frozen=True, kw_only=True):
    """A text that is sent in pieces."""

    text: TextOrPieces
    """The text, or its pieces."""
    cut: Literal["words", "characters", "lines", "whole"] | Number | None = None
    """Where the text is cut, or the number of characters of a piece; words by default."""

    @property
    def pieces(self) -> Sequence[str]:
        """The pieces that are sent; joined they are the text."""
        if not isinstance(self.text, str):
            return self.text
        match self.cut:
            case "characters":
                return list(self.text)
            case "lines":
                return self.text.splitlines(keepends=True)
            case "whole":
                return [self.text]
            case "words" | None:
                return _PIECES.findall(self.text)
            case size:
                return [self.text[begin : begin + size] for begin in range(0, len(self.text), size)]


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


class WaitingStep(TimedStep, frozen=True, kw_only=True):
    """A step after which the run waits for a client."""

    deadline: Deadline = None
    unavailable: Count = 0
    """How many valid results are refused with `runtime_resume_unavailable` first."""


class Ask(WaitingStep, frozen=True, kw_only=True, tag="ask"):
    """A call of an application tool: the run waits for its result or its deadline (the scenario's by default)."""

    name: Text = field(name="ask")
    input: JsonObject = {}


class WaitForInput(WaitingStep, frozen=True, kw_only=True, tag="wait-for-input"):
    """The run waits until it is resumed, or for its deadline (none by default)."""

    wait_for_input: bool = True


class Pause(_Table, frozen=True, kw_only=True, tag_field=STEP_TAG, tag="wait"):
    """Nothing happens for this many seconds."""

    wait: Seconds


class Sandbox(TimedStep, frozen=True, kw_only=True, tag="sandbox"):
    """Something happens to the sandbox.

    `recreated`: a missing sandbox is replaced here.  `missing`: it disappears; the next tool call notices, and it is
    replaced first.  `quota`: it disappears and cannot be replaced, because the quota is used up: the run fails.
    """

    change: Literal["recreated", "missing", "quota"] = field(name="sandbox")


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


class EndStream(TimedStep, frozen=True, kw_only=True, tag="end-stream"):
    """The service ends the connected streams; the run continues."""

    how: Literal["close", "reset", "end"] = field(name="end-stream")


class Repeat(TimedStep, frozen=True, kw_only=True, tag="repeat"):
    """Steps that are done several times, one time after the other."""

    times: Number = field(name="repeat")
    steps: "Steps"


class Together(TimedStep, frozen=True, kw_only=True, tag="together"):
    """Steps that are done at the same time; the run continues when all of them are done."""

    steps: "Annotated[Steps, Meta(max_length=50)]" = field(name="together")


SimpleStep = (
    Say | Think | Intermediate | Tool | Ask | WaitForInput | Pause | Sandbox | Resync | SessionError | Fail | EndStream
)
Step = SimpleStep | Repeat | Together
Steps = Annotated[tuple[Step, ...], Meta(min_length=1)]


class RefusalCode(StrEnum):
    """The codes that a scenario can refuse a run with; the others result from what clients do."""

    SANDBOX = SANDBOX_PROVISION_FAILED
    TOOL_INPUT = TOOL_INPUT_INVALID
    INVALID_REQUEST = INVALID_REQUEST


REFUSAL_MESSAGES = {
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
    pace: Seconds = 0.05
    deadline: Deadline = DEFAULT_DEADLINE
    ephemeral: tuple[str, ...] = ()
    """Event types that are not stored, in addition to EPHEMERAL_TYPES."""

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


def walk_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield steps, and the steps inside them."""
    for step in steps:
        yield step
        if isinstance(step, Repeat | Together):
            yield from walk_steps(step.steps)


def to_ns(seconds: float) -> int:
    """Nanoseconds of seconds."""
    return round(seconds * _SECOND_NS)
