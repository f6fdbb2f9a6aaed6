"""Authentication and rate limits: which requests are refused."""

import orjson
import pytest
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st
from service_contracts import SERVICE

from wiretape.contract.service_terms import Limit
from wiretape.observations import header
from wiretape_replay.access.access_settings import AccessPolicy, ApiKey
from wiretape_replay.access.auth_and_rate_limits import AccessControl
from wiretape_replay.access.contract_errors import count_request_ids
from wiretape_replay.http_server.http_messages import NO_BODY, HttpRequest

LIMITS = SERVICE.limits
SECOND = 1_000_000_000
STREAM = "/v1/sessions/s1/events/stream"
TARGETS = {"sessions": ("POST", "/v1/sessions"), "runs": ("POST", "/v1/sessions/s1/runs"), "events": ("GET", STREAM)}
SMALL = {"sessions": Limit(1, 60), "runs": Limit(2, 60), "events": Limit(3, 60)}
KEYS = {"a": ApiKey("acme"), "b": ApiKey("bold")}


def asked(key="a", method="GET", target=STREAM, more=()):
    headers = ((("Authorization", f"Bearer {key}"),) if key else ()) + tuple(more)
    return HttpRequest(method, target, NO_BODY, headers)


def guard(service, workspace_of=lambda _: None):
    return AccessControl(service, SERVICE, count_request_ids(), workspace_of)


def outcome(answer):
    """The status and the code of a refusal; None if the request is not refused."""
    return answer and (answer.status, orjson.loads(answer.body)["error"]["code"])


MISSING = (401, "authentication_required")
DENIED = (403, "permission_denied")
ELSEWHERE = (404, "resource_not_found")
TOO_OFTEN = (429, "RATE_LIMITED")


def test_by_default_any_key_is_valid_but_one_is_required():
    default = guard(AccessPolicy())
    assert outcome(default.refusal(asked(None), 0)) == MISSING
    assert [outcome(default.refusal(asked("anything"), 0)) for _ in range(1000)] == [None] * 1000


@for_each("value", ["a", "Basic a", "Bearer", "Bearer ", "Token a"])
def test_only_bearer_keys_count(value):
    request = asked(None, more=[("authorization", value)])
    assert outcome(guard(AccessPolicy()).refusal(request, 0)) == MISSING
    assert outcome(guard(AccessPolicy(keys=KEYS)).refusal(request, 0)) == MISSING


def test_an_unknown_key_is_invalid():
    assert guard(AccessPolicy(keys=KEYS, authentication=False)).refusal(asked(None), 0) is None
    known = guard(AccessPolicy(keys=KEYS))
    assert outcome(known.refusal(asked("c"), 0)) == MISSING
    assert outcome(known.refusal(asked("A"), 0)) == MISSING
    assert known.refusal(asked("a"), 0) is None
    assert known.refusal(asked(None, more=[("AUTHORIZATION", "bearer a")]), 0) is None
    assert outcome(known.refusal(asked("a", more=[("Authorization", "Bearer b")]), 0)) == MISSING


def test_a_preflight_request_needs_no_key():
    preflight = asked(None, "OPTIONS", more=[("Access-Control-Request-Method", "GET")])
    assert guard(AccessPolicy(keys=KEYS)).refusal(preflight, 0) is None
    assert outcome(guard(AccessPolicy(keys=KEYS)).refusal(asked(None, "OPTIONS"), 0)) == MISSING


def test_a_missing_scope_is_named():
    scoped = guard(AccessPolicy(keys={"a": ApiKey(scopes=frozenset({"runs:write"}))}))
    answer = scoped.refusal(asked("a"), 0)
    assert outcome(answer) == DENIED
    assert "events:read" in orjson.loads(answer.body)["error"]["message"]
    assert scoped.refusal(asked("a", *TARGETS["runs"]), 0) is None
    assert scoped.refusal(asked("a", "GET", "/v1/other"), 0) is None


def test_sessions_of_other_workspaces_are_not_found():
    keys = {"one": ApiKey(workspace="ws_1"), "all": ApiKey()}
    theirs = {"s1": "ws_1", "s2": "ws_2", "s4": "ws_2"}
    guarded = guard(AccessPolicy(keys=keys, workspaces={"s4": "ws_1"}), theirs.get)

    def ask(key, session):
        return outcome(guarded.refusal(asked(key, target=f"/v1/sessions/{session}/events/stream"), 0))

    assert [ask("one", session) for session in ("s1", "s2", "s3", "s4")] == [None, ELSEWHERE, None, None]
    assert [ask("all", session) for session in ("s1", "s2", "s3", "s4")] == [None] * 4
    assert outcome(guarded.refusal(asked("one", "POST", "/v1/sessions/s2/runs"), 0)) == ELSEWHERE


