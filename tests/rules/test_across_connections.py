"""What is decided across connections where its edges are, and how much is remembered for it."""

import gc
import json
import tracemalloc
from dataclasses import replace

import pytest
from for_each import for_each
from tables import read_tables

from wiretape.checker import Checker, Settings
from wiretape.rules import Verdict
from wiretape.rules.vectors import observations_of
from wiretape_contracts.agent_sessions.state import client_state, event_log, runs
from wiretape_contracts.agent_sessions.state.event_log import LEAST_EVENTS, EventBudget, EventLog
from wiretape_contracts.agent_sessions.state.runs import MOST_RUNS, SessionRuns
from wiretape_contracts.agent_sessions.state.session_state import SessionRegistry

TABLES = read_tables(__file__)

PATH = "/v1/sessions/ses_1"
STREAM = f"GET {PATH}/events/stream?event_deltas=true"
KEYS = {"one": "Authorization: Bearer key_1", "two": "Authorization: Bearer key_2"}
DELTA = 'event: message.delta\ndata: {"type":"message.delta","run_id":"run_1","delta":{"text":"Hi"}}\n\n'
RESYNC = 'event: stream.resync\ndata: {"type":"stream.resync"}\n\n'


class Played:
    """Exchanges, judged."""

    def __init__(self, *exchanges, settings=None):
        self.checker = Checker(settings)
        seen = observations_of({"exchange": list(exchanges)})
        self.live = [finding for observation in seen for finding in self.checker.feed(observation)]
        self.findings = self.live + self.checker.finish()

    @property
    def codes(self):
        return [finding.code for finding in self.findings]

    def verdict(self, code):
        return self.checker.verdicts()[code]


def read(*parts, cursor=None, key="one", request=STREAM, **more):
    headers = [KEYS[key]] + ([] if cursor is None else [f"Last-Event-ID: {cursor}"])
    parts = [{"text": part} if isinstance(part, str) else part for part in parts]
    return {"request": request, "headers": headers, "part": parts} | more


def answer(request, status=200, code=None, headers=(), more=(), **table):
    error = {"error": {"code": code, "message": "No.", "request_id": f"req_{id(table)}"}}
    return {
        "request": request,
        "headers": [KEYS["one"], *headers],
        "status": status,
        "response_headers": ["Content-Type: application/json", *more],
        "body": json.dumps(error if code else {}),
    } | table


@pytest.fixture
def three(event):
    """The first three events of a session: its run starts, goes on, and ends."""
    return event(1, "run.started"), event(2, "sandbox.recreated"), event(3, "run.completed")


# Times.


@pytest.mark.parametrize(("again_at", "codes"), [(12.4, ["CLI004"]), (12.6, [])])
def test_half_a_second_is_tolerated_before_retry_after(again_at, codes):
    details = {"limit": 30, "window_seconds": 60, "retry_after": 3}
    body = json.dumps({"error": {"code": "RATE_LIMITED", "message": "", "request_id": "r", "details": details}})
    first = answer("POST /v1/sessions", 429, more=["Retry-After: 3"], at=10.0, body=body)
    assert Played(first, answer("POST /v1/sessions", at=again_at)).codes == codes


@pytest.mark.parametrize(("again", "codes"), [("?page=1", ["CLI004"]), ("?page=2", []), ("", [])])
def test_a_request_with_another_query_is_another_request(again, codes):
    first = answer("GET /v1/sessions/x?page=1", 429, more=["Retry-After: 3"], at=10.0)
    found = Played(first, answer(f"GET /v1/sessions/x{again}", at=11.0)).codes
    assert [code for code in found if code == "CLI004"] == codes


def test_a_429_that_is_cut_off_requires_no_wait():
    first = answer("POST /v1/sessions/x", 429, more=["Retry-After: 3"], at=1.0, ending="client-closed")
    assert "CLI004" not in Played(first, answer("POST /v1/sessions/x", at=2.0)).codes


def test_only_a_429_requires_a_wait():
    first = answer("POST /v1/sessions/x", 503, more=["Retry-After: 3"], at=1.0)
    assert "CLI004" not in Played(first, answer("POST /v1/sessions/x", at=2.0)).codes


@pytest.mark.parametrize(("cancel_at", "end_after", "codes"), [(5.0, 9, ["RUN006"]), (2.9, 9, []), (5.0, 5.9, [])])
def test_two_seconds_of_tolerance_surround_a_refused_cancel(event, cancel_at, end_after, codes):
    stream = read(event(1, "run.started"), {"text": event(2, "run.completed"), "after": end_after}, at=1.0)
    cancel = answer(f"POST {PATH}/runs/run_1/cancel", 409, "RUN_NOT_CANCELLABLE", at=cancel_at)
    assert Played(stream, cancel).codes == codes


def test_a_refused_cancel_is_reported_after_the_tolerance(three):
    stream = read(three[0], {"text": DELTA, "after": 7}, at=1.0, ending="open")
    cancel = answer(f"POST {PATH}/runs/run_1/cancel", 409, "RUN_NOT_CANCELLABLE", at=5.0)
    assert [finding.code for finding in Played(stream, cancel).live] == ["RUN006"]


