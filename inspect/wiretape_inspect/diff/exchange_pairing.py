"""Pair the exchanges of two recordings."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wiretape.contract import session_in
from wiretape.observations import RequestStarted
from wiretape.recording import Exchange
from wiretape_inspect.diff.alignment import Key, pair_items
from wiretape_inspect.diff.exchange_diff import path_segments, query_parameters
from wiretape_inspect.diff.value_comparison import is_id_name, without_fingerprints
from wiretape_inspect.view.runs_and_calls import request_cursor


class ExchangePairs(NamedTuple):
    """Numbers of exchanges."""

    pairs: list[tuple[int, int]]
    """Exchanges of the same session, method and path, in the order of the first recording."""
    first: list[int]
    """Exchanges that only the first recording has."""
    second: list[int]


class _ExchangeKey(NamedTuple):
    number: int
    method: str
    path: Hashable
    query: Hashable
    outcome: Hashable
    """Whether it is a stream, its status, and its cursor."""


def session_ids(exchanges: Iterable[Exchange]) -> list[str]:
    """The sessions that requests name, in order of their first request."""
    found = (session_in(exchange.request.target) for exchange in exchanges)
    return list(dict.fromkeys(session for session in found if session is not None))


def pair_sessions(first: Sequence[str], second: Sequence[str], *, ids: bool) -> tuple[dict[str, int], dict[str, int]]:
    """A number for each session that both recordings have.

    Sessions with the same id are paired; with `ids` the others are paired in their order.
    """
    pairs = [(session, session) for session in dict.fromkeys(first) if session in set(second)]
    if ids:
        here, there = ([name for name in names if (name, name) not in pairs] for names in (first, second))
        pairs += zip(here, there, strict=False)
    return {one: number for number, (one, _) in enumerate(pairs)}, {
        other: number for number, (_, other) in enumerate(pairs)
    }


def pair_exchanges(
    first: Iterable[Exchange],
    second: Iterable[Exchange],
    sessions: tuple[Mapping[str, int], Mapping[str, int]],
    *,
    ids: bool,
) -> ExchangePairs:
    """Pair exchanges of the same session, method and path: first those with the same outcome, then in their order."""
    keys: list[Key[_ExchangeKey]] = [lambda item: item[1:], lambda item: item[1:4], lambda item: item[1:3]]
    unpaired: tuple[list[_ExchangeKey], list[_ExchangeKey]] = ([], [])
    items = [_keys(exchanges, names, ids=ids) for exchanges, names in zip((first, second), sessions, strict=True)]
    pairs = pair_items(items[0], items[1], keys, lambda item: item.number, unpaired=unpaired)
    numbers = sorted((here.number, there.number) for here, there in pairs)
    return ExchangePairs(numbers, *([item.number for item in rest] for rest in unpaired))


def _keys(exchanges: Iterable[Exchange], sessions: Mapping[str, int], *, ids: bool) -> Iterator[_ExchangeKey]:
    for exchange in exchanges:
        request, cursor = exchange.request, request_cursor(exchange)
        outcome = (
            exchange.is_stream,
            exchange.response.status if exchange.response else None,
            cursor is not None if ids else cursor,
        )
        path, query = _path_key(request, sessions, ids=ids), _query_key(request.target, ids=ids)
        yield _ExchangeKey(exchange.number, request.method, path, query, outcome)


def _path_key(request: RequestStarted, sessions: Mapping[str, int], *, ids: bool) -> Hashable:
    session = session_in(request.target)
    return tuple(
        sessions.get(part.text, part.text)
        if part.text == session
        else None
        if ids and part.may_be_id
        else without_fingerprints(part.text)
        for part in path_segments(request)
    )


def _query_key(target: str, *, ids: bool) -> Hashable:
    return tuple(
        (name, None if ids and is_id_name(name) else without_fingerprints(value))
        for name, value in query_parameters(target)
    )
