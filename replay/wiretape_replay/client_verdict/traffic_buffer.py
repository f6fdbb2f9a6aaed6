"""Notes of what passes, taken as cheaply as can be: what they mean is worked out later."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape_replay.http_server.http_messages import HttpRequest, ResponseHead

_COST = 256
"""Bytes that a note takes beside those it is about."""


class Mark(Enum):
    """What needs no words."""

    REQUEST_WHOLE = "the request arrived whole"


@dataclass(frozen=True, slots=True)
class RequestBodyPart:
    """A piece of a request's body."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Injected:
    """From here on an answer is not what it would have been."""

    fault: str


Content = bytes | HttpRequest | RequestBodyPart | Mark | ResponseHead | Injected | Ending
"""What a note is about; plain bytes are a piece of the answer's body, which most notes are about."""
Note = tuple[int, int, Content]
"""When (ns, on the clock of the notes), which exchange, what."""


class TrafficBuffer:
    """What was noted and not yet looked at, in order."""

    def __init__(self, clock: Callable[[], int], taken: Callable[[], None]) -> None:
        """`taken` is called after each note."""
        self.waiting = 0
        """Bytes of memory that the notes take, roughly."""
        self.last_ns = 0
        """When the last note was taken."""
        self._notes: deque[Note] = deque()
        self._clock = clock
        self._taken = taken

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def first_ns(self) -> int:
        """When the first of the notes was taken."""
        return self._notes[0][0]

    def add(self, exchange: int, content: Content, size: int = 0) -> None:
        """Take a note about `size` bytes."""
        self.last_ns = now = self._clock()
        self._notes.append((now, exchange, content))
        self.waiting += size + _COST
        self._taken()

    def take(self, most: int) -> list[Note]:
        """The first notes, at most so many."""
        taken = [self._notes.popleft() for _ in range(min(most, len(self._notes)))]
        self.waiting -= sum(_COST + _size(content) for _, _, content in taken)
        return taken


class BufferListener:
    """Takes notes of one exchange: its Tap."""

    __slots__ = ("_exchange", "_notes")

    def __init__(self, notes: TrafficBuffer, exchange: int, asked: HttpRequest) -> None:
        self._notes = notes
        self._exchange = exchange
        notes.add(exchange, asked)

    def request_body(self, data: bytes) -> None:
        """See ExchangeListener."""
        self._notes.add(self._exchange, RequestBodyPart(data), len(data))

    def request_ended(self) -> None:
        """See ExchangeListener."""
        self._notes.add(self._exchange, Mark.REQUEST_WHOLE)

    def response_started(self, head: ResponseHead) -> None:
        """See ExchangeListener."""
        self._notes.add(self._exchange, head)

    def response_body(self, data: bytes) -> None:
        """See ExchangeListener."""
        self._notes.add(self._exchange, data, len(data))

    def fault_injected(self, fault: str) -> None:
        """See ExchangeListener."""
        self._notes.add(self._exchange, Injected(fault))

    def exchange_ended(self, ending: Ending) -> None:
        """See ExchangeListener."""
        self._notes.add(self._exchange, ending)


def _size(content: Content) -> int:
    if isinstance(content, bytes):
        return len(content)
    return len(content.data) if isinstance(content, RequestBodyPart) else 0


_BEFORE_AN_END_NS = 4
"""A recording needs some time before an end, for what it held back."""


class ObservationBuilder:
    """Turns notes into observations with times that strictly increase."""

    def __init__(self, authority: str) -> None:
        """`authority` is `host[:port]` of the replay."""
        self.last_ns = 0
        """The time of the last observation."""
        self._authority = authority
        self._sizes: dict[tuple[int, Side], int] = {}

    def observations(self, notes: Iterable[Note]) -> "Iterator[Observation | tuple[int, Injected]]":
        """What was seen, and between it where faults changed an answer: the exchange and the fault."""
        run: list[Note] = []
        for note in notes:
            if isinstance(note[2], bytes) and (not run or run[0][1] == note[1]):
                run.append(note)
                continue
            if run:
                yield self._arrived(run)
                run = []
            if isinstance(note[2], bytes):
                run.append(note)
            else:
                yield self._one(*note)
        if run:
            yield self._arrived(run)

    def _one(self, time_ns: int, exchange: int, content: Content) -> "Observation | tuple[int, Injected]":
        if isinstance(content, Injected):
            return exchange, content
        if isinstance(content, HttpRequest):
            return self._request(self._time(time_ns), exchange, content)
        if isinstance(content, RequestBodyPart):
            (end,) = self._ends(exchange, Side.REQUEST, [content.data])
            start = end - len(content.data)
            return BytesArrived(exchange, Side.REQUEST, start, content.data, (end,), (self._time(time_ns),))
        if content is Mark.REQUEST_WHOLE:
            return RequestEnded(exchange, self._time(time_ns))
        if isinstance(content, ResponseHead):
            version = content.http_version
            time_ns = self._time(time_ns)
            return ResponseStarted(exchange, time_ns, content.status, content.reason, version, content.headers)
        if isinstance(content, bytes):
            return self._arrived([(time_ns, exchange, content)])
        for side in Side:
            self._sizes.pop((exchange, side), None)
        return ExchangeEnded(exchange, self._time(time_ns, _BEFORE_AN_END_NS), content)

    def _request(self, time_ns: int, exchange: int, asked: HttpRequest) -> RequestStarted:
        return RequestStarted(
            exchange=exchange,
            time_ns=time_ns,
            client=asked.client,
            method=asked.method,
            scheme="http",
            authority=self._authority,
            target=asked.target,
            http_version=asked.http_version,
            headers=asked.headers,
        )

    def _arrived(self, run: list[Note]) -> BytesArrived:
        exchange = run[0][1]
        chunks = [content for _, _, content in run if isinstance(content, bytes)]
        start = self._sizes.get((exchange, Side.RESPONSE), 0)
        ends = self._ends(exchange, Side.RESPONSE, chunks)
        times = tuple(self._time(time_ns) for time_ns, _, _ in run)
        return BytesArrived(exchange, Side.RESPONSE, start, b"".join(chunks), ends, times)

    def _ends(self, exchange: int, side: Side, chunks: list[bytes]) -> tuple[int, ...]:
        end, ends = self._sizes.get((exchange, side), 0), []
        for chunk in chunks:
            end += len(chunk)
            ends.append(end)
        self._sizes[exchange, side] = end
        return tuple(ends)

    def _time(self, time_ns: int, least: int = 1) -> int:
        self.last_ns = max(time_ns, self.last_ns + least)
        return self.last_ns
