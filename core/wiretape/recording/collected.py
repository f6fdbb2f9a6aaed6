"""What was fed to a writer and waits for its next commit."""

from collections.abc import Iterable

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording.exchanges import OpenExchange
from wiretape.recording.redact import Redactor
from wiretape.recording.segments import Segment, lay


class Collected:
    """Bytes, laid into segments, and heads, ends and losses, redacted."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._exchanges: dict[int, OpenExchange] = {}
        self._changed: set[int] = set()
        self._filling: dict[tuple[int, Side], Segment] = {}
        self.segments: list[Segment] = []
        self.losses: list[BytesLost] = []
        self.marks: list[Observation] = []
        """Heads, ends and losses, in the order in which they came."""
        self.lost_bytes = 0
        """Bytes that were lost, or could not be stored, so far."""

    def __bool__(self) -> bool:
        return bool(self.marks or self.segments or self.losses or self._changed)

    @property
    def changed(self) -> Iterable[int]:
        """The numbers of the exchanges of which there is something new."""
        return self._changed

    @property
    def exchanges(self) -> list[OpenExchange]:
        """The exchanges of which there is something new."""
        return [self._exchanges[number] for number in self._changed]

    def runs(self) -> list[BytesArrived]:
        """The bytes, in order of time."""
        return [segment.run() for segment in sorted(self.segments, key=lambda segment: segment.times[0])]

    def add_bytes(self, run: BytesArrived) -> None:
        """Lay a run into segments."""
        place = (run.exchange, run.side)
        for segment in lay(run, self._filling.get(place)):
            self._filling[place] = segment
            self.segments.append(segment)
        self._exchanges[run.exchange].stored[run.side] += len(run.data)
        self._changed.add(run.exchange)

    def add_mark(self, seen: Observation) -> None:
        """Take a head, an end or a loss in, redacted."""
        if isinstance(seen, RequestStarted):
            seen = self._redactor.request(seen)
            self._exchanges[seen.exchange] = OpenExchange(seen)
        else:
            seen = self._take_in(self._exchanges[seen.exchange], seen)
        self._changed.add(seen.exchange)
        self.marks.append(seen)

    def _take_in(self, exchange: OpenExchange, seen: Observation) -> Observation:
        if isinstance(seen, ResponseStarted):
            seen = exchange.response = self._redactor.response(seen)
        elif isinstance(seen, RequestEnded):
            exchange.request_ended_ns = seen.time_ns
        elif isinstance(seen, ExchangeEnded):
            exchange.ended = seen
        elif isinstance(seen, BytesLost):
            self._lose(exchange, seen)
        return seen

    def give_up(self, why: str) -> None:
        """Count the bytes as lost; heads, ends and losses are tried again with the next commit."""
        for segment in self.segments:
            exchange = self._exchanges[segment.exchange]
            count = segment.end - segment.start
            lost = BytesLost(segment.exchange, segment.times[0], segment.side, segment.start, count, why)
            exchange.stored[segment.side] -= count
            self._lose(exchange, lost)
            self.marks.append(lost)

    def _lose(self, exchange: OpenExchange, lost: BytesLost) -> None:
        exchange.lost += lost.count
        self.lost_bytes += lost.count
        self.losses.append(lost)

    def begin_anew(self) -> None:
        """What was collected is handed on; what is kept is for a commit that failed."""
        self.marks, self.segments = [], []
        self._filling.clear()

    def forget(self) -> None:
        """All of it is stored, and need not be kept."""
        self.losses.clear()
        for number in self._changed:
            if self._exchanges[number].ended:
                del self._exchanges[number]
        self._changed.clear()
