"""What is remembered between one observation and the next: per exchange, per stream, per session.

Rules read it; it changes here only, after the rules have seen what changes it.  What belongs to an
exchange is released when that ends.  Of a session the ids of its durable events are kept, for a later
connection may bring them again.
"""

from dataclasses import dataclass, field
from datetime import datetime

from wiretape.contract import Match, deltas_requested
from wiretape.observe import Ending, RequestStarted, ResponseStarted, header
from wiretape.rules.answer import Answer
from wiretape.rules.finding import Place
from wiretape.rules.message import Message, Shape
from wiretape.sse import Frame
from wiretape.stream import FrameReader

SessionKey = tuple[str, str, str]
"""Authority, base path and session id: what tells one session from all others."""


@dataclass(slots=True)
class Session:
    """All traffic of one session."""

    owners: dict[int, str] = field(default_factory=dict)
    """For each sequence the first id that carried it."""
    intruders: dict[int, set[str]] = field(default_factory=dict)
    """For each sequence the other ids that were seen to carry it."""

    def remember(self, message: Message) -> None:
        """A durable message of this session passed."""
        sequence, identity = message.sequence, message.id
        if sequence is not None and identity is not None and self.owners.setdefault(sequence, identity) != identity:
            self.intruders.setdefault(sequence, set()).add(identity)


@dataclass(slots=True)
class ExchangeState:
    """One exchange that has not ended."""

    request: RequestStarted
    match: Match | None
    session: Session | None
    response: ResponseStarted | None = None
    stream: "Stream | None" = None
    """For a stream of the service that is being read."""
    answer: Answer | None = None
    """For an answer with an error status."""

    @property
    def number(self) -> int:
        """The number of the exchange."""
        return self.request.exchange

    def response_header(self, name: str) -> str | None:
        """The value of the first response header called `name`."""
        return header(self.response.headers, name) if self.response else None


class Stream:
    """One connection on which the service streams events of a session."""

    __slots__ = (
        "created_at",
        "deltas_requested",
        "events",
        "exchange",
        "gap",
        "out_of_step",
        "reader",
        "sequence",
        "session",
        "unknown_end",
        "unrequested_delta",
    )

    def __init__(self, exchange: ExchangeState, session: Session) -> None:
        self.exchange = exchange
        self.session = session
        self.reader = FrameReader(exchange.response_header("content-encoding"))
        self.deltas_requested = deltas_requested(exchange.request.target)
        self.unrequested_delta = False
        """Whether a delta came that was not asked for."""
        self.events: dict[str, int | None] = {}
        """The number of the message that first carried each id, by that id."""
        self.sequence: int | None = None
        """The last integer sequence of a durable event."""
        self.out_of_step = False
        """Whether the message before had a sequence that could not be read or that was not in order."""
        self.gap = False
        """Whether messages may have passed unseen since."""
        self.created_at: datetime | None = None
        """The last `created_at` of a durable event that is an instant in UTC."""
        self.unknown_end = False
        """Whether it is unknown if the bytes seen last end a message or stand within one."""

    def remember(self, message: Message) -> None:
        """A message passed, and all rules have seen it."""
        if message.shape is Shape.DURABLE:
            self._remember_durable(message)
            self.session.remember(message)
        elif message.shape is Shape.OPAQUE:
            self.out_of_step = True
        elif message.shape is Shape.DELTA and not self.deltas_requested:
            self.unrequested_delta = True

    def _remember_durable(self, message: Message) -> None:
        if message.id is not None:
            self.events.setdefault(message.id, message.number)
        if message.sequence is None:
            self.out_of_step = True
        else:
            self.out_of_step = self.sequence is not None and message.sequence <= self.sequence
            self.sequence = message.sequence
            self.gap = False
        self.created_at = message.created_at or self.created_at

    def lose(self) -> None:
        """Bytes passed that were not seen, or not understood."""
        self.gap = self.unknown_end = True


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a stream."""

    stream: Stream
    ending: Ending
    time_ns: int
    tail: Frame | None
    """The unfinished message at its end, if there is one."""

    def place_of(self, tail: Frame) -> Place:
        """Where the unfinished message stands."""
        return Place(self.stream.exchange.number, self.time_ns, byte_offset=tail.start)
