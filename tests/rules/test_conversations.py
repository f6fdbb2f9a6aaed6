"""Whole conversations of services and clients: what keeps the specification gives nothing, one defect one finding."""

import gzip
import random
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wiretape import check
from wiretape.checker import CATALOGUE, Checker, Settings
from wiretape.observations import BytesArrived, BytesLost, Ending, ExchangeEnded, RequestStarted, ResponseStarted, Side
from wiretape.recording import Writer, open_recording
from wiretape.rules import Severity, Verdict
from wiretape.rules.vectors import vectors_of
from wiretape_proxy.ipc_codec import MESSAGE_KEY, body_key, encode_observation, encode_stop, pack_batch
from wiretape_proxy.recorder import Recorder
from wiretape_proxy.recorder_messages import LogLine

SECOND = 1_000_000_000
SEEDS = st.integers(0, 2**32)


def judged(seen):
    result = check(seen)
    return list(result.findings), result.verdicts


@given(SEEDS, st.integers(1, 120))
def test_a_conforming_conversation_has_only_notes(worlds, seed, steps):
    world = worlds.begin(random.Random(seed))
    for _ in range(steps):
        worlds.step(world)
    worlds.settle(world)
    found, _ = judged(world.seen)
    assert [finding for finding in found if finding.severity is not Severity.NOTE] == []


# One defect each, in a session of its own while others go on.


def some(worlds, world):
    for _ in range(world.rng.randrange(4)):
        worlds.step(world)


class Stage:
    """A session with one reader, in which everything is stored, and the world around it."""

    def __init__(self, worlds, world, first=1):
        self.worlds, self.world = worlds, world
        self.session, self.reader, self.other = world.victim(first), world.stranger(), world.stranger()
        self.stream = self.reader.open(self.session, deltas=True)
        self.begin()

    def begin(self):
        self.session.start(stored=True)
        self.pause()

    def pause(self):
        """What has happened is delivered, and others do something."""
        self.world.flush(self.stream)
        some(self.worlds, self.world)

    def happen(self, kind, **document):
        run = document.pop("run", None)
        message = self.session.emit(kind, stored=True, run=run, document=document)
        self.pause()
        return message

    def send(self, raw):
        """Bytes arrive that nothing has happened for."""
        self.stream.queue.append(self.worlds.Message("message.delta", None, {}, raw=raw))
        self.pause()

    def alter(self, change):
        """An event arrives that is not the one that was stored."""
        message = self.session.emit("sandbox.recreated", stored=True, queue=False)
        change(message, message.document)
        self.stream.queue.append(message)
        self.pause()

    def refuse(self, status, document, **fields):
        """An error arrives, or nearly one."""
        error = {"code": "resource_not_found", "message": "No.", "request_id": f"req_{self.world.number()}"} | fields
        document = {"error": error} if document is None else document
        self.world.exchange_json(self.other, "POST", "/v1/sessions/things", status, document)

    def finish(self):
        run = self.session.run
        self.session.calls.clear()
        self.happen("run.completed")
        self.session.run = None
        return run

    def close(self):
        self.reader.close(self.session, Ending.COMPLETE)
        some(self.worlds, self.world)

    def resume(self, client, cursor, replay):
        stream = client.open(self.session, cursor, deltas=True, answer=False)
        client.answer(self.session, stream, replay)
        self.world.flush(stream)
        return stream

    def ask(self, what, code=None, headers=(), **more):
        run = self.session.run or "run_vic_0_1"
        target = f"{self.session.path}/runs/{run}/{what}"
        if code is None:
            self.world.exchange_json(self.reader, "POST", target, 200, {}, headers)
        else:
            self.world.error(self.reader, "POST", target, code, headers, **more)


def plant_res001(stage):
    stage.happen("sandbox.recreated")
    stage.close()
    stage.resume(stage.reader, ..., stage.session.log[-1:])


def plant_res002(stage):
    for _ in range(3):
        stage.happen("sandbox.recreated")
    log = stage.session.log
    stage.resume(stage.other, log[0].id, [log[1], log[3]])


def plant_res003(stage):
    first = stage.session.log[0]
    changed = replace(first, document=first.document | {"data": {"n": 1}})
    stage.resume(stage.other, None, [changed])


