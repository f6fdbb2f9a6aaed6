"""The state of one session: which runs it has, and what commands and time do to them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wiretape.contract import (
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
from wiretape.safe_text import shorten
from wiretape_replay.access.error_envelope import ActiveRun, ErrorDetail
from wiretape_replay.service.engine.event_emitter import EventEmitter
from wiretape_replay.service.engine.run_commands import (
    CommandKind,
    CreateBody,
    Refusal,
    RegisteredTool,
    ResumeBody,
    parse_create_body,
    parse_resume_body,
)
from wiretape_replay.service.engine.run_interpreter import (
    CallOutcome,
    ResumePoint,
    RunInterpreter,
    RunSnapshot,
    RunToolCall,
)
from wiretape_replay.service.engine.step_handlers import run_actions
from wiretape_replay.service.scenario.scenario_steps import Ask, RunScript, Scenario, walk_steps
from wiretape_replay.service.scenario.tool_schemas import ANY_OBJECT, ToolSchema
from wiretape_replay.session.session_log import LogEntry

_OBJECT = ToolSchema(ANY_OBJECT)


class SessionEngine:
    """Plays the scenario's runs.  Times are ns since `epoch`; a time before an earlier one counts as that one."""

    def __init__(self, *, session_id: str, workspace_id: str, scenario: Scenario, seed: int, epoch: datetime) -> None:
        """The `created_at` of an event is `epoch` (with a time zone) plus the time of the event."""
        self.session_id = session_id
        self.scenario = scenario
        self._emitter = EventEmitter(
            session_id=session_id, workspace_id=workspace_id, seed=seed, epoch=epoch, ephemeral=scenario.ephemeral_types
        )
        self._runs: dict[str, RunInterpreter] = {}
        self._tools = {tool.name: RegisteredTool.of(tool) for tool in scenario.tools}
        self._tools_by_run: dict[str, Mapping[str, RegisteredTool]] = {}
        """The application tools that are registered for each run."""
        self._active: RunInterpreter | None = None
        self._refusals = 0
        """How often the next run was refused by its script."""
        self._now_ns = 0

    # State.

    @property
    def runs(self) -> Mapping[str, RunSnapshot]:
        """All runs by id, in the order of their creation."""
        return {run_id: run.snapshot() for run_id, run in self._runs.items()}

    def run(self, run_id: str) -> RunSnapshot:
        """The run with that id, as it is now.  Raises Refusal: resource_not_found."""
        return self._run(run_id).snapshot()

    @property
    def active(self) -> RunSnapshot | None:
        """The run that has not ended, if there is one."""
        return None if self._active is None else self._active.snapshot()

    # Commands.

    def execute(
        self, kind: CommandKind, now_ns: int, run_id: str | None = None, body: Mapping[str, Any] | None = None
    ) -> RunSnapshot:
        """Execute a command.  Raises Refusal."""
        match kind:
            case CommandKind.CREATE:
                return self.create_run(body or {}, now_ns)
            case CommandKind.CANCEL:
                return self.cancel(run_id or "", now_ns)
            case CommandKind.RESUME:
                return self.resume(run_id or "", body or {}, now_ns)

    def create_run(self, body: Mapping[str, Any], now_ns: int) -> RunSnapshot:
        """Raises Refusal: invalid_request, SESSION_BUSY, tool_input_invalid, SANDBOX_PROVISION_FAILED."""
        now_ns = self._catch_up(now_ns)
        self._check(CommandKind.CREATE, None)
        parsed = parse_create_body(body)
        number = len(self._runs) + 1
        script = self.scenario.script(number, body.get("input"))
        _check_inputs(script, parsed.tools)
        self._refuse_by_script(script, parsed)
        run_id = self._emitter.generate_id("run", number)
        run = RunInterpreter(self._emitter, run_id, number, now_ns, has_sandbox=parsed.needs_sandbox)
        run.start(run_actions(run, script))
        self._refusals = 0
        self._runs[run_id] = self._active = run
        self._tools_by_run[run_id] = {**self._tools, **parsed.tools}
        self._catch_up(now_ns)
        return run.snapshot()

    def cancel(self, run_id: str, now_ns: int) -> RunSnapshot:
        """Raises Refusal: resource_not_found, RUN_NOT_CANCELLABLE."""
        now_ns = self._catch_up(now_ns)
        run = self._run(run_id)
        self._check(CommandKind.CANCEL, run)
        run.cancel(now_ns)
        self._active = None
        return run.snapshot()

    def resume(self, run_id: str, body: Mapping[str, Any], now_ns: int) -> RunSnapshot:
        """Give a run what it waits for.

        Raises Refusal: resource_not_found, invalid_request, event_already_resolved, event_expired, run_not_resumable,
        tool_result_invalid, runtime_resume_unavailable.
        """
        now_ns = self._catch_up(now_ns)
        run = self._run(run_id)
        try:
            parsed = parse_resume_body(body)
        except Refusal:
            self._check(CommandKind.RESUME, run)
            raise
        if parsed.tool_call_id is not None:
            _check_call(run, parsed.tool_call_id)
        self._check(CommandKind.RESUME, run)
        wait = _find_wait(run, parsed)
        if wait.call is not None and "output" in parsed.result:
            self._check_result(run, wait.call, parsed.result["output"])
        if wait.unavailable > 0:
            wait.unavailable -= 1
            raise Refusal(RUNTIME_RESUME_UNAVAILABLE, f"Run {run_id} cannot be resumed at the moment; try again.")
        run.resume(wait, parsed.result, now_ns)
        self._catch_up(now_ns)
        return run.snapshot()

    def check(self, kind: CommandKind, run_id: str | None) -> None:
        """Check that the state of session and run allows a command, whatever its body is.  Raises Refusal."""
        self._check(kind, None if run_id is None else self._run(run_id))

    # Time.

    def due_ns(self) -> int | None:
        """When `advance` has something to do; None: not before the next command."""
        pending_ns = self._emitter.pending_since_ns
        if pending_ns is not None:
            return pending_ns
        return None if self._active is None else self._active.due_ns()

    def advance(self, now_ns: int) -> list[LogEntry]:
        """Return the entries that are due and were not returned yet, in order; also those of commands."""
        self._catch_up(now_ns)
        return self._emitter.take()

    def _catch_up(self, now_ns: int) -> int:
        """Do everything that is due, so that what follows comes after it; return the current time."""
        self._now_ns = max(self._now_ns, now_ns)
        if self._active is not None:
            self._active.advance(self._now_ns)
            if self._active.status.is_terminal:
                self._active = None
        return self._now_ns

    # Checks.

    def _check(self, kind: CommandKind, run: RunInterpreter | None) -> None:
        if kind is CommandKind.CREATE and self._active is not None:
            active = ActiveRun(self.session_id, self._active.id, self._active.status.value)
            message = f"Session {self.session_id} has an active run: {active.run_id} is {active.status}."
            raise Refusal(SESSION_BUSY, message, active=active)
        if kind is CommandKind.CANCEL and run is not None and run.status.is_terminal:
            raise Refusal(RUN_NOT_CANCELLABLE, f"Run {run.id} is already {run.status}.")
        if kind is CommandKind.RESUME and run is not None and not run.waits:
            raise Refusal(RUN_NOT_RESUMABLE, f"Run {run.id} is {run.status} and does not wait for anything.")

    def _run(self, run_id: str) -> RunInterpreter:
        run = self._runs.get(run_id)
        if run is None:
            raise Refusal(RESOURCE_NOT_FOUND, f"Session {self.session_id} has no run {shorten(run_id)}.")
        return run

    def _refuse_by_script(self, script: RunScript, body: CreateBody) -> None:
        refusal = script.refusal
        if refusal is None or not refusal.applies(self._refusals):
            return
        if refusal.code == SANDBOX_PROVISION_FAILED and not body.needs_sandbox:
            return  # "drop an unnecessary sandbox requirement"
        self._refusals += 1
        raise Refusal(refusal.code.value, refusal.error_message)

    def _check_result(self, run: RunInterpreter, call: RunToolCall, output: Any) -> None:
        tool = self._tools_by_run[run.id].get(call.name)
        reasons = (tool.output if tool is not None else _OBJECT).mismatches(output, "output")
        if reasons:
            message = f"The result of {call.name} does not match its output schema: {reasons[0].reason}."
            raise Refusal(TOOL_RESULT_INVALID, message, reasons=reasons)


