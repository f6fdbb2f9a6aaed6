"""What one connection proves does not depend on what other connections of the session carry, or when."""

import json
import random
from collections import Counter

import pytest
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st
from wire import Wire

from wiretape.checker import CATALOGUE

OFF = frozenset(code for code in CATALOGUE if not code.startswith(("RUN", "TOOL", "REC002")))
TARGET = "GET /v1/sessions/ses_1/events/stream?event_deltas=true"
ENDS = ["run.completed", "run.failed", "run.cancelled"]
DEFECTS = ["RUN001", "RUN002", "RUN003", "RUN004", "RUN005", "TOOL002", "TOOL003", "TOOL005"]
SEEDS = st.integers(0, 2**32).map(random.Random)


class Service:
    """What a service emits in one session, with at most one defect; what need not be stored is stored by chance."""

    def __init__(self, rng, defect=None):
        self.rng, self.defect = rng, defect
        self.stores_all = rng.random() < 0.5
        self.events = []
        self._sequence = 0
        self._calls = 0
        runs = rng.randrange(1, 4)
        faulty = rng.randrange(runs)
        for number in range(runs):
            self._run(f"run_{number}", defect if number == faulty else None)

    def _emit(self, kind, run, call=None, *, stored=None):
        document = {"type": kind, "run_id": run}
        if kind == "message.delta":
            document["delta"] = {"text": "Hi"}
        elif stored or self.stores_all or kind in {"tool.started", "message.completed"} or self.rng.random() < 0.7:
            self._sequence += 1
            document = {"id": f"evt_{self._sequence}", "sequence": self._sequence, "content": {}} | document
        if call is not None:
            document["content"] = {"tool_call_id": call, "name": "search", "input": {}}
        self.events.append(document)

    def _run(self, run, defect):
        if defect == "RUN005":
            self._emit("message.completed", run)
        self._emit("run.started", run)
        for _ in range(self.rng.randrange(3)):
            self._work(run)
        self._break(run, defect)
        end = "run.completed" if defect == "TOOL005" else self.rng.choice(ENDS)
        self._emit(end, run, stored=defect == "RUN003")
        if defect == "RUN002":
            self._emit("message.completed", run)
        if defect == "RUN003":
            self._emit("run.failed", run, stored=True)
        if self.rng.random() < 0.7:
            self._emit("session.status_idle", run)

    def _break(self, run, defect):
        match defect:
            case "RUN001":
                self._emit("run.started", "run_other")
            case "RUN004":
                self._emit("session.status_idle", run)
            case "TOOL002":
                self._emit("tool.completed", run, "call_other")
            case "TOOL003":
                self._emit("tool.started", run, "call_other")
                self._emit("tool.completed", run, "call_other", stored=True)
                self._emit("tool.failed", run, "call_other", stored=True)
            case "TOOL005":
                self._emit("tool.started", run, "call_other")
        if defect in {"RUN001", "RUN004"} and self.rng.random() < 0.5:
            self._emit("message.completed", run)

    def _work(self, run):
        match self.rng.choice(["message.completed", "message.delta", "tool.started", "agent.custom_tool_use"]):
            case ("tool.started" | "agent.custom_tool_use") as kind:
                self._calls += 1
                self._emit(kind, run, f"call_{self._calls}")
                self._emit(self.rng.choice(["tool.completed", "tool.failed"]), run, f"call_{self._calls}")
            case kind:
                self._emit(kind, run)

    def replay(self, cursor, until):
        """The stored events after a cursor that were emitted before the event number `until`."""
        stored = [event for event in self.events[:until] if "id" in event]
        ids = [None, *(event["id"] for event in stored)]
        return stored[ids.index(cursor) :]

    def cursors(self, until):
        return [None, *(event["id"] for event in self.replay(None, until))]


class Proxy(Wire):
    """Passes streams before a checker; one event is one chunk."""

    def open(self, exchange, cursor):
        key = (("authorization", f"Bearer key_{exchange}"),)
        self.begin(exchange, TARGET, asked=key if cursor is None else (*key, ("last-event-id", cursor)))

    def send(self, exchange, event, *, lost=False):
        line = f"id: {event['id']}\n" if "id" in event else ""
        data = f"event: {event['type']}\n{line}data: {json.dumps(event)}\n\n"
        self.lose(len(data), exchange) if lost else self.body(data, exchange)

    def close(self, exchange):
        self.end(exchange)

    @property
    def counts(self):
        return Counter(self.codes)


def play(streams, order):
    """The codes of the findings; `order` has the number of a stream once for its opening, then for each event."""
    proxy, queues = Proxy(OFF), {}
    for number in order:
        cursor, events = streams[number]
        if number in queues:
            proxy.send(number, next(queues[number]))
        else:
            proxy.open(number, cursor)
            queues[number] = iter(events)
    for number in queues:
        proxy.close(number)
    return proxy.counts


