"""One wrong event, or one wrong replay, breaks one rule, whoever reads the session and however the service counts."""

import copy
import random
from collections import Counter

import pytest
from for_each import for_each
from hypothesis import given, settings
from hypothesis import strategies as st
from wire import Wire

from wiretape.checker import Checker
from wiretape.observations import Ending
from wiretape.rules import Verdict
from wiretape.traffic_builder import TrafficBuilder

SEEDS = st.integers(0, 2**32)
FIRST_NUMBERS = {"from 1": 1, "from 0": 0, "from 1000": 1000, "shared": None}
RUN = [
    "run.started",
    "message.started",
    "message.delta",
    "tool.started",
    "tool.completed",
    "message.completed",
    "run.completed",
    "session.status_idle",
]


class Event:
    """An event in the log of a session; the id of a delta is None."""

    def __init__(self, session, run, kind, number, sequence):
        self.kind, self.id = kind, None
        self.document = {"type": kind, "run_id": f"run_{session}_{run}"}
        if kind == "message.delta":
            self.document["delta"] = {"text": "Hi"}
        self.is_stored = kind != "message.delta"
        if self.is_stored:
            call = {"tool_call_id": f"call_{session}_{run}", "name": "search", "input": {}}
            about = call if kind.startswith("tool") else {}
            self.document |= {
                "sequence": sequence,
                "workspace_id": "ws_1",
                "session_id": session,
                "created_at": "2025-01-01T00:00:00Z",
                "content": about,
                "data": about,
            }
            self.rename(f"evt_{session}_{number}")

    def rename(self, identity):
        self.id = self.document["id"] = identity

    @property
    def sequence(self):
        return self.document["sequence"]

    @sequence.setter
    def sequence(self, sequence):
        self.document["sequence"] = sequence


def make_logs(counting):
    """The events of two sessions with three runs each, which happen at the same time."""
    logs = {"ses_1": [], "ses_2": []}
    first, shared = FIRST_NUMBERS[counting], 41
    for run in range(3):
        for kind in RUN:
            for session, log in logs.items():
                stored = sum(event.is_stored for event in log)
                log.append(Event(session, run, kind, len(log), shared if first is None else first + stored))
                shared += log[-1].is_stored
    return logs


def stored_of(log, begin=0):
    return [at for at in range(begin, len(log)) if log[at].is_stored]


class Reader:
    """A stream of a session from a position in its log on."""

    def __init__(self, traffic, session, log, begin, cursor, *, deltas, key):
        query = "?event_deltas=true" if deltas else ""
        headers = {} if cursor is None else {"Last-Event-ID": cursor}
        request = traffic.request("GET", f"/v1/sessions/{session}/events/stream{query}", headers=headers, key=key)
        self.stream, self.session, self.log, self.at, self.deltas = (
            request.respond_stream(),
            session,
            log,
            begin,
            deltas,
        )

    def read(self, until, *, replay=False):
        while self.at < min(until, len(self.log)):
            event = self.log[self.at]
            self.at += 1
            if (event.is_stored or not replay) and (self.deltas or event.kind != "message.delta"):
                self.stream.event(event.kind, event.document, id=event.id)


