"""Tenants, workspaces, limits and idempotency keys over HTTP; every test checks the traffic."""

import pytest
from stages import KEYS

from wiretape.errors import InputError
from wiretape_contracts.agent_sessions import LIMITS
from wiretape_replay.service_clock import VirtualClock


async def test_tenants_cannot_see_sessions_of_each_other(serve):
    async with serve(virtual=True, keys=KEYS) as stage:
        session = await stage.session(key="alice")
        run = await stage.run(session, key="alice")
        unknown = await stage.get("/v1/sessions/ses_unknown", key="bob")
        for method, path in _everything(session, run):
            mine = await stage.ask(method, path, key="bob")
            assert (mine.status, mine.code) == (404, "resource_not_found"), path
            words = mine.error["message"].replace(session.rpartition("/")[2], "ses_unknown")
            assert words == unknown.error["message"], "who may not see it must not learn that it exists"
        assert (await stage.get(run, key="alice")).status == 200


async def test_a_key_of_a_workspace_sees_only_its_sessions(serve):
    async with serve(virtual=True, keys=KEYS) as stage:
        session = await stage.session(key="alice")
        assert (await stage.get(session, key="alice")).json["workspace_id"] == "wks_a"
        assert (await stage.get(session, key="anna")).code == "resource_not_found"
        assert (await stage.get(session, key="admin")).status == 200, "a key of no workspace sees all of its tenant"
        assert (await stage.get(session, key="bob")).code == "resource_not_found"
        elsewhere = await stage.post("/v1/sessions", {"workspace_id": "wks_b"}, key="alice")
        assert (elsewhere.status, elsewhere.code) == (404, "resource_not_found")
        assert (await stage.post("/v1/sessions", {"workspace_id": "wks_b"}, key="admin")).status == 201


def _everything(session, run):
    return [
        ("GET", session),
        ("GET", f"{session}/events/stream"),
        ("POST", f"{session}/runs"),
        ("GET", run),
        ("POST", f"{run}/cancel"),
        ("POST", f"{run}/resume"),
    ]


@pytest.mark.parametrize("name", LIMITS)
async def test_each_limit_refuses_then_serves_again_after_retry_after(serve, name):
    """Meanwhile the other limits and the other tenant are not affected."""
    async with serve(virtual=True, keys=KEYS) as stage:
        use = {limit: await _user(stage, limit) for limit in LIMITS}
        # Making ready has used some of the limits.
        await stage.service.control.async_advance(60)
        for place in range(LIMITS[name][0]):
            assert (await use[name]("admin")).code != "RATE_LIMITED", place
            if place == 9:
                await stage.service.control.async_advance(7)
        refused = await use[name]("admin")
        assert (refused.status, refused.code) == (429, "RATE_LIMITED")
        wait = int(refused.headers["retry-after"])
        assert refused.error["details"] == {"limit": LIMITS[name][0], "window_seconds": 60, "retry_after": wait}
        assert wait == 53, "until the oldest requests leave the window"
        for other in LIMITS.keys() - {name}:
            assert (await use[other]("admin")).code != "RATE_LIMITED", "limits are independent of each other"
        assert (await use[name]("bob")).code != "RATE_LIMITED", "limits are counted for each tenant"
        await stage.service.control.async_advance(wait - 1)
        assert (await use[name]("admin")).code == "RATE_LIMITED"
        await stage.service.control.async_advance(1)
        assert (await use[name]("admin")).code != "RATE_LIMITED", "served again"


async def _user(stage, limit):
    """How to use a limit without success: a request that is refused after authentication counts too."""
    if limit == "sessions":
        return lambda key: stage.post("/v1/sessions", [], key=key)
    if limit == "runs":
        return lambda key: stage.post("/v1/sessions/ses_x/runs", key=key)
    return lambda key: stage.get("/v1/sessions/ses_x/events/stream", key=key)


