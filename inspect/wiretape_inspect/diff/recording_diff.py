"""Compare two recordings: pair their exchanges, and compare request, status, headers and bodies of each pair."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from wiretape.content_encoding import decode_beginning
from wiretape.http_headers import LAST_EVENT_ID, RETRY_AFTER
from wiretape.json_path import Difference, JsonPath
from wiretape.observations import BytesArrived, Headers, Side
from wiretape.patterns import MISSING
from wiretape.recording import Exchange, Recording
from wiretape.recording.varying_values import is_id_name
from wiretape_inspect.diff.alignment import Key, pair_items
from wiretape_inspect.diff.diff_model import DiffEntry, DiffLocation, DiffOptions, ExchangeDiff
from wiretape_inspect.diff.stream_diff import StreamItems, comparable_document, compare_events, compare_texts
from wiretape_inspect.diff.value_comparison import ValueComparison, may_be_id, without_fingerprints

_DEFAULTS = DiffOptions()
_RESPONSE_HEADERS = ("content-type", RETRY_AFTER.lower())
"""Response headers that are always compared; of request headers only the cursor is."""
_MAX_DOCUMENT = 16 * 1024 * 1024
"""Decoded bytes of a body that are compared by content; longer bodies by their hash."""


class RecordingDiff:
    """Compares two recordings, which may be the same one."""

    def __init__(self, first: Recording, second: Recording, options: DiffOptions = _DEFAULTS) -> None:
        self._recordings = (first, second)
        self._options = options
        self._values = ValueComparison(options)

    def compare_all(self) -> Iterator[ExchangeDiff]:
        """Compare all exchanges, in the order of the first recording; those that only the second has come last."""
        first, second = self._recordings
        ids = self._options.ids
        channels = _pair_channels(_channels(first.exchanges()), _channels(second.exchanges()), ids=ids)
        for here, there in _pair_exchanges(first.exchanges(), second.exchanges(), channels, ids=ids):
            one = first.exchange(here) if here is not None else None
            other = second.exchange(there) if there is not None else None
            yield self.compare_pair(one, other) if one and other else self._unpaired(one, other)

    def compare_pair(self, first: Exchange, second: Exchange) -> ExchangeDiff:
        """Compare two exchanges."""
        diff = ExchangeDiff(first, second, self._options.limit)
        fields = [*self._request_differences(first, second), *self._response_differences(first, second)]
        is_cut = (False, False)
        if first.is_stream and second.is_stream:
            is_cut = self._compare_streams(first, second, diff, fields)
        fields += _ending_differences(first, second, is_cut)
        if fields:
            locations = (_location(first), _location(second))
            diff.add(DiffEntry("changed", "exchange", locations, fields=tuple(fields)))
        self._compare_response_times(first, second, diff)
        diff.sort()
        return diff

    def _compare_streams(
        self, first: Exchange, second: Exchange, diff: ExchangeDiff, fields: list[Difference]
    ) -> tuple[bool, bool]:
        """Compare two streams; returns for each whether it ends in the middle of an event."""
        pairs = zip(self._recordings, (first, second), strict=True)
        here, there = (StreamItems(recording, exchange, self._options) for recording, exchange in pairs)
        compare_events(here, there, self._values, diff)
        compare_texts(here, there, self._values, diff)
        if here.undecodable != there.undecodable:
            fields.append(Difference("response body cannot be decoded", here.undecodable, there.undecodable))
        return here.is_cut, there.is_cut

    def _compare_response_times(self, first: Exchange, second: Exchange, diff: ExchangeDiff) -> None:
        tolerance = self._options.tolerance_ns
        waits = [
            exchange.response.time_ns - exchange.request.time_ns for exchange in (first, second) if exchange.response
        ]
        if tolerance is not None and len(waits) == 2 and abs(waits[1] - waits[0]) > tolerance:
            locations = (_location(first), _location(second))
            diff.add(DiffEntry("time", "exchange", locations, later_ns=waits[1] - waits[0]))

    def _request_differences(self, first: Exchange, second: Exchange) -> Iterator[Difference]:
        here, there = first.request, second.request
        if here.method != there.method:
            yield Difference("request method", here.method, there.method)
        if self._values.differences(*(_target_document(each, ids=self._options.ids) for each in (first, second))):
            yield Difference("request target", here.target, there.target)
        cursors = (first.cursor, second.cursor)
        if not self._values.is_same_id(*cursors):
            yield Difference(f"request header {LAST_EVENT_ID.lower()}", *map(_or_missing, cursors))
        yield from self._headers("request", here.headers, there.headers, self._options.headers)
        yield from self._bodies(first, second, Side.REQUEST)

    def _response_differences(self, first: Exchange, second: Exchange) -> Iterator[Difference]:
        here, there = first.response, second.response
        statuses = [response.status if response else MISSING for response in (here, there)]
        if statuses[0] != statuses[1]:
            yield Difference("response status", *statuses)
        if here and there:
            names = (*_RESPONSE_HEADERS, *self._options.headers)
            yield from self._headers("response", here.headers, there.headers, tuple(dict.fromkeys(names)))
        if not first.is_stream and not second.is_stream:
            yield from self._bodies(first, second, Side.RESPONSE)

    def _headers(self, side: str, first: Headers, second: Headers, names: tuple[str, ...]) -> Iterator[Difference]:
        for name in names:
            here, there = _header_value(first, name), _header_value(second, name)
            if not self._values.is_same_text(here, there, name):
                yield Difference(f"{side} header {name}", _or_missing(here), _or_missing(there))

    def _bodies(self, first: Exchange, second: Exchange, side: Side) -> Iterator[Difference]:
        ignored = self._options.ignored
        pairs = zip(self._recordings, (first, second), strict=True)
        here, there = (_body_document(recording, exchange, side, ignored) for recording, exchange in pairs)
        for found in self._values.differences(here, there):
            yield found._replace(path=f"{side} body {found.path}")

    def _unpaired(self, first: Exchange | None, second: Exchange | None) -> ExchangeDiff:
        diff = ExchangeDiff(first, second, self._options.limit)
        locations = (_location(first) if first else None, _location(second) if second else None)
        diff.add(DiffEntry("missing" if first else "added", "exchange", locations))
        return diff


def _location(exchange: Exchange) -> DiffLocation:
    return DiffLocation(exchange.number, None, exchange.request.time_ns)


def _ending_differences(first: Exchange, second: Exchange, is_cut: tuple[bool, bool]) -> Iterator[Difference]:
    if (first.ending, is_cut[0]) != (second.ending, is_cut[1]):
        endings = [
            f"{exchange.ending.value}{' in mid-event' if cut else ''}"
            for exchange, cut in zip((first, second), is_cut, strict=True)
        ]
        yield Difference("ending", *endings)
    if first.lost_bytes != second.lost_bytes:
        yield Difference("bytes not recorded", first.lost_bytes, second.lost_bytes)


class _ExchangeKey(NamedTuple):
    number: int
    method: str
    path: Hashable
    query: Hashable
    outcome: Hashable
    """Whether it is a stream, its status, and its cursor."""


def _channels(exchanges: Iterable[Exchange]) -> list[str]:
    """The channels that requests name, in order of their first request."""
    found = (exchange.contracts.channel_in(exchange.request.target) for exchange in exchanges)
    return list(dict.fromkeys(channel for channel in found if channel is not None))


def _pair_channels(first: Sequence[str], second: Sequence[str], *, ids: bool) -> tuple[dict[str, int], dict[str, int]]:
    """A number for each channel that both recordings have.

    Channels with the same id are paired; with `ids` the others are paired in their order.
    """
    pairs = [(channel, channel) for channel in dict.fromkeys(first) if channel in set(second)]
    if ids:
        here, there = ([name for name in names if (name, name) not in pairs] for names in (first, second))
        pairs += zip(here, there, strict=False)
    return (
        {one: number for number, (one, _) in enumerate(pairs)},
        {other: number for number, (_, other) in enumerate(pairs)},
    )


def _pair_exchanges(
    first: Iterable[Exchange],
    second: Iterable[Exchange],
    channels: tuple[Mapping[str, int], Mapping[str, int]],
    *,
    ids: bool,
) -> list[tuple[int | None, int | None]]:
    """Pair the numbers of exchanges of the same channel, method and path: first those with the same outcome.

    They are in the order of the first recording; those that only the second has come last.
    """
    keys: list[Key[_ExchangeKey]] = [lambda item: item[1:], lambda item: item[1:4], lambda item: item[1:3]]
    unpaired: tuple[list[_ExchangeKey], list[_ExchangeKey]] = ([], [])
    items = [_keys(exchanges, names, ids=ids) for exchanges, names in zip((first, second), channels, strict=True)]
    pairs = pair_items(items[0], items[1], keys, lambda item: item.number, unpaired=unpaired)
    here = sorted([*((one.number, other.number) for one, other in pairs), *((one.number, None) for one in unpaired[0])])
    return [*here, *((None, other.number) for other in unpaired[1])]


def _keys(exchanges: Iterable[Exchange], channels: Mapping[str, int], *, ids: bool) -> Iterator[_ExchangeKey]:
    for exchange in exchanges:
        request, cursor = exchange.request, exchange.cursor
        outcome = (
            exchange.is_stream,
            exchange.response.status if exchange.response else None,
            cursor is not None if ids else cursor,
        )
        path, query = _path_key(exchange, channels, ids=ids), _query_key(request.target, ids=ids)
        yield _ExchangeKey(exchange.number, request.method, path, query, outcome)


def _path_key(exchange: Exchange, channels: Mapping[str, int], *, ids: bool) -> Hashable:
    channel = exchange.contracts.channel_in(exchange.request.target)

    def key(part: str) -> Hashable:
        if part == channel:
            return channels.get(part, part)
        return None if ids else without_fingerprints(part)

    return tuple(_path_segments(exchange, key))


def _query_key(target: str, *, ids: bool) -> Hashable:
    return tuple(
        (name, None if ids and is_id_name(name) else without_fingerprints(value))
        for name, value in _query_parameters(target)
    )


def _path_segments(exchange: Exchange, replace_id: Callable[[str], Any]) -> list[Any]:
    """The segments of the path of a request, percent-decoded; those that may be ids are replaced."""
    target, facts = exchange.request.target, exchange.facts
    ids = {exchange.contracts.channel_in(target), *(facts.parameters.values() if facts else ())}
    parts = map(unquote, target.partition("#")[0].partition("?")[0].split("/"))
    return [replace_id(part) if part in ids or may_be_id(part) else part for part in parts]


def _target_document(exchange: Exchange, *, ids: bool) -> Any:
    """What is compared of a target, in the form of JSON."""
    path = _path_segments(exchange, lambda part: {"id": part} if ids else part)
    return [path, [{name: value} for name, value in _query_parameters(exchange.request.target)]]


def _query_parameters(target: str) -> list[tuple[str, str]]:
    """The query parameters of a target, sorted by name."""
    pairs = parse_qsl(target.partition("#")[0].partition("?")[2], keep_blank_values=True)
    return sorted(pairs, key=lambda pair: pair[0])


def _body_document(recording: Recording, exchange: Exchange, side: Side, ignored: tuple[JsonPath, ...]) -> Any:
    """What is compared of a body: its JSON, its text, or its hash; None if there is no body."""
    if not (exchange.request_bytes if side is Side.REQUEST else exchange.response_bytes):
        return None
    decoded, problem = decode_beginning(
        exchange.encoding_of(side), _recorded_bytes(recording, exchange, side), _MAX_DOCUMENT + 1
    )
    if problem or len(decoded) > _MAX_DOCUMENT:
        digest = sha256()
        for data in _recorded_bytes(recording, exchange, side):
            digest.update(data)
        return f"SHA-256 {digest.hexdigest()}"
    return comparable_document(decoded, ignored) if decoded else None


def _recorded_bytes(recording: Recording, exchange: Exchange, side: Side) -> Iterator[bytes]:
    return (part.data for part in recording.body(exchange.number, side) if isinstance(part, BytesArrived))


def _header_value(headers: Headers, name: str) -> str | None:
    found = [value for key, value in headers if key.lower() == name]
    return ", ".join(found) if found else None


def _or_missing(value: str | None) -> object:
    return MISSING if value is None else value
