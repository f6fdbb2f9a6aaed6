"""The state of one session: pure, deterministic, without a clock."""

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
from wiretape_replay.responses.error_envelope import ActiveRun, ErrorDetail
from wiretape_replay.service.engine.acts import asks_of, whole_run
from wiretape_replay.service.engine.bodies import Given, Registered, Wanted, given_in, wanted_in
from wiretape_replay.service.engine.call import Call, Outcome, Wait
from wiretape_replay.service.engine.journal import Journal
from wiretape_replay.service.engine.model import Command, Do, Emitted, Refusal, Run
from wiretape_replay.service.engine.play import Play
from wiretape_replay.service.engine.schemas import ANY_OBJECT, Shape
from wiretape_replay.service.scenario.steps import RunScript, Scenario

_OBJECT = Shape(ANY_OBJECT)


class SessionEngine:
    """Runs the scenario's runs.  Times are ns on any clock that begins at `epoch`; one that goes back stands still."""

    def __init__(self, *, session_id: str, workspace_id: str, scenario: Scenario, seed: int, epoch: datetime) -> None:
        """`created_at` of an event is `epoch` (an aware time) and the time of the event."""
        self.session_id = session_id
        self.scenario = scenario
        self._journal = Journal(
            session_id=session_id, workspace_id=workspace_id, seed=seed, epoch=epoch, ephemeral=scenario.ephemeral
        )
        self._plays: dict[str, Play] = {}
        self._tools = {name: Registered.of(tool) for name, tool in scenario.tools.items()}
        self._outputs: dict[str, Mapping[str, Registered]] = {}
        """By run, the application tools as they are registered for it."""
        self._active: Play | None = None
        self._refused = 0
        """How often the next run was refused by its script."""
        self._now_ns = 0

    # What there is.

    @property
    def runs(self) -> Mapping[str, Run]:
        """All runs by id, in the order of their creation, as they are now."""
        return {run_id: play.shown for run_id, play in self._plays.items()}

    def run(self, run_id: str) -> Run | None:
        """The run of that id, as it is now."""
        play = self._plays.get(run_id)
        return None if play is None else play.shown

    @property
    def active(self) -> Run | None:
        """The run that has not ended, if there is one."""
        return None if self._active is None else self._active.shown

    # What is asked of it.

    def obey(self, command: Command) -> Run:
        """Do what a command says.  Raises Refusal."""
        match command.do:
            case Do.CREATE:
                return self.create_run(command.body or {}, command.time_ns)
            case Do.CANCEL:
                return self.cancel(command.run_id or "", command.time_ns)
            case Do.RESUME:
                return self.resume(command.run_id or "", command.body or {}, command.time_ns)

    def create_run(self, body: Mapping[str, Any], now_ns: int) -> Run:
        """Raises Refusal: invalid_request, SESSION_BUSY, tool_input_invalid, SANDBOX_PROVISION_FAILED."""
        now_ns = self._catch_up(now_ns)
        self._check(Do.CREATE, None)
        wanted = wanted_in(body)
        number = len(self._plays) + 1
        script = self.scenario.script(number)
        tools = {**self._tools, **wanted.tools}
        _check_inputs(script, wanted.tools)
        self._refuse_by_script(script, wanted)
        run_id = self._journal.made_id("run", number)
        play = Play(self._journal, run_id, number, now_ns, has_sandbox=wanted.has_sandbox)
        play.begin(whole_run(play, script))
        self._refused = 0
        self._plays[run_id], self._outputs[run_id], self._active = play, tools, play
        self._catch_up(now_ns)
        return play.shown

    def cancel(self, run_id: str, now_ns: int) -> Run:
        """Raises Refusal: resource_not_found, RUN_NOT_CANCELLABLE."""
        now_ns = self._catch_up(now_ns)
        play = self._play(run_id)
        self._check(Do.CANCEL, play)
        play.cancel(now_ns)
        self._active = None
        return play.shown

    def resume(self, run_id: str, body: Mapping[str, Any], now_ns: int) -> Run:
        """Give a run what it waits for.

        Raises Refusal: resource_not_found, invalid_request, event_already_resolved, event_expired, run_not_resumable,
        tool_result_invalid, runtime_resume_unavailable.
        """
        now_ns = self._catch_up(now_ns)
        play = self._play(run_id)
        try:
            given = given_in(body)
        except Refusal:
            self._check(Do.RESUME, play)
            raise
        if given.tool_call_id is not None:
            _check_call(play, given.tool_call_id)
        self._check(Do.RESUME, play)
        wait = _wait_for(play, given)
        if wait.call is not None and "output" in given.answer:
            self._check_result(play, wait.call, given.answer["output"])
        if wait.unavailable > 0:
            wait.unavailable -= 1
            raise Refusal(RUNTIME_RESUME_UNAVAILABLE, f"Run {run_id} cannot be resumed at the moment; try again.")
        play.give(wait, given.answer, now_ns)
        self._catch_up(now_ns)
        return play.shown

    def check(self, do: Do, run_id: str | None) -> None:
        """Whether the state of session and run allows it, whatever a request says.  Raises Refusal."""
        self._check(do, None if run_id is None else self._play(run_id))

    # How time passes.

    def due_ns(self) -> int | None:
        """When `advance` has something to do; None: not before the next command."""
        waiting_ns = self._journal.waiting_since_ns
        if waiting_ns is not None:
            return waiting_ns
        return None if self._active is None else self._active.due_ns()

    def advance(self, now_ns: int) -> list[Emitted]:
        """Everything that is due and was not given yet, in order; also what commands brought."""
        self._catch_up(now_ns)
        return self._journal.take()

    def _catch_up(self, now_ns: int) -> int:
        """Do everything that is due, so that what comes next comes after it.  Returns the time that it is."""
        self._now_ns = max(self._now_ns, now_ns)
        if self._active is not None:
            self._active.advance(self._now_ns)
            if self._active.status.is_terminal:
                self._active = None
        return self._now_ns

    # Why it refuses.

    def _check(self, do: Do, play: Play | None) -> None:
        if do is Do.CREATE and self._active is not None:
            raise self._busy(self._active.shown)
        if do is Do.CANCEL and play is not None and play.status.is_terminal:
            raise Refusal(RUN_NOT_CANCELLABLE, f"Run {play.id} is {play.status} already.")
        if do is Do.RESUME and play is not None and not play.waits:
            raise Refusal(RUN_NOT_RESUMABLE, f"Run {play.id} is {play.status} and waits for nothing.")

    def _play(self, run_id: str) -> Play:
        play = self._plays.get(run_id)
        if play is None:
            raise Refusal(RESOURCE_NOT_FOUND, f"There is no run {run_id} in session {self.session_id}.")
        return play

    def _busy(self, run: Run) -> Refusal:
        active = ActiveRun(self.session_id, run.id, run.status.value)
        message = f"Session {self.session_id} has an active run: {run.id} is {run.status}."
        return Refusal(SESSION_BUSY, message, active=active)

    def _refuse_by_script(self, script: RunScript, wanted: Wanted) -> None:
        refuse = script.refuse
        if refuse is None or (refuse.times is not None and self._refused >= refuse.times):
            return
        if refuse.code == SANDBOX_PROVISION_FAILED and not wanted.has_sandbox:
            return  # "drop an unnecessary sandbox requirement"
        self._refused += 1
        raise Refusal(refuse.code, refuse.told)

    def _check_result(self, play: Play, call: Call, output: Any) -> None:
        registered = self._outputs[play.id].get(call.name)
        reasons = (registered.output if registered is not None else _OBJECT).reasons(output, "output")
        if reasons:
            message = f"The result of {call.name} does not match its output schema: {reasons[0].reason}."
            raise Refusal(TOOL_RESULT_INVALID, message, reasons=reasons)


