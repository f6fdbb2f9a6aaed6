"""The sessions of a service: they execute commands and emit events as time passes.

Everything is stored before a client can see it, and a session is rebuilt from its commands.  Only for the event
loop's thread.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from wiretape.contract import EVENT_STREAM
from wiretape.errors import InputError
from wiretape.safe_text import printable
from wiretape_replay.generated_ids import generate_id
from wiretape_replay.http_server.http_messages import Framing, Response, ResponseHead
from wiretape_replay.service.engine.commands import Command, CommandKind, Refusal
from wiretape_replay.service.engine.run_interpreter import RunSnapshot
from wiretape_replay.service.engine.session_engine import SessionEngine
from wiretape_replay.service.scenario.scenario_steps import Scenario
from wiretape_replay.service.service_clock import Clock
from wiretape_replay.service.service_data import Change, ServiceData, StoredResponse, StoredSession
from wiretape_replay.session.idle_timer import Timer
from wiretape_replay.session.playheads import Playheads
from wiretape_replay.session.session_log import EntryKind, LogEntry, PlayableSession, SessionLog

_HEAD = ResponseHead(
    200,
    "OK",
    (("Content-Type", EVENT_STREAM), ("Cache-Control", "no-store"), ("Transfer-Encoding", "chunked")),
    Framing.CHUNKED,
)
_KEEP_ALIVE = b": keep-alive\n"
"""Without a blank line after it, because some clients dispatch an empty event for one."""


@dataclass(slots=True, eq=False)
class LiveSession:
    """A session in memory."""

    stored: StoredSession
    engine: SessionEngine
    session: PlayableSession
    """What its streams send."""
    durable: int = 0
    """How many of its events are stored."""
    timer: Timer | None = None
    due_ns: int | None = None

    @property
    def id(self) -> str:
        """The session's id."""
        return self.stored.id


