"""When nothing matches: which recorded requests come nearest, and what differs."""

import heapq
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import orjson

from wiretape.json_diff import MISSING, Difference, differences
from wiretape.safe_text import shorten
from wiretape_replay.http_server.request import HttpRequest, RequestBody, normalized_json
from wiretape_replay.verbatim.exchange_queues import ExchangeQueue, ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.request_key import HIDDEN, Pairs, RequestKey, same_pair, same_text

_NEAREST = 3


def explain_no_match(
    tape: ExchangeQueues, asked: HttpRequest, recorded_body: Callable[[int], RequestBody | None] = lambda _: None
) -> str:
    """One to three sentences: why the tape has no answer, for people.

    `recorded_body` gives the request body of an exchange, to say at which places it differs.
    """
    request = shorten(f"{asked.method} {asked.target}")
    differ = _Comparison(tape, asked, recorded_body)
    if tape.expected is not None:
        return f"{request} is out of order: expected next is {differ.from_entry(tape.expected)}."
    spent = list(tape.lanes_of(asked))
    if spent:
        return f"{_given(spent)} to {request}: the recording has no more."
    if not tape.lanes:
        return f"{request} was not recorded: the recording holds no exchange."
    nearest = heapq.nlargest(
        _NEAREST, tape.lanes, key=lambda lane: (_likeness(differ.kind, lane.kind), -lane.first.number)
    )
    return f"{request} was not recorded. Nearest: {'; '.join(differ.from_entry(lane.first) for lane in nearest)}."


def _given(lanes: list[ExchangeQueue]) -> str:
    count = sum(len(lane.entries) for lane in lanes)
    return "The one recorded answer was given" if count == 1 else f"All {count} recorded answers were given"


class _Comparison:
    """Says how a request differs from recorded ones."""

    def __init__(
        self, tape: ExchangeQueues, asked: HttpRequest, recorded_body: Callable[[int], RequestBody | None]
    ) -> None:
        self.kind = tape.key_of(asked)
        self._body = tape.counted(asked.body)
        self._tape = tape
        self._recorded_body = recorded_body

    def from_entry(self, entry: RecordedRequest) -> str:
        """An exchange, its request, and what differs."""
        lane = self._tape.lane_of(entry)
        said = [self._said(what, entry, lane.kind) for what in lane.kind.differences(self.kind, self._body)]
        differs = f"{', '.join(said[:-1])}{' and ' if said[1:] else ''}{said[-1]}" if said else "nothing"
        return f"exchange {entry.number}, {shorten(f'{entry.method} {entry.target}')} (differs in {differs})"

    def _said(self, what: str, entry: RecordedRequest, recorded: RequestKey) -> str:
        if what == "query":
            return f"query: {_query(self.kind.query, recorded.query)}"
        if what == "headers":
            return f"headers: {_headers(self.kind.headers, recorded.headers)}"
        body = self._recorded_body(entry.number) if what == "body" else None
        places = body and body_differences(self._tape.counted(body), self._body)
        return f"body: {places}" if places else what


def _headers(asked: Pairs, recorded: Pairs) -> str:
    """What the one has and the other has not.  Values that may be secret are not said."""
    given, known, said = dict(asked), dict(recorded), []
    for name in dict.fromkeys((*known, *given)):
        if name not in given:
            said.append(f"{name} is missing")
        elif name not in known:
            said.append(f"{name} was not recorded")
        elif not same_pair((name, known[name]), (name, given[name])):
            secret = HIDDEN in known[name]
            said.append(name if secret else f"{name}: {shorten(given[name], 60)} instead of {shorten(known[name], 60)}")
    return ", ".join(said)


def _query(asked: Pairs, recorded: Pairs) -> str:
    """What the one has and the other has not."""
    extra, missing = [], list(recorded)
    for pair in asked:
        same = next((other for other in missing if same_pair(other, pair)), None)
        if same is None:
            extra.append(pair)
        else:
            missing.remove(same)
    if extra and missing:
        return f"{_pairs(extra)} instead of {_pairs(missing)}"
    if not extra and not missing:
        return "the same values in another order"
    return f"{_pairs(extra)} was not recorded" if extra else f"{_pairs(missing)} is missing"


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return shorten("&".join(f"{name}={value}" for name, value in pairs).replace(HIDDEN, "[redacted]"))


def _likeness(asked: RequestKey, recorded: RequestKey) -> tuple[float, ...]:
    """Greater for what is more alike; the path counts before the method, then the query, then the body."""
    segments, others = asked.path.split("/"), recorded.path.split("/")
    same = sum(one == other for one, other in zip(segments, others, strict=False))
    return (
        same / max(len(segments), len(others)),
        asked.method == recorded.method,
        len(set(asked.query) & set(recorded.query)) - len(set(asked.query) ^ set(recorded.query)),
        len(set(asked.headers) & set(recorded.headers)) - len(set(asked.headers) ^ set(recorded.headers)),
        recorded.body is None or asked.body == recorded.body,
    )


_NAMED = 3
_LONGEST = 40


def body_differences(recorded: RequestBody, asked: RequestBody) -> str | None:
    """The first places at which the asked body is not the recorded one; None where no place can be named."""
    try:
        known, given = normalized_json(recorded.text or b""), normalized_json(asked.text or b"")
        if known is None or given is None:
            return None
        found = list(islice(differences(known, given, _same), _NAMED + 1))
    except RecursionError:
        return None
    named = [f"{shorten(place.path, 2 * _LONGEST)}: {_what(place)}" for place in found[:_NAMED]]
    return ", ".join(named + ["…"] * (len(found) > _NAMED)) or None


def _what(place: Difference) -> str:
    if place.second is MISSING:
        return "missing"
    if place.first is MISSING:
        return "not recorded"
    return f"{_json(place.second)} instead of {_json(place.first)}"


def _same(recorded: Any, asked: Any, _: str) -> bool:
    if isinstance(recorded, str) and isinstance(asked, str):
        return same_text(recorded, asked)
    return type(recorded) is type(asked) and bool(recorded == asked)


def _json(value: Any) -> str:
    return shorten(orjson.dumps(value).decode(), _LONGEST)