def _check_inputs(script: RunScript, tools: Mapping[str, Registered]) -> None:
    """Whether tools that the client registered take what they will be called with.  Raises Refusal."""
    for ask in asks_of(script.steps):
        registered = tools.get(ask.name)
        if registered is not None and (reasons := registered.input.reasons(ask.input, "input")):
            message = f"The agent's input of {ask.name} does not match its input schema: {reasons[0].reason}."
            raise Refusal(TOOL_INPUT_INVALID, message, reasons=reasons)


def _wait_for(play: Play, given: Given) -> Wait:
    """What of the run waits for what is given.  Raises Refusal."""
    call_id = given.tool_call_id
    for wait in play.waits:
        if (wait.call.id if wait.call is not None else None) == call_id:
            return wait
    waits_for = "the result of a tool call, not for input" if call_id is None else "the result of no such call"
    reasons = [ErrorDetail("tool_call_id", f"the run waits for {waits_for}")]
    raise Refusal(INVALID_REQUEST, f"Run {play.id} waits for something else.", reasons=reasons)


def _check_call(play: Play, call_id: str) -> None:
    """Whether a call of the run may still get its result.  Raises Refusal."""
    call = play.calls.get(call_id)
    if call is None or not call.of_application:
        return
    if call.outcome is Outcome.RESOLVED:
        raise Refusal(EVENT_ALREADY_RESOLVED, f"The result of tool call {call_id} has come already.")
    if call.outcome is Outcome.EXPIRED:
        raise Refusal(EVENT_EXPIRED, f"The deadline of tool call {call_id} has passed.")
