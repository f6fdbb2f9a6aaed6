"""The state of one session: pure, deterministic, without a clock."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wiretape_replay.service.engine.model import Command, Emitted, Run
from wiretape_replay.service.scenario.steps import Scenario


class SessionEngine:
    """Runs the scenario's runs.  Times are ns on any clock that begins at `epoch` and does not go back."""

    def __init__(self, *, session_id: str, workspace_id: str, scenario: Scenario, seed: int, epoch: datetime) -> None:
        """`created_at` of an event is `epoch` (an aware UTC time) and the time of the event."""

    @property
    def runs(self) -> Mapping[str, Run]:
        """All runs by id, in the order of their creation, as they are now."""
        raise NotImplementedError

    def run(self, run_id: str) -> Run | None:
        """The run of that id, as it is now."""
        raise NotImplementedError

    @property
    def active(self) -> Run | None:
        """The run that has not ended, if there is one."""
        raise NotImplementedError

    def obey(self, command: Command) -> Run:
        """Do what a command says.  Raises Refusal."""
        raise NotImplementedError

    def create_run(self, body: Mapping[str, Any], now_ns: int) -> Run:
        """Raises Refusal: SESSION_BUSY, SANDBOX_PROVISION_FAILED, tool_input_invalid, invalid_request."""
        raise NotImplementedError

    def cancel(self, run_id: str, now_ns: int) -> Run:
        """Raises Refusal: RUN_NOT_CANCELLABLE, resource_not_found."""
        raise NotImplementedError

    def resume(self, run_id: str, body: Mapping[str, Any], now_ns: int) -> Run:
        """Give a run what it waits for.

        Raises Refusal: invalid_request, resource_not_found, event_already_resolved, event_expired, run_not_resumable,
        tool_result_invalid, runtime_resume_unavailable.
        """
        raise NotImplementedError

    def due_ns(self) -> int | None:
        """When `advance` has something to do; None: not before the next command."""
        raise NotImplementedError

    def advance(self, now_ns: int) -> list[Emitted]:
        """Everything that is due and was not given yet, in order; also what commands brought."""
        raise NotImplementedError
