"""Exchanges that a file tells of one by one, as one sequence of observations."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wiretape.observations import BytesArrived, Observation, Side

Chunk = tuple[int, bytes]
"""When it came (ns on the wall clock), and its bytes."""

_APART_NS = 4
"""Between two observations there has to be some time, also for what a writer may put between them."""
_NAMED = 5
_LONGEST_CHUNK = 16 * 1024 * 1024
"""What is longer counts as several: it has to be held, and a row of SQLite holds a gigabyte."""


def in_order(exchanges: Iterable[Iterator[Observation]], started_unix_ns: int) -> Iterator[Observation]:
    """The observations of all exchanges, each some time behind the one before.

    Those that come in have times on the wall clock, which may stand still; those that go out count from
    `started_unix_ns`.
    """
    last_ns = 0
    for seen in heapq.merge(*exchanges, key=lambda seen: seen.time_ns):
        last_ns = max(seen.time_ns - started_unix_ns, last_ns + _APART_NS)
        yield replace(seen, times=(last_ns,)) if isinstance(seen, BytesArrived) else replace(seen, time_ns=last_ns)


def arrived(exchange: int, side: Side, chunks: Iterable[Chunk]) -> Iterator[BytesArrived]:
    """A body that came in these chunks; empty ones are left out."""
    start = 0
    for time_ns, data in chunks:
        for at in range(0, len(data), _LONGEST_CHUNK):
            part = data[at : at + _LONGEST_CHUNK]
            end = start + len(part)
            yield BytesArrived(exchange, side, start, part, (end,), (time_ns,))
            start = end


def exchanges_said(numbers: Sequence[int]) -> str:
    """`exchange 1`, `7 exchanges (1, 2, 3, 4, 5, …)`."""
    if len(numbers) == 1:
        return f"exchange {numbers[0]}"
    named = ", ".join(map(str, numbers[:_NAMED]))
    return f"{len(numbers):,} exchanges ({named}{', …' if len(numbers) > _NAMED else ''})"
