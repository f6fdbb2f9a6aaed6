"""State of clients: what the service told each to do, and how far each has read each session.

A client is identified by its address and its bearer key.
"""

from collections import deque

from msgspec import Struct, field

from wiretape.bounded_dict import put_bounded
from wiretape.observations import Ending, RequestStarted, header
from wiretape.rules.exchange import IN_FLIGHT_NS, may_be_unread

ClientKey = tuple[str, str | None]
"""Address and credential, which identify a client."""
RequestKey = tuple[str, str, str]
"""Method, authority and target.  The target includes the query: another page of a list is another request."""

MOST_CLIENTS = 10_000
RECONNECT_NS = 60_000_000_000
"""Time that a client has to reconnect after `stream.resync`."""
MOST_REQUESTS = 1000
"""Requests of a client that are kept with what the service told it to do."""
_MOST_CURSORS = 100
_MOST_UNREAD = 1000
"""Ids of a stream that are kept because the client may not have read them."""
_MOST_RUNS = 1000
_MOST_RESYNCS = 20
_UNKNOWN_END = frozenset({Ending.OPEN, Ending.PROXY_STOPPED})


class RetryWait(Struct, frozen=True):
    """The service told a client to wait before it repeats a request."""

    until_ns: int
    exchange: int
    seconds: int


class SameKeyRetry(Struct, frozen=True):
    """The service told a client to repeat a request with the same idempotency key."""

    exchange: int
    code: str
    key: str | None
    custom_tool_uses: int
    """How many application tools the run had requested by then."""


class ResolvedCall(Struct, frozen=True):
    """The service refused a resume of a run with `event_already_resolved`."""

    exchange: int
    custom_tool_uses: int
    """How many application tools the run had requested by then."""
    losses: int
    """How often bytes of the client's streams had been lost by then."""
    body: bytes | None
    """A hash of the request body; None if it is unknown or empty."""


class ClientState(Struct):
    """What the service told one client to do."""

    key: ClientKey
    waits: dict[RequestKey, RetryWait] = field(default_factory=dict)
    retries: dict[RequestKey, SameKeyRetry] = field(default_factory=dict)

    def add_wait(self, request: RequestKey, wait: RetryWait, now_ns: int) -> None:
        """The service told it to wait."""
        for key in [key for key, old in self.waits.items() if old.until_ns < now_ns]:
            del self.waits[key]
        put_bounded(self.waits, request, wait, MOST_REQUESTS)


class ClientRegistry:
    """All clients, the last seen at the end; if there are very many, the oldest are dropped."""

    def __init__(self) -> None:
        self._clients: dict[ClientKey, ClientState] = {}

    def client_of(self, request: RequestStarted) -> ClientState:
        """Return the client that sent the request."""
        value = header(request.headers, "authorization")
        key = (request.client, None if value is None else value.partition(" ")[2].strip() or value)
        client = self._clients.pop(key, None) or ClientState(key)
        put_bounded(self._clients, key, client, MOST_CLIENTS)
        return client


class PendingResync(Struct):
    """A client received `stream.resync` and has to reconnect."""

    time_ns: int
    right_cursors: dict[str | None, None]
    """The cursors that it may reconnect with, in order."""
    delivered_after: dict[str, None] = field(default_factory=dict)
    """Ids that still arrived on the stream."""
    followed_ns: int | None = None
    """When it reconnected."""
    tried_ns: int | None = None
    """When it last requested a stream, possibly for something else if with another cursor."""
    cursor: str | None = None
    """The cursor of that request."""
    is_unsure: bool = False
    """Whether it is unknown which events it had received."""
    ending: Ending | None = None
    """How the stream ended, if it has."""
    may_be_unread: bool = False
    """Whether the connection broke so shortly afterwards that the client may not have read it."""

    @property
    def has_right_cursor(self) -> bool:
        """Whether the client reconnected with the last durable id."""
        return self.cursor in self.right_cursors or self.cursor in self.delivered_after

    def deliver(self, identity: str, time_ns: int) -> None:
        """A durable event still arrived on the stream."""
        if self.followed_ns is None and time_ns <= self.time_ns + RECONNECT_NS:
            self.delivered_after[identity] = None

    def end(self, ending: Ending, time_ns: int, position: "ReadPosition | None") -> None:
        """The stream ended, and the client had read up to a position; None if it cannot resume from there."""
        self.ending = ending
        self.may_be_unread = may_be_unread(self.time_ns, ending, time_ns)
        if self.may_be_unread and position is not None:
            self.right_cursors = dict.fromkeys([*position.possible, *self.right_cursors])
            self.is_unsure |= position.may_be_other


