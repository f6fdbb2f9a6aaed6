"""Which exchanges are the service's own, and what applies to the others."""

from dataclasses import replace

import pytest
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from wiretape.addresses import join_upstreams
from wiretape.checker import Checker, Settings
from wiretape.rules import ScopeReason, Verdict, parse_service_base
from wiretape.rules.vectors import observations_of
from wiretape_contracts.agent_sessions import INTERFACE, SESSION_PARTS, SESSIONS, bases_of

TABLES = read_tables(__file__)

CANCEL = "POST /v1/sessions/ses_1/runs/run_1/cancel"
ENVELOPE = '{"error":{"code":"resource_not_found","message":"No.","request_id":"req_1"}}'
JSON = ["Content-Type: application/json"]
KEYED = ["Authorization: Bearer key"]
ORIGIN = "http://service.test"


def ask(request, status=200, body="{}", headers=(), **more):
    """A request without a key, with a response that is no event stream."""
    return {"request": request, "status": status, "headers": headers, "response_headers": JSON, "body": body} | more


def check(*exchanges, upstream=ORIGIN, **options):
    """Return the codes found, in the order in which they were found, and the checker."""
    checker = Checker(Settings(**options), upstream=upstream)
    observations = observations_of({"exchange": list(exchanges)})
    findings = [finding for each in observations for finding in checker.feed(each)]
    return [(finding.exchange, finding.code) for finding in findings + checker.finish()], checker


def scopes(checker):
    return {count.reason: count.exchanges for count in checker.scopes()}


def is_judged(target, upstream, base):
    """Whether the rules of the specification judge a request without a key."""
    found, checker = check(ask(f"GET {target}"), upstream=upstream, base=base and parse_service_base(base))
    (count,) = checker.scopes()
    assert count.reason.is_service is bool(found)
    return bool(found)


@for_each(
    ("target", "bases"),
    [
        *TABLES["base-paths"],
        ("/v1" * 20_000, ["", "/v1", "/v1/v1", "/v1/v1/v1"]),
        (f"/{'a' * 999}/v1/x", [f"/{'a' * 999}"]),
        (f"/{'a' * 1000}/v1/x", []),
        (f"/v1/{'a' * 1000}/v1/x", [""]),
    ],
)
def test_a_base_path_precedes_the_interface_version(target, bases):
    assert list(bases_of(target, INTERFACE)) == bases


@for_each(("target", "below_sessions", "below_session"), TABLES["below-sessions"])
def test_what_is_below_sessions_is_decided_by_whole_segments(target, below_sessions, below_session):
    assert list(bases_of(target, SESSIONS)) == below_sessions
    assert list(bases_of(target, *SESSION_PARTS)) == below_session


TARGETS = ["/v1/sessions", "/v1/sessions/s", "/v1/sessions/s/runs", "/v1/sessions/s/events/stream", "/v1/x", "/health"]


@for_each("row", TABLES["judged"].values(), ids=TABLES["judged"])
def test_the_path_alone_decides_what_is_the_services(row):
    targets = [row.get("prefix", "") + target for target in TARGETS]
    judged = ["x" if is_judged(target, row.get("upstream"), row.get("base")) else "." for target in targets]
    assert "".join(judged) == row["judged"]


BROKEN = {
    "AUTH001": ask("POST /v1/sessions", 201),
    "BUSY001": ask(
        "POST /v1/sessions",
        409,
        '{"error":{"code":"SESSION_BUSY","message":"No.","request_id":"req_1"}}',
        headers=KEYED,
    ),
    "CLI008": ask("POST /v1/sessions?api_key=secret", 201, headers=KEYED),
    "ERR001": ask("POST /v1/sessions", 500, "<html>", headers=KEYED),
    "RATE001": ask(
        "POST /v1/sessions",
        429,
        '{"error":{"code":"RATE_LIMITED","message":"No.","request_id":"req_1","retry_after":3}}',
        headers=KEYED,
    ),
}