@pytest.mark.parametrize("more", [{"part": []}, {"part": [{"text": DELTA, "after": 5}]}])
def test_a_refused_cancel_is_inconclusive_if_no_stream_was_open_long_enough(three, more):
    stream = read(three[0], *more["part"], at=1.0, ending="open" if more["part"] else "complete")
    cancel = answer(f"POST {PATH}/runs/run_1/cancel", 409, "RUN_NOT_CANCELLABLE", at=5.0)
    played = Played(stream, cancel)
    assert played.codes == []
    assert played.verdict("RUN006") is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("at", "codes"), [(61.9, []), (62.2, ["CLI005"])])
def test_a_client_has_a_minute_to_follow_a_resync(three, at, codes):
    assert Played(read(three[0], RESYNC, at=2.0), read(three[1], cursor="evt_1", at=at)).codes == codes


def test_repeated_events_are_one_finding_per_connection(three):
    """At the first of them."""
    played = Played(read(*three), read(*three, cursor="evt_3"), read(*three, cursor="evt_3", key="two"))
    assert [(f.code, f.exchange, f.event) for f in played.findings] == [("RES001", 2, 1), ("RES001", 3, 1)]


# What comes after the end of a run.


@pytest.mark.parametrize(("began", "codes"), [(True, ["RUN002"]), (False, [])])
def test_after_a_reconnect_only_deltas_of_a_run_that_began_afterwards_cannot_be_repetitions(event, began, codes):
    start = event(2, "run.started")
    before, after = ([], [start]) if began else ([start], [])
    first = read(event(1), *before)
    cursor = "evt_1" if began else "evt_2"
    other = DELTA.replace("run_1", "run_0")
    again = read(other, *after, event(3, "run.completed"), DELTA, cursor=cursor)
    assert Played(first, again).codes == codes


@for_each(
    ("end", "kind", "codes"),
    [
        ("run.cancelled", "tool.failed", []),
        ("run.cancelled", "tool.completed", []),
        ("run.cancelled", "message.completed", ["RUN002"]),
        ("run.completed", "tool.failed", ["RUN002"]),
        ("run.failed", "sandbox.recreated", []),
    ],
)
@for_each("stored", [True, False])
def test_tool_calls_of_a_cancelled_run_may_end_after_it(event, end, kind, codes, stored):
    calls = event(2, "agent.custom_tool_use", content={"tool_call_id": "call_1"})
    late = event(4, kind, content={"tool_call_id": "call_1"})
    if not stored:
        late = event(4, kind, id=..., sequence=..., content={"tool_call_id": "call_1"})
    found = Played(read(event(1, "run.started"), calls, event(3, end), late)).codes
    assert [code for code in found if code.startswith("RUN")] == codes


def test_an_exempt_event_after_the_end_of_a_run_does_not_hide_another(event):
    calls = event(2, "agent.custom_tool_use", content={"tool_call_id": "call_1"})
    ended = event(4, "tool.failed", content={"tool_call_id": "call_1"})
    late = event(5, "message.completed", content=[])
    assert Played(read(event(1, "run.started"), calls, event(3, "run.cancelled"), ended, late)).codes == ["RUN002"]


def test_a_replay_of_the_events_of_a_run_proves_nothing_about_its_order(event):
    events = [event(1, "run.started"), event(2, "message.completed", content=[]), event(3, "run.completed")]
    played = Played(read(*events), read(*events[1:], cursor="evt_1", key="two"))
    assert played.codes == []
    assert played.checker.tallies()["RUN002"].held == 2


# Who is one client, and what it has received.


def test_another_key_or_another_address_is_another_client(three):
    first = read(*three[:2])
    assert Played(first, read(*three[:2], key="two")).codes == []
    assert Played(first, read(*three[:2], client="10.0.0.7")).codes == []
    again = read(*three[:2])
    again["headers"].append("User-Agent: another")
    assert Played(first, again).codes == ["CLI002"]


@pytest.mark.parametrize(("after", "codes"), [(0.5, []), (5, ["CLI002"])])
def test_a_client_that_left_may_not_have_read_the_last_events(three, after, codes):
    first = read(three[0], {"text": three[1], "after": 5}, ending="client-closed", ends_after=after)
    played = Played(first, read(three[1], cursor="evt_1"))
    assert played.codes == codes
    assert played.verdict("CLI002") is (Verdict.FAIL if codes else Verdict.INCONCLUSIVE)


BROKEN = ["service-closed", "service-reset", "service-invalid", "timed-out", "proxy-stopped"]


@for_each("ending", BROKEN)
def test_a_client_may_resume_after_any_event_of_the_second_before_its_connection_broke(three, ending):
    def resumed(after, cursor):
        late = [{"text": three[1], "after": 5}, {"text": three[2], "after": 0.1}]
        first = read(three[0], *late, ending=ending, ends_after=after)
        return Played(first, read(cursor=cursor))

    for cursor in ("evt_1", "evt_2", "evt_3"):
        played = resumed(0.5, cursor)
        assert (played.codes, played.verdict("CLI002")) == ([], Verdict.PASS)
    wanted = "Expected `evt_1`, `evt_2` or `evt_3` as Last-Event-ID, got none."
    assert [finding.message for finding in resumed(0.5, None).findings] == [wanted]
    for cursor in (None, "evt_1", "evt_2"):
        (finding,) = resumed(2, cursor).findings
        assert finding.message.startswith("Expected `evt_3` as Last-Event-ID, got ")