@given(SEEDS, st.sampled_from([None, *DEFECTS]))
def test_what_the_first_stream_proves_is_found_whatever_a_second_one_carries_before_it(rng, defect):
    """The second one begins at any event and with any cursor, and its chunks arrive at any time."""
    service = Service(rng, defect)
    count = len(service.events)
    first = (None, service.events)
    opened = rng.choice([0, rng.randrange(count + 1)])
    live_from = rng.randrange(opened, count + 1)
    cursor = rng.choice(service.cursors(live_from))
    second = (cursor, service.replay(cursor, live_from) + service.events[live_from:])
    rest = [1] * (count - opened) + [2] * len(second[1])
    rng.shuffle(rest)
    alone = play({1: first}, [1] * (count + 1))
    beside = play({1: (None, []), 2: second}, [1] + [2] * (len(second[1]) + 1))
    both = play({1: first, 2: second}, [1] * (opened + 1) + [2, *rest])
    assert alone[defect] == (defect is not None)
    assert alone <= both, "each finding of the first stream is there"
    assert both <= alone + beside, "and no finding that neither stream proves"


@given(SEEDS)
def test_a_conforming_session_has_no_findings_however_it_is_read(rng):
    """Streams open at any time with any known cursor, lag behind, lose bytes and end."""
    service, proxy = Service(rng), Proxy(OFF)
    emitted, exchange, queues = 0, 0, {}
    for _ in range(150):
        match rng.choice(["emit", "open", "send", "send", "send", "lose", "close"]):
            case "emit" if exchange and emitted < len(service.events):
                # What is not stored reaches nobody before the first stream is opened.
                for queue in queues.values():
                    queue.append(service.events[emitted])
                emitted += 1
            case "open" if len(queues) < 3 and rng.random() < 0.3:
                exchange += 1
                cursor = rng.choice(service.cursors(emitted))
                queues[exchange] = service.replay(cursor, emitted)
                proxy.open(exchange, cursor)
            case ("send" | "lose") as what if any(queues.values()):
                number = rng.choice([number for number, queue in queues.items() if queue])
                proxy.send(number, queues[number].pop(0), lost=what == "lose" and rng.random() < 0.2)
            case "close" if queues and rng.random() < 0.3:
                number = rng.choice(list(queues))
                del queues[number]
                proxy.close(number)
    assert set(proxy.counts) <= {"REC002"}


# Proofs that arrive later, or on a connection that was opened later.


def ev(sequence, kind, run="run_1"):
    return {"id": f"evt_{sequence}", "sequence": sequence, "type": kind, "run_id": run, "content": {}}


def found(*streams, off=OFF):
    """The findings of streams, one after the other: pairs of cursor and events."""
    proxy = Proxy(off)
    for number, (cursor, events) in enumerate(streams, 1):
        proxy.open(number, cursor)
        for event in events:
            proxy.send(number, event)
        proxy.close(number)
    return [(f.code, f.exchange, f.event) for f in proxy.findings if f.code != "REC002"]


START, SECOND, END = ev(1, "run.started"), ev(5, "run.started", "run_2"), ev(9, "run.completed")
IDLE, MESSAGE = ev(5, "session.status_idle"), ev(7, "message.completed")


@for_each(("claim", "code"), [(SECOND, "RUN001"), (IDLE, "RUN004")])
@for_each("proof", [MESSAGE, END])
def test_a_later_event_of_a_run_proves_that_it_was_active(claim, code, proof):
    """Whether it arrives on the same connection or on the next one; the finding is at the claim."""
    assert found((None, [START]), ("evt_1", [claim, proof])) == [(code, 2, 1)]
    assert found((None, [START]), ("evt_1", [claim]), ("evt_5", [proof, END])) == [(code, 2, 1)]
    assert found((None, [START]), ("evt_1", [claim]), (None, [START, claim, proof])) == [(code, 2, 1)]
    assert found(("evt_0", [START, claim, proof])) == [(code, 1, 2)]
    assert found(("evt_0", [ev(3, "message.completed"), claim, proof])) == [(code, 1, 2)]


def test_an_event_without_a_number_lies_between_its_neighbours():
    """So a later event of the run proves that it was active."""
    idle = {"type": "session.status_idle", "run_id": "run_1"}
    assert found((None, [START]), ("evt_1", [ev(5, "message.completed"), idle, MESSAGE])) == [("RUN004", 2, 2)]