class Readers:
    """Several readers of two sessions; each has its own key, so that none owes a cursor."""

    def __init__(self, logs, rng):
        self.logs, self.rng, self.traffic = logs, rng, TrafficBuilder()
        self.emitted = dict.fromkeys(logs, 0)
        self.open, self.count = [], 0
        for session in logs:
            self.traffic.request("POST", "/v1/sessions").respond(201, json={"id": session})

    def begin(self, session, at=None, log=None, begin=None):
        """Open a stream after the event at a position, or without a cursor; it carries the replay."""
        self.count += 1
        log = log or self.logs[session]
        cursor = None if at is None else self.logs[session][at].id
        begin = begin if begin is not None else 0 if at is None else at + 1
        reader = Reader(
            self.traffic, session, log, begin, cursor, deltas=self.rng.random() < 0.5, key=f"key_{self.count}"
        )
        reader.read(self.emitted[session], replay=True)
        self.open.append(reader)
        return reader

    def choose_cursor(self, session):
        """The position of an event with an id; with several of that id, any of them."""
        log = self.logs[session][: self.emitted[session]]
        ids = [event.id for event in log if event.is_stored and event.id is not None]
        if not ids:
            return None
        chosen = self.rng.choice([None, self.rng.choice(ids), ids[-1]])
        return self.rng.choice([at for at, event in enumerate(log) if event.id == chosen]) if chosen else None

    def read_beside(self):
        """The first stream of each session carries everything; others open, lag behind and end."""
        first = {session: self.begin(session) for session in self.logs}
        while any(self.emitted[session] < len(log) for session, log in self.logs.items()):
            session = self.rng.choice(list(self.logs))
            match self.rng.choice(["emit", "emit", "read", "read", "open", "end"]):
                case "emit":
                    self.emitted[session] = min(self.emitted[session] + 1, len(self.logs[session]))
                case "read":
                    reader = self.rng.choice(self.open)
                    reader.read(min(self.emitted[reader.session], reader.at + self.rng.randrange(1, 3)))
                case "open" if len(self.open) < 8:
                    first[session].read(self.emitted[session])
                    self.begin(session, self.choose_cursor(session))
                case "end" if len(self.open) > 4:
                    self.open.pop(self.rng.randrange(2, len(self.open))).stream.end()
        for reader in self.open:
            reader.read(len(reader.log))

    def read_in_parts(self):
        """One stream after the other carries some events."""
        for session, log in self.logs.items():
            at, cursor = 0, None
            while at < len(log):
                reader = self.begin(session, cursor)
                at = self.emitted[session] = min(max(at, reader.at) + self.rng.randrange(1, 6), len(log))
                reader.read(at)
                self.open.remove(reader)
                reader.stream.end()
                cursor = self.choose_cursor(session)

    def read_again(self):
        """Everything was sent: streams with each kind of cursor."""
        for session, log in self.logs.items():
            for at in [None, *self.rng.sample([at for at in stored_of(log) if log[at].id is not None], 5)]:
                self.begin(session, at)

    def finish(self):
        for reader in self.open:
            reader.stream.end()
        return self.traffic.observations()


def judge(seen):
    checker = Checker()
    found = [finding for observation in seen for finding in checker.feed(observation)]
    return Counter(finding.code for finding in found + checker.finish()), checker.verdicts()


def play(logs, rng, replay=None):
    """Read the logs; `replay` returns what one more stream carries, after which cursor, and from where on."""
    readers = Readers(logs, rng)
    rng.choice([readers.read_beside, readers.read_in_parts])()
    if replay is not None:
        session = rng.choice(list(logs))
        log = copy.deepcopy(logs[session])
        at = rng.choice(stored_of(log)[:-4])
        readers.begin(session, at, log, replay(log, at, rng))
    readers.read_again()
    return judge(readers.finish())


def expected_notes(counting):
    """Gaps are one note for each session of a service that counts over all of them."""
    return {"SEQ004": 2} if counting == "shared" else {}


@given(st.sampled_from(sorted(FIRST_NUMBERS)), SEEDS)
def test_a_session_that_was_created_in_the_recording_is_known_from_its_beginning(counting, seed):
    """Whatever its first number is; and conforming traffic has at most one note for each session."""
    found, verdicts = play(make_logs(counting), random.Random(seed))
    assert found == expected_notes(counting)
    # Where readers lag behind, the order of events on different connections is unknown.
    assert verdicts["RUN005"] in {Verdict.PASS, Verdict.INCONCLUSIVE}
    assert {verdicts[code] for code in ("REC002", "RUN003", "TOOL003", "SEQ001", "SEQ002", "SEQ003")} == {Verdict.PASS}


# A stored event is wrong, for every reader.


def choose(logs, rng):
    """A stored event, the one before it, and any before it."""
    log = rng.choice(list(logs.values()))
    kind = rng.choice([None, *(kind for kind in RUN if kind != "message.delta")])
    places = stored_of(log)
    at = rng.choice([at for at in places[1:] if kind in {None, log[at].kind}])
    before = places[: places.index(at)]
    return log[at], log[before[-1]], log[rng.choice(before)]


def store_without_id(logs, rng):
    choose(logs, rng)[0].id = None


