"""Which exchange of one recording is which of the other.  Pure."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wiretape.contract import session_in
from wiretape.observations import RequestStarted
from wiretape.recording import Exchange
from wiretape_inspect.comparing.aligning import Key, joined
from wiretape_inspect.comparing.heads import query, segments
from wiretape_inspect.comparing.ids import is_id
from wiretape_inspect.comparing.sameness import unsecret
from wiretape_inspect.view.work import asked_after


class Pairing(NamedTuple):
    """Numbers of exchanges."""

    pairs: list[tuple[int, int]]
    """Those of the same session, method and path, in the order of the first recording."""
    first: list[int]
    """Those that only the first recording has."""
    second: list[int]


class _Asked(NamedTuple):
    number: int
    method: str
    path: Hashable
    query: Hashable
    outcome: Hashable
    """Whether it is a stream, its status, and its cursor."""


def sessions_of(exchanges: Iterable[Exchange]) -> list[str]:
    """The sessions that requests name, in the order in which they first did."""
    found = (session_in(exchange.request.target) for exchange in exchanges)
    return list(dict.fromkeys(session for session in found if session is not None))


def same_sessions(first: Sequence[str], second: Sequence[str], *, ids: bool) -> tuple[dict[str, int], dict[str, int]]:
    """A number for each session that both recordings have.

    Those of the same id are the same; with `ids` the others are by their order.
    """
    pairs = [(session, session) for session in dict.fromkeys(first) if session in set(second)]
    if ids:
        here, there = ([name for name in names if (name, name) not in pairs] for names in (first, second))
        pairs += zip(here, there, strict=False)
    return {one: number for number, (one, _) in enumerate(pairs)}, {
        other: number for number, (_, other) in enumerate(pairs)
    }


def paired(
    first: Iterable[Exchange],
    second: Iterable[Exchange],
    sessions: tuple[Mapping[str, int], Mapping[str, int]],
    *,
    ids: bool,
) -> Pairing:
    """Pair the exchanges of one session, method and path: first those with the same outcome, then by their order."""
    keys: list[Key[_Asked]] = [
        lambda asked: asked[1:],
        lambda asked: asked[1:4],
        lambda asked: asked[1:3],
    ]
    left: tuple[list[_Asked], list[_Asked]] = ([], [])
    asked = [_asked(exchanges, names, ids=ids) for exchanges, names in zip((first, second), sessions, strict=True)]
    pairs = joined(asked[0], asked[1], keys, lambda item: item.number, left=left)
    found = sorted((here.number, there.number) for here, there in pairs)
    return Pairing(found, *([item.number for item in items] for items in left))


def _asked(exchanges: Iterable[Exchange], sessions: Mapping[str, int], *, ids: bool) -> Iterator[_Asked]:
    for exchange in exchanges:
        request, cursor = exchange.request, asked_after(exchange)
        outcome = (
            exchange.is_stream,
            exchange.response.status if exchange.response else None,
            cursor is not None if ids else cursor,
        )
        path, parameters = _path(request, sessions, ids=ids), _query(request.target, ids=ids)
        yield _Asked(exchange.number, request.method, path, parameters, outcome)


def _path(request: RequestStarted, sessions: Mapping[str, int], *, ids: bool) -> Hashable:
    session = session_in(request.target)
    return tuple(
        sessions.get(part.text, part.text)
        if part.text == session
        else None
        if ids and part.may_be_id
        else unsecret(part.text)
        for part in segments(request)
    )


def _query(target: str, *, ids: bool) -> Hashable:
    return tuple((name, None if ids and is_id(name) else unsecret(value)) for name, value in query(target))
