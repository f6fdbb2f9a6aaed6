"""The state of one session: which runs it has, and what commands and time do to them.

A state machine without I/O and without a clock: the same scenario, seed and commands at the same times give the same
ids, events and bytes.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from wiretape.safe_text import shorten
from wiretape_contracts.agent_sessions import (
    EVENT_ALREADY_RESOLVED,
    EVENT_EXPIRED,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    RUN_NOT_CANCELLABLE,
    RUN_NOT_RESUMABLE,
    RUNTIME_RESUME_UNAVAILABLE,
    SANDBOX_PROVISION_FAILED,
    SESSION_BUSY,
    TOOL_INPUT_INVALID,
    TOOL_RESULT_INVALID,
)
from wiretape_contracts.agent_sessions.stand_in.event_emitter import EventEmitter
from wiretape_contracts.agent_sessions.stand_in.run_commands import (
    ActiveRun,
    CreateBody,
    Refusal,
    RegisteredTool,
    ResumeBody,
    parse_create_body,
    parse_resume_body,
)
from wiretape_contracts.agent_sessions.stand_in.run_interpreter import (
    CallOutcome,
    ResumePoint,
    RunInterpreter,
    RunToolCall,
)
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import (
    REFUSAL_MESSAGES,
    Ask,
    RunScript,
    Scenario,
    walk_steps,
)
from wiretape_contracts.agent_sessions.stand_in.tool_schemas import ANY_OBJECT, ErrorDetail, ToolSchema
from wiretape_replay.channel.channel_log import LogEntry

_OBJECT = ToolSchema(ANY_OBJECT)


class CommandKind(StrEnum):
    """What a command does."""

    CREATE = "create"
    CANCEL = "cancel"
    RESUME = "resume"


class SessionEngine:
    """Plays the scenario's runs.  Times are ns since `epoch`; a time before an earlier one counts as that one."""

    def __init__(self, *, session_id: str, workspace_id: str, scenario: Scenario, seed: int, epoch: datetime) -> None:
        """The `created_at` of an event is `epoch` (with a time zone) plus the time of the event."""
        self.session_id = session_id
        self.runs: dict[str, RunInterpreter] = {}
        """All runs by id, in the order of their creation."""
        self.active: RunInterpreter | None = None
        """The run that has not ended, if there is one."""
        self._scenario = scenario
        self._emitter = EventEmitter(session_id, workspace_id, seed, epoch, scenario.ephemeral_types)
        self._tools = {
            tool.name: RegisteredTool(ToolSchema(tool.input), ToolSchema(tool.output)) for tool in scenario.tools
        }
        self._tools_by_run: dict[str, Mapping[str, RegisteredTool]] = {}
        """The application tools that are registered for each run."""
        self._refusals = 0
        """How often the next run was refused by its script."""
        self._now_ns = 0

    def run(self, run_id: str) -> RunInterpreter:
        """The run with an id.  Raises Refusal: resource_not_found."""
        if run_id not in self.runs:
            raise Refusal(RESOURCE_NOT_FOUND, f"Session {self.session_id} has no run {shorten(run_id)}.")
        return self.runs[run_id]

    # Time.

    def due_ns(self) -> int | None:
        """When `advance` has something to do; None: not before the next command."""
        if self._emitter.pending:
            return self._emitter.pending[0].time_ns
        return None if self.active is None else self.active.due_ns

    def advance(self, now_ns: int) -> list[LogEntry]:
        """Return the entries that are due and were not returned yet, in order; also those of commands."""
        self._catch_up(now_ns)
        taken, self._emitter.pending = self._emitter.pending, []
        return taken

    def _catch_up(self, now_ns: int) -> None:
        """Do everything that is due, so that what follows comes after it."""
        self._now_ns = max(self._now_ns, now_ns)
        if self.active is not None:
            self.active.advance(self._now_ns)
            if self.active.status.is_terminal:
                self.active = None

    # Commands.

    def execute(
        self, kind: CommandKind, run_id: str | None, read_body: Callable[[], Mapping[str, Any]], now_ns: int
    ) -> RunInterpreter:
        """Execute a command, and return the run.  Raises Refusal.

        Errors about the state of the session and the run precede those about the body, also the ones of `read_body`.
        """
        self._catch_up(now_ns)
        run = None if run_id is None else self.run(run_id)
        if run is None:
            run = self._create_run(read_body)
        elif kind is CommandKind.CANCEL:
            if run.status.is_terminal:
                raise Refusal(RUN_NOT_CANCELLABLE, f"Run {run.id} is already {run.status}.")
            read_body()
            run.cancel(self._now_ns)
        else:
            self._resume(run, read_body)
        self._catch_up(now_ns)
        return run

    def _create_run(self, read_body: Callable[[], Mapping[str, Any]]) -> RunInterpreter:
        if self.active is not None:
            active = ActiveRun(self.session_id, self.active.id, self.active.status.value)
            message = f"Session {self.session_id} has an active run: {active.run_id} is {active.status}."
            raise Refusal(SESSION_BUSY, message, active=active)
        body = parse_create_body(read_body())
        number = len(self.runs) + 1
        script = self._scenario.script(number, body.input)
        _check_inputs(script, body.tools)
        self._refuse_by_script(script, body)
        run = RunInterpreter(
            self._emitter, self._scenario, script, number, self._now_ns, has_sandbox=body.needs_sandbox
        )
        self._refusals = 0
        self.runs[run.id] = self.active = run
        self._tools_by_run[run.id] = {**self._tools, **body.tools}
        return run

    def _refuse_by_script(self, script: RunScript, body: CreateBody) -> None:
        refuse = script.refusal
        if refuse is None:
            return
        # A run without a sandbox does not fail for lack of one.
        is_needless = refuse.code == SANDBOX_PROVISION_FAILED and not body.needs_sandbox
        if not is_needless and (isinstance(refuse.times, bool) or self._refusals < refuse.times):
            self._refusals += 1
            raise Refusal(refuse.code.value, refuse.message or REFUSAL_MESSAGES[refuse.code])

    def _resume(self, run: RunInterpreter, read_body: Callable[[], Mapping[str, Any]]) -> None:
        """Give a run what it waits for.  Raises Refusal."""
        not_resumable = Refusal(RUN_NOT_RESUMABLE, f"Run {run.id} is {run.status} and does not wait for anything.")
        try:
            body = parse_resume_body(read_body())
        except Refusal:
            if not run.waits:
                raise not_resumable from None
            raise
        _check_call(run.calls.get(body.tool_call_id or ""))
        if not run.waits:
            raise not_resumable
        wait = _find_wait(run, body)
        if wait.call is not None and "output" in body.result:
            self._check_result(run, wait.call, body.result["output"])
        if wait.unavailable > 0:
            wait.unavailable -= 1
            raise Refusal(RUNTIME_RESUME_UNAVAILABLE, f"Run {run.id} cannot be resumed at the moment; try again.")
        run.resume(wait, body.result, self._now_ns)

    def _check_result(self, run: RunInterpreter, call: RunToolCall, output: Any) -> None:
        tool = self._tools_by_run[run.id].get(call.name)
        reasons = (tool.output if tool is not None else _OBJECT).mismatches(output, "output")
        if reasons:
            message = f"The result of {call.name} does not match its output schema: {reasons[0].reason}."
            raise Refusal(TOOL_RESULT_INVALID, message, reasons=reasons)


