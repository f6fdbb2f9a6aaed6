"""The sessions of a service: they execute commands and emit events as time passes.

Only for the event loop's thread.
"""

from dataclasses import dataclass, field

from wiretape.sse import EVENT_STREAM
from wiretape_contracts.agent_sessions.stand_in.event_emitter import generate_id
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import Scenario
from wiretape_contracts.agent_sessions.stand_in.session_engine import SessionEngine
from wiretape_replay.channel.channel_log import ChannelLog, PlayableChannel
from wiretape_replay.channel.playhead_clock import Playheads, Timer
from wiretape_replay.http_server.http_messages import BodyFraming, ResponseHead
from wiretape_replay.service_clock import Clock

_HEAD = ResponseHead(
    200,
    "OK",
    (("Content-Type", EVENT_STREAM), ("Cache-Control", "no-store"), ("Transfer-Encoding", "chunked")),
    BodyFraming.CHUNKED,
)
_KEEP_ALIVE = b": keep-alive\n"
"""Without a blank line after it, because some clients dispatch an empty event for one."""


@dataclass(slots=True, eq=False)
class LiveSession:
    """A session, and the streams that show it."""

    id: str
    tenant: str
    workspace: str
    created_ns: int
    engine: SessionEngine
    session: PlayableChannel
    """What its streams send."""
    timer: Timer | None = None
    due_ns: int | None = None


@dataclass(slots=True)
class LiveSessions:
    """All sessions of one service."""

    seed: int
    clock: Clock
    scenario: Scenario
    playheads: Playheads
    by_id: dict[str, LiveSession] = field(default_factory=dict)
    logs: dict[str, ChannelLog] = field(default_factory=dict)

    def create(self, tenant: str, workspace: str) -> LiveSession:
        """Create a session."""
        session_id = generate_id("ses", self.seed, len(self.by_id) + 1)
        engine = SessionEngine(
            session_id=session_id,
            workspace_id=workspace,
            scenario=self.scenario,
            seed=self.seed,
            epoch=self.clock.epoch,
        )
        session = PlayableChannel(ChannelLog(session_id, noun="session"), _HEAD, _KEEP_ALIVE)
        live = LiveSession(session_id, tenant, workspace, self.clock.now_ns(), engine, session)
        self.by_id[session_id] = live
        self.logs[session_id] = session.log
        self.playheads.latest(session.log).start()
        self._schedule(live)
        return live

    def catch_up(self, live: LiveSession) -> None:
        """Emit the events that are due, and schedule the next ones."""
        entries = live.engine.advance(self.clock.now_ns())
        for entry in entries:
            live.session.log.append(entry)
        if entries:
            self.playheads.latest(live.session.log).update()
        self._schedule(live)

    def stop(self) -> None:
        """Stop the timers of all sessions."""
        for live in self.by_id.values():
            if live.timer is not None:
                live.timer.cancel()

    def _schedule(self, live: LiveSession) -> None:
        due_ns = live.engine.due_ns()
        if due_ns == live.due_ns and due_ns is not None:
            return
        if live.timer is not None:
            live.timer.cancel()
            live.timer = None
        live.due_ns = due_ns
        if due_ns is not None:
            # Whether the next thing that happens is that a client misses a deadline.
            waits = () if live.engine.active is None else live.engine.active.waits
            is_deadline = any(wait.deadline_ns == due_ns for wait in waits)
            live.timer = self.clock.at(due_ns, lambda: self._on_due(live), waits_for_client=is_deadline)

    def _on_due(self, live: LiveSession) -> None:
        live.timer = live.due_ns = None
        self.catch_up(live)