def test_a_client_whose_connection_broke_at_once_may_have_read_nothing(three, event):
    def resumed(cursor):
        return Played(read(event(1), ending="client-closed", ends_after=5), broken, read(event(9), cursor=cursor))

    broken = read(*(event(number) for number in range(2, 7)), cursor="evt_1", ending="service-reset", ends_after=0.5)
    for number in range(1, 7):
        assert "CLI002" not in resumed(f"evt_{number}").codes
    (finding,) = (finding for finding in resumed(None).findings if finding.code == "CLI002")
    assert finding.message == "Expected one of the 6 ids from `evt_1` to `evt_6` as Last-Event-ID, got none."

    first = read(*three, ending="service-reset", ends_after=0.5)
    assert Played(first, read(*three)).verdict("CLI002") is Verdict.INCONCLUSIVE, "perhaps it keeps no cursor"


def test_every_byte_before_an_orderly_end_is_read(three):
    first = read(*three, ending="complete", ends_after=0.001)
    (finding,) = Played(first, read(*three)).findings
    assert finding.message == "Expected `evt_3` as Last-Event-ID, got none."


def test_a_client_is_not_blamed_if_more_ids_are_possible_than_are_kept(event, monkeypatch):
    monkeypatch.setattr(client_state, "_MOST_UNREAD", 10)
    first = read(*(event(number) for number in range(1, 31)), ending="service-reset", ends_after=0.001)
    for cursor, verdict in (("evt_30", Verdict.PASS), ("evt_21", Verdict.PASS), ("evt_20", Verdict.INCONCLUSIVE)):
        assert Played(first, read(cursor=cursor)).verdict("CLI002") is verdict
    assert Played(first, read(event(1))).verdict("CLI002") is Verdict.INCONCLUSIVE


@for_each(("cursor", "codes"), [("evt_1", []), ("evt_2", []), ("evt_3", []), (None, ["CLI005"])])
def test_a_client_whose_connection_broke_may_not_have_read_a_resync(three, cursor, codes):
    late = [{"text": three[1], "after": 5}, RESYNC, three[2]]
    first = read(three[0], *late, ending="service-closed", ends_after=0.1)
    played = Played(first, read(cursor=cursor))
    assert [code for code in played.codes if code.startswith("CLI")] == codes
    assert [finding.message for finding in played.findings if finding.code == "CLI005"] == [
        "Expected a reconnect with `evt_1`, `evt_2` or `evt_3` after stream.resync, got none." for _ in codes
    ]


def test_a_cursor_is_right_only_once_per_stream(three):
    again = read(three[1], cursor="evt_1"), read(three[2], cursor="evt_2")
    assert Played(read(three[0]), *again).codes == []
    assert Played(read(three[0]), *again, read(three[1], three[2], cursor="evt_1")).codes == ["CLI002"]


@pytest.mark.parametrize("more", [1, 12], ids=["that has ended", "that is open"])
def test_a_newer_cursor_may_have_been_read_elsewhere(three, more):
    """A client that changes its key or its address and changes back goes on from where it stood in between."""
    between = read(three[1], {"text": ": alive\n", "after": more}, cursor="evt_1", key="two", at=5.0)
    played = Played(read(three[0]), between, read(three[2], cursor="evt_2", at=10.0))
    assert played.codes == []
    assert played.verdict("CLI002") is Verdict.INCONCLUSIVE


def test_a_cursor_that_was_read_elsewhere_is_where_the_client_reads_on(three):
    elsewhere, onwards = read(*three[:2], key="two"), read(three[2], cursor="evt_2")
    assert Played(read(three[0]), elsewhere, onwards, read(*three[1:], cursor="evt_1")).codes == ["CLI002"]


def test_only_the_last_stream_that_a_client_read_says_where_it_reads_on(three):
    again, older = read(*three), read(cursor="evt_2")
    assert Played(read(three[0]), again, older).codes == ["CLI002", "CLI002"], "a restart, and an older cursor"


def test_events_without_sequences_are_ordered_by_arrival(event):
    first, second = (event(number, sequence=...) for number in (1, 2))
    between = read(second, {"text": DELTA, "after": 30}, cursor="evt_1", key="two", at=5.0)
    assert "CLI002" not in Played(read(first), between, read(cursor="evt_2", at=10.0)).codes
    assert "CLI002" in Played(read(first, second), read(cursor="evt_1")).codes


def test_an_older_cursor_may_be_that_of_another_address(three):
    there = read(*three[:2], client="10.0.0.7")
    played = Played(there, read(*three), read(three[2], cursor="evt_2"))
    assert played.codes == []
    assert played.verdict("CLI002") is Verdict.INCONCLUSIVE
    assert Played(there, read(*three), read(*three[1:], cursor="evt_1")).codes == ["CLI002"]


