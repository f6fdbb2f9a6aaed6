"""What sessions and runs look like in answers: an assumption, for the specification shows none of it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from wiretape_replay.service.assumptions import Assumptions
from wiretape_replay.service.engine.event_emitter import format_time
from wiretape_replay.service.engine.run_state import RunSnapshot, WaitSnapshot
from wiretape_replay.service.sessions import LiveSession


def session_document(live: LiveSession, epoch: datetime, assumed: Assumptions) -> Mapping[str, Any]:
    """A session, as it is now."""
    active = live.engine.active
    facts = {
        "id": live.id,
        "workspace_id": live.stored.workspace,
        "status": "idle" if active is None else "active",
        "active_run_id": None if active is None else active.id,
        "created_at": _instant(epoch, live.stored.created_ns),
    }
    return {key: facts[fact] for key, fact in assumed.session_body.items()}


def run_document(run: RunSnapshot, live: LiveSession, epoch: datetime, assumed: Assumptions) -> Mapping[str, Any]:
    """A run, as it is now."""
    facts = {
        "id": run.id,
        "session_id": live.id,
        "workspace_id": live.stored.workspace,
        "status": run.status.value,
        "created_at": _instant(epoch, run.created_ns),
        "ended_at": _instant(epoch, run.ended_ns),
        "waiting_for": [_waiting(wait, epoch) for wait in run.waiting],
    }
    return {key: facts[fact] for key, fact in assumed.run_body.items()}


def _waiting(wait: WaitSnapshot, epoch: datetime) -> Mapping[str, Any]:
    return {
        "tool_call_id": wait.tool_call_id,
        "name": wait.name,
        "input": wait.input,
        "deadline": _instant(epoch, wait.deadline_ns),
    }


def _instant(epoch: datetime, time_ns: int | None) -> str | None:
    return None if time_ns is None else format_time(epoch, time_ns)
