"""What two exchanges have beside the events of their streams, compared: heads, bodies and endings."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from wiretape.contract import CURSOR_HEADER, RETRY_AFTER, operation_of, session_in
from wiretape.json_diff import MISSING, Difference
from wiretape.observations import Headers, RequestStarted, Side
from wiretape.recording import Exchange, Recording
from wiretape_inspect.comparing.bodies import body_document
from wiretape_inspect.comparing.ids import is_id, may_be_id
from wiretape_inspect.comparing.sameness import Sameness
from wiretape_inspect.view.work import asked_after

_ANSWERED = ("content-type", RETRY_AFTER.lower())
"""Headers of answers that always count; of requests only the cursor does."""


class Heads:
    """Compares exchanges of two recordings."""

    def __init__(self, first: Recording, second: Recording, sameness: Sameness) -> None:
        self._recordings = (first, second)
        self._sameness = sameness

    def request(self, first: Exchange, second: Exchange) -> Iterator[Difference]:
        """Where the requests differ."""
        here, there = first.request, second.request
        if here.method != there.method:
            yield Difference("request method", here.method, there.method)
        if not self._same_target(here, there):
            yield Difference("request target", here.target, there.target)
        cursors = (asked_after(first), asked_after(second))
        if not self._sameness.ids(*cursors):
            yield Difference(f"request header {CURSOR_HEADER.lower()}", *map(_or_missing, cursors))
        yield from self._headers("request", here.headers, there.headers, self._sameness.choices.headers)
        yield from self._bodies(first, second, Side.REQUEST)

    def response(self, first: Exchange, second: Exchange) -> Iterator[Difference]:
        """Where the answers differ."""
        here, there = first.response, second.response
        statuses = [answer.status if answer else MISSING for answer in (here, there)]
        if statuses[0] != statuses[1]:
            yield Difference("response status", *statuses)
        if here and there:
            names = (*_ANSWERED, *self._sameness.choices.headers)
            yield from self._headers("response", here.headers, there.headers, tuple(dict.fromkeys(names)))
        if not first.is_stream and not second.is_stream:
            yield from self._bodies(first, second, Side.RESPONSE)

    def _headers(self, side: str, first: Headers, second: Headers, names: tuple[str, ...]) -> Iterator[Difference]:
        for name in names:
            here, there = _values(first, name), _values(second, name)
            if not self._sameness.texts(here, there, name):
                yield Difference(f"{side} header {name}", _or_missing(here), _or_missing(there))

    def _bodies(self, first: Exchange, second: Exchange, side: Side) -> Iterator[Difference]:
        ignored = self._sameness.choices.ignored
        pairs = zip(self._recordings, (first, second), strict=True)
        here, there = (body_document(recording, exchange, side, ignored) for recording, exchange in pairs)
        for place in self._sameness.documents(here, there):
            yield place._replace(path=f"{side} body {place.path}")

    def _same_target(self, first: RequestStarted, second: RequestStarted) -> bool:
        here, there = segments(first), segments(second)
        if len(here) != len(there):
            return False
        paths = all(self._same_segment(*pair) for pair in zip(here, there, strict=True))
        queries = zip_longest(query(first.target), query(second.target), fillvalue=("", None))
        return paths and all(self._same_parameter(*pair) for pair in queries)

    def _same_segment(self, first: "Segment", second: "Segment") -> bool:
        if self._sameness.choices.ids and first.may_be_id and second.may_be_id:
            return self._sameness.ids(first.text, second.text)
        return self._sameness.texts(first.text, second.text)

    def _same_parameter(self, first: tuple[str, str | None], second: tuple[str, str | None]) -> bool:
        same = self._sameness.ids if is_id(first[0]) else self._sameness.texts
        return first[0] == second[0] and same(first[1], second[1])


class Segment(NamedTuple):
    """A part of a path, its percent escapes resolved."""

    text: str
    may_be_id: bool


def segments(request: RequestStarted) -> list[Segment]:
    """The parts of the path of a request."""
    match = operation_of(request.method, request.target)
    named = {session_in(request.target), match.run_id if match else None}
    parts = map(unquote, request.target.partition("#")[0].partition("?")[0].split("/"))
    return [Segment(part, part in named or may_be_id(part)) for part in parts]


def query(target: str) -> list[tuple[str, str]]:
    """The parameters of a target, sorted by name."""
    pairs = parse_qsl(target.partition("#")[0].partition("?")[2], keep_blank_values=True)
    return sorted(pairs, key=lambda pair: pair[0])


def _values(headers: Headers, name: str) -> str | None:
    found = [value for key, value in headers if key.lower() == name]
    return ", ".join(found) if found else None


def _or_missing(value: str | None) -> object:
    return MISSING if value is None else value
