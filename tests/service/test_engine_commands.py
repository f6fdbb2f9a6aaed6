"""Commands: what they do to runs, and the codes they are refused with."""

import sys
from pathlib import Path

import pytest
from for_each import for_each
from service_contracts import SERVICE
from stages import document_of

from wiretape_contracts.agent_sessions.stand_in.run_commands import Refusal

SECOND = 1_000_000_000
ASKS = """
[[tool]]
name = "w"
input = { type = "object", required = ["city"] }
output = { type = "object", required = ["n"], properties = { n.type = "integer", own.type = "boolean" } }
[[run]]
steps = [{ ask = "w", input = { city = "Lisbon" }, deadline = 60 }, { wait = 5 }]
"""
WAITS = "[[run]]\nsteps = [{ wait-for-input = true, deadline = 60 }, { wait = 5 }]"
LONG = '[[run]]\nsteps = [{ tool = "t", takes = 100 }]'


def refused(call, *given):
    with pytest.raises(Refusal) as caught:
        call(*given)
    refusal = caught.value
    answer = refusal.respond(SERVICE.main.errors, "req_1")
    assert answer.status >= 400
    return refusal


def paths(refusal):
    return [reason.path for reason in refusal.reasons]


def types(engine, now_ns):
    return [document_of(entry)["type"] for entry in engine.advance(now_ns)]


@pytest.fixture
def asking(engine):
    """A session whose run has waited for the result of an application tool since its first second."""
    played = engine(ASKS)
    played.create_run({}, 0)
    played.last = document_of(played.advance(SECOND)[-1])
    return played


def call_of(played):
    return played.active.waits[0].tool_call_id


def test_a_run_waits_for_the_result_of_an_application_tool(asking):
    run = asking.active
    assert run.status == "waiting_for_input"
    (waiting,) = run.waits
    assert (waiting.call.name, waiting.call.input) == ("w", {"city": "Lisbon"})
    assert waiting.deadline_ns == 60 * SECOND + 150_000_000
    assert (asking.last["type"], asking.last["content"]["deadline"]) == (
        "agent.custom_tool_use",
        "2026-01-01T00:01:00.150000Z",
    )
    assert asking.due_ns() == waiting.deadline_ns

    last_ns = waiting.deadline_ns - 1
    resumed = asking.resume(run.id, {"tool_call_id": waiting.tool_call_id, "output": {"n": 3}}, last_ns)
    assert (resumed.status, resumed.waits) == ("running", [])
    (completed,) = asking.advance(last_ns)
    assert document_of(completed)["content"]["output"] == {"n": 3}
    assert completed.time_ns == last_ns
    assert types(asking, 99 * SECOND) == ["run.completed", "session.status_idle"]
    assert asking.run(run.id).status == "completed"


def test_an_application_can_report_that_a_tool_failed(asking):
    asking.resume(asking.active.id, {"tool_call_id": call_of(asking), "error": "No network."}, 2 * SECOND)
    (failed,) = asking.advance(2 * SECOND)
    assert document_of(failed)["type"] == "tool.failed"
    assert document_of(failed)["content"]["error"] == {"message": "No network."}
    assert types(asking, 99 * SECOND)[0] == "run.completed"


BAD_RESULTS = {
    "not an object": ([1], "output"),
    "none": (None, "output"),
    "a field missing": ({}, "output"),
    "a field of another type": ({"n": "x"}, "output.n"),
    "several fields of other types": ({"n": "x", "own": 1}, "output.n output.own"),
}


@pytest.mark.parametrize(("output", "path"), BAD_RESULTS.values(), ids=BAD_RESULTS)
def test_a_run_keeps_waiting_after_a_result_that_does_not_match(asking, output, path):
    call = call_of(asking)
    for _ in range(3):
        refusal = refused(asking.resume, asking.active.id, {"tool_call_id": call, "output": output}, 2 * SECOND)
        assert (refusal.code, paths(refusal)) == ("tool_result_invalid", path.split())
        assert asking.active.status == "waiting_for_input"
    assert asking.advance(2 * SECOND) == []
    assert asking.resume(asking.active.id, {"tool_call_id": call, "output": {"n": 1}}, 3 * SECOND).status == "running"