def test_refusals_come_in_the_order_of_their_status():
    keys = {"a": ApiKey(workspace="ws_1", scopes=frozenset({"events:read"}))}
    strict = guard(AccessPolicy(keys=keys, limits={"events": Limit(1, 60)}), lambda _: "ws_2")
    assert outcome(strict.refusal(asked(None), 0)) == MISSING
    assert outcome(strict.refusal(asked("a", *TARGETS["runs"]), 0)) == DENIED
    assert outcome(strict.refusal(asked("a"), 0)) == ELSEWHERE
    assert outcome(strict.refusal(asked("a"), 0)) == TOO_OFTEN


@pytest.mark.parametrize("name", LIMITS)
def test_the_published_limits_are_exact(name):
    published = guard(AccessPolicy(limits=LIMITS))
    limit = LIMITS[name]
    request = asked("x", *TARGETS[name])
    assert [published.refusal(request, SECOND * 7) for _ in range(limit.requests)] == [None] * limit.requests
    answer = published.refusal(request, SECOND * 17)
    error = orjson.loads(answer.body)["error"]
    assert error["details"] == {"limit": limit.requests, "window_seconds": 60, "retry_after": 50}
    assert header(answer.headers, "retry-after") == "50"
    assert name in error["message"]


def test_a_tenant_can_have_its_own_limits():
    granted = guard(AccessPolicy(keys=KEYS, limits=SMALL, tenant_limits={"bold": {**SMALL, "sessions": Limit(2, 60)}}))
    assert [outcome(granted.refusal(asked("a", *TARGETS["sessions"]), 0)) for _ in range(2)] == [None, TOO_OFTEN]
    assert [outcome(granted.refusal(asked("b", *TARGETS["sessions"]), 0)) for _ in range(3)] == [None, None, TOO_OFTEN]


pauses = st.sampled_from([0, SECOND, 20 * SECOND, 59 * SECOND, 60 * SECOND]) | st.integers(0, 5 * SECOND)
requests = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(list(SMALL)), pauses), max_size=60)


def served(requests):
    """The times at which requests were served, by key and limit."""
    guarded, now, moments = guard(AccessPolicy(keys=KEYS, limits=SMALL)), 0, []
    for key, name, pause in requests:
        now += pause
        moments.append((key, name, now, guarded.refusal(asked(key, *TARGETS[name]), now) is None))
    return moments


@given(requests)
def test_no_window_ever_holds_more_than_the_limit(requests):
    good = [(key, name, now) for key, name, now, is_served in served(requests) if is_served]
    for key, name, since in good:
        window = [now for *who, now in good if who == [key, name] and since <= now < since + 60 * SECOND]
        assert len(window) <= SMALL[name].requests


@given(requests)
def test_tenants_and_limits_do_not_influence_each_other(requests):
    together = served(requests)
    for key in KEYS:
        for name in SMALL:
            # The same requests at the same times, without those of others.
            alone, last = [], 0
            for who, what, now, _ in together:
                if (who, what) == (key, name):
                    alone.append((who, what, now - last))
                    last = now
            assert served(alone) == [moment for moment in together if moment[:2] == (key, name)]


@given(requests, st.sampled_from(list(SMALL)))
def test_a_client_is_served_after_retry_after_and_not_a_second_earlier(requests, name):
    guarded, now = guard(AccessPolicy(keys=KEYS, limits=SMALL)), 0
    for key, what, pause in requests:
        now += pause
        guarded.refusal(asked(key, *TARGETS[what]), now)
    request = asked("a", *TARGETS[name])
    answer = guarded.refusal(request, now)
    if answer is None:
        return
    wait = int(header(answer.headers, "Retry-After"))
    assert 1 <= wait <= 60
    assert outcome(guarded.refusal(request, now + (wait - 1) * SECOND)) == TOO_OFTEN
    assert guarded.refusal(request, now + wait * SECOND) is None


@for_each(("after_ns", "wait"), [(0, 60), (1, 60), (SECOND, 59), (60 * SECOND - 1, 1)])
def test_the_wait_is_rounded_up_to_whole_seconds(after_ns, wait):
    guarded = guard(AccessPolicy(keys=KEYS, limits=SMALL))
    request = asked("a", *TARGETS["sessions"])
    assert guarded.refusal(request, 5) is None
    assert header(guarded.refusal(request, 5 + after_ns).headers, "Retry-After") == str(wait)
    assert guarded.refusal(request, 5 + 60 * SECOND) is None, "a refused request does not count"
    assert outcome(guarded.refusal(request, 5 + 60 * SECOND)) == TOO_OFTEN
    guarded.reset()
    assert guarded.refusal(request, 5 + 60 * SECOND) is None


def test_every_refusal_has_its_own_request_id():
    guarded = guard(AccessPolicy(limits=SMALL))
    answers = [guarded.refusal(asked(key, *TARGETS["sessions"]), 0) for key in (None, "a", "a", None)]
    ids = [orjson.loads(answer.body)["error"]["request_id"] for answer in answers if answer]
    assert ids == ["wiretape-1", "wiretape-2", "wiretape-3"]
