"""Whole conversations of services and clients: what keeps the specification gives nothing, one defect one finding."""

import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
import worlds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wiretape import check
from wiretape.checker import Checker, Settings
from wiretape.observations import BytesArrived, Ending, ExchangeEnded, RequestStarted, ResponseStarted, last_time_ns
from wiretape.recording import Writer, open_recording
from wiretape.rules import Severity, Verdict
from wiretape.rules.vectors import vectors, vectors_of
from wiretape_proxy.ipc_codec import MESSAGE_KEY, body_key, encode_observation, encode_stop, pack_batch
from wiretape_proxy.recorder import Recorder
from wiretape_proxy.recorder_messages import LogLine

SECOND = 1_000_000_000
SEEDS = st.integers(0, 2**32)


def judged(seen):
    result = check(seen)
    return list(result.findings), result.verdicts


@given(SEEDS, st.integers(1, 120))
def test_a_conforming_conversation_has_only_notes(seed, steps):
    world = worlds.begin(random.Random(seed))
    for _ in range(steps):
        worlds.step(world)
    worlds.settle(world)
    found, _ = judged(world.seen)
    assert [finding for finding in found if finding.severity is not Severity.NOTE] == []


# The defect of a vector, while others go on.

BREAKING = [
    vector
    for vector in vectors()
    if vector.breaks and not any(exchange.ending is Ending.OPEN for exchange in vector.exchange)
]
"""Without those that leave a stream open, which is silent afterwards."""


def converse_by_chance(world, most):
    for _ in range(world.rng.randrange(most)):
        worlds.step(world)


def beside(vector, rng, most=8):
    """What passes in a quiet world, and at some time the traffic of a vector."""
    world = worlds.begin(rng, quiet=True)
    converse_by_chance(world, most)
    planted = vector.observations()
    shift_ns = world.now - planted[0].time_ns
    converse_by_chance(world, most)
    while world.now < shift_ns + last_time_ns(planted[-1]):
        world.tick(SECOND)
        worlds.follow_resyncs(world)
    converse_by_chance(world, most)
    worlds.settle(world)
    return list(merged(worlds.APART, [(seen, 0) for seen in world.seen] + [(seen, shift_ns) for seen in planted]))


def merged(apart_ns, shifted):
    """Observations in order of time, each with what its time is shifted by; exchanges are numbered in this order."""
    numbers, now = {}, 0
    for seen, shift_ns in sorted(shifted, key=lambda each: last_time_ns(each[0]) + each[1]):
        now = max(now + apart_ns, last_time_ns(seen) + shift_ns)
        times = {"times": (now,)} if isinstance(seen, BytesArrived) else {"time_ns": now}
        yield replace(seen, exchange=numbers.setdefault((seen.exchange, shift_ns), len(numbers) + 1), **times)


@settings(max_examples=max(150, settings().max_examples))
@given(st.sampled_from(BREAKING), SEEDS)
def test_the_defect_of_a_vector_is_found_whatever_goes_on_beside_it(vector, seed):
    found, verdicts = judged(beside(vector, random.Random(seed)))
    assert Counter(finding.code for finding in found) == Counter([vector.code, *vector.also])
    assert verdicts[vector.code] is Verdict.FAIL


# A long one.


def converse(world, session, reader, events):
    """Runs follow each other on one stream, as a model would give them."""
    stream = reader.at[session]
    while events > 0:
        session.start(stored=True)
        for _ in range(40):
            session.speak("a few words")
        call = session.call("agent.custom_tool_use", stored=True)
        target = f"{session.path}/runs/{session.run}/resume"
        world.exchange_json(reader, "POST", target, 200, {}, (("Idempotency-Key", f"k{world.number()}"),))
        session.outcome(call, stored=True)
        session.say("message.completed")
        session.end("run.completed", stored=True)
        world.flush(stream)
        events -= 45