async def test_an_idempotency_key_repeats_the_response_byte_for_byte(serve):
    async with serve("application-tool", virtual=True, keys=KEYS) as stage:
        session, run, call = await _asked(stage)
        body = {"tool_call_id": call, "output": {"celsius": 1}}
        requests = [("/v1/sessions", {"workspace_id": "w"}), (f"{run}/resume", body), (f"{session}/runs", {"input": 1})]
        for number, (path, body) in enumerate(requests):
            first = await stage.post(path, body, key="admin", idem=f"k{number}")
            again = await stage.post(path, dict(reversed(body.items())), key="admin", idem=f"k{number}")
            assert first.status in {200, 201}
            assert (again.status, again.body, again.headers) == (first.status, first.body, first.headers)
            other = await stage.post(path, body | {"more": True}, key="admin", idem=f"k{number}")
            assert (other.status, other.code) == (409, "idempotency_conflict")
            await stage.service.control.async_advance(5)  # a run that was resumed comes to its end
        other = await stage.post("/v1/sessions", requests[1][1], key="admin", idem="k1")
        assert other.code == "idempotency_conflict", "the same payload for another operation is another request"
        missing = await stage.post(f"{session}/runs/run_x/cancel", {}, key="admin", idem="k1")
        assert missing.code == "resource_not_found", "a run that does not exist comes before the conflict"
        assert (await stage.post("/v1/sessions", {"workspace_id": "x"}, key="bob", idem="k0")).status == 201


async def test_bodies_are_compared_as_json_and_no_body_equals_an_empty_object(serve):
    async with serve(virtual=True) as stage:
        headers = {"Idempotency-Key": "once"}
        first, *others = [
            await stage.ask("POST", "/v1/sessions", data=data, headers=headers)
            for data in (None, b"{}", b" \n", b" { }")
        ]
        assert first.status == 201
        assert [other.body for other in others] == [first.body] * 3
        assert (await stage.post("/v1/sessions", {"x": None}, idem="once")).code == "idempotency_conflict"


async def test_a_repeated_request_counts_towards_the_limit(serve):
    async with serve(virtual=True) as stage:
        replies = [await stage.post("/v1/sessions", idem="once") for _ in range(LIMITS["sessions"][0] + 1)]
        assert {reply.status for reply in replies[:-1]} == {201}
        assert len({reply.body for reply in replies[:-1]}) == 1
        assert replies[-1].code == "RATE_LIMITED", "the limit comes before the idempotency key"
        await stage.service.control.async_advance(60)
        assert (await stage.post("/v1/sessions", idem="once")).body == replies[0].body


async def test_a_refused_request_does_not_use_up_its_idempotency_key(serve):
    """A 422 can be corrected with the same key, and a refused run can be created with its key."""
    async with serve("application-tool", virtual=True) as stage:
        session, run, call = await _asked(stage, key="wiretape-key")
        assert (await stage.post(f"{session}/runs", idem="a")).code == "SESSION_BUSY"
        wrong = await stage.post(f"{run}/resume", {"tool_call_id": call, "output": []}, idem="b")
        assert (wrong.status, wrong.code) == (422, "tool_result_invalid")
        right = await stage.post(f"{run}/resume", {"tool_call_id": call, "output": {"celsius": 1}}, idem="b")
        assert right.status == 200
        await stage.follow(session)
        assert (await stage.post(f"{session}/runs", idem="a")).status == 201


async def test_an_idempotency_key_does_not_show_a_response_to_another_workspace(serve):
    """Two keys of one tenant share idempotency keys, but not sessions."""
    async with serve(virtual=True, keys=KEYS) as stage:
        mine = await stage.post("/v1/sessions", key="alice", idem="k")
        theirs = await stage.post("/v1/sessions", key="anna", idem="k")
        assert (mine.status, theirs.code) == (201, "idempotency_conflict")
        alike = await stage.post("/v1/sessions", {}, key="alice", idem="k")
        assert alike.body == mine.body


async def _asked(stage, key="admin"):
    """A session whose run waits for an application tool: its paths and the call."""
    session = await stage.session(key=key)
    stream = await stage.stream(session, key=key)
    run = await stage.run(session, key=key)
    call = (await stream.until("agent.custom_tool_use"))[-1]["content"]["tool_call_id"]
    stream.close()
    return session, run, call


