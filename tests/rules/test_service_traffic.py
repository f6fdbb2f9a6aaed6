"""Which exchanges are the service's own, and what applies to the others."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.contract import bases_of
from wiretape.rules import Checker, ScopeReason, Settings, Verdict, parse_service_base
from wiretape.rules.vectors import observations_of

CANCEL = "POST /v1/sessions/ses_1/runs/run_1/cancel"
ENVELOPE = '{"error":{"code":"resource_not_found","message":"No.","request_id":"req_1"}}'
JSON = ["Content-Type: application/json"]


def ask(request, status=200, body="{}", headers=(), **more):
    """A request without a key, with a response that is no event stream."""
    return {"request": request, "status": status, "headers": headers, "response_headers": JSON, "body": body} | more


def check(*exchanges, **options):
    """Return the codes found, in the order in which they were found, and the checker."""
    checker = Checker(Settings(**options))
    observations = observations_of({"exchange": list(exchanges)})
    findings = [finding for each in observations for finding in checker.feed(each)]
    return [(finding.exchange, finding.code) for finding in findings + checker.finish()], checker


def scopes(checker):
    return {count.reason: count.exchanges for count in checker.scopes()}


KEYLESS = ["AUTH001", "CLI001"]


@pytest.mark.parametrize(
    ("target", "bases"),
    [
        ("/v1", ("",)),
        ("/v1/x?y=/v1/z#/v1", ("",)),
        ("/api/agents/v1/x", ("/api/agents",)),
        ("//v1/x", ("",)),
        ("http://host/a/v1/x", ("/a",)),
        ("/a/v%31/x", ("/a",)),
        ("/gateway/v1/agents/v1/x", ("/gateway", "/gateway/v1/agents")),
        ("/v1/v1/x", ("", "/v1")),
        ("/v1" * 20_000, ("", "/v1", "/v1/v1", "/v1/v1/v1")),
        (f"/{'a' * 999}/v1/x", (f"/{'a' * 999}",)),
        (f"/{'a' * 1000}/v1/x", ()),
        (f"/v1/{'a' * 1000}/v1/x", ("",)),
        ("/v1beta/x", ()),
        ("/v2/x", ()),
        ("/", ()),
        ("*", ()),
        ("v1", ()),
        ("host:443", ()),
    ],
)
def test_a_base_path_precedes_the_interface_version(target, bases):
    assert bases_of(target) == bases


def test_without_an_operation_nothing_is_the_services():
    found, checker = check(ask("POST /v1/messages"), ask("GET /v1/x", 404, "<html>"), ask("GET /health"))
    assert found == []
    assert scopes(checker) == {ScopeReason.NO_OPERATION: 3}
    exercised = {code for code, verdict in checker.verdicts().items() if verdict is not Verdict.NOT_EXERCISED}
    assert exercised == {"REC001"}


@pytest.mark.parametrize("position", range(3))
def test_an_operation_shows_the_service_whenever_it_is_requested(position):
    others = [ask("POST /v1/sessions"), ask("GET /v1/x", 404, "<html>")]
    operation = ask(CANCEL, headers=["Authorization: Bearer key"])
    found, checker = check(*others[:position], operation, *others[position:])
    first, second = [number for number in (1, 2, 3) if number != position + 1]
    assert sorted(found) == [
        *((first, code) for code in KEYLESS),
        *((second, code) for code in ("AUTH002", "CLI001", "ERR001")),
    ]
    assert scopes(checker) == {ScopeReason.DETECTED: 3}


def test_an_operation_need_not_succeed():
    found, _ = check(ask("POST /v1/sessions"), ask(CANCEL, 404, "<html>"))
    assert sorted(found) == [*((1, code) for code in KEYLESS), *((2, code) for code in ("AUTH002", "CLI001", "ERR001"))]


def test_other_paths_and_origins_are_not_the_services():
    others = [ask("GET /health"), ask("GET /other/v1/x"), ask("POST /v1/x", authority="other.test")]
    found, checker = check(*others, ask("POST /base" + CANCEL[5:]))
    assert found == [(4, "CLI001"), (4, "AUTH001")]
    assert scopes(checker) == {ScopeReason.DETECTED: 1, ScopeReason.OUTSIDE: 2, ScopeReason.NO_OPERATION: 1}


def test_a_base_path_may_itself_contain_a_version():
    found, checker = check(ask("POST /gateway/v1/agents/v1/sessions"), ask("POST /gateway/v1/agents" + CANCEL[5:]))
    assert [code for number, code in found if number == 1] == ["CLI001", "AUTH001"]
    assert scopes(checker) == {ScopeReason.DETECTED: 2}


def test_a_configured_path_replaces_detection():
    other = ask(CANCEL), ask("POST /api/v1/sessions")
    assert {number for number, _ in check(*other)[0]} == {1}
    found, checker = check(*other, base=parse_service_base("/api/"))
    assert found == []
    assert scopes(checker) == {ScopeReason.NO_OPERATION: 2}
    found, checker = check(*other, ask("POST /api" + CANCEL[5:]), base=parse_service_base("/api"))
    assert {number for number, _ in found} == {2, 3}
    assert scopes(checker) == {ScopeReason.DETECTED: 2, ScopeReason.OUTSIDE: 1}


@pytest.mark.parametrize("url", ["http://service.test", "http://SERVICE.test:80/", "http://service.test:80"])
def test_under_a_configured_url_no_operation_is_needed(url):
    exchanges = ask("POST /v1/sessions"), ask("POST /v1/x", authority="other.test"), ask("GET /x")
    found, checker = check(*exchanges, base=parse_service_base(url))
    assert found == [(1, "CLI001"), (1, "AUTH001")]
    assert scopes(checker) == {ScopeReason.CONFIGURED: 1, ScopeReason.NO_OPERATION: 2}


@pytest.mark.parametrize(
    "text", ["", "api", "/a?b", "/a#b", "ftp://a/b", "http://", "http://a:b/", "http://u@a/", "/a b"]
)
def test_an_invalid_base_is_refused(text):
    with pytest.raises(ValueError, match="invalid base"):
        parse_service_base(text)


def test_request_ids_of_different_origins_may_be_equal():
    refused = [ask(CANCEL, 404, ENVELOPE, ["Authorization: Bearer key"], authority=host) for host in ("a", "b", "a")]
    assert check(*refused)[0] == [(3, "ERR009")]


def test_what_was_held_too_long_is_inconclusive(monkeypatch):
    monkeypatch.setattr("wiretape.rules.rule_runner._MOST_HELD", 2)
    found, checker = check(*[ask("POST /v1/sessions")] * 3, ask(CANCEL, headers=["Authorization: Bearer key"]))
    assert found == [(1, "CLI001"), (1, "AUTH001")]
    tallies = checker.tallies()
    assert (tallies["CLI001"].inconclusive, tallies["AUTH001"].inconclusive) == (2, 2)


def test_what_one_group_holds_too_much_is_inconclusive(monkeypatch):
    monkeypatch.setattr("wiretape.rules.rule_runner._MOST_HELD_OF_GROUP", 2)
    found, checker = check(*[ask("POST /v1/sessions")] * 3, ask(CANCEL, headers=["Authorization: Bearer key"]))
    assert found == [(1, "CLI001"), (1, "AUTH001")]
    assert checker.tallies()["CLI001"].inconclusive == 2


def test_what_other_groups_hold_makes_room_for_what_is_new(monkeypatch):
    monkeypatch.setattr("wiretape.rules.rule_runner._MOST_HELD", 5)
    scanned = [ask(f"POST /a{number}/v1/x") for number in range(9)]
    exchanges = [*scanned, ask("POST /v1/sessions"), ask(CANCEL, headers=["Authorization: Bearer key"])]
    found, checker = check(*exchanges, ask("POST /a0" + CANCEL[5:], headers=["Authorization: Bearer key"]))
    assert found == [(10, "CLI001"), (10, "AUTH001")]
    assert checker.tallies()["CLI001"].inconclusive == 1


def held_of(checker):
    return sum(len(group.held) for group in checker._traffic._groups.values())


def test_dropped_groups_free_the_quota_of_held_outcomes(monkeypatch):
    monkeypatch.setattr("wiretape.rules.state.service_traffic._MOST_GROUPS", 4)
    _, checker = check(*[ask("POST /v1/x", authority=f"host{number}") for number in range(20)])
    assert checker._runner._held == held_of(checker) <= 8
    assert len(checker._runner._holding) == len(checker._traffic._undecided) == len(checker._traffic._groups) <= 4


def test_an_open_exchange_of_a_dropped_group_holds_nothing(monkeypatch):
    monkeypatch.setattr("wiretape.rules.state.service_traffic._MOST_GROUPS", 2)
    traffic = observations_of({"exchange": [ask(f"POST /a{number}/v1/x", 404) for number in range(6)]})
    checker = Checker()
    for each in sorted(traffic, key=lambda each: not hasattr(each, "target")):
        checker.feed(each)
    checker.finish()
    assert checker._runner._held == held_of(checker)


def test_groups_of_the_service_are_dropped_last_and_counted(monkeypatch):
    monkeypatch.setattr("wiretape.rules.state.service_traffic._MOST_GROUPS", 4)
    keyed = ["Authorization: Bearer key"]
    others = [ask(f"GET /a{number}/v1/x") for number in range(20)]
    _, checker = check(ask(CANCEL, headers=keyed), *others)
    assert scopes(checker)[ScopeReason.DETECTED] == 1
    assert next(group.bases for group in checker._traffic._groups.values()) == ("",)
    _, checker = check(*[ask(f"POST /t{number}{CANCEL[5:]}", headers=keyed) for number in range(20)])
    assert scopes(checker) == {ScopeReason.DETECTED: 20}


def test_the_base_paths_in_use_are_kept(monkeypatch):
    monkeypatch.setattr("wiretape.rules.state.service_traffic._MOST_BASES", 3)
    keyed = ["Authorization: Bearer key"]
    tenants = [ask(f"POST /t{number}{CANCEL[5:]}", headers=keyed) for number in range(9)]
    _, checker = check(*[each for tenant in tenants for each in (ask(CANCEL, headers=keyed), tenant)])
    assert list(checker._traffic._detected) == [("service.test", base) for base in ("/t7", "", "/t8")]
    assert next(iter(checker.scopes())).text.endswith(
        "under service.test/v1 and service.test/t7/v1 and service.test/t8/v1"
    )


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_of_other_streams_only_the_framing_is_checked(coding):
    plain, doubtful = 'data: {"type":"message.delta"}\n\n', "id: a\tb\nevent: x\ndata: 1\ndata: [DONE]\n\n"
    body = f"{plain}{doubtful}retry: 0\nnew: 1\ndata: x\n\ndata: "
    headers = ["Content-Type: text/event-stream", *([f"Content-Encoding: {coding}"] if coding else [])]
    stream = {"request": "POST /v1/messages", "response_headers": headers, "headers": [], "body": body}
    found, checker = check(stream | {"status": 201})
    codes = ["SSE011", "SSE003", "SSE010", "SSE002"]
    assert [code for _, code in found] == (["SSE009", *codes] if coding else codes)
    assert checker.events == 3
    found, _ = check(stream | {"ending": "client-closed"})
    assert (1, "SSE002") not in found


def test_lost_bytes_of_other_streams_leave_their_end_unknown():
    parts = [{"text": "data: 1\n\n"}, {"lost": 5}, {"text": "x\n\ndata: "}]
    found, checker = check({"request": "GET /prices", "headers": [], "part": parts})
    assert [code for _, code in found] == ["REC001"]
    assert checker.verdicts()["SSE002"] is Verdict.INCONCLUSIVE


def test_rules_about_requests_do_not_judge_a_request_that_an_import_invented():
    body = 'event: message.delta\ndata: {"type":"message.delta","run_id":"r","delta":{"text":"a"}}\n\n'
    exchange = {"request": "GET /v1/sessions/s/events/stream?api_key=x", "headers": [], "body": body}
    assert {code for _, code in check(exchange)[0]} == {"AUTH001", "CLI001", "CLI008", "DUR007"}
    first, *rest = observations_of({"exchange": [exchange]})
    checker = Checker()
    seen = [replace(first, is_invented=True), *rest]
    assert [finding for each in seen for finding in checker.feed(each)] + checker.finish() == []
    exercised = {code[:-3] for code, verdict in checker.verdicts().items() if verdict is not Verdict.NOT_EXERCISED}
    assert exercised.isdisjoint({"AUTH", "CLI"})
    assert checker.verdicts()["DUR007"] is Verdict.NOT_EXERCISED


@pytest.mark.parametrize(("first", "codes"), [(1, ["RUN001"]), (7, ["REC002"])])
def test_an_invented_request_may_have_had_a_cursor(event, first, codes):
    events = [event(first, "run.started"), event(first + 1, "run.started", run_id="run_2")]
    exchange = {"request": "GET /v1/sessions/ses_1/events/stream", "headers": [], "body": "".join(events)}
    request, *rest = observations_of({"exchange": [exchange]})
    checker = Checker()
    seen = [replace(request, is_invented=True), *rest]
    assert [finding.code for each in seen for finding in checker.feed(each)] == codes


TRAFFIC = st.lists(
    st.builds(
        ask,
        st.sampled_from([CANCEL, "POST /api" + CANCEL[5:], "POST /v1/x", "GET /api/v1/y", "GET /z"]),
        st.sampled_from([200, 404, 502]),
        st.sampled_from(["{}", ENVELOPE]),
        st.sampled_from([[], ["Authorization: Bearer key"]]),
        authority=st.sampled_from(["a", "b"]),
    ),
    max_size=6,
)


@given(TRAFFIC, st.randoms(use_true_random=False))
def test_the_order_of_requests_makes_no_difference(exchanges, random):
    """But for request ids, of which the second one is reported."""

    def judged(each):
        found, checker = check(*each, off=frozenset({"ERR009"}))
        by_exchange = [sorted(code for number, code in found if number == at) for at in range(1, len(each) + 1)]
        return sorted(zip(map(repr, each), by_exchange, strict=True)), scopes(checker), checker.tallies()

    shuffled = random.sample(exchanges, len(exchanges))
    assert judged(exchanges) == judged(shuffled)