def store_without_sequence(logs, rng):
    del choose(logs, rng)[0].document["sequence"]


def store_other_json_id(logs, rng):
    choose(logs, rng)[0].document["id"] = "other"


def store_deltas(logs, rng):
    for at, event in enumerate(rng.choice(list(logs.values()))):
        if event.kind == "message.delta":
            event.is_stored = True
            event.rename(f"delta_{at}")


def reuse_last_id(logs, rng):
    event, last, _ = choose(logs, rng)
    event.rename(last.id)


def reuse_any_id(logs, rng):
    event, _, other = choose(logs, rng)
    event.rename(other.id)


def reuse_last_sequence(logs, rng):
    event, last, _ = choose(logs, rng)
    event.sequence = last.sequence


def reuse_any_sequence(logs, rng):
    event, _, other = choose(logs, rng)
    event.sequence = other.sequence


def store_low_sequence(logs, rng):
    choose(logs, rng)[0].sequence = -5


def swap_sequences(logs, rng):
    event, last, _ = choose(logs, rng)
    event.sequence, last.sequence = last.sequence, event.sequence


STORED = {
    store_without_id: "DUR002",
    store_without_sequence: "DUR001",
    store_other_json_id: "DUR003",
    store_deltas: "DUR004",
    reuse_last_id: "SEQ003",
    reuse_any_id: "SEQ003",
    reuse_last_sequence: "SEQ002",
    reuse_any_sequence: "SEQ002",
    store_low_sequence: "SEQ001",
    swap_sequences: "SEQ001",
}


@settings(max_examples=max(75, settings().max_examples))
@given(st.sampled_from(list(STORED)), st.sampled_from(sorted(FIRST_NUMBERS)), SEEDS)
def test_a_wrong_stored_event_breaks_one_rule(plant, counting, seed):
    logs, rng = make_logs(counting), random.Random(seed)
    plant(logs, rng)
    found, _ = play(logs, rng)
    assert set(found) - {"SEQ004"} == {STORED[plant]}
    assert found["SEQ004"] <= 2


# One replay is wrong.


def neighbours(log, at, rng):
    places = stored_of(log, at + 1)
    first = rng.randrange(len(places) - 1)
    return places[first], places[first + 1]


def replay_without_id(log, at, rng):
    log[neighbours(log, at, rng)[1]].id = None
    return at + 1


def replay_other_sequences(log, at, rng):
    for number, place in enumerate(stored_of(log), rng.choice([-100, 5000])):
        log[place].sequence = number
    return at + 1


def replay_other_id(log, at, rng):
    log[neighbours(log, at, rng)[1]].rename("other")
    return at + 1


def replay_last_id(log, at, rng):
    first, second = neighbours(log, at, rng)
    log[second].rename(log[first].id)
    return at + 1


def replay_last_sequence(log, at, rng):
    first, second = neighbours(log, at, rng)
    log[second].sequence = log[first].sequence
    return at + 1


def replay_too_much(_log, at, rng):
    return rng.randrange(at + 1)


def replay_too_little(log, at, rng):
    del log[neighbours(log, at, rng)[0]]
    return at + 1


def replay_other_content(log, at, rng):
    log[neighbours(log, at, rng)[1]].document["note"] = 1
    return at + 1


def replay_out_of_order(log, at, rng):
    first, second = neighbours(log, at, rng)
    log[first], log[second] = log[second], log[first]
    return at + 1


REPLAYED = {
    replay_without_id: "DUR002",
    replay_other_sequences: "RES003",
    replay_other_id: "SEQ002",
    replay_last_id: "SEQ003",
    replay_last_sequence: "RES003",
    replay_too_much: "RES001",
    replay_too_little: "RES002",
    replay_other_content: "RES003",
    replay_out_of_order: "SEQ001",
}


@settings(max_examples=max(75, settings().max_examples))
@given(st.sampled_from(list(REPLAYED)), st.sampled_from(sorted(FIRST_NUMBERS)), SEEDS)
def test_a_wrong_replay_breaks_one_rule(replay, counting, seed):
    found, _ = play(make_logs(counting), random.Random(seed), replay)
    assert set(found) - {"SEQ004"} == {REPLAYED[replay]}
    assert found["SEQ004"] <= 2