def interrupt(world, session, reader):
    """Everything else that can be asked of a session, and another client that resumes it."""
    session.start(stored=True)
    world.flush(reader.at[session])
    world.busy(reader, session, session.run)
    run, key = f"{session.path}/runs/{session.run}", (("Idempotency-Key", "again"),)
    world.error(reader, "POST", f"{run}/resume", "runtime_resume_unavailable", key)
    world.exchange_json(reader, "POST", f"{run}/resume", 200, {}, key)
    world.error(reader, "POST", f"{run}/cancel", "RATE_LIMITED", seconds=1)
    world.tick(2 * SECOND)
    world.exchange_json(reader, "POST", f"{run}/cancel", 200, {})
    session.end("run.cancelled", stored=True)
    world.flush(reader.at[session])
    late = world.stranger()
    headers = (("Last-Event-ID", "unknown"),)
    world.error(late, "GET", f"{session.path}/events/stream", "invalid_cursor", headers)
    world.error(late, "POST", f"{run}/cancel", "RUN_NOT_CANCELLABLE")
    late.open(session, session.log[9].id, deltas=False)
    world.flush(late.at[session])
    session.emit("stream.resync", stored=True)
    for client in (reader, late):
        world.flush(client.at[session])
        client.close(session, Ending.COMPLETE)
        client.open(session, deltas=client is reader)
    late.close(session, Ending.COMPLETE)


@pytest.fixture(scope="module")
def long_conversation():
    """Three sessions, each read over five reconnects and more, with another client beside; ten thousand events."""
    world = worlds.World(random.Random(7), quiet=True)
    sessions = [world.session() for _ in range(3)]
    readers = [world.client() for _ in sessions]
    for turn in range(6):
        for session, reader in zip(sessions, readers, strict=True):
            reader.open(session, deltas=True)
            converse(world, session, reader, 560)
            if turn == 3:
                interrupt(world, session, reader)
            world.tick(20 * SECOND)
            reader.close(session, Ending.COMPLETE)
    return world.seen


def test_ten_thousand_conforming_events_hold_every_rule_they_exercise(long_conversation):
    checker = Checker()
    found = [finding for seen in long_conversation for finding in checker.feed(seen)] + checker.finish()
    assert found == []
    assert checker.events > 10_000
    verdicts = Counter(checker.verdicts().values())
    assert set(verdicts) == {Verdict.PASS, Verdict.NOT_EXERCISED}
    assert verdicts[Verdict.PASS] > 70


# Live is afterwards, however often the proxy is stopped or killed, and continues the recording.

RESTARTS = [0, 1, 2, 5]


class Proxy:
    """A recorder in this process, and the traffic that a proxy sends to it."""

    def __init__(self, path, *, append):
        self.path = path
        self.messages = []
        self.writer = Writer.create(path, upstream="http://service.test", append=append)
        self.recorder = Recorder(self.writer, Settings(), self.messages.append)
        self._numbers = {}
        self._open = set()
        self._last_ns = self.writer.began_ns

    def forward(self, seen):
        """Send an observation; connections of an earlier proxy no longer exist."""
        if isinstance(seen, RequestStarted):
            self._numbers[seen.exchange] = len(self._numbers) + 1
            self._open.add(seen.exchange)
        elif seen.exchange not in self._open:
            return
        if isinstance(seen, ExchangeEnded):
            self._open.remove(seen.exchange)
        self.recorder.store(pack_batch(list(self._entries(seen))))

    def _entries(self, seen):
        number = self._numbers[seen.exchange]
        if isinstance(seen, BytesArrived):
            self._last_ns = seen.times[-1]
            for time_ns, data in seen.chunks():
                yield from (self.recorder.base_ns + time_ns, body_key(number, seen.side), data)
        else:
            self._last_ns = seen.time_ns
            yield from (self.recorder.base_ns + seen.time_ns, MESSAGE_KEY)
            yield encode_observation(replace(seen, exchange=number))

    def stop(self):
        """End all exchanges, and close the recording."""
        for number in sorted(self._open):
            self.forward(ExchangeEnded(number, self._last_ns + 1, Ending.PROXY_STOPPED))
        self.recorder.store(pack_batch([self.recorder.base_ns + self._last_ns, MESSAGE_KEY, encode_stop()]))
        self.recorder.close()

    def kill(self):
        """The proxy is killed; the recorder notices, and closes the recording."""
        self.recorder.close()

    def kill_recorder(self):
        """The recorder is killed, too: what is on the disk at this moment is all there is."""
        image = self.path.with_name(f"{uuid4()}.db")
        for suffix in ("", "-wal"):
            if (file := Path(f"{self.path}{suffix}")).exists():
                shutil.copy(file, f"{image}{suffix}")
        self.recorder.close()
        self.path = image


def record(path, seen, rng, restarts):
    """Record with restarts at random moments; return the path of the recording."""
    cuts = sorted(rng.randrange(len(seen) + 1) for _ in range(restarts))
    for begin, end in zip([0, *cuts], [*cuts, len(seen)], strict=True):
        proxy = Proxy(path, append=begin > 0 or path.exists())
        for observation in seen[begin:end]:
            proxy.forward(observation)
            if rng.random() < 0.3:
                proxy.recorder.commit()
            if rng.random() < 0.3:
                proxy.recorder.checker.step()
        rng.choice([proxy.stop, proxy.kill] if end == len(seen) else [proxy.stop, proxy.kill, proxy.kill_recorder])()
        path = proxy.path
    return path


