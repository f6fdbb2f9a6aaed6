"""Compare two exchanges without the events of their streams: request, status, headers, bodies."""

from collections.abc import Iterator
from hashlib import sha256
from itertools import zip_longest
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from wiretape.content_encoding import DecodingError, decoder
from wiretape.contract import CURSOR_HEADER, RETRY_AFTER, operation_of, session_in
from wiretape.json_diff import MISSING, Difference
from wiretape.json_path import JsonPath
from wiretape.observations import BytesArrived, Headers, RequestStarted, Side, header
from wiretape.recording import Exchange, Recording
from wiretape_inspect.diff.stream_items import comparable_document
from wiretape_inspect.diff.value_comparison import ValueComparison, is_id_name, may_be_id
from wiretape_inspect.view.runs_and_calls import request_cursor

_RESPONSE_HEADERS = ("content-type", RETRY_AFTER.lower())
"""Response headers that are always compared; of request headers only the cursor is."""
_MAX_DOCUMENT = 16 * 1024 * 1024
"""Decoded bytes of a body that are compared by content; longer bodies by their hash."""
_SLICE = 64 * 1024


class ExchangeComparison:
    """Compares exchanges of two recordings."""

    def __init__(self, first: Recording, second: Recording, values: ValueComparison) -> None:
        self._recordings = (first, second)
        self._values = values

    def request(self, first: Exchange, second: Exchange) -> Iterator[Difference]:
        """The differences of the requests."""
        here, there = first.request, second.request
        if here.method != there.method:
            yield Difference("request method", here.method, there.method)
        if not self._is_same_target(here, there):
            yield Difference("request target", here.target, there.target)
        cursors = (request_cursor(first), request_cursor(second))
        if not self._values.is_same_id(*cursors):
            yield Difference(f"request header {CURSOR_HEADER.lower()}", *map(_or_missing, cursors))
        yield from self._headers("request", here.headers, there.headers, self._values.options.headers)
        yield from self._bodies(first, second, Side.REQUEST)

    def response(self, first: Exchange, second: Exchange) -> Iterator[Difference]:
        """The differences of the responses."""
        here, there = first.response, second.response
        statuses = [response.status if response else MISSING for response in (here, there)]
        if statuses[0] != statuses[1]:
            yield Difference("response status", *statuses)
        if here and there:
            names = (*_RESPONSE_HEADERS, *self._values.options.headers)
            yield from self._headers("response", here.headers, there.headers, tuple(dict.fromkeys(names)))
        if not first.is_stream and not second.is_stream:
            yield from self._bodies(first, second, Side.RESPONSE)

    def _headers(self, side: str, first: Headers, second: Headers, names: tuple[str, ...]) -> Iterator[Difference]:
        for name in names:
            here, there = _header_value(first, name), _header_value(second, name)
            if not self._values.is_same_text(here, there, name):
                yield Difference(f"{side} header {name}", _or_missing(here), _or_missing(there))

    def _bodies(self, first: Exchange, second: Exchange, side: Side) -> Iterator[Difference]:
        ignored = self._values.options.ignored
        pairs = zip(self._recordings, (first, second), strict=True)
        here, there = (body_document(recording, exchange, side, ignored) for recording, exchange in pairs)
        for found in self._values.differences(here, there):
            yield found._replace(path=f"{side} body {found.path}")

    def _is_same_target(self, first: RequestStarted, second: RequestStarted) -> bool:
        here, there = path_segments(first), path_segments(second)
        if len(here) != len(there):
            return False
        paths = all(self._is_same_segment(*pair) for pair in zip(here, there, strict=True))
        queries = zip_longest(query_parameters(first.target), query_parameters(second.target), fillvalue=("", None))
        return paths and all(self._is_same_parameter(*pair) for pair in queries)

    def _is_same_segment(self, first: "Segment", second: "Segment") -> bool:
        if self._values.options.ids and first.may_be_id and second.may_be_id:
            return self._values.is_same_id(first.text, second.text)
        return self._values.is_same_text(first.text, second.text)

    def _is_same_parameter(self, first: tuple[str, str | None], second: tuple[str, str | None]) -> bool:
        is_same = self._values.is_same_id if is_id_name(first[0]) else self._values.is_same_text
        return first[0] == second[0] and is_same(first[1], second[1])


class Segment(NamedTuple):
    """A segment of a path, percent-decoded."""

    text: str
    may_be_id: bool


def path_segments(request: RequestStarted) -> list[Segment]:
    """The segments of the path of a request."""
    match = operation_of(request.method, request.target)
    ids = {session_in(request.target), match.run_id if match else None}
    parts = map(unquote, request.target.partition("#")[0].partition("?")[0].split("/"))
    return [Segment(part, part in ids or may_be_id(part)) for part in parts]


def query_parameters(target: str) -> list[tuple[str, str]]:
    """The query parameters of a target, sorted by name."""
    pairs = parse_qsl(target.partition("#")[0].partition("?")[2], keep_blank_values=True)
    return sorted(pairs, key=lambda pair: pair[0])


def body_document(recording: Recording, exchange: Exchange, side: Side, ignored: tuple[JsonPath, ...]) -> Any:
    """What is compared of a body: its JSON, its text, or its hash; None if there is no body."""
    if not (exchange.request_bytes if side is Side.REQUEST else exchange.response_bytes):
        return None
    digest, decoded, is_whole = sha256(), bytearray(), True
    try:
        decoding = decoder(_content_encoding(exchange, side))
    except DecodingError:
        is_whole = False
    for part in recording.body(exchange.number, side):
        if not isinstance(part, BytesArrived):
            continue
        digest.update(part.data)
        try:
            for at in range(0, len(part.data) if is_whole else 0, _SLICE):
                decoded += decoding.feed(part.data[at : at + _SLICE])
                is_whole = is_whole and len(decoded) <= _MAX_DOCUMENT
        except DecodingError:
            is_whole = False
    if not is_whole:
        return f"SHA-256 {digest.hexdigest()}"
    return comparable_document(bytes(decoded), ignored) if decoded else None


def _content_encoding(exchange: Exchange, side: Side) -> str | None:
    return header(exchange.request.headers, "content-encoding") if side is Side.REQUEST else exchange.content_encoding


def _header_value(headers: Headers, name: str) -> str | None:
    found = [value for key, value in headers if key.lower() == name]
    return ", ".join(found) if found else None


def _or_missing(value: str | None) -> object:
    return MISSING if value is None else value
