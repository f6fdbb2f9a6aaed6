"""Reading a recording while it is being written: what came since the last time."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from wiretape.observations import Observation
from wiretape.recording.merge import Bounds, observations

# One statement sees one state of the file, between two commits.
_PROGRESS = """
SELECT coalesce((SELECT max(id) FROM segment), 0), coalesce((SELECT max(id) FROM finding), 0),
  max(coalesce(max(started_ns), 0), coalesce(max(request_ended_ns), 0), coalesce(max(responded_ns), 0),
    coalesce(max(ended_ns), 0), coalesce((SELECT max(time_ns) FROM lost), 0))
FROM exchange
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """Up to where a recording goes, or has been read."""

    segment: int = 0
    finding: int = 0
    time_ns: int = -1
    """Of the last head, end or loss."""


def progress(connection: sqlite3.Connection) -> Progress:
    """Up to where the recording goes now."""
    return Progress(*connection.execute(_PROGRESS).fetchone())


def between(connection: sqlite3.Connection, after: Progress, until: Progress) -> Iterator[Observation]:
    """What was seen after `after`, up to `until`, in order of time."""
    return observations(connection, Bounds(after.time_ns, until.time_ns, after.segment, until.segment))
