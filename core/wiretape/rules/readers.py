"""The clients as readers of a session: how far each has read, and what it was told about its cursor."""

from collections import deque
from dataclasses import dataclass, field

from wiretape.bounded_dict import put_bounded
from wiretape.observations import Ending
from wiretape.rules.work import ClientKey

MOST_CLIENTS = 10_000
"""How many clients are remembered."""
_MOST_CURSORS = 100
_MOST_RUNS = 1000
_MOST_RESYNCS = 20
_IN_FLIGHT_NS = 1_000_000_000
"""What was forwarded this shortly before a connection broke may not have been read by the client."""
RECONNECT_NS = 60_000_000_000
"""How long a client may take to reconnect after it was told to."""
_ORDERLY = frozenset({Ending.COMPLETE, Ending.SERVICE_CLOSED})


@dataclass(slots=True)
class Resync:
    """A client was told by `stream.resync` to reconnect."""

    time_ns: int
    right: set[str | None]
    """The cursors that it may reconnect with."""
    delivered: dict[str, None] = field(default_factory=dict)
    """Ids that still came on the stream."""
    answered_ns: int | None = None
    """When it reconnected."""
    tried_ns: int | None = None
    """When it last asked for a stream; with another cursor, this may have been for something else."""
    cursor: str | None = None
    """What it then asked with."""
    unsure: bool = False
    """Whether it is unknown what it had received."""
    ending: Ending | None = None
    """How the stream ended, when it has."""
    unread: bool = False
    """Whether the connection broke so shortly after that the client may not have read it."""

    @property
    def is_right(self) -> bool:
        """Whether it reconnected with the last durable id."""
        return self.cursor in self.right or self.cursor in self.delivered

    def deliver(self, identity: str, time_ns: int) -> None:
        """A durable event still came on the stream."""
        if self.answered_ns is None and time_ns <= self.time_ns + RECONNECT_NS:
            self.delivered[identity] = None

    def end(self, ending: Ending, time_ns: int) -> None:
        """Its stream ended."""
        self.ending = ending
        self.unread = ending not in _ORDERLY and time_ns - self.time_ns <= _IN_FLIGHT_NS


@dataclass(frozen=True, slots=True)
class Position:
    """Where a client stood when one of its streams ended, and from where it has not gone on."""

    last: str | None
    """The last durable id that was delivered on the stream, or the cursor that it was opened with."""
    perhaps: frozenset[str | None] = frozenset()
    """Ids that may have been the last that it read, for the connection broke shortly after."""
    unsure: bool = False
    """Whether it is unknown which durable id was delivered last."""


