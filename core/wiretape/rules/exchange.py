"""Exchanges and event streams, as the checker follows them; contracts have subclasses that remember more."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from wiretape.event import Event, TimedFrame
from wiretape.frame_reader import Undecodable
from wiretape.observations import BytesArrived, BytesLost, Ending, ExchangeEnded, RequestStarted, ResponseStarted, Side
from wiretape.observations import header as find_header
from wiretape.rules.finding import Location
from wiretape.rules.response_body import ResponseBody
from wiretape.sse import DEFAULT_LIMIT, Frame, FrameKind, is_event_stream

IN_FLIGHT_NS = 1_000_000_000
"""If a connection breaks, the client may not have read what was sent this shortly before.

Chromium, for example, discards what its page has not handled yet.
"""


def may_be_unread(sent_ns: int, ending: Ending, ended_ns: int | None) -> bool:
    """Whether a client may not have read what was sent, because its connection ended shortly afterwards."""
    return ended_ns is not None and ending is not Ending.COMPLETE and ended_ns - sent_ns <= IN_FLIGHT_NS


class ScopeReason(StrEnum):
    """Why exchanges are judged by the rules of the specification, or are not."""

    CONFIGURED = "their paths are under the configured base {base}"
    UPSTREAM = "their paths are under {root} on the upstream"
    PART = "their paths are under {parts}"
    OUTSIDE = "their paths are not under the configured base {base}"
    OTHER = "their paths are not under {known}"
    OPERATION = "they match an operation of the contract {contract}"
    NO_OPERATION = "they match no operation of the contract {contract}"

    @property
    def is_service(self) -> bool:
        """Whether all rules apply to the exchanges."""
        return self not in {ScopeReason.OUTSIDE, ScopeReason.OTHER, ScopeReason.NO_OPERATION}


class ScopeCount(Struct, frozen=True):
    """How many exchanges are judged by which rules for one reason."""

    reason: ScopeReason
    exchanges: int
    text: str
    """The reason as a clause that can follow `because`."""


class SilenceLimit(Struct, frozen=True):
    """The longest time without bytes that a rule allows."""

    seconds: float
    is_interval: bool = False
    """Whether it is the interval of keep-alives, which may be late."""


class Silence(Struct, frozen=True):
    """A time without bytes on a stream."""

    ended_ns: int
    length_ns: int
    limit_ns: int
    """The longest time, with the tolerance."""
    limit: SilenceLimit
    has_losses: bool = False
    """Whether bytes were lost during it, so that there may have been no silence."""

    @property
    def is_too_long(self) -> bool:
        """Whether it exceeds the limit."""
        return self.length_ns > self.limit_ns


class SilenceMonitor:
    """Measures the silences of one stream, from the response headers on, by the arrival times of its chunks."""

    def __init__(self, begun_ns: int, limit: SilenceLimit, tolerance_s: float = 0) -> None:
        """Keep-alives may be late by `tolerance_s`."""
        self._begun_ns = self._last_ns = begun_ns
        self._limit = limit
        self._limit_ns = round((limit.seconds + (tolerance_s if limit.is_interval else 0)) * 1e9)
        self._lost = False
        self._has_reported = False

    def feed(self, span: BytesArrived) -> list[Silence]:
        """Return the silences before and between the chunks that are too long."""
        if span.times[-1] - self._last_ns > self._limit_ns:
            return list(self._silences(span))
        if span.ends[-1] > span.start:
            # It may end with empty chunks.
            self._last_ns = span.times[bisect_left(span.ends, span.ends[-1])]
            self._lost = False
        return []

    def lose(self) -> None:
        """Bytes were lost."""
        self._lost = True

    def end(self, time_ns: int) -> Silence | None:
        """Return the last silence if it is too long, or an empty one if none was and one could have been."""
        silence = self._silence(time_ns)
        if silence is not None or self._has_reported or time_ns - self._begun_ns <= self._limit_ns:
            return silence
        return Silence(time_ns, 0, self._limit_ns, self._limit)

    def _silences(self, span: BytesArrived) -> Iterator[Silence]:
        before = span.start
        for end, time_ns in zip(span.ends, span.times, strict=True):
            if end > before:
                silence = self._silence(time_ns)
                if silence is not None:
                    yield silence
                self._last_ns, self._lost, before = time_ns, False, end

    def _silence(self, until_ns: int) -> Silence | None:
        silence = Silence(until_ns, until_ns - self._last_ns, self._limit_ns, self._limit, self._lost)
        if not silence.is_too_long:
            return None
        self._has_reported = True
        return silence


class Memory:
    """What rules remember, each under a key of its own: rules themselves store nothing."""

    def __init__(self) -> None:
        self._items: dict[Hashable, Any] = {}

    def get(self, key: Hashable, make: Callable[[], Any] | None = None) -> Any:
        """Return what is remembered under a key, which `make` begins; otherwise None."""
        found = self._items.get(key)
        if found is None and make is not None:
            found = self._items[key] = make()
        return found

    def __setitem__(self, key: Hashable, item: Any) -> None:
        self._items[key] = item


class EventStream:
    """A connection with an event stream."""

    def __init__(self, exchange: int, traffic: Any, silences: Sequence[SilenceMonitor] = ()) -> None:
        self.exchange = exchange
        self.traffic = traffic
        """The `Traffic` of the contract whose rules apply to it."""
        self.silences = silences
        self.memory = Memory()
        self.last_event: Event | None = None
        self.last_comment: TimedFrame | None = None
        """The last comment, if nothing has followed it."""
        self.sequence: int | None = None
        """The last integer sequence of a durable event, if the contract follows sequences."""
        self.has_unknown_end = False
        """Whether it is unknown if the last bytes seen end an event."""
        self.oversized: list[Location] = []
        """Where events begin that are too large to be read."""
        self.undecodable: Undecodable | None = None
        self._oversized_end: int | None = None

    @property
    def last_location(self) -> Location:
        """Where the last event is; the beginning of the exchange before the first one."""
        return Location(self.exchange, 0) if self.last_event is None else Location.of(self.last_event)

    def holder(self, scope: object) -> object:
        """Return what there is one of for each `scope`: findings can be limited to one for each."""
        del scope
        return self

    def add_oversized(self, seen: TimedFrame) -> bool:
        """Add a piece of a block that is too large to be read; return whether it begins an event."""
        frame, before = seen.frame, self._oversized_end
        # Only the last piece of a block is smaller than the limit.
        self._oversized_end = frame.end if len(frame.raw) == DEFAULT_LIMIT else None
        if frame.start == before or frame.raw.startswith((b":", b"\n:")):
            return False
        self.oversized.append(Location(self.exchange, seen.time_ns, byte_offset=frame.start))
        return True

    def lose(self) -> None:
        """Bytes were lost, could not be decoded, or could not be understood."""
        self.has_unknown_end = True

    def cut_off(self, tail: Frame) -> None:
        """The stream ended in an event."""


S = TypeVar("S", bound=EventStream)
_ENDED_BY_SERVICE = {
    Ending.COMPLETE: "the response ended",
    Ending.SERVICE_CLOSED: "the service closed the connection",
    Ending.SERVICE_RESET: "the service reset the connection",
}


class StreamEnd(Struct, Generic[S], frozen=True):
    """The end of a stream."""

    stream: S
    ending: Ending
    time_ns: int
    tail: Frame | None
    """The unfinished event at the end, if there is one."""

    @property
    def ended_by_service(self) -> str | None:
        """How the service ended it, as a clause; None if somebody else did."""
        return _ENDED_BY_SERVICE.get(self.ending)

    def holder(self, scope: object) -> object:
        """Return what there is one of for each `scope`."""
        return self.stream.holder(scope)

    @classmethod
    def of(cls, stream: S, ended: ExchangeEnded, frames: Iterable[TimedFrame]) -> "StreamEnd[S]":
        """Return the end of a stream, with the frames that it completes or cuts off."""
        tails = [seen.frame for seen in frames if seen.frame.kind is FrameKind.TAIL and seen.frame.fields]
        return cls(stream, ended.ending, ended.time_ns, tails[0] if tails else None)


class Exchange:
    """One exchange that has not ended."""

    def __init__(self, request: RequestStarted, traffic: Any) -> None:
        self.request = request
        self.traffic = traffic
        """The `Traffic` of the contract whose rules apply to it."""
        self.response: ResponseStarted | None = None
        self.stream: EventStream | None = None
        """Its event stream, which may belong to other traffic."""
        self.body: ResponseBody | None = None
        """The body of its response, if rules may read it."""
        self.lost: dict[Side, BytesLost] = {}
        """The lost bytes of its bodies: the first location, and the count of all."""
        self.ended_ns = 0

    @property
    def number(self) -> int:
        """The number of the exchange."""
        return self.request.exchange

    @property
    def place(self) -> Hashable:
        """Where the service is: what others send makes no difference."""
        return self.request.authority

    @property
    def has_event_stream(self) -> bool:
        """Whether the response is a success with an event stream."""
        is_success = self.response is not None and self.response.status // 100 == 2
        return is_success and is_event_stream(self.response_header("content-type"))

    def response_header(self, name: str) -> str | None:
        """Return the value of the first response header with that name."""
        return find_header(self.response.headers, name) if self.response else None

    def lose(self, lost: BytesLost) -> None:
        """Bytes of a body were lost."""
        first = self.lost.get(lost.side)
        count = lost.count + (first.count if first is not None else 0)
        at = first or lost
        self.lost[lost.side] = BytesLost(at.exchange, at.time_ns, at.side, at.start, count, at.why)

    def add_request_bytes(self, span: BytesArrived) -> None:
        """Add bytes of the request body."""

    def after_request(self) -> None:
        """Remember the request, after the rules about it have run."""

    def after_response_started(self) -> None:
        """Remember the headers of the response, after the rules about them have run."""

    def after_body(self, body: Any) -> None:
        """Remember the body of the response, after the rules about it have run."""

    def after_end(self, ending: Ending) -> None:
        """Remember the end, after the rules about it have run."""