# Two independent defects are two findings.


def read_log(log, *replays):
    """One stream carries the log, and further ones what they replay, after a cursor."""
    traffic = TrafficBuilder()
    for number, (cursor, events) in enumerate([(None, log), *replays]):
        headers = {} if cursor is None else {"Last-Event-ID": cursor}
        stream = traffic.request("GET", "/v1/sessions/ses_1/events/stream", headers=headers, key=f"key_{number}")
        stream.respond_stream()
        for event in events:
            stream.event(event.kind, event.document, id=event.id)
        stream.end()
    return judge(traffic.observations())[0]


@pytest.fixture
def log():
    """The stored events of a session, with the sequences 1 to 21."""
    return [event for event in make_logs("from 1")["ses_1"] if event.is_stored]


def test_a_reused_sequence_and_one_out_of_order_are_two_findings(log):
    log[3].sequence = log[2].sequence
    log[10].sequence = -5
    assert read_log(log) == {"SEQ002": 1, "SEQ001": 1}


@pytest.mark.parametrize(("sequence", "code"), [(3, "SEQ002"), (-5, "SEQ001")])
def test_a_wrong_sequence_and_a_lost_event_are_two_findings(log, sequence, code):
    log[3].sequence = sequence
    replay = [event for event in log[6:] if event is not log[12]]
    assert read_log(log, (log[5].id, replay)) == {code: 1, "RES002": 1}


def test_a_reused_id_and_a_repeated_or_changed_event_are_three_findings(log):
    log[3].rename(log[2].id)
    changed = copy.deepcopy(log[12])
    changed.document["note"] = 1
    replay = [*log[9:12], changed, *log[13:]]
    assert read_log(log, (log[10].id, replay)) == {"SEQ003": 1, "RES001": 1, "RES003": 1}


def test_an_idle_session_with_an_active_run_is_found_beside_an_event_without_id(log):
    log[3].id = None
    idle = Event("ses_1", 0, "session.status_idle", 99, 22)
    start = Event("ses_1", 9, "run.started", 98, 21)
    start.sequence, idle.sequence = 22, 23
    assert read_log([*log, start, idle]) == {"DUR002": 1, "RUN004": 1}


def test_a_run_that_ends_twice_under_one_sequence_ends_twice(log):
    """The two events differ not only in their ids."""
    again = Event("ses_1", 2, "run.failed", 99, log[-2].sequence)
    assert read_log([*log[:-1], again]) == {"SEQ002": 1, "RUN003": 1}


def test_an_event_with_a_reused_id_may_get_another_one_in_a_replay(log):
    """The end of a run has the id of the event before it, and in the replay that of the event before that."""
    at = next(at for at, event in enumerate(log) if event.kind == "run.completed")
    log[at].rename(log[at - 1].id)
    replay = copy.deepcopy(log)
    replay[at].rename(log[at - 2].id)
    assert set(read_log(log, (None, replay))) == {"SEQ003"}


# A response to a stream request is an error envelope.


ENVELOPE = '{"error": {"code": "invalid_cursor", "message": "No.", "request_id": "req_1"}}'


@for_each("ending", Ending)
@for_each(("body", "codes"), [(ENVELOPE, ["ERR010"]), ("<html>", ["SSE007"]), ("", ["SSE007"])], wire=Wire)
def test_an_envelope_instead_of_a_stream_is_one_finding_however_it_ends(wire, body, codes, ending):
    request = "GET /v1/sessions/ses_1/events/stream"
    assert wire.answer(body, 200, request, ending=ending) == codes


def test_a_part_of_an_envelope_instead_of_a_stream_is_inconclusive(wire):
    request = "GET /v1/sessions/ses_1/events/stream"
    assert wire.answer(ENVELOPE[:30], 200, request, ending=Ending.CLIENT_CLOSED) == []
    assert {wire.verdict(code) for code in ("ERR010", "SSE007")} == {Verdict.INCONCLUSIVE}


