"""What each step of a scenario does in a run."""

from collections.abc import Callable, Sequence
from typing import Any

from wiretape.contract import (
    INTERMEDIATE_DELTA,
    MESSAGE_COMPLETED,
    MESSAGE_DELTA,
    MESSAGE_STARTED,
    REASONING_DELTA,
    REASONING_MESSAGE,
    RUN_STARTED,
    SANDBOX_PROVISION_FAILED,
    SANDBOX_RECREATED,
    SESSION_ERROR,
    STREAM_RESYNC,
)
from wiretape_replay.service.engine.run_interpreter import Actions, Branches, RunInterpreter, RunStatus
from wiretape_replay.service.scenario.scenario_steps import (
    Ask,
    EndStream,
    Fail,
    Intermediate,
    Pause,
    Repeat,
    Resync,
    RunScript,
    Sandbox,
    SandboxChange,
    Say,
    SessionError,
    Step,
    TextStep,
    Think,
    Together,
    Tool,
    WaitForInput,
)


def run_actions(run: RunInterpreter, script: RunScript) -> Actions:
    """The actions of a run from its start to its end."""
    yield script.after_ns
    run.emit(RUN_STARTED, {"number": run.number}, {"status": RunStatus.RUNNING.value})
    yield from _steps(run, script.steps)
    yield script.pace_ns
    run.end(RunStatus.COMPLETED)


def _steps(run: RunInterpreter, steps: Sequence[Step]) -> Actions:
    for step in steps:
        yield step.after_ns
        yield from _HANDLERS[type(step)](run, step)
        if run.status.is_terminal:
            return


def _say(run: RunInterpreter, step: Say) -> Actions:
    message = {"message_id": run.new_id("msg")}
    run.emit(MESSAGE_STARTED, message, message)
    yield step.pace_ns
    yield from _deltas(run, step, MESSAGE_DELTA)
    yield step.pace_ns
    run.emit(MESSAGE_COMPLETED, _blocks(step), message)


def _think(run: RunInterpreter, step: Think) -> Actions:
    yield from _deltas(run, step, REASONING_DELTA)
    yield step.pace_ns
    run.emit(REASONING_MESSAGE, _blocks(step), {})


def _intermediate(run: RunInterpreter, step: Intermediate) -> Actions:
    yield from _deltas(run, step, INTERMEDIATE_DELTA)


def _deltas(run: RunInterpreter, step: TextStep, type_: str) -> Actions:
    for number, piece in enumerate(step.pieces):
        if number:
            yield step.pace_ns
        run.emit_delta(type_, piece)


def _blocks(step: TextStep) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "".join(step.pieces)}]


def _tool(run: RunInterpreter, step: Tool) -> Actions:
    if run.is_sandbox_missing:
        _recreate_sandbox(run)
        yield step.pace_ns
    call = run.start_call(step.name, step.input)
    yield step.takes_ns
    if step.error is None:
        run.complete_call(call, step.output or {})
    else:
        run.fail_call(call, step.error)


def _ask(run: RunInterpreter, step: Ask) -> Actions:
    call = run.start_call(step.name, step.input, is_of_application=True)
    yield step.pace_ns
    wait = run.ask(call, step.deadline_ns, step.unavailable)
    yield wait
    result = wait.result or {}
    if "error" in result:
        run.fail_call(call, result["error"])
    else:
        run.complete_call(call, result["output"])


def _wait_for_input(run: RunInterpreter, step: WaitForInput) -> Actions:
    yield run.wait(None, step.deadline_ns, step.unavailable)


def _pause(_run: RunInterpreter, _step: Pause) -> Actions:
    yield from ()


def _sandbox(run: RunInterpreter, step: Sandbox) -> Actions:
    if not run.has_sandbox:
        return
    match step.change:
        case SandboxChange.MISSING:
            run.is_sandbox_missing = True
        case SandboxChange.RECREATED:
            _recreate_sandbox(run)
        case SandboxChange.QUOTA:
            message = "The sandbox is missing, and the provider's quota is exhausted."
            _emit_session_error(run, SANDBOX_PROVISION_FAILED, message)
            yield step.pace_ns
            run.fail(SANDBOX_PROVISION_FAILED, message)


def _recreate_sandbox(run: RunInterpreter) -> None:
    run.is_sandbox_missing = False
    sandbox = {"sandbox_id": run.new_id("sbx")}
    run.emit(SANDBOX_RECREATED, sandbox, sandbox)


def _resync(run: RunInterpreter, _step: Resync) -> Actions:
    run.emit(STREAM_RESYNC, {}, {})
    yield from ()


def _session_error(run: RunInterpreter, step: SessionError) -> Actions:
    _emit_session_error(run, step.code, step.message)
    yield from ()


def _emit_session_error(run: RunInterpreter, code: str, message: str) -> None:
    run.emit(SESSION_ERROR, {"error": {"code": code, "message": message}}, {"code": code})


def _fail(run: RunInterpreter, step: Fail) -> Actions:
    run.fail(step.code, step.message)
    yield from ()


def _end_stream(run: RunInterpreter, step: EndStream) -> Actions:
    run.end_streams(step.ending)
    yield from ()


def _repeat(run: RunInterpreter, step: Repeat) -> Actions:
    for _ in range(step.times):
        yield from _steps(run, step.steps)
        if run.status.is_terminal:
            return


def _together(run: RunInterpreter, step: Together) -> Actions:
    yield Branches([_steps(run, [one]) for one in step.steps])


_HANDLERS: dict[type[Step], Callable[[RunInterpreter, Any], Actions]] = {
    Say: _say,
    Think: _think,
    Intermediate: _intermediate,
    Tool: _tool,
    Ask: _ask,
    WaitForInput: _wait_for_input,
    Pause: _pause,
    Sandbox: _sandbox,
    Resync: _resync,
    SessionError: _session_error,
    Fail: _fail,
    EndStream: _end_stream,
    Repeat: _repeat,
    Together: _together,
}