def plant_res004(stage):
    stage.happen("sandbox.recreated")
    log = stage.session.log
    stage.resume(stage.other, log[0].id, [stage.session.speak(), log[1]])


def plant_res005(stage):
    stage.close()
    headers = (("Last-Event-ID", stage.session.log[0].id),)
    stage.world.error(stage.reader, "GET", f"{stage.session.path}/events/stream", "invalid_cursor", headers)
    stage.stream = stage.reader.open(stage.session, None)
    stage.pause()
    stage.close()
    stage.reader.open(stage.session)


def plant_res006(stage):
    elsewhere = Stage(stage.worlds, stage.world)
    stage.resume(stage.other, elsewhere.session.log[0].id, [])


def plant_run001(stage):
    stage.happen("run.started", run="run_second")


def plant_run002(stage):
    run = stage.finish()
    stage.happen("message.completed", run=run)


def plant_run003(stage):
    run = stage.finish()
    stage.happen("run.failed", run=run)


def plant_run004(stage):
    stage.happen("session.status_idle")


def plant_run005(stage):
    stage.finish()
    stage.happen("reasoning.message", run="run_next")
    stage.happen("run.started", run="run_next")


def plant_run006(stage):
    stage.world.tick(3 * SECOND)
    stage.ask("cancel", "RUN_NOT_CANCELLABLE")
    stage.world.tick(5 * SECOND)
    stage.finish()


def plant_run007(stage):
    run = stage.finish()
    stage.world.tick(3 * SECOND)
    stage.world.busy(stage.other, stage.session, run, stage.world.rng.choice([None, "/v1/sessions"]))


def plant_tool001(stage):
    stage.happen("agent.custom_tool_use", content={"name": "app"})


def plant_tool002(stage):
    stage.happen("tool.completed", content={"tool_call_id": "call_x"})


def plant_tool003(stage):
    call = stage.session.call("agent.custom_tool_use", stored=True)
    stage.session.outcome(call, stored=True)
    stage.happen("tool.failed", data={"tool_call_id": call})


def plant_tool004(stage):
    stage.happen("agent.custom_tool_use", content={"tool_call_id": "call_x", "name": "app"})
    stage.happen("tool.completed", data={"tool_call_id": "call_x", "name": "another"})


def plant_tool005(stage):
    stage.session.call(stored=True)
    stage.finish()


def plant_cli001(stage):
    stage.world.error(stage.other, "GET", "/v1/sessions/things", "authentication_required", key=False)


def plant_cli002(stage):
    stage.happen("sandbox.recreated")
    stage.close()
    cursor = stage.world.rng.choice([None, stage.session.log[0].id])
    stage.reader.open(stage.session, cursor)


def plant_cli003(stage):
    for _ in range(2):
        headers = (("Last-Event-ID", "gone"),)
        stage.world.error(stage.other, "GET", f"{stage.session.path}/events/stream", "invalid_cursor", headers)


def plant_cli004(stage):
    stage.ask("cancel", "RATE_LIMITED", seconds=30)
    stage.ask("cancel")


def plant_cli005(stage):
    stage.happen("stream.resync")
    stage.close()


def plant_cli006(stage):
    stage.ask("resume", "runtime_resume_unavailable", (("Idempotency-Key", "one"),))
    stage.ask("resume", None, stage.world.rng.choice([(), (("Idempotency-Key", "two"),)]))


def plant_cli007(stage):
    stage.ask("resume", "event_already_resolved")
    stage.ask("resume")


def plant_cli008(stage):
    stage.world.exchange_json(stage.other, "GET", "/v1/sessions/things?token=abc", 200, {})


def plant_cli009(stage):
    run = stage.finish()
    stage.world.exchange_json(stage.reader, "POST", f"{stage.session.path}/runs/{run}/cancel", 200, {})


def plant_rec001(stage):
    world, stream = stage.world, stage.stream
    world.tick()
    world.now += stage.worlds.APART
    world.note(BytesLost(stream.number, world.now, Side.RESPONSE, stream.sent, 100, "disk full"))
    stream.sent += 100


def plant_sse002(stage):
    world, stream = stage.world, stage.stream
    stream.sent = world.body(stream.number, stream.sent, b"event: run.st")
    world.end(stream.number, Ending.SERVICE_CLOSED)
    stage.session.connections.remove(stream)