def _check_inputs(script: RunScript, tools: Mapping[str, RegisteredTool]) -> None:
    """Check that tools that the client registered accept their inputs in the script.  Raises Refusal."""
    for step in walk_steps(script.steps):
        if isinstance(step, Ask) and step.name in tools:
            reasons = tools[step.name].input.mismatches(step.input, "input")
            if reasons:
                message = f"The agent's input of {step.name} does not match its input schema: {reasons[0].reason}."
                raise Refusal(TOOL_INPUT_INVALID, message, reasons=reasons)


def _find_wait(run: RunInterpreter, body: ResumeBody) -> ResumePoint:
    """Find the wait that a resume is for.  Raises Refusal."""
    for wait in run.waits:
        if wait.tool_call_id == body.tool_call_id:
            return wait
    problem = (
        "the run waits for the result of a tool call, not for input"
        if body.tool_call_id is None
        else "the run does not wait for the result of this tool call"
    )
    reasons = [ErrorDetail("tool_call_id", problem)]
    raise Refusal(INVALID_REQUEST, f"Run {run.id} waits for something else.", reasons=reasons)


def _check_call(call: RunToolCall | None) -> None:
    """Check that a tool call can still get its result.  Raises Refusal."""
    if call is not None and call.is_of_application:
        if call.outcome is CallOutcome.RESOLVED:
            raise Refusal(EVENT_ALREADY_RESOLVED, f"Tool call {call.id} already has its result.")
        if call.outcome is CallOutcome.EXPIRED:
            raise Refusal(EVENT_EXPIRED, f"The deadline of tool call {call.id} has passed.")