@for_each("code", BROKEN)
@for_each("request_line", ["POST /v1/sessions", "POST /v1/sessions/ses_1/runs"])
def test_a_recording_of_one_creation_is_judged(code, request_line):
    exchange = BROKEN[code] | {"request": BROKEN[code]["request"].replace("POST /v1/sessions", request_line)}
    found, checker = check(exchange)
    assert code in {code for _, code in found}
    assert scopes(checker) == {ScopeReason.UPSTREAM: 1}
    found, _ = check(exchange, upstream="")
    assert bool(found) is request_line.endswith("/runs")


def test_findings_are_made_as_soon_as_the_exchange_shows_them():
    checker = Checker(upstream=ORIGIN)
    request, *rest = observations_of({"exchange": [ask("POST /v1/sessions", 500, "<html>")]})
    assert [finding.code for finding in checker.feed(request)] == ["CLI001"]
    codes = [[finding.code for finding in checker.feed(each)] for each in rest]
    assert sorted(codes[-1]) == ["AUTH002", "ERR001"]


def test_each_exchange_is_counted_with_the_reason():
    exchanges = ask("POST /v1/sessions"), ask(CANCEL, authority="other.test"), ask("GET /health")
    _, checker = check(*exchanges)
    assert [(count.exchanges, count.text) for count in checker.scopes()] == [
        (1, "their paths are under /v1/sessions on the upstream"),
        (1, "their paths are under /v1/sessions/{session_id}/events or /v1/sessions/{session_id}/runs"),
        (1, "their paths are not under /v1/sessions on the upstream"),
    ]
    _, checker = check(*exchanges, upstream="")
    assert [count.exchanges for count in checker.scopes()] == [1, 2]
    _, checker = check(*exchanges, base=parse_service_base("http://service.test"))
    assert [(count.exchanges, count.text) for count in checker.scopes()] == [
        (1, "their paths are under the configured base http://service.test:80/v1"),
        (2, "their paths are not under the configured base http://service.test:80/v1"),
    ]


def test_a_session_is_created_under_the_base_path_of_the_request(event):
    stream = {"request": "GET /api/v1/sessions/ses_1/events/stream", "body": event(5, "run.started")}
    created = ask("POST /api/v1/sessions", 201, '{"id":"ses_1"}', headers=KEYED)
    elsewhere = created | {"request": "POST /other/v1/sessions"}
    assert check(elsewhere, stream)[0] == [(2, "REC002")]
    assert (2, "REC002") not in check(created, stream)[0]


def test_upstreams_are_joined_once_each():
    assert join_upstreams(["http://a", "", "http://b, http://a"]) == "http://a, http://b"
    assert join_upstreams([""]) == ""


@for_each("text", ["", "api", "/a?b", "/a#b", "ftp://a/b", "http://", "http://a:b/", "http://u@a/", "/a b"])
def test_an_invalid_base_is_refused(text):
    with pytest.raises(ValueError, match="invalid base"):
        parse_service_base(text)


def test_request_ids_of_different_origins_may_be_equal():
    refused = [ask(CANCEL, 404, ENVELOPE, KEYED, authority=host) for host in ("a", "b", "a")]
    assert check(*refused)[0] == [(3, "ERR009")]


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
        st.sampled_from([CANCEL, "POST /api" + CANCEL[5:], "POST /v1/sessions", "GET /api/v1/sessions/y", "GET /z"]),
        st.sampled_from([200, 404, 502]),
        st.sampled_from(["{}", ENVELOPE]),
        st.sampled_from([[], KEYED]),
        authority=st.sampled_from(["service.test", "b"]),
    ),
    max_size=6,
)


@given(TRAFFIC, st.sampled_from([ORIGIN, "", None]), st.randoms(use_true_random=False))
def test_the_order_of_requests_makes_no_difference(exchanges, upstream, random):
    """But for request ids, of which the second one is reported."""

    def judged(each):
        found, checker = check(*each, upstream=upstream, off=frozenset({"ERR009"}))
        by_exchange = [sorted(code for number, code in found if number == at) for at in range(1, len(each) + 1)]
        return sorted(zip(map(repr, each), by_exchange, strict=True)), scopes(checker), checker.tallies()

    shuffled = random.sample(exchanges, len(exchanges))
    assert judged(exchanges) == judged(shuffled)