class ReadPosition(Struct, frozen=True):
    """How far a client had read when one of its streams ended, as long as it has not resumed from there."""

    last: str | None
    """The last durable id delivered on the stream, or the cursor with which it was opened."""
    possible: tuple[str | None, ...]
    """All ids that may have been the last that it read, in order: several if the connection ended shortly afterwards.

    None stands for no id.
    """
    may_be_other: bool = False
    """Whether there may be more of them than are kept."""
    has_left: bool = False
    """Whether the client itself closed the connection."""
    is_unsure: bool = False
    """Whether it is unknown which durable id was delivered last."""
    incomplete: str | None = None
    """The id of the event in which the stream was cut off, which was therefore never received."""
    opened_ns: int = 0
    """When the stream was requested."""
    ended_ns: int = 0

    def may_be_at(self, cursor: str | None) -> bool:
        """Whether the cursor may be the last id that the client read."""
        return cursor == self.last or cursor in self.possible

    def allows(self, cursor: str | None) -> bool:
        """Whether it is certainly right to resume with the cursor.

        Without a cursor it never is: a client that had read nothing cannot be told from one that keeps no cursor.
        """
        if self.is_unsure or cursor is None:
            return False
        return cursor == self.last or (not self.has_left and cursor in self.possible)


class SessionReader:
    """A client as a reader of one session.

    Two programs with the same key and address look like one client.  It therefore has a read position for each of its
    streams that has ended, and uses one up when it resumes from there.
    """

    def __init__(self, key: ClientKey) -> None:
        self.key = key
        self.open_requests = 0
        """Its stream requests that are open."""
        self.delivered = False
        """Whether a durable event was delivered to it."""
        self.positions: list[ReadPosition] = []
        """The positions from which it has not resumed, the most recent at the end."""
        self.may_be_several = False
        """Whether it may be several programs, because it has read on two streams at once."""
        self.refused_cursors: dict[str, None] = {}
        """The cursors refused with `invalid_cursor`."""
        self.must_restart = False
        """Whether it has to restart without a cursor and has not yet done so."""
        self.losses = 0
        """How often bytes of its streams were lost."""
        self.resyncs: list[PendingResync] = []
        """Those that it has not followed yet."""
        self.resolved_calls: dict[str, ResolvedCall] = {}
        """For each run the last of its calls that had already been resolved."""

    @property
    def current_positions(self) -> list[ReadPosition]:
        """The positions that a request with none of their cursors may be compared with."""
        return self.positions if self.may_be_several else self.positions[-1:]

    def must_resume(self, cursor: str | None) -> bool:
        """Whether a stream request with this cursor has to resume where the client stopped reading."""
        is_exempt = self.open_requests or self.must_restart or self.resyncs or cursor in self.refused_cursors
        has_read = self.delivered or self.cut_position(cursor) is not None
        return has_read and not is_exempt and bool(self.positions)

    def cut_position(self, cursor: str | None) -> ReadPosition | None:
        """Return the position whose stream was cut off in the event with this id, if there is one."""
        found = (position for position in self.positions if cursor is not None and position.incomplete == cursor)
        return next(found, None)

    def may_be_at(self, cursor: str | None) -> bool:
        """Whether the cursor may be the last id on one of its streams."""
        return any(position.may_be_at(cursor) for position in self.positions)

    def request_stream(self, cursor: str | None, time_ns: int) -> None:
        """It sent a stream request."""
        is_elsewhere = self.may_be_at(cursor)
        for resync in self.resyncs:
            resync.cursor, resync.tried_ns = cursor, time_ns
            resync.is_unsure |= is_elsewhere or (cursor is None and self.may_be_several)
            # While it still reads, the request may come from another program of that client.
            if resync.has_right_cursor or not self.open_requests:
                resync.followed_ns = time_ns
        self.resyncs = [resync for resync in self.resyncs if resync.followed_ns is None]
        self.open_requests += 1

    def open_stream(self, cursor: str | None, *, parallel: bool) -> None:
        """A stream was opened for it; `parallel` to an open one that the new stream does not resume."""
        self.must_restart = False
        self.may_be_several |= parallel
        used = [position for position in self.positions if position.last == cursor]
        used = used or [position for position in self.positions if cursor in position.possible]
        cut = self.cut_position(cursor)
        used = used or ([] if cut is None else [cut])
        used = used or [position for position in self.positions if position.is_unsure]
        if not used and cursor is not None and self.open_requests == 1:
            used = self.positions
        if used:
            self.positions.remove(used[-1])

    def close_stream(
        self, delivered: "DeliveredIds", cursor: str | None, ending: Ending, opened_ns: int, time_ns: int
    ) -> ReadPosition | None:
        """A stream ended on which durable events may have been delivered; return how far the client has read it."""
        last = delivered.last or cursor
        # If the recording ended first, the client may have received the rest of the event.
        incomplete = None if ending in _UNKNOWN_END else delivered.incomplete
        if last is None and not delivered.is_unsure and incomplete is None:
            return None
        since_ns = time_ns if ending is Ending.COMPLETE else time_ns - IN_FLIGHT_NS
        possible, may_be_other = delivered.since(since_ns, cursor)
        position = ReadPosition(
            last,
            possible,
            may_be_other,
            has_left=ending is Ending.CLIENT_CLOSED,
            is_unsure=delivered.is_unsure,
            incomplete=incomplete,
            opened_ns=opened_ns,
            ended_ns=time_ns,
        )
        self.may_be_several |= len(self.positions) >= _MOST_CURSORS
        self.positions = [*self.positions[1 - _MOST_CURSORS :], position]
        return position

    def refuse_cursor(self, cursor: str) -> None:
        """The service refused its cursor with `invalid_cursor`."""
        put_bounded(self.refused_cursors, cursor, None, _MOST_CURSORS)
        self.positions = [position for position in self.positions if position.last != cursor]
        self.must_restart = True

    def add_resync(self, resync: PendingResync) -> None:
        """It received `stream.resync`."""
        self.resyncs = [*self.resyncs[1 - _MOST_RESYNCS :], resync]

    def resolve_call(self, run_id: str, call: ResolvedCall) -> None:
        """The service refused its resume of a run with `event_already_resolved`."""
        put_bounded(self.resolved_calls, run_id, call, _MOST_RUNS)

    def deliver(self, identity: str) -> None:
        """A durable event was delivered to it."""
        self.delivered = True
        self.refused_cursors.pop(identity, None)


