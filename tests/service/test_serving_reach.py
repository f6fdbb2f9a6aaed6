"""Every event type and every error code occurs over HTTP."""

import pytest

from wiretape.contract import ERROR_CODES, EVENT_TYPES

CODES = {}


def reaches(code):
    """Register how to get a code: an async function of a stage that returns the reply."""

    def register(how):
        CODES[code] = how
        return how

    return register


async def waiting(stage, body=None):
    """A session whose run waits for an application tool: its paths and the call."""
    session = await stage.session()
    stream = await stage.stream(session)
    run = await stage.run(session, body)
    events = await stream.until("agent.custom_tool_use")
    stream.close()
    return session, run, events[-1]["content"]["tool_call_id"]


@reaches("invalid_request")
async def _(stage):
    return await stage.post("/v1/sessions", [])


@reaches("invalid_cursor")
async def _(stage):
    session = await stage.session()
    return await stage.get(f"{session}/events/stream", headers={"Last-Event-ID": "evt_unknown"})


@reaches("authentication_required")
async def _(stage):
    return await stage.post("/v1/sessions", key=None)


@reaches("permission_denied")
async def _(stage):
    return await stage.post("/v1/sessions", key="reader")


@reaches("resource_not_found")
async def _(stage):
    return await stage.get("/v1/sessions/ses_unknown")


@reaches("idempotency_conflict")
async def _(stage):
    await stage.post("/v1/sessions", {"workspace_id": "one"}, idem="k")
    return await stage.post("/v1/sessions", {"workspace_id": "two"}, idem="k")


@reaches("event_already_resolved")
async def _(stage):
    _, run, call = await waiting(stage)
    body = {"tool_call_id": call, "output": {"celsius": 20}}
    assert (await stage.post(f"{run}/resume", body)).status == 200
    return await stage.post(f"{run}/resume", body)


@reaches("event_expired")
async def _(stage):
    _, run, call = await waiting(stage)
    await stage.service.control.async_advance(600)
    return await stage.post(f"{run}/resume", {"tool_call_id": call, "output": {"celsius": 20}})


@reaches("run_not_resumable")
async def _(stage):
    _, run, _call = await waiting(stage)
    assert (await stage.post(f"{run}/cancel")).status == 200
    return await stage.post(f"{run}/resume", {"input": "go on"})


@reaches("SESSION_BUSY")
async def _(stage):
    session, run, _ = await waiting(stage)
    reply = await stage.post(f"{session}/runs")
    error = reply.error
    assert error["active_run_id"] == run.rpartition("/")[2]
    assert error["active_run_status"] == "waiting_for_input"
    assert error["recovery"] == [f"POST {run}/cancel", f"POST {run}/resume"]
    return reply


@reaches("RUN_NOT_CANCELLABLE")
async def _(stage):
    _, run, _call = await waiting(stage)
    assert (await stage.post(f"{run}/cancel")).json["status"] == "cancelled"
    return await stage.post(f"{run}/cancel")


@reaches("tool_input_invalid")
async def _(stage):
    session = await stage.session()
    schema = {"type": "object", "required": ["country"]}
    return await stage.post(f"{session}/runs", {"tools": [{"name": "get_weather", "input_schema": schema}]})


@reaches("tool_result_invalid")
async def _(stage):
    _, run, call = await waiting(stage)
    reply = await stage.post(f"{run}/resume", {"tool_call_id": call, "output": {"celsius": "warm"}}, idem="once")
    assert (await stage.get(run)).json["status"] == "waiting_for_input"
    again = await stage.post(f"{run}/resume", {"tool_call_id": call, "output": {"celsius": 20}}, idem="once")
    assert again.status == 200, "corrected, with the same idempotency key"
    return reply


@reaches("RATE_LIMITED")
async def _(stage):
    for _ in range(30):
        await stage.session()
    return await stage.post("/v1/sessions")


@reaches("runtime_resume_unavailable")
async def _(stage):
    return await refused_resume(stage)


@reaches("SANDBOX_PROVISION_FAILED")
async def _(stage):
    session = await stage.session()
    return await stage.post(f"{session}/runs")


async def refused_resume(stage):
    _, run, call = await waiting(stage)
    body = {"tool_call_id": call, "output": {}}
    reply = await stage.post(f"{run}/resume", body, idem="same")
    assert (await stage.post(f"{run}/resume", body, idem="same")).status == 503
    assert (await stage.post(f"{run}/resume", body, idem="same")).status == 200
    return reply


SCENARIOS = {"runtime_resume_unavailable": "runtime-unavailable", "SANDBOX_PROVISION_FAILED": "sandbox"}


@pytest.mark.parametrize("code", ERROR_CODES)
async def test_every_error_code_has_its_status(serve, stages, code):
    keys = {"wiretape-key": stages.ApiKey(), "reader": stages.KEYS["reader"]}
    async with serve(SCENARIOS.get(code, "application-tool"), virtual=True, keys=keys) as stage:
        reply = await CODES[code](stage)
        assert (reply.code, reply.status) == (code, ERROR_CODES[code].status)
        assert reply.error["message"]
        assert reply.error["request_id"]


async def test_every_event_type_occurs_over_http(serve):
    """A few scenarios have all eighteen, for a client that reconnects when it has to."""
    types = set()
    for scenario, runs in {"conversation": 2, "tools": 1, "everything": 1, "failures": 1}.items():
        async with serve(scenario, virtual=True) as stage:
            types |= {event["type"] for event in await _played(stage, runs)}
    assert types == set(EVENT_TYPES)


async def _played(stage, runs):
    """All events of this many runs of a session; runs that call an application tool are cancelled."""
    session, events, cursor = await stage.session(), [], None
    for _ in range(runs):
        reply = await stage.post(f"{session}/runs")
        while reply.status in {422, 503}:
            reply = await stage.post(f"{session}/runs")
        run = f"{session}/runs/{reply.json['id']}"

        async def answer(event, run=run):
            if event["type"] == "agent.custom_tool_use":
                await stage.post(f"{run}/cancel")

        events += await stage.follow(session, answer, cursor=cursor)
        cursor = events[-1]["id"]
    return events
