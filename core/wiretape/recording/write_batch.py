"""Batch of observations that were fed to a writer and wait for its next commit."""

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
from wiretape.recording.exchange_table import OpenExchange
from wiretape.recording.redactor import Redactor
from wiretape.recording.segments import Segment, add_run


class WriteBatch:
    """Bytes, packed into segments, and redacted observations without bytes ("marks")."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._exchanges: dict[int, OpenExchange] = {}
        self._changed: set[int] = set()
        self._filling: dict[tuple[int, Side], Segment] = {}
        self.segments: list[Segment] = []
        self.losses: list[BytesLost] = []
        self.marks: list[Observation] = []
        """Requests, responses, endings and losses, in the order in which they were observed."""
        self.lost_bytes = 0
        """Bytes that were lost, or could not be stored, so far."""

    def __bool__(self) -> bool:
        return bool(self.marks or self.segments or self.losses or self._changed)

    @property
    def changed(self) -> Iterable[int]:
        """The numbers of the exchanges that changed."""
        return self._changed

    @property
    def exchanges(self) -> list[OpenExchange]:
        """The exchanges that changed."""
        return [self._exchanges[number] for number in self._changed]

    def runs(self) -> list[BytesArrived]:
        """Return the bytes, in time order."""
        return [segment.run() for segment in sorted(self.segments, key=lambda segment: segment.times[0])]

    def add_bytes(self, run: BytesArrived) -> None:
        """Pack a run into segments."""
        body = (run.exchange, run.side)
        for segment in add_run(run, self._filling.get(body)):
            self._filling[body] = segment
            self.segments.append(segment)
        self._exchanges[run.exchange].stored[run.side] += len(run.data)
        self._changed.add(run.exchange)

    def add_mark(self, seen: Observation) -> None:
        """Add an observation without bytes, redacted."""
        if isinstance(seen, RequestStarted):
            seen = self._redactor.redact_request(seen)
            self._exchanges[seen.exchange] = OpenExchange(seen)
        else:
            seen = self._update_exchange(self._exchanges[seen.exchange], seen)
        self._changed.add(seen.exchange)
        self.marks.append(seen)

    def _update_exchange(self, exchange: OpenExchange, seen: Observation) -> Observation:
        if isinstance(seen, ResponseStarted):
            seen = exchange.response = self._redactor.redact_response(seen)
        elif isinstance(seen, RequestEnded):
            exchange.request_ended_ns = seen.time_ns
        elif isinstance(seen, ExchangeEnded):
            exchange.ended = seen
        elif isinstance(seen, BytesLost):
            self._add_loss(exchange, seen)
        return seen

    def drop_bytes(self, why: str) -> None:
        """Count the bytes as lost.  Everything else is stored with the next commit that succeeds."""
        for segment in self.segments:
            exchange = self._exchanges[segment.exchange]
            count = segment.end - segment.start
            lost = BytesLost(segment.exchange, segment.times[0], segment.side, segment.start, count, why)
            exchange.stored[segment.side] -= count
            self._add_loss(exchange, lost)
            self.marks.append(lost)

    def _add_loss(self, exchange: OpenExchange, lost: BytesLost) -> None:
        exchange.lost += lost.count
        self.lost_bytes += lost.count
        self.losses.append(lost)

    def start_next(self) -> None:
        """Start the next batch; keep what a failed commit has to store again."""
        self.marks, self.segments = [], []
        self._filling.clear()

    def forget_stored(self) -> None:
        """Forget the changes and losses: all of them are stored."""
        self.losses.clear()
        for number in self._changed:
            if self._exchanges[number].ended:
                del self._exchanges[number]
        self._changed.clear()
