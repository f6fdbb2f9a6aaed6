"""Answers in the service's envelope, judged by the rules that the service itself is judged by."""

from urllib.parse import quote

import orjson
from hypothesis import given
from hypothesis import strategies as st
from service_contracts import SERVICE

from wiretape import check
from wiretape.contract.contract_tables import ErrorCase
from wiretape.contract.service_terms import Limit
from wiretape.rules import Party
from wiretape.traffic_builder import TrafficBuilder
from wiretape_contracts.agent_sessions import ERROR_CODES
from wiretape_contracts.agent_sessions.schemas import ERROR_ENVELOPE, ERROR_SCHEMAS
from wiretape_replay.access.auth_and_rate_limits import limit_values
from wiretape_replay.access.contract_errors import error_response, refuse

BUSY, LIMITED = "SESSION_BUSY", "RATE_LIMITED"
ERRORS = SERVICE.main.errors
CLOSED = {BUSY, LIMITED, "SANDBOX_PROVISION_FAILED"}

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
ids = st.text(st.sampled_from("aZ_%/~ ?ü\n") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
details = st.lists(st.fixed_dictionaries({"path": text, "reason": text}), min_size=1, max_size=3)


def found_in(answer, target="/v1/anything", has_key=True):
    """What the checker has against an answer."""
    traffic = TrafficBuilder()
    headers = (("Content-Type", answer.content_type), *answer.headers)
    request = traffic.request("POST", target, headers={} if has_key else {"Authorization": ""})
    request.respond(answer.status, headers=headers, body=answer.body)
    return check(traffic.observations()).findings


def against_the_service(answer, **asked):
    return [(finding.code, finding.message) for finding in found_in(answer, **asked) if finding.side is Party.SERVICE]


@given(
    code=st.sampled_from(list(ERROR_CODES)),
    message=st.none() | text,
    session=ids,
    run=st.none() | ids,
    base=st.sampled_from(["", "/agents"]),
    limit=st.sampled_from(list(SERVICE.limits.values())),
    retry_after=st.integers(0, 10_000),
    details=st.none() | details,
)
def test_errors_of_the_service_keep_its_schemas_and_every_rule(
    code, message, session, run, base, limit, retry_after, details
):
    values = {
        "session_id": session,
        "base": base,
        **limit_values(limit, retry_after),
        **({"run_id": run} if run else {}),
    }
    fields = {"details": details} if details and code not in CLOSED else {}
    answer = error_response(ERRORS, code, message, "q", values=values, fields=fields)
    document = orjson.loads(answer.body)
    assert (answer.status, document["error"]["code"]) == (ERROR_CODES[code], code)
    assert document["error"]["message"]
    assert ERROR_SCHEMAS.get(code, ERROR_ENVELOPE).is_valid(document)
    target = f"/v1/sessions/{quote(session, safe='')}/runs"
    assert against_the_service(answer, target=target, has_key=answer.status != 401) == []


def test_a_busy_session_names_the_run_and_what_can_be_done_about_it():
    values = {"session_id": "s/1", "run_id": "r 1", "base": "/api"}
    assert orjson.loads(error_response(ERRORS, BUSY, None, "q", values=values).body)["error"] == {
        "code": BUSY,
        "message": "Session s/1 has an active run: r 1 is waiting_for_input.",
        "request_id": "q",
        "active_run_id": "r 1",
        "active_run_status": "waiting_for_input",
        "recovery": ["POST /api/v1/sessions/s%2F1/runs/r%201/cancel", "POST /api/v1/sessions/s%2F1/runs/r%201/resume"],
    }


def test_a_message_of_ones_own_about_a_busy_session_is_completed_where_it_names_too_little():
    def message(own):
        values = {"session_id": "s1", "run_id": "r1"}
        return orjson.loads(error_response(ERRORS, BUSY, own, "q", values=values).body)["error"]["message"]

    assert message("s1: r1 waiting_for_input") == "s1: r1 waiting_for_input"
    assert message("Not now.") == "Not now. Session s1 has an active run: r1 is waiting_for_input."


def test_without_an_envelope_refusals_are_plain_text():
    refusal = refuse(None, ErrorCase.NO_KEY, "Send a key.", "q")
    assert (refusal.status, refusal.body, refusal.content_type) == (401, b"Send a key.\n", "text/plain; charset=utf-8")
    assert refusal.headers == (("WWW-Authenticate", "Bearer"),)
    limited = refuse(None, ErrorCase.LIMIT, "Wait.", "q", values=limit_values(Limit(1, 9), 7))
    assert (limited.status, limited.headers) == (429, (("Retry-After", "7"),))
