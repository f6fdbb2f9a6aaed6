"""State of sessions: their event log, their runs, their readers and their open streams."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wiretape.bounded_dict import put_bounded
from wiretape.rules.catalogue import Scope, Trigger
from wiretape.rules.exchange import Memory
from wiretape_contracts.agent_sessions import session_in
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.state.client_state import ClientKey, SessionReader
from wiretape_contracts.agent_sessions.state.event_log import EventBudget, EventLog
from wiretape_contracts.agent_sessions.state.runs import Overlap, SessionRuns

if TYPE_CHECKING:
    from wiretape_contracts.agent_sessions.state.stream_state import StreamState

SessionKey = tuple[str, str, str]
"""Authority, base path and session id, which identify a session."""

MOST_SESSIONS = 5000
_MOST_DROPPED = 100_000
_MOST_READERS = 500
"""Clients kept for each session."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class SessionState:
    """What is known about one session from all its connections."""

    id: str
    """The session id in the path of its requests."""
    log: EventLog
    was_dropped: bool = False
    """Whether an earlier state of this session was dropped."""
    was_created: bool = False
    """Whether the recording shows the response that created it."""
    runs: SessionRuns = field(init=False)
    open_exchanges: int = 0
    streams: "list[StreamState]" = field(default_factory=list)
    """Its open streams."""
    readers: dict[ClientKey, SessionReader] = field(default_factory=dict)
    """The clients that sent requests for it."""
    first_stream: int | None = None
    """The exchange of its first stream."""
    first_event: SessionEvent | None = None
    """Its first durable event."""
    began_earlier: bool = False
    """Whether it began before the recording."""
    is_understood: bool = True
    """Whether every event of it was seen and understood."""
    memory: Memory = field(default_factory=Memory)
    """What rules remember about it: those of other packages by their code."""

    def __post_init__(self) -> None:
        self.runs = SessionRuns(self.log)
        self.began_earlier |= self.was_dropped

    def holder(self, _scope: object) -> object:
        """Return what there is one of for each scope: itself."""
        return self

    @property
    def is_from_start(self) -> bool:
        """Whether it was recorded from its first event, as far as that is known."""
        return self.first_event is not None and not self.began_earlier

    def open_stream(self, cursor: str | None, exchange: int) -> None:
        """A stream of it was opened."""
        if self.first_stream is None:
            self.first_stream = exchange
            self.began_earlier |= cursor is not None

    def begin(self, event: SessionEvent, exchange: int, cursor: str | None) -> None:
        """A durable event arrived before any other is known to be the first; the rules have not run yet.

        It arrived on `exchange`, which was requested with that cursor.
        """
        is_ahead = any(stream.exchange == self.first_stream != exchange for stream in self.streams)
        if cursor is not None and is_ahead and not self.began_earlier:
            # The first stream shows where the session begins.
            return
        self.first_event = event
        # Without a cursor, a stream has every durable event that the service still has: all of them if the recording
        # shows how the session was created.  Otherwise only the first sequences show that, unless sessions share them.
        is_late = event.sequence is not None and event.sequence > 1
        self.began_earlier |= cursor is not None or (is_late and not self.was_created)

    def reader(self, key: ClientKey) -> SessionReader:
        """Return the client as a reader of this session."""
        reader = self.readers.pop(key, None) or SessionReader(key)
        if len(self.readers) >= _MOST_READERS:
            idle = [other for other, old in self.readers.items() if not old.open_requests]
            for other in idle[: len(self.readers) // 2]:
                del self.readers[other]
        self.readers[key] = reader
        return reader


OVERLAP: Trigger[[Overlap, SessionState]] = Trigger("overlap", Scope.SESSION, 1)
"""Another event proves that a run was active when another one started, or when the session was announced as idle."""


class SessionRegistry:
    """All sessions, the last requested at the end; if there are too many, those without open exchanges are dropped."""

    def __init__(self, most: int = MOST_SESSIONS, most_events: int | None = None) -> None:
        self._most = most
        self.budget = EventBudget() if most_events is None else EventBudget(most_events)
        self._sessions: dict[SessionKey, SessionState] = {}
        self._dropped: dict[int, None] = {}
        self._created: dict[SessionKey, None] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: SessionKey) -> SessionState:
        """Return the session with that key, to which one more exchange belongs."""
        session = self._sessions.pop(key, None)
        if session is None:
            self._make_room()
            was_dropped = self._dropped.pop(hash(key), 0) is None
            was_created = self._created.pop(key, 0) is None
            session = SessionState(key[2], EventLog(self.budget), was_dropped, was_created)
        self._sessions[key] = session
        session.open_exchanges += 1
        return session

    def create(self, key: SessionKey) -> None:
        """A response showed that the session with that key was created."""
        session = self._sessions.get(key)
        if session is None:
            put_bounded(self._created, key, None, self._most)
        elif session.first_event is None:
            # The request for its stream was seen first.
            session.was_created = True

    def find_by_run(self, run_id: str, authority: str, target: str) -> SessionState | None:
        """Return the session of a run: the one in the path of a request, or the only one with such a run."""
        named = session_in(target)
        found = [
            session
            for (host, _, session_id), session in self._sessions.items()
            if host == authority and named in {None, session_id} and run_id in session.runs.runs
        ]
        return found[0] if len(found) == 1 else None

    def is_foreign_cursor(self, cursor: str, session: SessionState, authority: str) -> bool:
        """Whether a cursor is, as far as known, an event id only of other sessions of the same service."""
        logs = [other.log.events for other in self._of_service(authority) if other is not session]
        return cursor not in session.log.events and any(cursor in events for events in logs)

    def may_repeat_ids(self, cursor: str, authority: str) -> bool:
        """Whether the sessions of a service seem to share event ids, so that a cursor does not identify a session."""
        logs = [session.log.events for session in self._of_service(authority)]
        return cursor.isdigit() or len(set().union(*logs)) < sum(map(len, logs))

    def _of_service(self, authority: str) -> Iterator[SessionState]:
        return (session for key, session in self._sessions.items() if key[0] == authority)

    def _make_room(self) -> None:
        if len(self._sessions) < self._most and not self.budget.is_spent:
            return
        for key, session in list(self._sessions.items()):
            if not session.open_exchanges:
                del self._sessions[key]
                session.log.release()
                self._dropped[hash(key)] = None
                if len(self._sessions) < self._most * 0.9 and not self.budget.is_spent:
                    break
        while len(self._dropped) > _MOST_DROPPED:
            del self._dropped[next(iter(self._dropped))]
