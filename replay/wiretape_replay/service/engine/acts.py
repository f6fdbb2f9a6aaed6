"""What each step of a scenario does in a run."""

from collections.abc import Callable, Iterator, Sequence
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
from wiretape_replay.service.engine.model import RunStatus
from wiretape_replay.service.engine.play import Branches, Line, Play
from wiretape_replay.service.scenario.steps import (
    Ask,
    EndStream,
    Fail,
    Pause,
    Repeat,
    Resync,
    RunScript,
    Sandbox,
    SandboxDo,
    SessionError,
    Step,
    Text,
    Together,
    Tool,
    Voice,
    WaitForInput,
)


def whole_run(play: Play, script: RunScript) -> Line:
    """A run from its start to its end."""
    yield script.after_ns
    play.event(RUN_STARTED, {"number": play.number}, {"status": RunStatus.RUNNING.value})
    yield from _steps(play, script.steps)
    yield script.pace_ns
    play.end(RunStatus.COMPLETED)


def _steps(play: Play, steps: Sequence[Step]) -> Line:
    for step in steps:
        yield step.after_ns
        yield from _ACTS[type(step)](play, step)
        if play.status.is_terminal:
            return


def _text(play: Play, step: Text) -> Line:
    match step.voice:
        case Voice.SAY:
            yield from _message(play, step)
        case Voice.THINK:
            yield from _fragments(play, step, REASONING_DELTA)
            yield step.pace_ns
            play.event(REASONING_MESSAGE, _blocks(step), {})
        case Voice.INTERMEDIATE:
            yield from _fragments(play, step, INTERMEDIATE_DELTA)


def _message(play: Play, step: Text) -> Line:
    message = {"message_id": play.new_id("msg")}
    play.event(MESSAGE_STARTED, message, message)
    yield step.pace_ns
    yield from _fragments(play, step, MESSAGE_DELTA)
    yield step.pace_ns
    play.event(MESSAGE_COMPLETED, _blocks(step), message)


def _fragments(play: Play, step: Text, kind: str) -> Line:
    for number, piece in enumerate(step.pieces):
        if number:
            yield step.pace_ns
        play.delta(kind, piece)


def _blocks(step: Text) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "".join(step.pieces)}]


def _tool(play: Play, step: Tool) -> Line:
    if play.sandbox_missing:
        _recreate(play)
        yield step.pace_ns
    call = play.start_call(step.name, step.input)
    yield step.takes_ns
    if step.error is None:
        play.complete_call(call, step.output)
    else:
        play.fail_call(call, step.error)


def _ask(play: Play, step: Ask) -> Line:
    call = play.start_call(step.name, step.input, of_application=True)
    yield step.pace_ns
    wait = play.ask(call, step.deadline_ns, step.unavailable)
    yield wait
    given = wait.given or {}
    if "error" in given:
        play.fail_call(call, given["error"])
    else:
        play.complete_call(call, given["output"])


def _wait_for_input(play: Play, step: WaitForInput) -> Line:
    yield play.wait(None, step.deadline_ns, step.unavailable)


def _pause(_play: Play, _step: Pause) -> Line:
    yield from ()


def _sandbox(play: Play, step: Sandbox) -> Line:
    if not play.has_sandbox:
        return
    match step.do:
        case SandboxDo.MISSING:
            play.sandbox_missing = True
        case SandboxDo.RECREATED:
            _recreate(play)
        case SandboxDo.QUOTA:
            message = "The sandbox is missing, and the provider's quota is exhausted."
            _session_error(play, SANDBOX_PROVISION_FAILED, message)
            yield step.pace_ns
            play.fail(SANDBOX_PROVISION_FAILED, message)


def _recreate(play: Play) -> None:
    play.sandbox_missing = False
    sandbox = {"sandbox_id": play.new_id("sbx")}
    play.event(SANDBOX_RECREATED, sandbox, sandbox)


def _resync(play: Play, _step: Resync) -> Line:
    play.event(STREAM_RESYNC, {}, {})
    yield from ()


def _error(play: Play, step: SessionError) -> Line:
    _session_error(play, step.code, step.message)
    yield from ()


def _session_error(play: Play, code: str, message: str) -> None:
    play.event(SESSION_ERROR, {"error": {"code": code, "message": message}}, {"code": code})


def _fail(play: Play, step: Fail) -> Line:
    play.fail(step.code, step.message)
    yield from ()


def _end_stream(play: Play, step: EndStream) -> Line:
    play.end_streams(step.ending)
    yield from ()


def _repeat(play: Play, step: Repeat) -> Line:
    for _ in range(step.times):
        yield from _steps(play, step.steps)
        if play.status.is_terminal:
            return


def _together(play: Play, step: Together) -> Line:
    if step.steps:
        yield Branches([_steps(play, [one]) for one in step.steps])


_ACTS: dict[type[Step], Callable[[Play, Any], Line]] = {
    Text: _text,
    Tool: _tool,
    Ask: _ask,
    WaitForInput: _wait_for_input,
    Pause: _pause,
    Sandbox: _sandbox,
    Resync: _resync,
    SessionError: _error,
    Fail: _fail,
    EndStream: _end_stream,
    Repeat: _repeat,
    Together: _together,
}


def asks_of(steps: Sequence[Step]) -> Iterator[Ask]:
    """Every call of an application tool among the steps, and within them."""
    for step in steps:
        if isinstance(step, Ask):
            yield step
        elif isinstance(step, Repeat | Together):
            yield from asks_of(step.steps)
