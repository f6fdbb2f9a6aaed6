"""All sessions of a recording.  Those that nobody reads are forgotten when there are too many."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from wiretape.contract import session_in
from wiretape.rules.course import Course
from wiretape.rules.log import Budget, EventLog
from wiretape.rules.message import Message
from wiretape.rules.past import Past
from wiretape.rules.readers import Reader
from wiretape.rules.work import ClientKey

SessionKey = tuple[str, str, str]
"""Authority, base path and session id: what tells one session from all others."""

MOST_SESSIONS = 5000
"""How many sessions are remembered."""
_MOST_FORGOTTEN = 100_000
_MOST_READERS = 500
"""How many clients of one session are remembered."""


@dataclass(slots=True)
class Session:
    """All traffic of one session."""

    id: str
    """What the path of its requests calls it."""
    past: Past
    exchanges: int = 0
    """How many of its exchanges are open."""
    courses: list[Course] = field(default_factory=list)
    """Its streams that are open."""
    readers: dict[ClientKey, Reader] = field(default_factory=dict)
    """The clients that asked for it."""
    workspaces: dict[str, None] = field(default_factory=dict)
    """The ids of workspaces that its durable events carry, in the order of their coming."""

    def reader(self, key: ClientKey) -> Reader:
        """The client as one that reads this session."""
        reader = self.readers.pop(key, None) or Reader(key)
        if len(self.readers) >= _MOST_READERS:
            idle = [other for other, old in self.readers.items() if not old.streams]
            for other in idle[: len(self.readers) // 2]:
                del self.readers[other]
        self.readers[key] = reader
        return reader

    def remember(self, message: Message) -> None:
        """A durable message of this session passed."""
        workspace = message.workspace_of(self.id)
        if workspace is not None:
            self.workspaces.setdefault(workspace)


class Sessions:
    """The sessions by their key, those that were asked for last at the end."""

    def __init__(self, most: int = MOST_SESSIONS, most_events: int | None = None) -> None:
        self._most = most
        self._budget = Budget() if most_events is None else Budget(most_events)
        self._sessions: dict[SessionKey, Session] = {}
        self._forgotten: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def events(self) -> int:
        """How many durable events of all of them are remembered."""
        return self._budget.events

    def open(self, key: SessionKey) -> Session:
        """The session of that key, to which another exchange belongs from now on."""
        session = self._sessions.pop(key, None)
        if session is None:
            self._make_room()
            returned = self._forgotten.pop(hash(key), 0) is None
            session = Session(key[2], Past(EventLog(self._budget), returned=returned))
        self._sessions[key] = session
        session.exchanges += 1
        return session

    def of_run(self, run_id: str, authority: str, target: str) -> Session | None:
        """The session of a run: the one that the path of a request names, or else the only one that has such a run."""
        named = session_in(target)
        having = [
            session
            for (host, _, session_id), session in self._sessions.items()
            if host == authority and named in {None, session_id} and run_id in session.past.work.runs
        ]
        return having[0] if len(having) == 1 else None

    def is_foreign(self, cursor: str, session: Session, authority: str) -> bool:
        """Whether a cursor is the id of an event of other sessions of the same service only, as far as seen."""
        logs = [other.past.log.events for other in self._of(authority) if other is not session]
        return cursor not in session.past.log.events and any(cursor in events for events in logs)

    def count_anew(self, cursor: str, authority: str) -> bool:
        """Whether each session of a service seems to count its events anew, so that a cursor tells no session."""
        return cursor.isdigit() or self._share_ids(authority)

    def _share_ids(self, authority: str) -> bool:
        """Whether any two sessions of a service have events of the same id."""
        logs = [session.past.log.events for session in self._of(authority)]
        return len(set().union(*logs)) < sum(map(len, logs))

    def _of(self, authority: str) -> Iterator[Session]:
        return (session for key, session in self._sessions.items() if key[0] == authority)

    def _make_room(self) -> None:
        if len(self._sessions) < self._most and not self._budget.is_spent:
            return
        for key, session in list(self._sessions.items()):
            if not session.exchanges:
                del self._sessions[key]
                session.past.log.release()
                self._forgotten[hash(key)] = None
                if len(self._sessions) < self._most * 0.9 and not self._budget.is_spent:
                    break
        while len(self._forgotten) > _MOST_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]