def test_a_client_is_not_blamed_for_a_cursor_after_a_delta_with_an_id(event):
    """Some clients lose their cursor then."""
    delta = DELTA.replace("\n", "\nid: live_1\n", 1)
    played = Played(read(event(1), delta), read(event(2)))
    assert "CLI002" not in played.codes
    assert played.verdict("CLI002") is Verdict.INCONCLUSIVE
    assert "CLI002" in Played(read(event(1), DELTA), read(event(2))).codes


@pytest.mark.parametrize(("refused", "codes"), [(True, ["CLI002"]), (False, [])])
def test_the_response_decides_about_an_unknown_cursor(three, refused, codes):
    again = read(cursor="evt_9")
    if refused:
        again = again | {"part": [], "status": 400, "body": answer("", code="invalid_cursor")["body"]}
    played = Played(read(*three), again)
    assert played.codes == codes
    assert played.verdict("CLI002") is (Verdict.FAIL if codes else Verdict.INCONCLUSIVE)


def test_an_error_that_is_not_about_the_cursor_decides_nothing(three):
    refused = {"part": [], "status": 404, "body": answer("", code="resource_not_found")["body"]}
    assert "CLI002" not in Played(read(*three), read(cursor="evt_9") | refused).codes


CUT = "event: sandbox.recreated\nid: evt_2\n"


@for_each("ending", ["client-closed", "service-reset", "complete", "timed-out"])
@for_each("cut", [CUT, CUT[:-1], CUT + "data: {", CUT + "data: {}\n"])
@for_each("refused", [False, True])
def test_the_id_of_an_incomplete_event_is_a_wrong_cursor(three, ending, cut, refused):
    """Once, also if the service does not know the event and refuses the cursor."""
    again = read(three[2], cursor="evt_2")
    if refused:
        again = again | {"part": [], "status": 400, "body": answer("", code="invalid_cursor")["body"]}
    played = Played(read(three[0], cut, ending=ending, ends_after=3), again)
    (finding,) = [finding for finding in played.findings if finding.code != "SSE002"]
    assert (finding.code, finding.exchange) == ("CLI002", 2)
    assert finding.message == (
        "Expected `evt_1` as Last-Event-ID, got `evt_2`: "
        "the client resumed after an event that was never received completely."
    )


def test_the_id_of_an_incomplete_first_event_is_a_wrong_cursor(three):
    played = Played(read(CUT, ending="client-closed"), read(three[2], cursor="evt_2"))
    assert "CLI002" in played.codes
    messages = [finding.message for finding in played.findings if finding.code == "CLI002"]
    assert messages[0].startswith("Expected no Last-Event-ID, got `evt_2`")
    assert Played(read(CUT, ending="client-closed"), read(*three)).codes == []


def test_the_rest_of_an_event_may_arrive_after_the_recording_ended(three):
    played = Played(read(three[0], CUT, ending="proxy-stopped"), read(three[2], cursor="evt_2"))
    assert played.codes == []
    assert played.verdict("CLI002") is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("ends", [True, False])
def test_an_incomplete_event_may_have_been_received_with_another_key_since(three, ends):
    """But not by a viewer that was there before."""
    cut = read(three[0], CUT, ending="client-closed", at=1.0)
    on, again = {"text": ": alive\n", "after": 1 if ends else 12}, read(three[2], cursor="evt_2", at=10.0)
    since = read(three[1], on, cursor="evt_1", key="two", at=5.0)
    played = Played(cut, since, again)
    assert played.codes == []
    assert played.verdict("CLI002") is Verdict.INCONCLUSIVE
    viewer = read(three[0], {"text": three[1], "after": 4}, on, key="two", at=0.5)
    assert Played(viewer, cut, again).codes == ["CLI002"]


def elsewhere(event, identity):
    """Another session with one event."""
    target = STREAM.replace("ses_1", "ses_2")
    return read(event(1, id=identity, session_id="ses_2"), request=target, key="two")


def test_a_cursor_of_another_session_is_wrong(three, event):
    refused = {"part": [], "status": 400, "body": answer("", code="invalid_cursor")["body"]}
    assert Played(elsewhere(event, "one"), read(*three), read(cursor="one") | refused).codes == ["CLI002"]


def test_a_cursor_does_not_identify_a_session_if_sessions_share_ids(event):
    mine = [event(number, id=str(number)) for number in (1, 2)]
    assert Played(elsewhere(event, "9"), read(*mine), read(cursor="9")).codes == []