@pytest.mark.parametrize("claim", [SECOND, IDLE])
def test_a_run_that_ended_before_proves_nothing(claim):
    ended = ev(4, "run.failed")
    assert found((None, [START, ended]), ("evt_4", [claim])) == []
    outcome = ev(7, "tool.completed") | {"content": {"tool_call_id": "call_1"}}
    assert found((None, [START]), ("evt_1", [claim, outcome])) == [], "it may have been cancelled"
    assert found((None, [START]), ("evt_8", [claim])) == []
    assert found((None, [START, ended, claim, MESSAGE])) == [("RUN002", 1, 4)]


def test_one_overlap_is_one_finding():
    """A second claim in the same run has the same cause."""
    idle_again = ev(6, "session.status_idle")
    assert found((None, [START]), ("evt_1", [IDLE, idle_again, END])) == [("RUN004", 2, 1)]
    assert found((None, [START]), ("evt_1", [SECOND, ev(6, "session.status_idle"), END])) == [("RUN001", 2, 1)]


def test_events_that_could_not_be_delivered_may_be_the_end_of_a_run():
    """A service sends `stream.resync` when events are missing."""
    resync = {"type": "stream.resync"}
    assert found((None, [START, resync, SECOND, IDLE])) == []


# Where a sequence, a replay or an event is wrong, only that is reported.


ORDER_OFF = frozenset(code for code in CATALOGUE if not code.startswith(("RUN", "SEQ00", "RES00"))) | {"SEQ004"}


def order_codes(*streams):
    return [code for code, *_ in found(*streams, off=ORDER_OFF)]


def test_a_sequence_out_of_order_proves_nothing_about_runs():
    """The first run visibly ended before the second one started."""
    late = [ev(3, "session.status_idle"), ev(4, "run.started", "run_2"), ev(5, "run.completed", "run_2")]
    assert order_codes((None, [START, ev(100, "run.completed"), *late])) == ["SEQ001"]


def test_an_event_with_a_used_number_proves_nothing_about_runs():
    other = ev(5, "run.started", "run_2") | {"id": "evt_other"}
    events = [START, ev(5, "message.completed"), END]
    assert order_codes((None, events), ("evt_1", [other])) == ["SEQ002"]


@pytest.mark.parametrize(
    ("then", "code"), [(ev(2, "run.completed"), "RES004"), (ev(3, "run.started", "run_2"), "RES002")]
)
def test_an_ephemeral_event_before_the_end_of_a_replay_proves_nothing_about_runs(then, code):
    """The events that have to be replayed first contain the end of the run."""
    ended, idle = ev(2, "run.completed"), {"type": "session.status_idle", "run_id": "run_1"}
    assert order_codes((None, [START, ended]), ("evt_1", [idle, then])) == [code]


def test_an_event_that_changed_on_resume_proves_nothing_about_runs():
    changed = ev(2, "run.started", "run_2")
    events = [START, ev(2, "message.completed"), ev(3, "message.completed")]
    assert order_codes((None, events), ("evt_1", [changed, events[2]])) == ["RES003"]


def test_a_run_proves_a_claim_with_an_ordinary_event():
    """Its last events were placed before another stream carried the claim."""
    before, after = [START, ev(2, "message.completed")], [ev(4, "message.completed"), ev(5, "message.completed")]
    idle = ev(3, "session.status_idle")
    assert order_codes((None, before + after), ("evt_2", [idle])) == ["RUN004"]


ONCE = {
    # a claim; the rule, the number of its findings, the events with their runs
    "one idle session for each run": (
        "RUN004",
        2,
        "run.started, message 2, session.status_idle, run.completed, message 2",
    ),
    "one start": ("RUN001", 1, "run.started, message 3, run.started 2, message, message 3"),
    "an event before the start of its run": ("RUN005", 1, "message, run.started, run.completed"),
}


@for_each(("code", "count", "kinds"), ONCE.values(), ids=ONCE)
@for_each("lead", range(6))
def test_a_claim_is_found_once_whichever_stream_carries_the_events_first(code, count, kinds, lead):
    events = []
    for kind, _, run in (each.partition(" ") for each in kinds.split(", ")):
        name = "message.completed" if kind == "message" else kind
        events.append(ev(len(events) + 1, name, f"run_{run or 1}"))
    lead = min(lead, len(events))
    order = [1, 2] + [2] * lead + [1] * len(events) + [2] * (len(events) - lead)
    assert play({1: (None, events), 2: (None, events)}, order)[code] == count


def test_events_after_the_end_of_a_run_are_one_finding():
    """Also if the first of them starts it again."""
    late = [ev(10, "run.started"), ev(11, "message.completed")]
    assert found((None, [START, END, *late])) == [("RUN002", 1, 3)]
