"""The connections of a session in time: whose comments count, which endings, and when nobody listened.

Pure: no I/O, no clock.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from wiretape_replay.session.recorded.draft_entry import DraftEntry
from wiretape_replay.session.recorded.recorded_connection import KEEP_ALIVE_NS, RecordedConnection
from wiretape_replay.session.session_log import EntryKind

_MOST_KEEP_ALIVES = 10_000
"""In one gap: recordings may be gone on with weeks later."""


def keep_one_comment_source(connections: Sequence[RecordedConnection]) -> None:
    """Drop the comments of every connection for as long as an earlier one was open.

    `connections` in the order of their beginning.
    """
    covered_ns = 0
    for connection in connections:
        for stretch in connection.stretches:
            stretch.comments = [piece for piece in stretch.comments if piece.time_ns >= covered_ns]
        covered_ns = max(covered_ns, connection.end_ns)


def drop_outlived_endings(connections: Sequence[RecordedConnection]) -> list[int]:
    """Drop the endings by the service that another connection of the session lived through.

    `connections` in the order of their beginning.  Returns the exchanges whose endings were dropped.
    """
    begins = [connection.begin_ns for connection in connections]
    ends = list(accumulate((connection.end_ns for connection in connections), max))
    dropped = []
    for connection in connections:
        begun = bisect_left(begins, connection.end_ns)
        if connection.ended_by_service and begun and ends[begun - 1] > connection.end_ns:
            connection.stretches[-1].last = []
            dropped.append(connection.exchange.number)
    return dropped


def never_back(pieces: Sequence[DraftEntry]) -> None:
    """Let no piece come later than those behind it in the log: what was seen late had happened before them."""
    latest_ns = pieces[-1].time_ns if pieces else 0
    for piece in reversed(pieces):
        latest_ns = piece.time_ns = min(latest_ns, piece.time_ns)


def with_keep_alives(
    pieces: Sequence[DraftEntry], connections: Sequence[RecordedConnection], comment: bytes
) -> list[DraftEntry]:
    """The pieces of the log, with comments where no connection was open, so that who listens there is not left alone.

    `pieces` in the order of their times.
    """
    times = [piece.time_ns for piece in pieces]
    filled: list[DraftEntry] = []
    done = 0
    for time_ns in _silences(connections):
        here = bisect_right(times, time_ns, done)
        filled += pieces[done:here]
        filled.append(DraftEntry(EntryKind.EPHEMERAL, time_ns, comment, 0))
        done = here
    return [*filled, *pieces[done:]]


def _silences(connections: Sequence[RecordedConnection]) -> Iterator[int]:
    """When keep-alives are due while no connection is open."""
    covered_ns = connections[0].begin_ns
    for connection in connections:
        gap = range(covered_ns + KEEP_ALIVE_NS, connection.begin_ns, KEEP_ALIVE_NS)
        yield from gap[:_MOST_KEEP_ALIVES]
        covered_ns = max(covered_ns, connection.end_ns)