class TestTwoPrograms:
    """With one key and one address."""

    @pytest.fixture
    def both(self, three):
        """One reads two events, and while it does the other reads one; who of them ends last stands last."""
        return read(three[0], at=5.0), read(three[0], {"text": three[1], "after": 9}, at=1.0)

    @pytest.mark.parametrize("turns", [("evt_1", "evt_2"), ("evt_2", "evt_1")])
    def test_each_goes_on_where_it_stood(self, both, three, turns):
        again = [read(*three[int(cursor[-1]) :], cursor=cursor) for cursor in turns]
        played = Played(*both, *again)
        assert played.codes == []
        assert played.verdict("CLI002") is Verdict.PASS

    def test_both_may_stand_at_the_same_event(self, three):
        both = read(three[0], at=5.0), read(three[0], {"text": DELTA, "after": 9}, at=1.0)
        again = [read(*three[1:], cursor="evt_1") for _ in both]
        played = Played(*both, *again)
        assert played.codes == []
        assert played.verdict("CLI002") is Verdict.PASS

    def test_neither_goes_on_from_one_place_twice(self, both, three):
        once = [read(*three[1:], cursor="evt_1"), read(three[2], cursor="evt_2")]
        assert Played(*both, *once, read(three[2], cursor="evt_2")).codes == ["CLI002"]

    def test_there_may_be_a_third(self, both, three):
        played = Played(*both, read(*three))
        assert played.codes == []
        assert played.verdict("CLI002") is Verdict.INCONCLUSIVE

    def test_an_event_at_which_none_of_them_stands_is_a_wrong_cursor(self, both, three, event):
        """While one of them reads on, the other one ends."""
        on = read(three[2], event(4), cursor="evt_2"), read(*three[1:], event(4), cursor="evt_1")
        assert Played(*both, *on, read(event(4), cursor="evt_3")).codes == ["CLI002"]

    def test_one_that_begins_is_no_reconnect_after_a_resync(self, three):
        told = read(three[0], RESYNC, {"text": DELTA, "after": 4}, at=1.0)
        begins, follows = read(*three[:2], at=2.0), read(three[1], cursor="evt_1", at=9.0)
        played = Played(told, begins, follows)
        assert "CLI005" not in played.codes
        assert played.verdict("CLI005") is Verdict.PASS

    def test_after_a_resync_either_may_be_the_one_that_comes_back(self, both, three):
        told = {"part": [*both[0]["part"], {"text": RESYNC}]}
        played = Played(both[0] | told, both[1], read(three[2], cursor="evt_2"))
        assert played.codes == []
        assert played.verdict("CLI005") is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("identity", ["evt_1 ", "évt"])
def test_an_id_that_does_not_survive_a_header_is_not_a_wrong_cursor(event, identity):
    first = event(1, sse_id=identity, id=identity)
    assert "CLI002" not in Played(read(first), read(cursor=identity.strip().replace("é", "e"))).codes


def test_lost_bytes_may_contain_the_last_id(three):
    played = Played(read(three[0], {"lost": 300}), read(three[2], cursor="evt_2"))
    assert played.codes == ["REC001"]
    assert played.verdict("CLI002") is Verdict.INCONCLUSIVE


def test_a_client_restarts_after_a_refused_cursor_and_then_needs_the_new_one(three):
    refused = read(cursor="gone", status=400, body=answer("", code="invalid_cursor")["body"])
    del refused["part"]
    assert Played(refused, read(*three[:2]), read(three[2], cursor="evt_2")).codes == []
    assert Played(refused, read(*three[:2]), read(three[1], cursor="evt_1")).codes == ["CLI002"]


def test_a_client_that_follows_a_resync_may_keep_the_old_stream_for_a_while(three):
    old = read(three[0], RESYNC, {"text": three[1], "after": 4}, at=1.0)
    assert Played(old, read(three[1], cursor="evt_1", at=3.0)).codes == []
    assert Played(old, read(three[0], three[1], at=3.0)).codes == ["CLI005"]


@pytest.mark.parametrize("ending", ["proxy-stopped", "open", "service-reset"])
def test_a_client_without_time_to_follow_a_resync_has_no_finding(three, ending):
    played = Played(read(three[0], RESYNC, ending=ending))
    assert played.codes == []
    assert played.verdict("CLI005") is Verdict.INCONCLUSIVE


def test_a_replayed_resync_requires_no_reconnect(event):
    told = event(2, "stream.resync")
    stream = read(event(1), told), read(event(3), cursor="evt_2")
    assert Played(*stream, read(event(1), told, event(3), key="two")).codes == []


def resume(code=None, key=None, header="Idempotency-Key"):
    return answer(f"POST {PATH}/runs/run_1/resume", 503 if code else 200, code, [f"{header}: {key}"] if key else [])


def test_the_header_of_idempotency_keys_is_a_setting():
    told, repeat = resume("runtime_resume_unavailable", "a", "X-Key"), resume(None, "b", "X-Key")
    assert Played(told, repeat).verdict("CLI006") is Verdict.INCONCLUSIVE
    assert Played(told, repeat, settings=Settings(idempotency_header="x-key")).codes == ["CLI006"]


def custom(event, sequence, call):
    return event(sequence, "agent.custom_tool_use", content={"tool_call_id": call})