class Reader:
    """How far one client has read one session.

    Two programs with one key and one address look like one client.  So a client has a position for each of its
    streams that has ended, and takes up one of them when it goes on.
    """

    __slots__ = (
        "key",
        "losses",
        "positions",
        "read",
        "refused",
        "resolved",
        "restart",
        "resyncs",
        "several",
        "streams",
    )

    def __init__(self, key: ClientKey) -> None:
        self.key = key
        self.streams = 0
        """How many stream requests of it are open."""
        self.read = False
        """Whether a durable event was delivered to it."""
        self.positions: list[Position] = []
        """Those from which it has not gone on, that of the stream that ended last at the end."""
        self.several = False
        """Whether it may be several programs, for it read twice at once."""
        self.refused: dict[str, None] = {}
        """Cursors that `invalid_cursor` was said about."""
        self.restart = False
        """Whether it was told to restart without its cursor, and has not yet done so."""
        self.losses = 0
        """How often bytes of its streams passed unseen."""
        self.resyncs: list[Resync] = []
        """Those that it has not followed yet."""
        self.resolved: dict[str, tuple[int, int, int]] = {}
        """For runs about which it was told `event_already_resolved`: exchange, application tools and losses by then."""

    @property
    def current(self) -> list[Position]:
        """The positions that a request without any of their cursors may be held against."""
        return self.positions if self.several else self.positions[-1:]

    def owes(self, cursor: str | None) -> bool:
        """Whether a stream request with this cursor has to go on where the client stands, as far as can be told."""
        spared = self.streams or self.restart or self.resyncs or cursor in self.refused
        return self.read and not spared and bool(self.positions)

    def may_stand_at(self, cursor: str | None) -> bool:
        """Whether the cursor is what one of its streams ended with, as far as can be told."""
        return any(cursor == place.last or cursor in place.perhaps for place in self.positions)

    def ask(self, cursor: str | None, time_ns: int) -> None:
        """It sent a stream request, and all rules have seen it."""
        elsewhere = self.may_stand_at(cursor)
        for resync in self.resyncs:
            resync.cursor, resync.tried_ns = cursor, time_ns
            resync.unsure |= elsewhere or (cursor is None and self.several)
            # While it still reads, another program of that client may have begun.
            if resync.is_right or not self.streams:
                resync.answered_ns = time_ns
        self.resyncs = [resync for resync in self.resyncs if resync.answered_ns is None]
        self.streams += 1

    def open(self, cursor: str | None, *, beside: bool) -> None:
        """A stream was opened for it; `beside` one that is open and that it does not go on from."""
        self.restart = False
        self.several |= beside
        taken = [place for place in self.positions if place.last == cursor]
        taken = taken or [place for place in self.positions if cursor in place.perhaps]
        taken = taken or [place for place in self.positions if place.unsure]
        if not taken and cursor is not None and self.streams == 1:
            taken = self.positions
        if taken:
            self.positions.remove(taken[-1])

    def close(self, delivery: "Delivery", cursor: str | None, ending: Ending, time_ns: int) -> None:
        """A stream ended on which durable events may have been delivered to it."""
        last = delivery.last or cursor
        if last is None and not delivery.unsure:
            return
        perhaps = set() if ending in _ORDERLY else delivery.since(time_ns - _IN_FLIGHT_NS, cursor)
        place = Position(last, frozenset(perhaps), delivery.unsure)
        self.several |= len(self.positions) >= _MOST_CURSORS
        self.positions = [*self.positions[1 - _MOST_CURSORS :], place]

    def refuse(self, cursor: str) -> None:
        """It was told `invalid_cursor`."""
        put_bounded(self.refused, cursor, None, _MOST_CURSORS)
        self.positions = [place for place in self.positions if place.last != cursor]
        self.restart = True

    def resync(self, resync: Resync) -> None:
        """It was told to reconnect."""
        self.resyncs = [*self.resyncs[1 - _MOST_RESYNCS :], resync]

    def resolve(self, run_id: str, told: tuple[int, int, int]) -> None:
        """It was told `event_already_resolved` about a run."""
        put_bounded(self.resolved, run_id, told, _MOST_RUNS)

    def deliver(self, identity: str) -> None:
        """A durable event was delivered to it."""
        self.read = True
        self.refused.pop(identity, None)


class Delivery:
    """The durable ids that one stream delivered to its client."""

    __slots__ = ("_recent", "last", "unsure")

    def __init__(self) -> None:
        self.last: str | None = None
        self.unsure = False
        """Whether something passed since that could not be read, or that resets what some clients remember."""
        self._recent: deque[tuple[int, str]] = deque(maxlen=_MOST_CURSORS)

    def add(self, identity: str, time_ns: int) -> None:
        """One more was delivered."""
        self.last = identity
        self.unsure = False
        self._recent.append((time_ns, identity))

    def since(self, time_ns: int, cursor: str | None) -> set[str | None]:
        """The ids that were the last ones at any time since then; `cursor` is what the stream was opened with."""
        late = {identity for when, identity in self._recent if when >= time_ns}
        before = [identity for when, identity in self._recent if when < time_ns]
        if before:
            return {*late, before[-1]}
        return {*late, cursor} if len(self._recent) < _MOST_CURSORS else {*late}
