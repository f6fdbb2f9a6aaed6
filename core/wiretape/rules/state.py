"""What is remembered between one observation and the next: per exchange, per stream, per session.

Rules read it; it changes here only, after the rules have seen what changes it.  What belongs to an
exchange is released when that ends.  Of a session the ids of its durable events are kept, for a later
connection may bring them again.
"""

from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from wiretape.contract import CURSOR_HEADER, Match, cursor_in, deltas_requested
from wiretape.frame_reader import SeenFrame
from wiretape.observations import BytesLost, Ending, RequestStarted, ResponseStarted, Side, header
from wiretape.rules.answer import Answer
from wiretape.rules.clients import Client, RequestKey
from wiretape.rules.course import Course
from wiretape.rules.finding import Place
from wiretape.rules.message import Message, Shape
from wiretape.rules.pauses import Hearing
from wiretape.rules.readers import Reader
from wiretape.rules.request_ids import RequestIds
from wiretape.rules.sessions import Session, Sessions
from wiretape.sse import Frame

_MOST_IDS = 50_000
"""How many ids of one connection are remembered."""


@dataclass(slots=True)
class ExchangeState:
    """One exchange that has not ended."""

    request: RequestStarted
    match: Match | None
    session: Session | None
    request_ids: RequestIds
    """Those of the whole recording."""
    sessions: Sessions
    """Those of the whole recording."""
    client: Client
    reader: Reader | None
    """The client as one that reads the session."""
    idempotency_key: str | None = None
    """The one that the request carries."""
    owes_cursor: bool = False
    """Whether it asked for a stream when it had to go on where the client stood."""
    last_ns: int = 0
    """When it ended."""
    lost: dict[Side, BytesLost] = field(default_factory=dict)
    """What of its bodies passed without being recorded: the first place, and how many bytes in all."""
    response: ResponseStarted | None = None
    stream: "Stream | None" = None
    """For a stream of the service that is being read."""
    answer: Answer | None = None
    """For an answer with an error status."""

    @property
    def number(self) -> int:
        """The number of the exchange."""
        return self.request.exchange

    @property
    def cursor(self) -> str | None:
        """The cursor that the request carries; an empty one is none."""
        return cursor_in(header(self.request.headers, CURSOR_HEADER))

    @property
    def key(self) -> RequestKey:
        """What a repeat of the request has in common with it."""
        return self.request.method, self.request.authority, self.request.target.partition("#")[0]

    def remember_request_id(self) -> None:
        """The answer ended, and all rules have seen it."""
        request_id = self.answer.request_id if self.answer is not None else None
        if request_id is not None:
            self.request_ids.remember(request_id, self.number)

    def response_header(self, name: str) -> str | None:
        """The value of the first response header called `name`."""
        return header(self.response.headers, name) if self.response else None


class Stream:
    """One connection on which the service streams events of a session."""

    __slots__ = (
        "blank_comment",
        "comment",
        "course",
        "created_at",
        "deltas_requested",
        "events",
        "events_forgotten",
        "exchange",
        "gap",
        "hearing",
        "last",
        "out_of_step",
        "sequence",
        "session",
        "unknown_end",
        "unrequested_delta",
    )

    def __init__(self, exchange: ExchangeState, session: Session, reader: Reader, hearing: Hearing) -> None:
        self.exchange = exchange
        self.session = session
        request = exchange.request
        self.course = Course(session.past, reader, request.exchange, request.time_ns, exchange.cursor)
        self.hearing = hearing
        self.last: Message | None = None
        """The last message."""
        self.comment: SeenFrame | None = None
        """The comment that came last, when nothing has followed it."""
        self.blank_comment = False
        """Whether a comment was followed by a blank line."""
        self.deltas_requested = deltas_requested(exchange.request.target)
        self.unrequested_delta = False
        """Whether a delta came that was not asked for."""
        self.events: dict[str, int | None] = {}
        """The number of the message that first carried each id, by that id; of very many the newest."""
        self.events_forgotten = False
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
        self.last = message
        if message.shape is Shape.DURABLE:
            self._remember_durable(message)
            self.session.remember(message)
        elif message.shape is Shape.OPAQUE:
            self.out_of_step = True
        elif message.shape is Shape.DELTA and not self.deltas_requested:
            self.unrequested_delta = True
        self.course.follow(message)

    def _remember_durable(self, message: Message) -> None:
        if message.id is not None:
            self.events.setdefault(message.id, message.number)
            if len(self.events) > _MOST_IDS:
                self.events = dict(islice(self.events.items(), _MOST_IDS // 2, None))
                self.events_forgotten = True
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
        self.course.lose()
        self.comment = None


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
