"""Queues of recorded exchanges, one for each kind of request, and why a request is in none.  Pure: no I/O, no clock.

For a request without a match, the closest recorded requests are named, and how they differ.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter
from typing import Any

import orjson

from wiretape.bounded_dict import put_bounded
from wiretape.json_path import Difference, differences
from wiretape.observations import Headers
from wiretape.patterns import MISSING
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import HttpRequest, RequestBody, normalized_json
from wiretape_replay.http_server.request_redaction import without_secrets
from wiretape_replay.verbatim.request_matching import (
    REDACTED,
    Matching,
    Order,
    Pairs,
    RepeatMode,
    RequestKey,
    has_redactions,
    matches_pair,
    matches_text,
    recorded_key,
    request_key,
    with_body,
    without_paths,
)

_CLOSEST = 3
_MOST_PATHS = 3
_LONGEST_VALUE = 40
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


def explain_no_match(
    queues: ExchangeQueues,
    request: HttpRequest,
    recorded_body: Callable[[int], RequestBody | None] = lambda _: None,
) -> str:
    """Explain in one to three sentences why a request has no match, without its secrets.

    `recorded_body` returns the request body of an exchange, to name the JSON paths that differ.
    """
    shown = without_secrets(request, queues.secret_parameters)
    name = shorten(f"{shown.method} {shown.target}")
    comparison = _Comparison(queues, shown, recorded_body)
    if queues.expected is not None:
        return f"{name} is out of order: the next recorded request is {comparison.describe(queues.expected)}."
    if matching := queues.find(request):
        count = sum(len(queue.requests) for queue in matching)
        used_up = "The only recorded response is" if count == 1 else f"All {count} recorded responses are"
        return f"{used_up} used up: {name} was requested again."
    if not queues.queues:
        return f"{name} was not recorded: the recording contains no exchanges."
    closest = heapq.nlargest(
        _CLOSEST, queues.queues, key=lambda queue: (_similarity(comparison.key, queue.key), -queue.first.number)
    )
    return f"{name} was not recorded. Closest: {'; '.join(comparison.describe(queue.first) for queue in closest)}."


class _Comparison:
    """Describes how a request differs from recorded ones."""

    def __init__(
        self, queues: ExchangeQueues, request: HttpRequest, recorded_body: Callable[[int], RequestBody | None]
    ) -> None:
        self.key = queues.key_of(request)
        self._body = queues.compared_body(request.body)
        self._queues = queues
        self._recorded_body = recorded_body

    def describe(self, recorded: RecordedRequest) -> str:
        """Name an exchange, its request, and the differences."""
        key = self._queues.queue_of(recorded).key
        parts = [self._difference(part, recorded, key) for part in key.differences(self.key, self._body)]
        differs = f"{', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}" if parts else "nothing"
        return f"exchange {recorded.number}, {shorten(f'{recorded.method} {recorded.target}')} (differs in {differs})"

    def _difference(self, part: str, recorded: RecordedRequest, key: RequestKey) -> str:
        if part == "query":
            return f"query: {_query_difference(self.key.query, key.query)}"
        if part == "headers":
            return f"headers: {_header_difference(self.key.headers, key.headers)}"
        body = self._recorded_body(recorded.number) if part == "body" else None
        paths = body and body_differences(self._queues.compared_body(body), self._body)
        return f"body: {paths}" if paths else part


def _header_difference(headers: Pairs, recorded: Pairs) -> str:
    """The headers that differ, without values that may be secret."""
    given, known, parts = dict(headers), dict(recorded), []
    for name in dict.fromkeys((*known, *given)):
        if name not in given:
            parts.append(f"{name} is missing")
        elif name not in known:
            parts.append(f"{name} was not recorded")
        elif not matches_pair((name, known[name]), (name, given[name])):
            values = f": {shorten(given[name], 60)} instead of {shorten(known[name], 60)}"
            parts.append(name if REDACTED in known[name] else f"{name}{values}")
    return ", ".join(parts)


def _query_difference(query: Pairs, recorded: Pairs) -> str:
    extra, missing = [], list(recorded)
    for pair in query:
        same = next((other for other in missing if matches_pair(other, pair)), None)
        if same is None:
            extra.append(pair)
        else:
            missing.remove(same)
    if extra and missing:
        return f"{_format_query(extra)} instead of {_format_query(missing)}"
    if not extra and not missing:
        return "the same values in another order"
    return f"{_format_query(extra)} was not recorded" if extra else f"{_format_query(missing)} is missing"


def _format_query(pairs: Iterable[tuple[str, str]]) -> str:
    return shorten("&".join(f"{name}={value}" for name, value in pairs).replace(REDACTED, "[redacted]"))


def _similarity(key: RequestKey, recorded: RequestKey) -> tuple[float, ...]:
    """Greater for more similar requests: the path counts most, then the method, the query and the body."""
    segments, others = key.path.split("/"), recorded.path.split("/")
    same = sum(one == other for one, other in zip(segments, others, strict=False))
    return (
        same / max(len(segments), len(others)),
        key.method == recorded.method,
        len(set(key.query) & set(recorded.query)) - len(set(key.query) ^ set(recorded.query)),
        len(set(key.headers) & set(recorded.headers)) - len(set(key.headers) ^ set(recorded.headers)),
        recorded.body is None or key.body == recorded.body,
    )


def body_differences(recorded: RequestBody, body: RequestBody) -> str | None:
    """Name the first JSON paths at which a body differs from the recorded one; None if it cannot be told."""
    try:
        known, given = normalized_json(recorded.text or b""), normalized_json(body.text or b"")
        if known is None or given is None:
            return None
        found = list(islice(differences(known, given, _is_equal), _MOST_PATHS + 1))
    except RecursionError:
        return None
    named = [f"{shorten(each.path, 2 * _LONGEST_VALUE)}: {_describe(each)}" for each in found[:_MOST_PATHS]]
    return ", ".join(named + ["…"] * (len(found) > _MOST_PATHS)) or None


def _describe(difference: Difference) -> str:
    if difference.second is MISSING:
        return "missing"
    if difference.first is MISSING:
        return "not recorded"
    return f"{_format_json(difference.second)} instead of {_format_json(difference.first)}"


def _is_equal(recorded: Any, value: Any, _: str) -> bool:
    if isinstance(recorded, str) and isinstance(value, str):
        return matches_text(recorded, value)
    return type(recorded) is type(value) and bool(recorded == value)


def _format_json(value: Any) -> str:
    return shorten(orjson.dumps(value).decode(), _LONGEST_VALUE)