@for_each(("calls", "again", "codes"), [(1, "b", ["CLI007"]), (2, "b", []), (2, "a", ["CLI007"])])
@for_each("ended_at", [0.5, 2.5, 9])
def test_another_resume_may_be_about_another_open_call(event, calls, again, codes, ended_at):
    """Whether the first call, which was resolved, has ended before or between the requests, or has not."""
    waiting = [custom(event, 2 + number, f"call_{number}") for number in range(calls)]
    outcome = event(9, "tool.completed", content={"tool_call_id": "call_0"})
    stream = read(event(1, "run.started"), *waiting, {"text": outcome, "after": ended_at}, at=1.0, ending="open")
    told = answer(f"POST {PATH}/runs/run_1/resume", 409, "event_already_resolved", at=2.0, request_body="a")
    played = Played(stream, told, answer(f"POST {PATH}/runs/run_1/resume", at=4.0, request_body=again))
    assert [code for code in played.codes if code != "SEQ004"] == codes
    assert played.verdict("CLI007") is (Verdict.FAIL if codes else Verdict.INCONCLUSIVE)
    cancelled = Played(stream, told, answer(f"POST {PATH}/runs/run_1/cancel", at=4.0, request_body=again))
    assert cancelled.verdict("CLI007") is Verdict.NOT_EXERCISED


@pytest.mark.parametrize(("calls", "verdict"), [(1, Verdict.FAIL), (2, Verdict.NOT_EXERCISED)])
def test_a_resume_after_another_call_is_not_a_retry(event, calls, verdict):
    waiting = [{"text": custom(event, 2 + number, f"call_{number}"), "after": 2 * number} for number in range(calls)]
    stream = read(event(1, "run.started"), *waiting, at=1.0, ending="open")
    key, again = ([f"Idempotency-Key: {key}"] for key in "ab")
    told = answer(f"POST {PATH}/runs/run_1/resume", 503, "runtime_resume_unavailable", key, at=2.0)
    played = Played(stream, told, answer(f"POST {PATH}/runs/run_1/resume", 200, None, again, at=4.0))
    assert played.verdict("CLI006") is verdict


@for_each("seen", ["nothing", "the call", "a broken event"])
@for_each(("again", "codes"), [("b", []), ("a", ["CLI007"])])
def test_another_resume_may_be_about_a_call_that_was_not_recorded(event, seen, again, codes):
    """The recording does not show the run, or not all of it."""
    events = {
        "nothing": [],
        "the call": [custom(event, 2, "call_0")],
        "a broken event": [
            event(1, "run.started"),
            "event: message.completed\ndata: [\n\n",
            custom(event, 3, "call_0"),
        ],
    }[seen]
    stream = read(*events, at=1.0, cursor="evt_0")
    told = answer(f"POST {PATH}/runs/run_1/resume", 409, "event_already_resolved", at=2.0, request_body="a")
    played = Played(stream, told, answer(f"POST {PATH}/runs/run_1/resume", at=4.0, request_body=again))
    assert [code for code in played.codes if code.startswith("CLI")] == codes
    assert played.verdict("CLI007") is (Verdict.FAIL if codes else Verdict.INCONCLUSIVE)


# What a replay is held against.


def test_an_event_first_seen_after_the_request_is_not_a_replay(three):
    long = read(three[0], {"text": three[1], "after": 5}, at=1.0)
    resumed = read(DELTA, {"text": three[1], "after": 6}, key="two", cursor="evt_1", at=3.0)
    assert Played(long, resumed).codes == []


def test_an_event_seen_while_a_stream_opens_need_not_be_replayed(three):
    long = read(three[0], {"text": three[1], "after": 1.9975}, at=1.0)
    assert Played(long, read(three[2], key="two", cursor="evt_1", at=3.0)).codes == []
    assert Played(long, read(three[2], key="two", cursor="evt_1", at=3.1)).codes == ["RES002"]


def test_a_replay_in_the_wrong_order_is_one_finding(three):
    assert Played(read(*three), read(three[2], three[1], cursor="evt_1", key="two")).codes == ["SEQ001"]


def test_lost_bytes_of_a_replay_may_contain_the_missing_events(three):
    played = Played(read(*three), read({"lost": 300}, three[2], cursor="evt_1", key="two"))
    assert played.codes == ["REC001"]
    assert played.verdict("RES002") is Verdict.INCONCLUSIVE


def test_an_unknown_cursor_makes_the_replay_inconclusive(three):
    played = Played(read(*three), read(three[2], cursor="evt_x", key="two"))
    assert played.codes == []
    assert {played.verdict(code) for code in ("RES001", "RES002")} == {Verdict.INCONCLUSIVE}


@for_each(("then", "now", "same"), [*TABLES["json-values"], ("9" * 4400, "9" * 4401, True)])
def test_events_are_compared_as_json_values(event, then, now, same):
    texts = [event(1, data={"x": "@"}).replace('"@"', value) for value in (then, now)]
    assert Played(read(texts[0]), read(texts[1], key="two")).codes == ([] if same else ["RES003"])


def test_a_number_that_is_too_long_to_compare_is_inconclusive(event):
    texts = [event(1, data={"x": "@"}).replace('"@"', "0." + "1" * length) for length in (5000, 5001)]
    played = Played(read(texts[0]), read(texts[1], key="two"))
    assert played.codes == []
    assert played.verdict("RES003") is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("damaged", [0, 1])
