"""Properties of the log of any session recorded between a service and clients that follow the specification."""

import random
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from service_contracts import SERVICE

from wiretape.event import Event
from wiretape.recording import Writer, open_recording
from wiretape_replay.channel.channel_log import EntryKind, LogReader, UnknownCursorError
from wiretape_replay.channel.recorded_channels import build_channels

SEEDS = st.integers(0, 2**32)


def build(seed, steps):
    """The sessions of a recorded conversation, the warnings, and the frames of each stream."""
    world = worlds.begin(random.Random(seed))
    for _ in range(steps):
        worlds.step(world)
    worlds.settle(world)
    warnings = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.db"
        writer = Writer.create(path, upstream="http://service.test")
        writer.feed(world.seen)
        writer.commit()
        writer.close()
        with open_recording(path) as recording:
            streams = {
                exchange.number: (exchange.channel, list(recording.frames(exchange.number)))
                for exchange in recording.exchanges()
                if exchange.operation == "stream" and exchange.is_stream
            }
            return build_channels(recording, warnings.append, SERVICE).by_name, warnings, streams


def ids_on(frames):
    return [seen.id for seen in frames if isinstance(seen, Event) and seen.id is not None]


def durable(entries):
    return [entry for entry in entries if entry.kind is EntryKind.DURABLE]


@given(SEEDS, st.integers(1, 120))
def test_a_log_has_every_durable_event_once_and_each_connection_carried_consecutive_ones(seed, steps):
    sessions, _, streams = build(seed, steps)
    assert set(sessions) == {session_id for session_id, _ in streams.values()}
    for session_id, session in sessions.items():
        events = durable(session.log.entries)
        ids = [entry.id for entry in events]
        delivered = [ids_on(frames) for named, frames in streams.values() if named == session_id]
        assert sorted(ids) == sorted({identity for some in delivered for identity in some})
        assert all(before.sequence < after.sequence for before, after in pairwise(events))
        for some in delivered:
            begin = ids.index(some[0]) if some else 0
            assert ids[begin : begin + len(some)] == some


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 120))
def test_entries_are_recorded_frames_in_order_of_time_and_no_live_event_is_missing(seed, steps):
    sessions, _, streams = build(seed, steps)
    for session_id, session in sessions.items():
        entries = session.log.entries
        assert all(before.time_ns <= after.time_ns for before, after in pairwise(entries))
        taken = {entry.source: entry.data for entry in entries if entry.source and entry.source[1]}
        recorded = {
            (number, seen.number): seen.frame
            for number, (named, frames) in streams.items()
            if named == session_id
            for seen in frames
            if isinstance(seen, Event)
        }
        assert taken.items() <= {event: frame.raw for event, frame in recorded.items()}.items()
        live = {frame.raw for frame in recorded.values() if frame.id is None}
        assert live == {entry.data for entry in entries if entry.kind is EntryKind.EPHEMERAL and entry.type}


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 120))
def test_a_correct_service_causes_no_warning_about_events(seed, steps):
    _, warnings, _ = build(seed, steps)
    wrong = ("different content", "twice", "different events", "order in which", "no id", "an id;", "not recorded;")
    assert [sentence for sentence in warnings if any(words in sentence for words in wrong)] == []


@settings(max_examples=15)
@given(SEEDS, st.integers(20, 120))
def test_a_stream_carries_the_persisted_events_after_its_cursor_then_everything_live(seed, steps):
    sessions, _, _ = build(seed, steps)
    for session in sessions.values():
        log = session.log
        positions = [position for position, entry in enumerate(log.entries) if entry.kind is EntryKind.DURABLE]
        for playhead in sorted({len(log) * quarter // 4 for quarter in range(5)}):
            for begin in [None, *positions]:
                for deltas in (False, True):
                    check(log, playhead, begin, deltas)


def check(log, playhead, begin, deltas):
    """Connect with the durable event at position `begin` as cursor, and move the playhead to the end of the log."""
    cursor = None if begin is None else log.entries[begin].id
    if begin is not None and begin >= playhead:
        with pytest.raises(UnknownCursorError):
            LogReader(log, playhead, cursor=cursor, deltas=deltas)
        return
    reader = LogReader(log, playhead, cursor=cursor, deltas=deltas)
    first = 0 if begin is None else begin + 1
    assert list(reader.read(playhead)) == durable(log.entries[first:playhead])
    middle = (playhead + len(log)) // 2
    live = [*reader.read(middle), *reader.read(len(log))]
    assert live == [entry for entry in log.entries[playhead:] if deltas or not entry.is_optional]
    assert list(reader.read(len(log))) == []