def in_order(findings):
    return sorted(findings, key=lambda f: (f.exchange, f.event or 0, f.byte_offset or 0, f.code, f.message))


def stored_and_reported(path):
    with open_recording(path) as recording:
        return in_order(recording.findings()), in_order(judged(recording.observations())[0])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SEEDS, st.sampled_from([None, *BREAKING]), st.sampled_from(RESTARTS))
def test_stored_findings_of_a_conversation_equal_the_report(tmp_path, seed, vector, restarts):
    rng = random.Random(seed)
    if vector is None:
        world = worlds.begin(rng)
        converse_by_chance(world, 60)
        seen = world.seen
    else:
        seen = beside(vector, rng, 20)
    stored, reported = stored_and_reported(record(tmp_path / f"{uuid4()}.db", seen, rng, restarts))
    assert stored == reported


def test_a_kill_while_an_existing_recording_is_checked_leaves_a_good_file(tmp_path):
    seen = beside(vectors_of("RUN001")[0], random.Random(1))
    path = record(tmp_path / "run.db", seen, random.Random(1), 0)
    with closing(sqlite3.connect(path)) as connection, connection:  # as another version may have done
        connection.execute("UPDATE finding SET code = 'RUN999'")
    connection.close()
    proxy = Proxy(path, append=True)
    now, headers = seen[-1].time_ns + 99, (("Authorization", "Bearer key"),)
    proxy.forward(RequestStarted(9, now, "::1", "GET", "http", "service.test", "/new", "HTTP/1.1", headers))
    proxy.recorder.commit()
    assert proxy.recorder.checker.step()
    assert proxy.recorder.checker.step(), "the new request"
    proxy.kill_recorder()
    with open_recording(proxy.path) as recording:
        assert [exchange.request.target for exchange in recording.exchanges()][-1] == "/new"
        assert "RUN999" not in [finding.code for finding in recording.findings()]
    again = Proxy(proxy.path, append=True)
    again.stop()
    stored, reported = stored_and_reported(again.path)
    assert stored == reported
    assert [finding.code for finding in stored] == ["RUN001"]
    lines = [message.text for message in proxy.messages if isinstance(message, LogLine)]
    assert lines.count("The findings that were already in the recording have been corrected.") == 1


def test_events_that_a_killed_recorder_had_not_indexed_are_indexed_when_it_is_continued(tmp_path):
    seen = beside(vectors_of("RUN001")[0], random.Random(1))
    path = tmp_path / "run.db"
    for count in (len(seen) // 2, len(seen)):  # the second recorder is killed before it has checked the first part
        proxy = Proxy(path, append=path.exists())
        for observation in seen[:count]:
            proxy.forward(observation)
            proxy.recorder.commit()
        if count < len(seen):
            proxy.recorder.checker.step()
        proxy.kill_recorder()
        path = proxy.path
    proxy = Proxy(path, append=True)
    proxy.stop()
    with open_recording(path) as recording:
        events = [(event.exchange, event.number) for event in recording.events()]
    with closing(sqlite3.connect(path)) as connection, connection:
        indexed = connection.execute("SELECT exchange_id, event FROM frame WHERE event IS NOT NULL").fetchall()
    connection.close()
    assert sorted(indexed) == sorted(events)


def test_streams_of_a_killed_recorder_are_not_silent_until_the_recording_is_continued(tmp_path):
    stream = "/v1/sessions/ses_1/events/stream"
    headers = (("Authorization", "Bearer key"),)
    path = tmp_path / "run.db"
    for hour, end in ((0, Proxy.kill_recorder), (1, Proxy.stop)):
        proxy = Proxy(path, append=hour > 0)
        now = hour * 3600 * SECOND + SECOND
        proxy.forward(RequestStarted(1, now, "::1", "GET", "http", "service.test", stream, "HTTP/1.1", headers))
        proxy.forward(ResponseStarted(1, now + 1, 200, "OK", "HTTP/1.1", worlds.STREAM_HEAD))
        proxy.recorder.commit()
        end(proxy)
        path = proxy.path
    with open_recording(path) as recording:
        killed = recording.exchange(1)
        assert (killed.ending, killed.ended_ns) == (Ending.OPEN, SECOND + 2)
    assert stored_and_reported(path) == ([], [])