def test_bad_utf8_is_not_also_a_changed_event(event, damaged):
    """SSE001 alone reports it, whether the damaged copy or the clean one arrives first."""
    texts = [event(1, data={"x": "\xff" if number == damaged else "y"}) for number in (0, 1)]
    texts[damaged] = texts[damaged].replace("\\u00ff", "\xff")
    played = Played(read(texts[0], latin1=True), read(texts[1], latin1=True, key="two"))
    assert played.codes == ["SSE001"]
    assert played.verdict("RES003") is Verdict.INCONCLUSIVE


def test_live_output_before_the_replay_is_reported_next_to_a_repetition(three):
    resumed = read(DELTA, three[0], three[2], cursor="evt_2", key="two")
    assert Played(read(*three), resumed).codes == ["RES001", "RES004"]
    own_event = read(DELTA, three[1], three[2], cursor="evt_2", key="two")
    assert Played(read(*three), own_event).codes == ["RES001", "RES004"]


def test_a_new_event_with_a_low_sequence_is_not_a_repetition(event):
    """It is one defect, SEQ001, wherever the event arrives first and whoever reads it again."""
    first, low = [event(n) for n in (11, 12, 13)], event(4, id="evt_low", sse_id="evt_low")
    low = low.replace('"id": "evt_4"', '"id": "evt_low"')
    start = event(1)
    for resumed in ([low], [low, event(5)], [event(14), low, event(5)]):
        played = Played(read(start, *first), read(*resumed, cursor="evt_13"))
        assert [code for code in played.codes if code != "SEQ004"] == ["SEQ001"]
    again = read(low, cursor="evt_13", key="two")
    assert [c for c in Played(read(start, *first, low), again).codes if c != "SEQ004"] == ["SEQ001"]


def test_numeric_ids_may_belong_to_several_sessions(event):
    other = STREAM.replace("ses_1", "ses_2")
    played = Played(read(event(1, id="1")), read(request=other, cursor="1"))
    assert played.codes == []
    assert played.verdict("RES006") is Verdict.INCONCLUSIVE


def test_the_same_session_id_elsewhere_is_another_session(event):
    based = STREAM.replace("/v1", "/base/v1")
    assert Played(read(event(1)), read(event(1, data={"n": 1}), request=based)).codes == []


# What may have happened unseen.


def test_a_run_may_have_ended_while_nobody_listened(event):
    later = read(event(2, "run.started", run_id="run_2"), event(3, "session.status_idle"), cursor="evt_1")
    played = Played(read(event(1, "run.started")), later)
    assert played.codes == []
    assert {played.verdict(code) for code in ("RUN001", "RUN004")} == {Verdict.INCONCLUSIVE}


def test_an_unreadable_event_may_have_been_the_end_of_a_run(event):
    unclear = "event: run.completed\nid: evt_2\ndata: [\n\n"
    played = Played(read(event(1, "run.started"), unclear, event(3, "run.started", run_id="run_2")))
    assert played.codes == ["EVT001"]


def test_repeated_deltas_of_a_run_that_ended_earlier_are_no_finding(event, three):
    assert Played(read(DELTA, *three), read(DELTA, cursor="evt_3")).codes == ["RUN005"]


def test_deltas_without_a_sequence_on_another_stream_do_not_precede_the_start_of_their_run(three):
    played = Played(read(DELTA), read(*three))
    assert (played.codes, played.verdict("RUN005")) == ([], Verdict.INCONCLUSIVE)


def test_lost_bytes_are_reported_with_count_and_offset(event):
    stream = read(event(1), {"lost": 100}, event(2), {"lost": 20})
    (finding,) = Played(stream).findings
    assert (finding.code, finding.side, finding.byte_offset) == ("REC001", "recording", len(event(1)))
    assert "lacks 120 bytes" in finding.message


# How much is remembered.


def many(checker, count, event, events=2):
    """As many sessions, one after the other; nothing is found."""
    for number in range(1, count + 1):
        name = f"ses_{number}"
        body = "".join(event(n, id=f"evt_{number}_{n}", session_id=name) for n in range(1, events + 1))
        table = read(body, request=STREAM.replace("ses_1", name), at=float(number))
        found = [f for seen in observations_of({"exchange": [table]}) for f in checker.feed(at(seen, number))]
        assert found == []
        yield number


def at(seen, exchange):
    return replace(seen, exchange=exchange)


@pytest.fixture
def checker():
    """A checker that remembers few sessions."""
    checker = Checker()
    checker._traffics[0].sessions = SessionRegistry(most=200, most_events=2000)
    return checker


def test_memory_does_not_grow_with_the_number_of_sessions(event, checker):
    held = {}
    tracemalloc.start()
    try:
        for number in many(checker, 700, event, events=8):
            if number in {300, 700}:
                gc.collect()
                held[number] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(checker._traffics[0].sessions) <= 200
    assert checker._traffics[0].sessions.budget.events <= 2000
    # Of a session that was forgotten a number is left; one that is remembered takes some ten kilobytes.
    assert held[700] - held[300] < 400 * 500


