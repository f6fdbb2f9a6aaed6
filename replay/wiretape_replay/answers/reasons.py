"""What errors tell beside their code: the run that is in the way, and what is wrong with a request.  Pure data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """The run for whose sake a session refuses another."""

    session_id: str
    run_id: str
    status: str = "waiting_for_input"
    base: str = ""
    """What stands before `/v1/` in the paths of the service."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One place of a request that is not as it should be, and why."""

    path: str
    reason: str
