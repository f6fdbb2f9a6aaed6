"""When nothing matches: which recorded requests come nearest, and what differs."""

import heapq
from collections.abc import Iterable

from wiretape.text import shown
from wiretape_replay.front.asked import Asked, Body
from wiretape_replay.tape.kind import HIDDEN, Kind, Pairs, kind_of, same_pair
from wiretape_replay.tape.tape import Lane, Tape

_NEAREST = 3


def explain(tape: Tape, asked: Asked) -> str:
    """One to three sentences: why the tape has no answer, for people."""
    request = shown(f"{asked.method} {asked.target}")
    spent = list(tape.matching(asked))
    if spent:
        return f"{_given(spent)} to {request}: the recording has no more."
    if not tape.lanes:
        return f"{request} was not recorded: the recording holds no exchange."
    kind = kind_of(asked.method, asked.target, asked.body.digest)
    nearest = heapq.nlargest(_NEAREST, tape.lanes, key=lambda lane: (_likeness(kind, lane.kind), -lane.first.number))
    described = "; ".join(f"exchange {lane.first.number}, {_describe(kind, asked.body, lane)}" for lane in nearest)
    return f"{request} was not recorded. Nearest: {described}."


def _given(lanes: list[Lane]) -> str:
    count = sum(len(lane.entries) for lane in lanes)
    return "The one recorded answer was given" if count == 1 else f"All {count} recorded answers were given"


def _describe(kind: Kind, body: Body, lane: Lane) -> str:
    request = shown(f"{lane.first.method} {lane.first.target}")
    *others, last = lane.kind.differences(kind, body)
    if last == "query":
        last = f"query: {_query(kind.query, lane.kind.query)}"
    return f"{request} (differs in {', '.join(others)}{' and ' if others else ''}{last})"


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
    return shown("&".join(f"{name}={value}" for name, value in pairs).replace(HIDDEN, "[redacted]"))


def _likeness(asked: Kind, recorded: Kind) -> tuple[float, ...]:
    """Greater for what is more alike; the path counts before the method, then the query, then the body."""
    segments, others = asked.path.split("/"), recorded.path.split("/")
    same = sum(one == other for one, other in zip(segments, others, strict=False))
    return (
        same / max(len(segments), len(others)),
        asked.method == recorded.method,
        len(set(asked.query) & set(recorded.query)) - len(set(asked.query) ^ set(recorded.query)),
        recorded.body is None or asked.body == recorded.body,
    )