def plant_sse007(stage):
    stage.world.exchange_json(stage.other, "GET", f"{stage.session.path}/events/stream", 200, {})


def plant_sse009(stage):
    world = stage.world
    number = world.ask(stage.other, "GET", f"{stage.session.path}/events/stream")
    world.respond(number, 200, (*stage.worlds.STREAM_HEAD, ("Content-Encoding", "gzip")))
    world.body(number, 0, gzip.compress(b": alive\n"))
    world.end(number)


def plant_dur007(stage):
    stage.stream = stage.other.open(stage.session, None, deltas=False)
    stage.send(DELTA)


def plant_dur006(stage):
    stage.session.emit("message.completed", stored=False, document={"content": []})


def plant_evt002(stage):
    stage.happen("run.paused")


def plant_evt007(stage):
    about = {"tool_call_id": "call_x", "name": "search"}
    stage.happen("tool.started", content=about, data=about)


def plant_evt008(stage):
    about = {"tool_call_id": "call_x", "name": "search"}
    stage.happen("tool.started", content=about | {"input": {}}, data=about | {"name": "other"})


def plant_err009(stage):
    for _ in range(2):
        stage.refuse(404, None, request_id="req_again")


DELTA = b'event: message.delta\ndata: {"type":"message.delta","run_id":"run_vic_0_1","delta":{"text":"Hi"}}\n\n'
SENT = {
    "SSE001": DELTA.replace(b"Hi", b"\xff"),
    "SSE003": b"channel: x\n" + DELTA,
    "SSE005": b"event: message.delta\n" + DELTA,
    "SSE006": DELTA.replace(b"event: message.delta\n", b""),
    "SSE008": b"event: session.error\n\n",
    "SSE010": b"retry: 99999999999\n" + DELTA,
    "DUR004": b"id\n" + DELTA,
    "DUR005": DELTA.replace(b'"run_id"', b'"sequence":1,"run_id"'),
    "EVT001": b"event: message.delta\ndata: [1]\n\n",
    "EVT011": DELTA.replace(b'"Hi"', b"5"),
    "EVT012": DELTA.replace(b'"run_id"', b'"x":1,"x":1,"run_id"'),
    "KAL002": b"event: ping\ndata: {}\n\n",
}
ALTERED = {
    "SSE004": lambda message, _: setattr(message, "id", "evt\0"),
    "SSE011": lambda message, json: json.update(id=rename(message, " outside")),
    "DUR001": lambda _, json: json.pop("sequence"),
    "DUR002": lambda message, _: setattr(message, "id", None),
    "DUR003": lambda _, json: json.update(id="another"),
    "SEQ001": lambda _, json: json.update(sequence=-5),
    "SEQ002": lambda _, json: json.update(sequence=json["sequence"] - 1),
    "SEQ003": lambda message, json: json.update(id=rename(message, "evt_vic_0_1")),
    "SEQ004": lambda _, json: json.update(sequence=json["sequence"] + 1),
    "SEQ005": lambda _, json: json.update(created_at="2000-01-01T00:00:00Z"),
    "EVT003": lambda message, _: setattr(message, "kind", "session.error"),
    "EVT004": lambda _, json: json.update(data=5),
    "EVT005": lambda _, json: json.update(created_at="soon"),
    "EVT006": lambda _, json: json.update(content=5),
    "EVT009": lambda _, json: json.update(session_id="ses_other"),
    "EVT010": lambda _, json: json.update(workspace_id="ws_other"),
}
REFUSED = {
    "ERR001": (404, {"err": {}}, {}),
    "ERR002": (404, None, {"message": None}),
    "ERR003": (404, None, {"code": "Resource_Not_Found"}),
    "ERR004": (400, None, {}),
    "ERR005": (404, None, {"details": 5}),
    "ERR006": (404, {"error": {"code": "resource_not_found", "message": "", "request_id": "req_x"}, "status": 404}, {}),
    "ERR007": (404, None, {"hint": 1}),
    "ERR010": (200, None, {}),
}


def rename(message, identity):
    message.id = identity
    return identity