def test_a_tool_without_a_schema_accepts_any_object(engine):
    played = engine('[[run]]\nsteps = [{ ask = "w" }]')
    played.create_run({}, 0)
    played.advance(SECOND)
    body = {"tool_call_id": call_of(played), "output": 1}
    assert refused(played.resume, played.active.id, body, SECOND).code == "tool_result_invalid"
    assert played.resume(played.active.id, body | {"output": {}}, SECOND).status == "running"


def test_a_second_result_is_refused_even_after_the_run(asking):
    run, body = asking.active.id, {"tool_call_id": call_of(asking), "output": {"n": 1}}
    asking.resume(run, body, 2 * SECOND)
    assert refused(asking.resume, run, body, 3 * SECOND).code == "event_already_resolved"
    assert refused(asking.resume, run, body, 99 * SECOND).code == "event_already_resolved"
    assert asking.run(run).status == "completed"


def test_a_missed_deadline_fails_the_run_and_late_results_are_refused(asking):
    run, body = asking.active.id, {"tool_call_id": call_of(asking), "output": {"n": 1}}
    deadline_ns = asking.active.waits[0].deadline_ns
    found = asking.advance(deadline_ns)
    assert [document_of(entry)["type"] for entry in found] == ["tool.failed", "run.failed", "session.status_idle"]
    assert {entry.time_ns for entry in found} == {deadline_ns}
    assert document_of(found[1])["content"]["error"]["code"] == "event_expired"
    for body_of_late in (body, {**body, "output": "bad"}):
        assert refused(asking.resume, run, body_of_late, deadline_ns).code == "event_expired"
    assert asking.create_run({}, deadline_ns).status == "running"


def test_an_unavailable_runtime_refuses_valid_results_as_often_as_scripted(engine):
    played = engine('[[run]]\nsteps = [{ ask = "w", unavailable = 2 }]')
    played.create_run({}, 0)
    played.advance(SECOND)
    run, call = played.active.id, call_of(played)
    good, bad = {"tool_call_id": call, "output": {}}, {"tool_call_id": call, "output": 1}
    codes = [refused(played.resume, run, body, SECOND).code for body in (bad, good, bad, good)]
    assert codes == ["tool_result_invalid", "runtime_resume_unavailable"] * 2
    assert played.active.status == "waiting_for_input"
    assert played.resume(run, good, SECOND).status == "running"


def test_a_run_that_waits_for_input_accepts_anything(engine):
    played = engine(WAITS)
    run = played.create_run({}, 0).id
    assert types(played, SECOND) == ["run.started"]
    assert played.active.status == "waiting_for_input"
    assert played.active.waits[0].tool_call_id is None
    assert played.resume(run, {"input": None}, SECOND).status == "running"
    assert refused(played.resume, run, {"input": 1}, SECOND).code == "run_not_resumable"
    assert types(played, 99 * SECOND) == ["run.completed", "session.status_idle"]
    run = played.create_run({}, 100 * SECOND).id
    assert types(played, 200 * SECOND) == ["run.started", "run.failed", "session.status_idle"]
    assert refused(played.resume, run, {"input": 1}, 200 * SECOND).code == "run_not_resumable"


def test_a_run_that_does_not_wait_cannot_be_resumed(engine):
    played = engine(LONG)
    run = played.create_run({}, 0).id
    for now_s in (0, 1, 500):
        for body in ({"input": 1}, {"tool_call_id": "call_x", "output": {}}):
            assert refused(played.resume, run, body, now_s * SECOND).code == "run_not_resumable"


