"""The tape: the n-th request of a kind is given the n-th recorded exchange of that kind.  Pure: no I/O, no clock."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from wiretape.observations import Headers
from wiretape_replay.http_server.request import HttpRequest, RequestBody
from wiretape_replay.verbatim.matching_options import Matching, Order, Repeat
from wiretape_replay.verbatim.request_key import (
    RequestKey,
    is_redacted,
    recorded_key,
    request_key,
    with_body,
    without_paths,
)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A recorded request, as far as matching needs it."""

    number: int
    """Of its exchange."""
    method: str
    target: str
    body: RequestBody | None
    """None when it was not recorded whole: then any body will do."""
    headers: Headers = ()


@dataclass(slots=True, eq=False)
class ExchangeQueue:
    """The recorded exchanges of one kind, in recorded order."""

    kind: RequestKey
    entries: list[RecordedRequest] = field(default_factory=list)
    place: int = 0
    """Of the exchange that is given next."""

    @property
    def first(self) -> RecordedRequest:
        """The first recorded request of this kind, which stands for all."""
        return self.entries[0]

    @property
    def spent(self) -> bool:
        """Whether every recorded answer was given."""
        return self.place == len(self.entries)


class ExchangeQueues:
    """Matches requests to recorded exchanges."""

    def __init__(self, entries: Iterable[RecordedRequest], matching: Matching | None = None) -> None:
        """`entries` in recorded order.  Of their bodies and headers only what matching needs is kept."""
        self.matching = matching or Matching()
        self.entries: list[RecordedRequest] = []
        """In recorded order."""
        self.lanes: list[ExchangeQueue] = []
        self._lane_of: dict[int, ExchangeQueue] = {}
        self._exact: dict[RequestKey, ExchangeQueue] = {}
        self._hidden: list[ExchangeQueue] = []
        self._given: set[int] = set()
        self._place = 0
        kinds = [self._recorded(entry) for entry in entries]
        matter = _places_where_bodies_matter(self.entries, kinds)
        for entry, kind in zip(self.entries, kinds, strict=True):
            decides = entry.body is not None and (kind.method, kind.path) in matter
            self._add(entry, with_body(kind, entry.body) if entry.body and decides else kind)

    def take(self, asked: HttpRequest) -> RecordedRequest | None:
        """The exchange to answer with, or None.

        Nothing like it was recorded then, all such answers were given, or, in strict order, another is expected.
        """
        lanes = list(self.lanes_of(asked))
        if lanes and self._spent(lanes) and self.matching.repeat is Repeat.LAST:
            return max((lane.entries[-1] for lane in lanes), key=lambda entry: entry.number)
        if lanes and self._spent(lanes) and self.matching.repeat is Repeat.CYCLE:
            self._begin_again(lanes)
        expected = self.expected
        for lane in lanes:
            if not lane.spent and (expected is None or lane is self._lane_of[expected.number]):
                return self._give(lane)
        return None

    @property
    def expected(self) -> RecordedRequest | None:
        """In strict order, the request that has to come next; None after the last, and in any other order."""
        strict = self.matching.order is Order.STRICT and self._place < len(self.entries)
        return self.entries[self._place] if strict else None

    def skip(self, number: int) -> None:
        """In strict order, expect the request after this one if this is the one that is expected."""
        if self.expected is not None and self.expected.number == number:
            lane = self._lane_of[number]
            lane.place += 1
            self._place += 1

    def lane_of(self, entry: RecordedRequest) -> ExchangeQueue:
        """The lane on which a recorded request lies."""
        return self._lane_of[entry.number]

    def counted(self, body: RequestBody) -> RequestBody:
        """A request body as far as it counts."""
        return without_paths(body, self.matching.ignored_body)

    def key_of(self, asked: HttpRequest) -> RequestKey:
        """What kind of request this is, its body included."""
        kind = request_key(asked.method, asked.target, asked.headers, self.matching)
        return replace(kind, body=self.counted(asked.body).digest)

    def lanes_of(self, asked: HttpRequest) -> Iterator[ExchangeQueue]:
        """The lanes that the request belongs to, spent or not, the closest first."""
        kind = self.key_of(asked)
        for candidate in (kind, replace(kind, body=None)):
            lane = self._exact.get(candidate)
            if lane is not None:
                yield lane
        if self._hidden:
            body = self.counted(asked.body)
            yield from (lane for lane in self._hidden if not lane.kind.differences(kind, body))

    @property
    def size(self) -> int:
        """How many exchanges were recorded."""
        return len(self.entries)

    @property
    def unconsumed(self) -> list[RecordedRequest]:
        """The recorded requests that were never asked, in recorded order."""
        return [entry for entry in self.entries if entry.number not in self._given]

    def reset(self) -> None:
        """Begin again from the first recorded exchange, as if nothing had been asked."""
        self._begin_again(self.lanes)
        self._given.clear()

    def _recorded(self, entry: RecordedRequest) -> RequestKey:
        """Keep an entry; returns its kind, whatever its body."""
        body = entry.body and self.counted(entry.body)
        if body is not None and not is_redacted(body):
            body = RequestBody(body.digest, None)
        self.entries.append(replace(entry, body=body, headers=()))
        return recorded_key(entry.method, entry.target, entry.headers, self.matching)

    def _add(self, entry: RecordedRequest, kind: RequestKey) -> None:
        lane = self._exact.get(kind)
        if lane is None:
            lane = self._exact[kind] = ExchangeQueue(kind)
            self.lanes.append(lane)
            if kind.hidden:
                self._hidden.append(lane)
        lane.entries.append(entry)
        self._lane_of[entry.number] = lane

    def _spent(self, lanes: Iterable[ExchangeQueue]) -> bool:
        """Whether there is nothing left to give, on these lanes or, in strict order, at all."""
        if self.matching.order is Order.STRICT:
            return self._place == len(self.entries)
        return all(lane.spent for lane in lanes)

    def _begin_again(self, lanes: Iterable[ExchangeQueue]) -> None:
        if self.matching.order is Order.STRICT:
            lanes = self.lanes
        self._place = 0
        for lane in lanes:
            lane.place = 0

    def _give(self, lane: ExchangeQueue) -> RecordedRequest:
        entry = lane.entries[lane.place]
        lane.place += 1
        self._place += 1
        self._given.add(entry.number)
        return entry


def _places_where_bodies_matter(
    entries: Iterable[RecordedRequest], kinds: Iterable[RequestKey]
) -> set[tuple[str, str]]:
    """Methods and paths whose recorded bodies differ, so that a body says which answer is meant."""
    digests: defaultdict[tuple[str, str], set[bytes]] = defaultdict(set)
    for entry, kind in zip(entries, kinds, strict=True):
        if entry.body is not None:
            digests[kind.method, kind.path].add(entry.body.digest)
    return {place for place, different in digests.items() if len(different) > 1}
