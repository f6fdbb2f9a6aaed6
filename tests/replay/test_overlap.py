"""Merging what several connections carried between two durable events; each letter is an event."""

from for_each import for_each
from tables import read_tables

from wiretape_replay.channel.channel_log import EntryKind, LogEntry
from wiretape_replay.channel.log_builder import merge_stretches
from wiretape_replay.channel.recorded_connection import Stretch

TABLES = read_tables(__file__)

SECOND = 1_000_000_000


def stretch(letters, begin, end, *, deltas=True):
    """One letter per second from `begin` on; a space is a second without an event.  Lower-case letters are deltas."""
    made = Stretch(deltas, None, begin * SECOND, end * SECOND)
    for after, letter in enumerate(letters):
        kind = "message.delta" if letter.islower() else "message.started"
        if letter != " ":
            time_ns = (begin + after) * SECOND
            made.events.append(
                LogEntry(EntryKind.EPHEMERAL, time_ns, letter.encode(), type=kind, is_optional=letter.islower())
            )
    return made


def merge(*stretches):
    return b"".join(event.data for event in merge_stretches(stretches)).decode()


@for_each(("one", "other", "whole"), TABLES["overlaps"])
def test_events_of_two_connections_that_overlap_are_taken_once(one, other, whole):
    assert merge(stretch(*one), stretch(*other)) == whole


@for_each(
    ("with_deltas", "without", "whole"),
    [
        (("AbCdE", 0, 9), ("A C E", 0, 9), "AbCdE"),
        (("AbCd", 0, 4), ("A C  EF", 0, 9), "AbCdEF"),
        (("  CdEfG", 0, 9), ("A C E", 0, 5), "ACdEfG"),
        ((" bCdEfG", 0, 9), ("A C E", 0, 5), "AbCdEfG"),
        (("b d f", 0, 9), (" C E", 0, 9), "bCdEf"),
        (("AbC", 0, 3), ("  C E", 0, 9), "AbCE"),
    ],
)
@for_each("swapped", [False, True])
def test_a_connection_without_deltas_adds_the_events_that_the_other_lacks(with_deltas, without, whole, swapped):
    both = [stretch(*with_deltas), stretch(*without, deltas=False)]
    assert merge(*reversed(both) if swapped else both) == whole


def test_several_connections_are_merged():
    assert (
        merge(stretch("abcd", 0, 4), stretch("cdef", 2, 6), stretch("efgh", 4, 9), stretch("bcde", 1, 5)) == "abcdefgh"
    )