PLANTS = {name.removeprefix("plant_").upper(): plant for name, plant in globals().items() if name.startswith("plant_")}
PLANTS |= {code: lambda stage, raw=raw: stage.send(raw) for code, raw in SENT.items()}
PLANTS |= {code: lambda stage, change=change: stage.alter(change) for code, change in ALTERED.items()}
PLANTS |= {
    code: lambda stage, status=status, document=document, fields=fields: stage.refuse(status, document, **fields)
    for code, (status, document, fields) in REFUSED.items()
}


def planted(worlds, code, seed):
    world = worlds.begin(random.Random(seed), quiet=True)
    some(worlds, world)
    PLANTS[code](Stage(worlds, world))
    some(worlds, world)
    worlds.settle(world)
    return world


@settings(max_examples=max(150, settings().max_examples))
@given(st.sampled_from(sorted(PLANTS)), SEEDS)
def test_one_planted_defect_gives_exactly_its_code(worlds, code, seed):
    found, verdicts = judged(planted(worlds, code, seed).seen)
    assert Counter(finding.code for finding in found) == {code: 1}
    assert found[0].severity is CATALOGUE[code].severity
    assert verdicts[code] is Verdict.FAIL


def test_a_recording_that_begins_in_a_session_has_a_note(worlds):
    world = worlds.begin(random.Random(1), quiet=True)
    Stage(worlds, world, first=5)
    found, _ = judged(world.seen)
    assert [finding.code for finding in found] == ["REC002"]


def test_every_rule_has_a_planted_defect():
    """But for those about one error, one answer or one stream, whose vectors plant it."""
    others = {code for code in CATALOGUE if code[:-3] in {"AUTH", "BUSY", "RATE"}}
    assert CATALOGUE.keys() - PLANTS == others | {"ERR008", "KAL001", "KAL003", "REC002", "REC003"}


# A long one.


def converse(worlds, world, session, reader, events):
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
def long_conversation(worlds):
    """Three sessions, each read over five reconnects and more, with another client beside; ten thousand events."""
    world = worlds.World(random.Random(7), quiet=True)
    sessions = [world.session() for _ in range(3)]
    readers = [world.client() for _ in sessions]
    for turn in range(6):
        for session, reader in zip(sessions, readers, strict=True):
            reader.open(session, deltas=True)
            converse(worlds, world, session, reader, 560)
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
@given(SEEDS, st.sampled_from([None, *sorted(PLANTS)]), st.sampled_from(RESTARTS))
def test_stored_findings_of_a_conversation_equal_the_report(worlds, tmp_path, seed, code, restarts):
    rng = random.Random(seed)
    world = worlds.begin(rng) if code is None else planted(worlds, code, seed)
    for _ in range(rng.randrange(60)):
        worlds.step(world)
    stored, reported = stored_and_reported(record(tmp_path / f"{uuid4()}.db", world.seen, rng, restarts))
    assert stored == reported


@pytest.mark.parametrize("code", sorted(CATALOGUE.keys() - PLANTS))
def test_stored_findings_of_a_vector_equal_the_report(tmp_path, code):
    """For the rules that no conversation has a defect of."""
    for number, vector in enumerate(vectors_of(code)):
        seen, path = list(vector.observations(3)), tmp_path / f"{number}.db"
        stored, reported = stored_and_reported(record(path, seen, random.Random(vector.name), RESTARTS[number % 4]))
        assert stored == reported


def test_a_kill_while_an_existing_recording_is_checked_leaves_a_good_file(worlds, tmp_path):
    seen = planted(worlds, "RUN001", 1).seen
    path = record(tmp_path / "run.db", seen, random.Random(1), 0)
    with sqlite3.connect(path) as connection:  # as another version may have done
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


def test_events_that_a_killed_recorder_had_not_indexed_are_indexed_when_it_is_continued(worlds, tmp_path):
    seen = planted(worlds, "RUN001", 1).seen
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
    with sqlite3.connect(path) as connection:
        indexed = connection.execute("SELECT exchange_id, event FROM frame WHERE event IS NOT NULL").fetchall()
    connection.close()
    assert sorted(indexed) == sorted(events)


def test_streams_of_a_killed_recorder_are_not_silent_until_the_recording_is_continued(worlds, tmp_path):
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