def test_open_sessions_share_the_event_budget(event, checker):
    for number in range(1, 21):
        body = "".join(event(n, id=f"evt_{number}_{n}") for n in range(1, 601))
        table = read(body, request=STREAM.replace("ses_1", f"ses_{number}"), at=float(number), ending="open")
        for seen in observations_of({"exchange": [table]}):
            checker.feed(at(seen, number))
    assert len(checker._traffics[0].sessions) == 20
    assert checker._traffics[0].sessions.budget.events < 20 * 2 * LEAST_EVENTS
    assert 20 * LEAST_EVENTS / 2 < checker._traffics[0].sessions.budget.ids < 20 * 2 * LEAST_EVENTS
    checker.finish()
    assert checker._traffics[0].sessions.budget.ids == 0


@pytest.mark.parametrize(("used", "is_spent"), [(2, False), (3, True)])
def test_a_budget_is_spent_only_beyond_its_limit(used, is_spent):
    budget = EventBudget(most=2)
    budget.events += used
    budget.ids += used
    assert (budget.is_spent, budget.has_spent_ids) == (is_spent, is_spent)


def test_a_dropped_session_is_not_treated_as_new(event, checker):
    assert len(list(many(checker, 300, event, events=1))) == 300
    again = read(event(9, session_id="ses_1"), cursor="evt_1_1", at=301.0)
    found = [f for seen in observations_of({"exchange": [again]}) for f in checker.feed(at(seen, 301))]
    assert found + checker.finish() == []
    assert checker.verdicts()["RES001"] is Verdict.INCONCLUSIVE


def test_the_oldest_events_of_a_long_session_are_dropped_and_inconclusive(event, monkeypatch):
    monkeypatch.setattr(event_log, "MOST_EVENTS", 10)
    events = [event(number) for number in range(1, 31)]
    old = Played(read(*events), read(*events[5:], cursor="evt_5", key="two"))
    assert old.codes == []
    assert {old.verdict(code) for code in ("RES001", "RES002", "SEQ002")} == {Verdict.INCONCLUSIVE}
    new = Played(read(*events), read(events[29], cursor="evt_28", key="two"))
    assert new.codes == ["RES002"]
    (finding,) = Played(read(*events), read(events[29], cursor="evt_22", key="two")).findings
    assert finding.message.startswith("Expected `evt_23` and `evt_24` and `evt_25` and 4 more after"), "half are kept"


def test_ended_runs_and_calls_are_dropped_first(event):
    kept = SessionRuns(EventLog(EventBudget()))
    for number in range(3 * MOST_RUNS):
        kept.run(f"run_{number}").ended_ns = number
        kept.call(f"call_{number}").ended = number > 10
    assert len(kept.runs) <= MOST_RUNS
    assert kept.dropped_runs
    assert not kept.dropped_calls
    assert kept.run("run_0").ended_ns is None


def test_the_outcome_of_a_dropped_tool_call_is_inconclusive(event, monkeypatch):
    monkeypatch.setattr(runs, "MOST_CALLS", 2)
    outcomes = [event(number, "tool.completed", content={"tool_call_id": f"call_{number}"}) for number in range(1, 6)]
    assert Played(read(*outcomes[:2])).verdict("TOOL003") is Verdict.PASS
    assert Played(read(*outcomes)).verdict("TOOL003") is Verdict.INCONCLUSIVE


def test_a_tool_call_whose_start_was_dropped_is_not_one_without_a_start(event, monkeypatch):
    calls = [event(number, "tool.started", content={"tool_call_id": f"call_{number}"}) for number in range(2, 5)]
    ends = [event(number, "tool.completed", content={"tool_call_id": f"call_{number - 3}"}) for number in range(5, 8)]
    assert "TOOL002" in Played(read(event(1, "run.started"), *calls[1:], *ends)).codes
    monkeypatch.setattr(runs, "MOST_CALLS", 2)
    assert "TOOL002" not in Played(read(event(1, "run.started"), *calls, *ends)).codes


@for_each(
    ("content", "data", "codes"),
    [
        ({"name": "search"}, {}, []),
        ({}, {"name": "search"}, []),
        ({}, {"name": "other"}, ["TOOL004"]),
        ({"name": "other"}, {"name": "other"}, ["TOOL004"]),
    ],
)
def test_the_name_of_a_tool_is_in_content_or_data(event, content, data, codes):
    call = {"tool_call_id": "call_1"}
    calls = event(1, "agent.custom_tool_use", content={**call, "name": "search"})
    ended = event(2, "tool.failed", content={**call, **content}, data=data)
    assert Played(read(calls, ended)).codes == codes


@pytest.mark.parametrize("other", ["a.test", "z.test"])
def test_cursors_of_another_service_are_not_foreign(other):
    sessions = SessionRegistry()
    mine, same, theirs = (sessions.open(key) for key in [("m.test", "", "1"), ("m.test", "", "2"), (other, "", "3")])
    same.log.events["evt_2"] = theirs.log.events["evt_3"] = None
    assert sessions.is_foreign_cursor("evt_2", mine, "m.test")
    assert not sessions.is_foreign_cursor("evt_3", mine, "m.test")