@pytest.mark.parametrize(("kind", "codes"), [("application/json", {"ERR010": 1}), ("text/event-stream", {"RES006": 1})])
def test_a_foreign_cursor_is_accepted_only_with_an_event_stream(kind, codes):
    traffic, other = TrafficBuilder(), make_logs("from 1")["ses_2"][0]
    stream = traffic.request("GET", "/v1/sessions/ses_2/events/stream").respond_stream()
    stream.event(other.kind, other.document, id=other.id).end()
    headers = {"Last-Event-ID": other.id}
    refused = traffic.request("GET", "/v1/sessions/ses_1/events/stream", headers=headers, key="other")
    refused.respond(headers={"Content-Type": kind}, body=b"" if "event" in kind else ENVELOPE.encode())
    assert judge(traffic.observations())[0] == codes


# How a session is created is not shown.


def created(request, status=201, json=None, location=None, target="/v1/sessions/ses_1/events/stream", *, late=False):
    """The verdict of RUN005 for a session whose first sequence is 1000, after one other exchange."""
    traffic = TrafficBuilder()
    method, path = request.split()
    exchange = traffic.request(method, path)
    headers = {} if location is None else {"Location": location}
    if not late:
        exchange.respond(status, headers=headers, json=json)
    stream = traffic.request("GET", target).respond_stream()
    if late:
        exchange.respond(status, headers=headers, json=json)
    start = Event("ses_1", 0, "run.started", 1, 1000)
    stream.event(start.kind, start.document, id=start.id).end()
    return judge(traffic.observations())[1]["RUN005"]


@for_each("late", [False, True])
@for_each(
    "response",
    [
        {"json": {"id": "ses_1"}},
        {"json": {"session_id": "ses_1"}},
        {"json": {"sessionId": "ses_1"}, "status": 200},
        {"json": {"session": "ses_1"}},
        {"json": {"data": {"session": {"attributes": {"uuid": "ses_1"}}}}},
        {"location": "/v1/sessions/ses_1"},
        {"location": "https://service.test/v1/sessions/ses_1"},
    ],
)
def test_the_response_that_creates_a_session_names_it_in_any_form(response, late):
    for request in ("POST /v1/sessions", "POST /v1/sessions/", "PUT /v1/sessions"):
        assert created(request, **response, late=late) is Verdict.PASS


def test_a_put_with_status_201_creates_the_session_of_its_path():
    assert created("PUT /v1/sessions/ses_1") is Verdict.PASS
    assert created("PUT /v1/sessions/ses_1", status=200) is Verdict.NOT_EXERCISED
    assert created("PUT /v1/sessions/ses_1/tags/a") is Verdict.NOT_EXERCISED


@for_each(
    ("request_", "response"),
    [
        ("POST /v1/sessions", {"json": {"id": "ses_2"}}),
        ("POST /v1/sessions", {"json": {"found": [{"id": "ses_1"}]}}),
        ("POST /v1/sessions", {"json": {"text": "ses_1"}}),
        ("POST /v1/sessions", {"json": {"id": "ses_1"}, "status": 409}),
        ("GET /v1/sessions/ses_1", {"json": {"id": "ses_1"}, "status": 200}),
        ("POST /v1/sessions/ses_1/runs", {"json": {"id": "run_1", "session_id": "ses_1"}}),
        ("POST /v1/sessions/ses_1/runs", {"location": "/v1/sessions/ses_1/runs/run_1"}),
    ],
)
def test_another_response_does_not_show_that_a_session_was_created(request_, response):
    assert created(request_, **response) is Verdict.NOT_EXERCISED


def test_a_session_begins_with_the_first_stream_even_if_another_is_ahead():
    """The second stream has a cursor that the recording does not show yet."""
    traffic = TrafficBuilder()
    log = make_logs("from 0")["ses_1"]
    target = "/v1/sessions/ses_1/events/stream"
    first = traffic.request("GET", target).respond_stream()
    second = traffic.request("GET", target, headers={"Last-Event-ID": log[0].id}, key="other").respond_stream()
    second.event(log[1].kind, log[1].document, id=log[1].id)
    for event in log[:2]:
        first.event(event.kind, event.document, id=event.id)
    found, verdicts = judge(traffic.observations())
    assert not found
    assert verdicts["REC002"] is Verdict.PASS
