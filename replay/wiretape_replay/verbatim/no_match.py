"""Why a request has no match: the closest recorded requests, and how they differ.  Pure: no I/O, no clock."""

import heapq
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import orjson

from wiretape.json_path import Difference, differences
from wiretape.patterns import MISSING
from wiretape.safe_text import shorten
from wiretape_replay.http_server.http_messages import HttpRequest, RequestBody, normalized_json
from wiretape_replay.http_server.request_redaction import without_secrets
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.request_matching import REDACTED, Pairs, RequestKey, matches_pair, matches_text

_CLOSEST = 3
_MOST_PATHS = 3
_LONGEST_VALUE = 40


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
        paths = body and _body_differences(self._queues.compared_body(body), self._body)
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


def _body_differences(recorded: RequestBody, body: RequestBody) -> str | None:
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