@pytest.mark.parametrize("body", [{}, {"tool_call_id": 1}, {"tool_call_id": "call_x"}, {"input": 1}])
def test_the_state_is_checked_before_the_body(asking, engine, body):
    run, right = asking.active.id, {"tool_call_id": call_of(asking), "output": {"n": 1}}
    assert refused(asking.create_run, {**dict(body), "tools": 1}, 2 * SECOND).code == "SESSION_BUSY"
    asking.cancel(run, 2 * SECOND)
    for each in (body, right):
        assert refused(asking.resume, run, each, 3 * SECOND).code == "run_not_resumable"
    played = engine(LONG)
    assert refused(played.resume, played.create_run({}, 0).id, body, SECOND).code == "run_not_resumable"


INVALID_RESUMES = {
    "nothing": ({}, ["tool_call_id"]),
    "id is not a string": ({"tool_call_id": 1, "output": {}}, ["tool_call_id"]),
    "neither output nor error": ({"tool_call_id": "x"}, ["output"]),
    "both": ({"tool_call_id": "x", "output": {}, "error": "x"}, ["output"]),
    "error is not a string": ({"tool_call_id": "x", "error": {}}, ["error"]),
    "error is empty": ({"tool_call_id": "x", "error": ""}, ["error"]),
    "another call": ({"tool_call_id": "x", "output": {}}, ["tool_call_id"]),
    "input for a call": ({"input": 1}, ["tool_call_id"]),
    "a number that is too large": ({"tool_call_id": "x", "output": {"n": 2**80}}, ["output"]),
    "half a surrogate pair": ({"tool_call_id": "x", "error": "\ud800"}, ["error"]),
}


@pytest.mark.parametrize(("body", "where"), INVALID_RESUMES.values(), ids=INVALID_RESUMES)
def test_an_invalid_body_of_a_resume_is_refused(asking, body, where):
    refusal = refused(asking.resume, asking.active.id, body, 2 * SECOND)
    assert (refusal.code, paths(refusal)) == ("invalid_request", where)
    assert asking.active.status == "waiting_for_input"