@dataclass(slots=True)
class LiveSessions:
    """All sessions of one service."""

    data: ServiceData
    clock: Clock
    scenario: Scenario
    scenario_number: int
    playheads: Playheads
    on_failure: Callable[[InputError], None]
    """Called when the data cannot be written any more."""
    by_id: dict[str, LiveSession] = field(default_factory=dict)
    logs: dict[str, SessionLog] = field(default_factory=dict)
    failed: InputError | None = None
    """Why the data cannot be written; the sessions stop then."""
    _due: set[LiveSession] = field(default_factory=set)
    _flush: asyncio.Handle | None = None

    def restore(self, scenarios: Mapping[int, Scenario]) -> None:
        """Rebuild all sessions from the data.  Raises InputError if one would have other events than before."""
        for stored in self.data.sessions():
            self._restore(stored, scenarios[stored.scenario])

    def create(
        self, tenant: str, workspace: str, respond: Callable[[LiveSession], tuple[Response, StoredResponse | None]]
    ) -> Response:
        """Create a session and return the response.  Raises InputError if it cannot be stored."""
        self._check()
        number = len(self.by_id) + 1
        stored = StoredSession(
            number,
            generate_id("ses", self.data.seed, number),
            tenant,
            workspace,
            self.scenario_number,
            self.clock.now_ns(),
        )
        live = self._build(stored, self.scenario)
        response, stored_response = respond(live)
        self._write(Change(session=stored, response=stored_response))
        self._add(live)
        return response

    def execute(
        self,
        live: LiveSession,
        kind: CommandKind,
        run_id: str | None,
        body: Mapping[str, Any] | None,
        respond: Callable[[RunSnapshot], tuple[Response, StoredResponse | None]],
    ) -> Response:
        """Execute a command and return the response.  Raises Refusal, and InputError if it cannot be stored."""
        self.catch_up(live)
        command = Command(kind, self.clock.now_ns(), run_id, body)
        refusal, response, stored_response = None, None, None
        try:
            response, stored_response = respond(live.engine.execute(command))
        except Refusal as refused:
            refusal = refused
        except Exception:
            self._rebuild(live)
            raise
        entries = live.engine.advance(command.time_ns)
        commands = [(live.stored.number, command)]
        self._write(Change(commands=commands, events=_durable_rows(live, entries), response=stored_response))
        self._publish(live, entries)
        if refusal is not None or response is None:
            raise refusal or RuntimeError
        return response

    def catch_up(self, live: LiveSession) -> None:
        """Emit the events that are due."""
        self._check()
        self._advance([live])

    def stop(self) -> None:
        """Stop the timers of all sessions."""
        if self._flush is not None:
            self._flush.cancel()
        for live in self.by_id.values():
            if live.timer is not None:
                live.timer.cancel()

    def _check(self) -> None:
        if self.failed is not None:
            raise self.failed

    def _build(self, stored: StoredSession, scenario: Scenario) -> LiveSession:
        engine = SessionEngine(
            session_id=stored.id,
            workspace_id=stored.workspace,
            scenario=scenario,
            seed=self.data.seed,
            epoch=self.clock.epoch,
        )
        return LiveSession(stored, engine, PlayableSession(SessionLog(stored.id), _HEAD, _KEEP_ALIVE))

    def _add(self, live: LiveSession) -> None:
        self.by_id[live.id] = live
        self.logs[live.id] = live.session.log
        self.playheads.latest(live.session.log).start()
        self._schedule(live)

    def _rebuild(self, live: LiveSession) -> None:
        """Rebuild a session without the command that failed."""
        live.engine = self._build(live.stored, live.engine.scenario).engine
        entries = [entry for entry in self._replay_commands(live) if entry.kind is EntryKind.DURABLE][live.durable :]
        self._write(Change(events=_durable_rows(live, entries)))
        self._publish(live, entries)

    def _replay_commands(self, live: LiveSession) -> list[LogEntry]:
        """Execute the stored commands of a session again; return its entries up to now."""
        entries: list[LogEntry] = []
        for command in self.data.commands(live.stored.number):
            entries += live.engine.advance(command.time_ns)
            with suppress(Refusal):  # as it was refused then
                live.engine.execute(command)
            entries += live.engine.advance(command.time_ns)
        return entries + live.engine.advance(self.clock.now_ns())

    def _restore(self, stored: StoredSession, scenario: Scenario) -> None:
        live = self._build(stored, scenario)
        entries = self._replay_commands(live)
        known = self.data.events(stored.number)
        durable = [entry for entry in entries if entry.kind is EntryKind.DURABLE]
        if [entry.data for entry in durable[: len(known)]] != known:
            raise InputError(
                f"{printable(str(self.data.path))} contains sessions whose events would differ with this version of "
                "wiretape or this scenario: choose another file for --data."
            )
        live.durable = len(known)
        for entry in durable[: len(known)]:
            live.session.log.append(entry)
        self._write(Change(events=_durable_rows(live, durable[len(known) :])))
        self._add(live)
        # Nobody was connected in the meantime, so ephemeral events are lost.
        self._publish(live, durable[len(known) :])

    def _schedule(self, live: LiveSession) -> None:
        due_ns = live.engine.due_ns()
        if due_ns == live.due_ns and due_ns is not None:
            return
        if live.timer is not None:
            live.timer.cancel()
            live.timer = None
        live.due_ns = due_ns
        if due_ns is not None:
            live.timer = self.clock.at(
                due_ns, lambda: self._on_due(live), waits_for_client=_waits_for_client(live.engine, due_ns)
            )

    def _on_due(self, live: LiveSession) -> None:
        """Note that a session is due; sessions that are due at the same time are stored together."""
        live.timer = live.due_ns = None
        self._due.add(live)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_soon(self._advance_due)

    def _advance_due(self) -> None:
        self._flush = None
        due, self._due = sorted(self._due, key=lambda live: live.stored.number), set()
        if self.failed is None:
            with suppress(InputError):  # reported by on_failure
                self._advance(due)

    def _advance(self, sessions: Sequence[LiveSession]) -> None:
        """Emit the due events of sessions."""
        now_ns = self.clock.now_ns()
        emitted = [(live, live.engine.advance(now_ns)) for live in sessions]
        self._write(Change(events=[row for live, entries in emitted for row in _durable_rows(live, entries)]))
        for live, entries in emitted:
            self._publish(live, entries)

    def _write(self, change: Change) -> None:
        if change == Change(events=change.events) and not change.events:
            return
        try:
            self.data.write(change)
        except InputError as error:
            self.failed = error
            self.on_failure(error)
            raise

    def _publish(self, live: LiveSession, entries: Sequence[LogEntry]) -> None:
        """Send stored entries on the streams, and schedule the next ones."""
        for entry in entries:
            live.session.log.append(entry)
            live.durable += entry.kind is EntryKind.DURABLE
        if entries:
            self.playheads.latest(live.session.log).update()
        self._schedule(live)


def _durable_rows(live: LiveSession, entries: Sequence[LogEntry]) -> list[tuple[int, int, LogEntry]]:
    durable = (entry for entry in entries if entry.kind is EntryKind.DURABLE)
    return [(live.stored.number, live.durable + place, entry) for place, entry in enumerate(durable, 1)]


def _waits_for_client(engine: SessionEngine, due_ns: int) -> bool:
    """Whether the next thing that happens is that a client misses a deadline."""
    active = engine.active
    deadlines = [wait.deadline_ns for wait in active.waiting] if active is not None else []
    return due_ns in deadlines
