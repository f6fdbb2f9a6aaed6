"""When nothing matches: which recorded requests come nearest, and what differs."""

import heapq
from collections.abc import Iterable

from wiretape.text import printable
from wiretape_replay.asked import Asked
from wiretape_replay.kind import Kind, Pairs, kind_of
from wiretape_replay.tape import Lane, Tape

_NEAREST = 3
_LONGEST = 200
"""Characters of a request target, or of a query value, that a message shows."""


def explain(tape: Tape, asked: Asked) -> str:
    """One to three sentences: why the tape has no answer, for people."""
    request = shown(f"{asked.method} {asked.target}")
    spent = list(tape.matching(asked))
    if spent:
        return f"{_count_spent(spent)} to {request} were given; the recording has no more."
    if not tape.lanes:
        return f"{request} was not recorded: the recording holds no exchange."
    kind = kind_of(asked.method, asked.target, asked.body.digest)
    nearest = heapq.nlargest(_NEAREST, tape.lanes, key=lambda lane: (_likeness(kind, lane.kind), -lane.first.number))
    described = "; ".join(f"exchange {lane.first.number}, {_describe(kind, lane)}" for lane in nearest)
    return f"{request} was not recorded. Nearest: {described}."


def shown(text: str) -> str:
    """`text` for a terminal, cut where it is long."""
    text = printable(text)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _count_spent(lanes: list[Lane]) -> str:
    count = sum(len(lane.entries) for lane in lanes)
    return "The one recorded answer" if count == 1 else f"All {count} recorded answers"


def _describe(kind: Kind, lane: Lane) -> str:
    request = shown(f"{lane.first.method} {lane.first.target}")
    return f"{request} (differs in {' and '.join(_differences(kind, lane.kind))})"


def _differences(asked: Kind, recorded: Kind) -> list[str]:
    different = []
    if asked.method != recorded.method:
        different.append("method")
    if asked.path != recorded.path:
        different.append("path")
    if recorded.body is not None and asked.body != recorded.body:
        different.append("body")
    if asked.query != recorded.query:
        different.append(f"query: {_query(asked.query, recorded.query)}")
    return different


def _query(asked: Pairs, recorded: Pairs) -> str:
    """What the one has and the other has not."""
    extra, missing = _pairs(_without(asked, recorded)), _pairs(_without(recorded, asked))
    if extra and missing:
        return f"{extra} instead of {missing}"
    return f"{extra} was not recorded" if extra else f"{missing} is missing"


def _without(pairs: Pairs, others: Pairs) -> list[tuple[str, str]]:
    left = list(others)
    kept = []
    for pair in pairs:
        if pair in left:
            left.remove(pair)
        else:
            kept.append(pair)
    # The same pairs of one name in another order: all of them are of interest.
    return kept or (list(pairs) if len(pairs) == len(others) else [])


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return shown("&".join(f"{name}={value}" for name, value in pairs))


def _likeness(asked: Kind, recorded: Kind) -> tuple[float, ...]:
    """Greater for what is more alike; the path counts before the method, then the query, then the body."""
    return (
        _common(asked.path.split("/"), recorded.path.split("/")),
        asked.method == recorded.method,
        _common(asked.query, recorded.query),
        recorded.body is None or asked.body == recorded.body,
    )


def _common(one: Iterable[object], other: Iterable[object]) -> float:
    """How much of two sequences is the same at the same place, from 0 to 1."""
    ones, others = list(one), list(other)
    same = sum(left == right for left, right in zip(ones, others, strict=False))
    return same / max(len(ones), len(others), 1)