def _check_inputs(script: RunScript, tools: Mapping[str, RegisteredTool]) -> None:
    """Check that tools that the client registered accept their inputs in the script.  Raises Refusal."""
    for step in walk_steps(script.steps):
        tool = tools.get(step.name) if isinstance(step, Ask) else None
        if tool is not None and isinstance(step, Ask) and (reasons := tool.input.mismatches(step.input, "input")):
            message = f"The agent's input of {step.name} does not match its input schema: {reasons[0].reason}."
            raise Refusal(TOOL_INPUT_INVALID, message, reasons=reasons)


def _find_wait(run: RunInterpreter, body: ResumeBody) -> ResumePoint:
    """Find the wait that a resume is for.  Raises Refusal."""
    call_id = body.tool_call_id
    for wait in run.waits:
        if wait.tool_call_id == call_id:
            return wait
    problem = (
        "the run waits for the result of a tool call, not for input"
        if call_id is None
        else "the run does not wait for the result of this tool call"
    )
    reasons = [ErrorDetail("tool_call_id", problem)]
    raise Refusal(INVALID_REQUEST, f"Run {run.id} waits for something else.", reasons=reasons)


def _check_call(run: RunInterpreter, call_id: str) -> None:
    """Check that a tool call of the run can still get its result.  Raises Refusal."""
    call = run.calls.get(call_id)
    if call is None or not call.is_of_application:
        return
    if call.outcome is CallOutcome.RESOLVED:
        raise Refusal(EVENT_ALREADY_RESOLVED, f"Tool call {call_id} already has its result.")
    if call.outcome is CallOutcome.EXPIRED:
        raise Refusal(EVENT_EXPIRED, f"The deadline of tool call {call_id} has passed.")
