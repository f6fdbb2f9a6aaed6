"""`wiretape probe --discover`: what is found about services without a description, and about what is not a service."""

import asyncio
import tomllib
from contextlib import chdir

import pytest
from hostile_server import HostileServer
from invoke import invoke
from second_service import DESCRIPTION, Service, Traits, listening
from test_probe_hostile import SERVERS

from wiretape_contracts.agent_sessions.probe import discovery
from wiretape_contracts.agent_sessions.probe.probe_file import decode_probe_file, initial_file, probe_file_text
from wiretape_inspect.probe import probe_client
from wiretape_replay.stand_in import ServeOptions, serve_scenario

KEY = '[[keys]]\nkey = "main-key"\n'


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch):
    """A run that has not ended after a quarter of a second is long; no plain run here takes as long."""
    monkeypatch.setattr(discovery, "_SHORT_SECONDS", 0.25)


async def run(folder, *arguments, key="main-key"):
    """Run the command in this process, whose waits are short, while the event loop of the test serves."""
    with chdir(folder):
        done = await asyncio.to_thread(invoke, "probe", *arguments, env={"SERVICE_KEY": key, "COLUMNS": "200"})
    return done.exit_code, done.stdout, done.stderr


async def test_everything_about_the_stand_in_is_confirmed(tmp_path):
    async with serve_scenario("probe", ServeOptions(service=KEY)) as service:
        status, out, err = await run(tmp_path, "--discover", service.url)
        assert status == 0, err
        assert "not found: delete-session.request, because DELETE /v1/sessions/{session_id} got 400" in out
        assert out.count("not found: ") == 1
        assert out.endswith("Wrote probe.toml: add what was not found and your service has, and run wiretape probe.\n")
        assert "ephemeral events: reasoning.delta, intermediate.delta, message.delta\n" in out
        assert "tools: web_search\n" in out
        document = tomllib.loads((tmp_path / "probe.toml").read_text("utf-8"))
        assert document == tomllib.loads(initial_file(service.url))
        assert [live.id for live in service.sessions.by_id.values() if live.engine.active] == []


async def test_two_lines_describe_another_service(tmp_path):
    """The paths of operations that the specification does not show; the ids and the records are found."""
    service = Service(Traits(step_s=0.001, ids="text"))
    path = tmp_path / "probe.toml"
    async with listening(service) as url:
        status, out, _ = await run(tmp_path, "--discover", url)
        assert status == 2
        assert "POST /v1/sessions got 404 resource_not_found: try another path, or another method such as PUT" in out
        assert f"correct create-session.request in it, and run wiretape probe --discover {url} --force." in out
        text = path.read_text("utf-8")
        for old, new in (
            ("POST /v1/sessions", "PUT /v1/projects/tides/sessions"),
            ("POST /v1/sessions/{session_id}/runs", "POST /v1/sessions/{session_id}/turns"),
        ):
            text = text.replace(f'"{old}"', f'"{new}"')
        path.write_text(text, "utf-8")
        status, out, err = await run(tmp_path, "--discover", url)
        assert status == 2
        assert "probe.toml already exists: add --force to complete it (its comments are replaced)." in err
        status, out, err = await run(tmp_path, "--discover", url, "--force")
        assert status == 0, err
        assert "idempotency-header, because none of Idempotency-Key, " in out
        file = decode_probe_file(tomllib.loads(path.read_text("utf-8")), "probe.toml")
        assert (file.create_session.id, file.create_run.id) == ("/data/session/id", "/data/run/key")
        assert file.delete_session.request == "DELETE /v1/projects/tides/sessions/{session_id}"
        assert file.read_run.request == "GET /v1/sessions/{session_id}/turns/{run_id}"
        assert file.tool_result is None
        assert service.sessions == {}
        status, _, err = await run(tmp_path, "--discover", url, "--force", key="limited-key")
        assert status == 2
        assert "Expected the key in the environment variable SERVICE_KEY to be accepted for PUT /v1/projects/" in err
        only = "runs/two-in-a-row,replay/unknown-cursor,streams/run-with-deltas"
        status, out, err = await run(tmp_path, "--only", only, "--no-config")
        assert status == 0, out + err
        assert "broken" not in out.replace("0 broken", "")


async def test_hooks_replace_no_kind_that_is_tried_and_values_that_fail_are_kept(probe_file):
    """The header is found although it applies only to requests that resume a run."""
    service = Service(Traits(step_s=0.001))
    service.recall = lambda request, *known: (
        Service.recall(service, request, *known) if request.path.endswith("/resume") else None
    )
    hooks = {"resync": {"request": "POST /v1/hooks/{session_id}/resync"}}
    runs = DESCRIPTION["runs"] | {"many": {"goal": "work"}}
    changes = {key: DESCRIPTION[key] for key in ("create-session", "create-run", "tool-result", "idempotency-header")}
    async with listening(service) as url:
        file = probe_file(url, **changes | {"runs": runs, "hooks": hooks})
        found = await discovery.discover(file, {"main": "main-key"}, 20)
    assert found.values["idempotency-header"] == "X-Request-Token"
    assert found.values["runs.resync"] == runs["resync"]
    assert found.problems["runs.many"] == "no run with such a body did that"
    text = probe_file_text(url, found.values, found.rejected, found.problems)
    assert '# many = { goal = "work" } ' in text
    assert 'resync = { request = "POST /v1/hooks/{session_id}/resync", body = {} }' in text


NO_SERVICE = " is not an Agent Session Service, or create-session.request is wrong: expected JSON for POST /v1/sessions"
SENTENCES = {
    "hang": "Expected a response to POST /v1/sessions within 1 s, got nothing: if the service needs longer",
    "flood": f"{NO_SERVICE}, got 200, text/event-stream.",
    "endless head": f"{NO_SERVICE}, got no response (not HTTP: Receive buffer too long",
    "html": f"{NO_SERVICE}, got 200, text/html.",
    "redirect": f"{NO_SERVICE}, got 302 to https://elsewhere.test/, no Content-Type.",
}


@pytest.mark.parametrize("name", SENTENCES)
async def test_what_is_not_a_service_gets_one_sentence(name, probe_file, monkeypatch):
    monkeypatch.setattr(probe_client, "MOST_EVENTS", 1000)
    with HostileServer(*SERVERS[name]) as server:
        file = probe_file(f"http://{server.address}")
        with pytest.raises(discovery.InputError) as raised:
            await discovery.discover(file, {"main": "main-key"}, 1 if name == "hang" else 20)
    assert SENTENCES[name] in str(raised.value)


async def test_a_key_that_is_refused_and_a_service_that_is_down_exit_with_2(tmp_path):
    async with serve_scenario("probe", ServeOptions(service=KEY)) as service:
        status, _, err = await run(tmp_path, "--discover", service.url, key="wrong")
        assert status == 2
        assert (
            "Expected the key in the environment variable SERVICE_KEY to be accepted for POST /v1/sessions, got" in err
        )
    status, _, err = await run(tmp_path, "--discover", service.url)
    assert status == 2
    assert "cannot be reached: " in err
    assert list(tmp_path.iterdir()) == []