async def test_sessions_runs_and_errors_show_the_active_run_and_what_it_waits_for(serve):
    async with serve("application-tool", virtual=True) as stage:
        session, run, call = await _asked(stage, key="wiretape-key")
        run_id = run.rpartition("/")[2]
        shown = (await stage.get(session)).json
        assert (shown["status"], shown["active_run_id"]) == ("active", run_id)
        shown = (await stage.get(run)).json
        deadline = shown["waiting_for"][0]["deadline"]
        wait = {"tool_call_id": call, "name": "get_weather", "input": {"city": "Lisbon"}, "deadline": deadline}
        assert (shown["status"], shown["ended_at"], shown["waiting_for"]) == ("waiting_for_input", None, [wait])
        assert deadline.startswith("2026-01-01T00:10:00.")
        busy = (await stage.post(f"{session}/runs")).error
        assert (busy["active_run_id"], busy["active_run_status"]) == (run_id, "waiting_for_input")
        assert busy["recovery"] == [f"POST {run}/cancel", f"POST {run}/resume"]
        ended = (await stage.post(f"{run}/cancel")).json
        assert (ended["status"], ended["waiting_for"], ended["ended_at"][:10]) == ("cancelled", [], "2026-01-01")
        shown = (await stage.get(session)).json
        assert (shown["status"], shown["active_run_id"]) == ("idle", None)


async def test_deltas_are_sent_on_request_and_the_replay_before_live_events(serve):
    async with serve("application-tool", virtual=True) as stage:
        session = await stage.session()
        plain, full = await stage.stream(session, deltas=False), await stage.stream(session)
        assert full.response.headers["Cache-Control"] == "no-store"
        run = await stage.run(session)
        seen = await plain.until("agent.custom_tool_use")
        await full.until("agent.custom_tool_use")
        late = await stage.stream(session, seen[0]["id"])
        call = seen[-1]["content"]["tool_call_id"]
        await stage.post(f"{run}/resume", {"tool_call_id": call, "output": {"celsius": 20}})
        rest = await full.until("session.status_idle")
        assert "message.delta" in {event["type"] for event in rest}
        assert "message.delta" not in {event["type"] for event in await plain.until("session.status_idle")}
        assert await late.until("session.status_idle") == seen[1:] + rest
        assert all("id" in event for event in seen)


async def test_keep_alives_are_sent_after_fifteen_seconds_without_data(serve):
    async with serve("silence", virtual=True) as stage:
        session = await stage.session()
        stream = await stage.stream(session)
        await stage.run(session)
        await stream.until("session.status_idle")
        assert stream.comments == 2, "in 40 seconds of silence"
        await stage.service.control.async_advance(31)
        await stage.run(session)
        await stream.until("session.status_idle")
        assert stream.comments == 6, "two in 31 seconds without a run, and two in the run"
        stream.close()


async def test_the_same_requests_get_the_same_bytes(serve):
    """Scenario, seed and requests decide every byte; another seed gives other ids."""

    async def play(seed):
        async with serve("conversation", virtual=True, seed=seed) as stage:
            session = await stage.session()
            stream = await stage.stream(session)
            created = await stage.post(f"{session}/runs")
            await stream.until("session.status_idle")
            stream.close()
            return created.body, bytes(stream.raw), (await stage.get("/nothing")).body

    assert await play(1) == await play(1)
    assert (await play(1))[:2] != (await play(2))[:2]


NO_TIMES = [None, -1, -0.001, "2", True, 86_401, 1e12, 1e15, 10**400]


async def test_virtual_time_can_be_advanced_over_http(serve):
    """With the control token, and a valid number of seconds."""
    async with serve("missed-deadline", virtual=True) as stage:
        session = await stage.session()
        run = await stage.run(session)
        path, token = "/_wiretape/advance", {"X-Wiretape-Token": stage.service.token}
        assert (await stage.post(path, {"seconds": 2})).status == 401
        for seconds in NO_TIMES:
            with pytest.raises(InputError, match=r"^advance: seconds: "):
                await stage.service.control.async_advance(seconds)
            reply = await stage.post(path, {"seconds": seconds}, headers=token)
            assert (reply.status, reply.error["message"].startswith("advance: seconds: ")) == (400, True), seconds
        assert (await stage.post(path, {"second": 2}, headers=token)).status == 400
        assert (await stage.get(run)).json["status"] in {"running", "waiting_for_input"}
        assert (await stage.post(path, {"seconds": 2}, headers=token)).status == 200
        assert (await stage.get(run)).json["status"] == "failed"
    async with serve("missed-deadline") as stage:
        reply = await stage.post(path, {"seconds": 2}, headers={"X-Wiretape-Token": stage.service.token})
        assert (reply.status, "--clock virtual" in reply.error["message"]) == (400, True), "real time is not hurried"


async def test_virtual_time_ends_after_a_hundred_years():
    clock = VirtualClock()
    await clock.advance((100 * 365 - 1) * 86_400)
    await clock.advance(3600)
    with pytest.raises(InputError, match="a hundred years"):
        await clock.advance(86_400)