def test_a_result_nested_too_deeply_is_refused(asking):
    deep = {}
    for _ in range(sys.getrecursionlimit() // 2):
        deep = {"n": deep}
    body = {"tool_call_id": call_of(asking), "output": deep}
    assert refused(asking.resume, asking.active.id, body, SECOND).code == "invalid_request"


def test_a_call_of_a_service_tool_cannot_be_resumed(engine):
    played = engine(LONG)
    played.create_run({}, 0)
    call = document_of(played.advance(SECOND)[-1])["content"]["tool_call_id"]
    body = {"tool_call_id": call, "output": {}}
    assert refused(played.resume, played.active.id, body, SECOND).code == "run_not_resumable"


def test_a_session_has_one_active_run(asking):
    run = asking.active
    refusal = refused(asking.create_run, {}, 2 * SECOND)
    assert refusal.code == "SESSION_BUSY"
    assert (refusal.active.session_id, refusal.active.run_id) == ("ses_1", run.id)
    assert refusal.active.status == "waiting_for_input"
    assert all(word in refusal.message for word in ("ses_1", run.id, "waiting_for_input"))
    asking.cancel(run.id, 3 * SECOND)
    assert asking.create_run({}, 3 * SECOND).status == "running"
    assert refused(asking.create_run, {}, 3 * SECOND).active.status == "running"


def test_a_run_is_active_before_it_starts_and_can_be_cancelled(engine):
    played = engine(LONG)
    run = played.create_run({}, 0)
    assert refused(played.create_run, {}, 0).code == "SESSION_BUSY"
    assert played.cancel(run.id, 0).status == "cancelled"
    assert types(played, 0) == ["run.cancelled", "session.status_idle"]


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
def test_an_ended_run_cannot_be_cancelled(engine, how):
    played = engine("[[run]]\nsteps = [{ wait = 1 }]" if how != "failed" else '[[run]]\nsteps = [{ fail = "no" }]')
    run = played.create_run({}, 0).id
    if how == "cancelled":
        played.cancel(run, 0)
    played.advance(9 * SECOND)
    assert played.run(run).status == how
    assert refused(played.cancel, run, 9 * SECOND).code == "RUN_NOT_CANCELLABLE"


def test_an_unknown_run_is_not_found(asking):
    for call in (lambda: asking.cancel("run_x", SECOND), lambda: asking.resume("run_x", {"input": 1}, SECOND)):
        assert refused(call).code == "resource_not_found"
    assert refused(asking.run, "run_x").code == "resource_not_found"


@pytest.mark.parametrize("code", ["SANDBOX_PROVISION_FAILED", "tool_input_invalid", "invalid_request"])
def test_a_run_is_refused_as_often_as_scripted(engine, code):
    played = engine(f'[[run]]\nrefuse = {{ code = "{code}", times = 2 }}\nsteps = [{{ wait = 0 }}]')
    assert [refused(played.create_run, {}, now).code for now in range(2)] == [code, code]
    assert played.active is None
    assert played.create_run({}, 2).status == "running"
    assert types(played, SECOND)[-1] == "session.status_idle"


def test_every_run_is_refused_and_some_always(engine):
    played = engine('[[run]]\nrefuse = { code = "invalid_request", times = false }\nsteps = [{ wait = 0 }]')
    assert {refused(played.create_run, {}, now).code for now in range(5)} == {"invalid_request"}
    played = engine('pace = 0\n[[run]]\nrefuse = "invalid_request"\nsteps = [{ wait = 0 }]')
    for now in (0, 2):
        assert refused(played.create_run, {}, now).code == "invalid_request"
        assert played.create_run({}, now + 1).status == "completed"


def test_errors_have_the_messages_of_the_scenario(engine):
    refuse = 'refuse = { code = "invalid_request", message = "Why." }'
    played = engine(f'[[run]]\n{refuse}\nsteps = [{{ session-error = "no" }}]')
    assert refused(played.create_run, {}, 0).message == "Why."
    played.create_run({}, 0)
    (found,) = (document_of(entry) for entry in played.advance(SECOND) if entry.type == "session.error")
    assert found["content"] == {"error": {"code": "session_error", "message": "no"}}


def test_a_run_without_a_sandbox_is_not_refused_for_its_quota(engine):
    refuse = 'refuse = { code = "SANDBOX_PROVISION_FAILED", times = false }'
    played = engine(f'pace = 0\n[[run]]\n{refuse}\nsteps = [{{ sandbox = "quota" }}]')
    assert refused(played.create_run, {"sandbox": True}, 0).code == "SANDBOX_PROVISION_FAILED"
    assert played.create_run({"sandbox": False}, 0).status == "completed"


def tool(name="a", **fields):
    return {"tools": [{"name": name} | fields]}


ELSEWHERE = [{"$ref": "http://127.0.0.1:9/x"}, {"$ref": Path(__file__).as_uri()}]
INVALID_RUNS = [
    ({"sandbox": 1}, "sandbox", "invalid_request"),
    ({"tools": {}}, "tools", "invalid_request"),
    ({"tools": [1]}, "tools[0]", "invalid_request"),
    ({"tools": [{}]}, "tools[0].name", "invalid_request"),
    (tool(name="x" * 201), "tools[0].name", "invalid_request"),
    ({"tools": [{"name": "a"}, {"name": "a"}]}, "tools[1].name", "invalid_request"),
    ({"tools": [{"name": str(number)} for number in range(101)]}, "tools", "invalid_request"),
    (tool(input_schema=1), "tools[0].input_schema", "invalid_request"),
    (tool(input_schema={"type": "x"}), "tools[0].input_schema", "tool_input_invalid"),
    (tool(output_schema={"pattern": "("}), "tools[0].output_schema", "invalid_request"),
    *((tool(output_schema=schema), "tools[0].output_schema", "invalid_request") for schema in ELSEWHERE),
    (tool("w", input_schema={"properties": {"city": {"type": "integer"}}}), "input.city", "tool_input_invalid"),
]


@for_each(("body", "where", "code"), INVALID_RUNS)
def test_an_invalid_body_of_a_run_is_refused(engine, body, where, code):
    played = engine(ASKS)
    refusal = refused(played.create_run, body, 0)
    assert (refusal.code, paths(refusal)) == (code, [where])
    assert played.runs == {}


def test_a_client_can_register_its_own_tools(engine):
    played = engine(ASKS)
    schema = {"type": "object", "required": ["own"]}
    played.create_run({"tools": [{"name": "w", "output_schema": schema}], "input": "Hello", "other": 1}, 0)
    played.advance(SECOND)
    run, call = played.active.id, call_of(played)
    assert refused(played.resume, run, {"tool_call_id": call, "output": {"n": 1}}, SECOND).code == "tool_result_invalid"
    played.resume(run, {"tool_call_id": call, "output": {"own": 1}}, SECOND)
    played.advance(99 * SECOND)
    played.create_run({}, 99 * SECOND)
    played.advance(100 * SECOND)
    body = {"tool_call_id": call_of(played), "output": {"n": 1}}
    assert played.resume(played.active.id, body, 100 * SECOND).status == "running"


def test_parallel_calls_are_resumed_in_any_order(engine):
    played = engine('[[run]]\nsteps = [{ together = [{ ask = "a" }, { ask = "b" }, { wait-for-input = true }] }]')
    run = played.create_run({}, 0).id
    played.advance(SECOND)
    calls = {waiting.call and waiting.call.name: waiting.tool_call_id for waiting in played.active.waits}
    assert set(calls) == {"a", "b", None}
    assert played.resume(run, {"tool_call_id": calls["b"], "output": {}}, SECOND).status == "waiting_for_input"
    assert played.resume(run, {"input": {}}, SECOND).status == "waiting_for_input"
    assert played.resume(run, {"tool_call_id": calls["a"], "output": {}}, SECOND).status == "running"
    assert types(played, 2 * SECOND) == ["tool.completed"] * 2 + ["run.completed", "session.status_idle"]


def test_an_earlier_time_counts_as_the_latest_one(asking):
    run = asking.active
    asking.advance(5 * SECOND)
    assert asking.cancel(run.id, 0).ended_ns == 5 * SECOND


BUSY = """
[[run]]
steps = [
  { think = "a b" },
  { say = "a b" },
  { together = [{ ask = "w", deadline = 9 }, { tool = "t", takes = 1 }, { repeat = 2, steps = [{ say = "x" }] }] },
]
"""


def test_a_run_can_be_cancelled_at_any_time(engine):
    moments, watched = [0], engine(BUSY)
    watched.create_run({}, 0)
    while (due_ns := watched.due_ns()) is not None:
        moments.append(due_ns)
        watched.advance(due_ns)
    assert len(moments) > 15

    for now_ns in moments:
        played = engine(BUSY)
        run = played.create_run({}, 0).id
        before = [document_of(entry) for entry in played.advance(now_ns)]
        if played.active is None:
            continue
        played.cancel(run, now_ns)
        after = [document_of(entry) for entry in played.advance(1000 * SECOND)]
        opened, closed = (
            {document["data"]["tool_call_id"] for document in documents if document["type"] in kinds}
            for documents, kinds in ((before, {"tool.started"}), ([*before, *after], {"tool.completed", "tool.failed"}))
        )
        assert opened == closed
        assert [document["type"] for document in after][-2:] == ["run.cancelled", "session.status_idle"]
        assert {document["type"] for document in after} <= {"tool.failed", "run.cancelled", "session.status_idle"}
        assert played.run(run).waits == []


def test_steps_that_are_due_at_a_deadline_come_before_it(engine):
    steps = '{ together = [{ ask = "w", deadline = 1, pace = 0 }, { tool = "t", takes = 1 }] }'
    played = engine(f"pace = 0\n[[run]]\nsteps = [{steps}]")
    played.create_run({}, 0)
    found = [document_of(entry) for entry in played.advance(SECOND)][-4:]
    assert [document["type"] for document in found] == [
        *("tool.completed", "tool.failed"),
        *("run.failed", "session.status_idle"),
    ]
    assert [document["data"]["name"] for document in found[:2]] == ["t", "w"]
