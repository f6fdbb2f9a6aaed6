"""Answers in the service's envelope, judged by the rules that the service itself is judged by."""

from urllib.parse import quote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.agent_sessions import ERROR_CODES, LIMITS
from wiretape.agent_sessions.schemas import ERROR_ENVELOPE, ERROR_SCHEMAS
from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.rules import Checker, Party
from wiretape_replay.access.error_envelope import ActiveRun, ErrorDetail, error_response
from wiretape_replay.generated_ids import RequestIdCounter

BUSY, LIMITED = "SESSION_BUSY", "RATE_LIMITED"
RUN = ActiveRun("s1", "r1")
CLOSED = {BUSY, LIMITED, "SANDBOX_PROVISION_FAILED"}

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
ids = st.text(st.sampled_from("aZ_%/~ ?ü\n") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
reason = st.builds(ErrorDetail, text, text)


def found_in(answer, target="/v1/anything", key="Bearer k"):
    """What the checker has against an answer."""
    checker = Checker()
    headers = (("Content-Type", answer.content_type), *answer.headers)
    size = len(answer.body)
    exchange = [
        RequestStarted(1, 1, "::1", "POST", "http", "t", target, "HTTP/1.1", (("Authorization", key),) if key else ()),
        RequestEnded(1, 2),
        ResponseStarted(1, 3, answer.status, "", "HTTP/1.1", headers),
        BytesArrived(1, Side.RESPONSE, 0, answer.body, (size,), (4,)),
        ExchangeEnded(1, 5, Ending.COMPLETE),
    ]
    return [*(finding for seen in exchange for finding in checker.feed(seen)), *checker.finish()]


def against_the_service(answer, **asked):
    return [(finding.code, finding.message) for finding in found_in(answer, **asked) if finding.side is Party.SERVICE]


@given(
    code=st.sampled_from(list(ERROR_CODES)),
    message=st.none() | text,
    active=st.builds(ActiveRun, ids, ids, ids, st.sampled_from(["", "/agents"])),
    limit=st.sampled_from(list(LIMITS.values())),
    retry_after=st.none() | st.integers(0, 10_000),
    reasons=st.lists(reason, max_size=3),
)
def test_whatever_it_is_asked_to_say_it_keeps_the_schemas_and_every_rule(
    code, message, active, limit, retry_after, reasons
):
    reasons = [] if code in CLOSED else reasons
    answer = error_response(code, message, "q", active=active, limit=limit, retry_after=retry_after, reasons=reasons)
    document = orjson.loads(answer.body)
    assert (answer.status, document["error"]["code"]) == (ERROR_CODES[code].status, code)
    assert document["error"]["message"]
    assert ERROR_SCHEMAS.get(code, ERROR_ENVELOPE).violations(document) == ()
    target = f"/v1/sessions/{quote(active.session_id, safe='')}/runs"
    assert against_the_service(answer, target=target, key=None if answer.status == 401 else "Bearer k") == []


def test_a_busy_session_names_the_run_and_what_can_be_done_about_it():
    error = orjson.loads(
        error_response(BUSY, None, "q", active=ActiveRun("s/1", "r 1", "waiting_for_input", "/api")).body
    )
    assert error["error"] == {
        "code": BUSY,
        "message": "Session s/1 has an active run: r 1 is waiting_for_input.",
        "request_id": "q",
        "active_run_id": "r 1",
        "active_run_status": "waiting_for_input",
        "recovery": [
            "POST /api/v1/sessions/s%2F1/runs/r%201/cancel",
            "POST /api/v1/sessions/s%2F1/runs/r%201/resume",
        ],
    }


def test_a_message_of_ones_own_about_a_busy_session_is_completed_where_it_names_too_little():
    def message(own):
        return orjson.loads(error_response(BUSY, own, "q", active=RUN).body)["error"]["message"]

    assert message("s1: r1 waiting_for_input") == "s1: r1 waiting_for_input"
    assert message("Not now.") == "Not now. Session s1 has an active run: r1 is waiting_for_input."


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("session_busy", {}),
        (BUSY, {}),
        *((code, {"active": RUN, "reasons": [ErrorDetail("a", "b")]}) for code in sorted(CLOSED - {BUSY})),
    ],
)
def test_what_cannot_be_said_is_not(code, more):
    with pytest.raises(ValueError, match=r"Unknown error code|needs|takes no reasons"):
        error_response(code, None, "q", **more)


def test_request_ids_are_counted():
    numbers = RequestIdCounter()
    assert [numbers.next() for _ in range(3)] == ["wiretape-1", "wiretape-2", "wiretape-3"]