class DeliveredIds:
    """The durable ids that one stream delivered to its client."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.incomplete: str | None = None
        """The id of the event in which the stream was cut off."""
        self.is_unsure = False
        """Whether an unreadable event, or one that resets the cursor of some clients, has arrived since."""
        self._recent: deque[tuple[int, str]] = deque(maxlen=_MOST_UNREAD)
        """The ids that the client may not have read if the connection broke now, and the one before them."""

    def add(self, identity: str, time_ns: int) -> None:
        """Add a delivered id."""
        self.last = identity
        self.is_unsure = False
        recent = self._recent
        while len(recent) > 1 and recent[1][0] < time_ns - IN_FLIGHT_NS:
            recent.popleft()
        recent.append((time_ns, identity))

    def since(self, time_ns: int, cursor: str | None) -> tuple[tuple[str | None, ...], bool]:
        """Return the ids that were the last one at any time since, in order, and whether there are more.

        `cursor` is the one that opened the stream.
        """
        before = [identity for when, identity in self._recent if when < time_ns]
        late = [identity for when, identity in self._recent if when >= time_ns]
        if not before and len(self._recent) == _MOST_UNREAD:
            return tuple(dict.fromkeys(late)), True
        return tuple(dict.fromkeys([before[-1] if before else cursor, *late])), False
