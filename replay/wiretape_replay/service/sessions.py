"""The sessions of a service: what is asked of them, and what they say as time passes.

Everything that happens is stored before anybody gets to know it, and a session is built again from what was asked
of it.  To be used in the event loop's thread.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from wiretape.contract import EVENT_STREAM
from wiretape.errors import InputError
from wiretape.safe_text import printable
from wiretape_replay.http_server.http_messages import Framing, Response, ResponseHead
from wiretape_replay.service.clock import Clock
from wiretape_replay.service.engine.commands import Command, CommandKind, Refusal
from wiretape_replay.service.engine.event_emitter import generate_id
from wiretape_replay.service.engine.run_state import RunSnapshot
from wiretape_replay.service.engine.session_engine import SessionEngine
from wiretape_replay.service.scenario.scenario_steps import Scenario
from wiretape_replay.service.store import Change, Kept, Store, StoredSession
from wiretape_replay.session.playhead_clock import Timer
from wiretape_replay.session.playheads import Playheads
from wiretape_replay.session.session_log import EntryKind, LogEntry, PlayableSession, SessionLog

_HEAD = ResponseHead(
    200,
    "OK",
    (("Content-Type", EVENT_STREAM), ("Cache-Control", "no-store"), ("Transfer-Encoding", "chunked")),
    Framing.CHUNKED,
)
_KEEP_ALIVE = b": keep-alive\n"
"""Without a blank line behind it, for which some clients hand out an empty event."""

Answering = Callable[[], tuple[Response, Kept | None]]
"""Makes an answer, and says what of it is to be stored."""


@dataclass(slots=True, eq=False)
class LiveSession:
    """One session."""

    stored: StoredSession
    engine: SessionEngine
    session: PlayableSession
    """What the streams carry."""
    durable: int = 0
    """How many events are stored."""
    timer: Timer | None = None
    due_ns: int | None = None

    @property
    def id(self) -> str:
        """Of the session."""
        return self.stored.id


@dataclass(slots=True)
class Sessions:
    """All sessions of one service."""

    store: Store
    clock: Clock
    scenario: Scenario
    scenario_number: int
    drives: Playheads
    broken: Callable[[InputError], None]
    """Called when nothing can be stored any more."""
    by_id: dict[str, LiveSession] = field(default_factory=dict)
    logs: dict[str, SessionLog] = field(default_factory=dict)
    failed: InputError | None = None
    """Why nothing can be stored; then nothing happens any more."""
    _due: set[LiveSession] = field(default_factory=set)
    _flush: asyncio.Handle | None = None

    def restore(self, scenarios: Mapping[int, Scenario]) -> None:
        """Build all sessions again.  Raises InputError where they cannot be what they were."""
        for stored in self.store.sessions():
            self._restore(stored, scenarios[stored.scenario])

    def create(
        self, tenant: str, workspace: str, answering: Callable[[LiveSession], tuple[Response, Kept | None]]
    ) -> Response:
        """A new session, and the answer to who wanted it.  Raises InputError when it cannot be stored."""
        self._check()
        number = len(self.by_id) + 1
        stored = StoredSession(
            number,
            generate_id("ses", self.store.seed, number),
            tenant,
            workspace,
            self.scenario_number,
            self.clock.now_ns(),
        )
        live = self._begin(stored, self.scenario)
        answer, kept = answering(live)
        self._keep(Change(session=stored, answer=kept))
        self._add(live)
        return answer

    def ask(
        self,
        live: LiveSession,
        kind: CommandKind,
        run_id: str | None,
        body: Mapping[str, Any] | None,
        answering: Callable[[RunSnapshot], tuple[Response, Kept | None]],
    ) -> Response:
        """Have a session do something.  Raises Refusal, and InputError when it cannot be stored."""
        self.catch_up(live)
        command = Command(kind, self.clock.now_ns(), run_id, body)
        refusal, answer, kept = None, None, None
        try:
            answer, kept = answering(live.engine.execute(command))
        except Refusal as refused:
            refusal = refused
        except Exception:
            self._undo(live)
            raise
        entries = live.engine.advance(command.time_ns)
        self._keep(Change(commands=[(live.stored.number, command)], events=_durable(live, entries), answer=kept))
        self._tell(live, entries)
        if refusal is not None or answer is None:
            raise refusal or RuntimeError
        return answer

    def catch_up(self, live: LiveSession) -> None:
        """Let everything that is due be said."""
        self._check()
        self._pass([live])

    def stop(self) -> None:
        """Let nothing happen any more."""
        if self._flush is not None:
            self._flush.cancel()
        for live in self.by_id.values():
            if live.timer is not None:
                live.timer.cancel()

    def _check(self) -> None:
        if self.failed is not None:
            raise self.failed

    def _begin(self, stored: StoredSession, scenario: Scenario) -> LiveSession:
        engine = SessionEngine(
            session_id=stored.id,
            workspace_id=stored.workspace,
            scenario=scenario,
            seed=self.store.seed,
            epoch=self.clock.epoch,
        )
        return LiveSession(stored, engine, PlayableSession(SessionLog(stored.id), _HEAD, _KEEP_ALIVE))

    def _add(self, live: LiveSession) -> None:
        self.by_id[live.id] = live
        self.logs[live.id] = live.session.log
        self.drives.latest(live.session.log).start()
        self._schedule(live)

    def _undo(self, live: LiveSession) -> None:
        """Let a session be as if what it could not do had not been asked of it."""
        live.engine = self._begin(live.stored, live.engine.scenario).engine
        entries = [entry for entry in self._again(live) if entry.kind is EntryKind.DURABLE][live.durable :]
        self._keep(Change(events=_durable(live, entries)))
        self._tell(live, entries)

    def _again(self, live: LiveSession) -> list[LogEntry]:
        """Have a session do what it was asked; what it says up to now."""
        entries: list[LogEntry] = []
        for command in self.store.commands(live.stored.number):
            entries += live.engine.advance(command.time_ns)
            with suppress(Refusal):  # as it was refused then
                live.engine.execute(command)
            entries += live.engine.advance(command.time_ns)
        return entries + live.engine.advance(self.clock.now_ns())

    def _restore(self, stored: StoredSession, scenario: Scenario) -> None:
        live = self._begin(stored, scenario)
        entries = self._again(live)
        known = self.store.events(stored.number)
        durable = [entry for entry in entries if entry.kind is EntryKind.DURABLE]
        if [entry.data for entry in durable[: len(known)]] != known:
            raise InputError(
                f"{printable(str(self.store.path))} holds sessions that this version, or this scenario, would have "
                "let go otherwise: begin with another --data."
            )
        live.durable = len(known)
        for entry in durable[: len(known)]:
            live.session.log.append(entry)
        self._keep(Change(events=_durable(live, durable[len(known) :])))
        self._add(live)
        # What came while nobody was connected is replayed, if it is stored.
        self._tell(live, durable[len(known) :])

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
                due_ns, lambda: self._come(live), driving=not _waits_for_client(live.engine, due_ns)
            )

    def _come(self, live: LiveSession) -> None:
        """The time of a session has come; those of one moment are stored together."""
        live.timer = live.due_ns = None
        self._due.add(live)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_soon(self._pass_due)

    def _pass_due(self) -> None:
        self._flush = None
        due, self._due = sorted(self._due, key=lambda live: live.stored.number), set()
        if self.failed is None:
            with suppress(InputError):  # it was told
                self._pass(due)

    def _pass(self, sessions: Sequence[LiveSession]) -> None:
        """Let sessions say what is due."""
        now_ns = self.clock.now_ns()
        said = [(live, live.engine.advance(now_ns)) for live in sessions]
        self._keep(Change(events=[row for live, entries in said for row in _durable(live, entries)]))
        for live, entries in said:
            self._tell(live, entries)

    def _keep(self, change: Change) -> None:
        if change == Change(events=change.events) and not change.events:
            return
        try:
            self.store.keep(change)
        except InputError as error:
            self.failed = error
            self.broken(error)
            raise

    def _tell(self, live: LiveSession, entries: Sequence[LogEntry]) -> None:
        """Let the streams carry what is stored, and know when there is more."""
        for entry in entries:
            live.session.log.append(entry)
            live.durable += entry.kind is EntryKind.DURABLE
        if entries:
            self.drives.latest(live.session.log).update()
        self._schedule(live)


def _durable(live: LiveSession, entries: Sequence[LogEntry]) -> list[tuple[int, int, LogEntry]]:
    durable = (entry for entry in entries if entry.kind is EntryKind.DURABLE)
    return [(live.stored.number, live.durable + place, entry) for place, entry in enumerate(durable, 1)]


def _waits_for_client(engine: SessionEngine, due_ns: int) -> bool:
    """Whether all that comes next is that the time of a client is up."""
    active = engine.active
    deadlines = [wait.deadline_ns for wait in active.waiting] if active is not None else []
    return due_ns in deadlines
