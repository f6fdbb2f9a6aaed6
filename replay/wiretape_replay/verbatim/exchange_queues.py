"""Queues of recorded exchanges, one for each kind of request.  Pure: no I/O, no clock."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from wiretape.bounded_dict import put_bounded
from wiretape.observations import Headers
from wiretape_replay.http_server.http_messages import HttpRequest, RequestBody
from wiretape_replay.verbatim.request_matching import (
    REDACTED,
    Matching,
    Order,
    RepeatMode,
    RequestKey,
    has_redactions,
    recorded_key,
    request_key,
    with_body,
    without_paths,
)

_MOST_KEPT = 1000
_LONGEST_KEPT = 1000
"""Characters of a target."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """The parts of a recorded request that matching needs."""

    number: int
    """The number of its exchange."""
    method: str
    target: str
    body: RequestBody | None
    """None if it was not recorded completely: it matches any body."""
    headers: Headers = ()


@dataclass(slots=True, eq=False)
class ExchangeQueue:
    """The recorded exchanges of one kind, in recorded order."""

    key: RequestKey
    requests: list[RecordedRequest] = field(default_factory=list)
    position: int = 0
    """Index of the exchange that is served next."""

    @property
    def first(self) -> RecordedRequest:
        """The first recorded request."""
        return self.requests[0]

    @property
    def is_used_up(self) -> bool:
        """Whether all recorded responses were served."""
        return self.position == len(self.requests)


class ExchangeQueues:
    """Matches requests with recorded exchanges."""

    def __init__(self, requests: Iterable[RecordedRequest], matching: Matching | None = None) -> None:
        """`requests` come in recorded order.  Only what matching needs of their bodies and headers is kept."""
        self.matching = matching or Matching()
        self.requests: list[RecordedRequest] = []
        """In recorded order."""
        self.queues: list[ExchangeQueue] = []
        self._queue_of: dict[int, ExchangeQueue] = {}
        self._by_key: dict[RequestKey, ExchangeQueue] = {}
        self._redacted: list[ExchangeQueue] = []
        self._served: set[int] = set()
        self._found: dict[tuple[str, str, bytes], list[ExchangeQueue]] = {}
        """The queues of the last requests, by method, target and body."""
        self._position = 0
        """Index of the request that strict order expects next."""
        keys = [self._keep(request) for request in requests]
        compare_bodies = _find_differing_bodies(self.requests, keys)
        for request, key in zip(self.requests, keys, strict=True):
            is_compared = self.matching.always_bodies or (key.method, key.path) in compare_bodies
            if request.body is not None and is_compared:
                key = with_body(key, request.body)  # noqa: PLW2901 - the same key, more specific
            self._add(request, key)

    def take(self, request: HttpRequest) -> RecordedRequest | None:
        """Take the exchange that responds to a request.

        Returns None if no such request was recorded, if all responses to it are used up, and, in strict order, if
        another request is expected.
        """
        queues = self.find(request)
        if queues and self.matching.repeat is not RepeatMode.REFUSE and self._is_used_up(queues):
            if self.matching.repeat is RepeatMode.LAST:
                return max((queue.requests[-1] for queue in queues), key=attrgetter("number"))
            self._restart(queues)
        expected = self.expected
        for queue in queues:
            if not queue.is_used_up and (expected is None or queue is self._queue_of[expected.number]):
                return self._take_from(queue)
        return None

    @property
    def expected(self) -> RecordedRequest | None:
        """The request that strict order expects next; None after the last, and in any other order."""
        strict = self.matching.order is Order.STRICT and self._position < len(self.requests)
        return self.requests[self._position] if strict else None

    def skip(self, number: int) -> None:
        """In strict order, expect the next request if exchange `number` is expected."""
        if self.expected is not None and self.expected.number == number:
            self._queue_of[number].position += 1
            self._position += 1

    def find(self, request: HttpRequest) -> Sequence[ExchangeQueue]:
        """Return the queues that match a request, used up or not, the closest match first."""
        if self.matching.headers or len(request.target) > _LONGEST_KEPT:
            return list(self._find(request))
        kind = request.method, request.target, request.body.digest
        found = self._found.get(kind)
        if found is None:
            found = list(self._find(request))
            put_bounded(self._found, kind, found, _MOST_KEPT)
        return found

    def _find(self, request: HttpRequest) -> Iterator[ExchangeQueue]:
        key = self.key_of(request)
        for candidate in (key, replace(key, body=None)):
            queue = self._by_key.get(candidate)
            if queue is not None:
                yield queue
        if self._redacted:
            body = self.compared_body(request.body)
            yield from (queue for queue in self._redacted if not queue.key.differences(key, body))

    def following(self, queues: Iterable[ExchangeQueue]) -> RecordedRequest | None:
        """The request that is taken next from one of these queues; None if they are used up."""
        return next((queue.requests[queue.position] for queue in queues if not queue.is_used_up), None)

    def queue_of(self, recorded: RecordedRequest) -> ExchangeQueue:
        """The queue that contains a recorded request."""
        return self._queue_of[recorded.number]

    def key_of(self, request: HttpRequest) -> RequestKey:
        """The key of a request, with its body."""
        key = request_key(request.method, request.target, request.headers, self.matching)
        return replace(key, body=self.compared_body(request.body).digest)

    @property
    def secret_parameters(self) -> set[str]:
        """The names of query parameters that are redacted in a recorded request."""
        return {name for queue in self.queues for name, value in queue.key.query if REDACTED in value}

    def compared_body(self, body: RequestBody) -> RequestBody:
        """The part of a request body that is compared."""
        return without_paths(body, self.matching.ignored_body)

    @property
    def unconsumed(self) -> list[RecordedRequest]:
        """The recorded requests that no client sent, in recorded order."""
        return [recorded for recorded in self.requests if recorded.number not in self._served]

    def __len__(self) -> int:
        return len(self.requests)

    def reset(self) -> None:
        """Start again from the first recorded exchange."""
        self._restart(self.queues)
        self._served.clear()

    def _keep(self, request: RecordedRequest) -> RequestKey:
        """Keep what matching needs of a recorded request; returns its key, without its body."""
        body = request.body and self.compared_body(request.body)
        if body is not None and not has_redactions(body):
            body = RequestBody(body.digest, None)
        self.requests.append(replace(request, body=body, headers=()))
        return recorded_key(request.method, request.target, request.headers, self.matching)

    def _add(self, request: RecordedRequest, key: RequestKey) -> None:
        queue = self._by_key.get(key)
        if queue is None:
            queue = self._by_key[key] = ExchangeQueue(key)
            self.queues.append(queue)
            if key.is_redacted:
                self._redacted.append(queue)
        queue.requests.append(request)
        self._queue_of[request.number] = queue

    def _is_used_up(self, queues: Iterable[ExchangeQueue]) -> bool:
        """Whether these queues, or in strict order all queues, are used up."""
        if self.matching.order is Order.STRICT:
            return self._position == len(self.requests)
        return all(queue.is_used_up for queue in queues)

    def _restart(self, queues: Iterable[ExchangeQueue]) -> None:
        if self.matching.order is Order.STRICT:
            queues = self.queues
        self._position = 0
        for queue in queues:
            queue.position = 0

    def _take_from(self, queue: ExchangeQueue) -> RecordedRequest:
        recorded = queue.requests[queue.position]
        queue.position += 1
        self._position += 1
        self._served.add(recorded.number)
        return recorded


def _find_differing_bodies(requests: Iterable[RecordedRequest], keys: Iterable[RequestKey]) -> set[tuple[str, str]]:
    """The methods and paths whose recorded bodies differ, so that the body selects the response."""
    digests: defaultdict[tuple[str, str], set[bytes]] = defaultdict(set)
    for request, key in zip(requests, keys, strict=True):
        if request.body is not None:
            digests[key.method, key.path].add(request.body.digest)
    return {request for request, different in digests.items() if len(different) > 1}
