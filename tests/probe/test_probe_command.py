"""`wiretape probe` as a command: its formats, its exit status, and what reproduces a broken rule."""

import asyncio
import json
import os
import subprocess
import xml.etree.ElementTree as ET
from contextlib import asynccontextmanager

import jsonschema
import pytest
from click.testing import CliRunner
from programs import find_program
from wiretape_process import WiretapeProcess

from wiretape import check
from wiretape.cli import wiretape
from wiretape.recording import open_recording
from wiretape_inspect.probe.probe_case import CASES
from wiretape_inspect.probe.probe_steps import Close, Read, Send
from wiretape_inspect.probe.reproduction import curl_lines
from wiretape_inspect.report.json_format import schema


async def lose_run_ids(reader, writer, upstream):
    """A reverse proxy that drops `active_run_id` from error responses, one connection for each request."""
    there, back = await asyncio.open_connection("127.0.0.1", upstream)

    async def pass_on(source, target):
        while data := await source.read(65536):
            # The length stays the same.
            target.write(data.replace(b'"active_run_id"', b'"active_run_no"'))

    tasks = [asyncio.ensure_future(pass_on(reader, back)), asyncio.ensure_future(pass_on(there, writer))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        back.transport.abort()
        writer.close()


@asynccontextmanager
async def without_run_ids(service):
    port = int(service.url.rpartition(":")[2])
    server = await asyncio.start_server(lambda r, w: lose_run_ids(r, w, port), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def run(folder, *arguments, key="main-key"):
    """Run the command while the event loop of the test serves."""
    environment = {**os.environ, "SERVICE_KEY": key, "COLUMNS": "200"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = WiretapeProcess("probe", *arguments, cwd=folder, env=environment, **pipes)
    out, err = await asyncio.to_thread(process.communicate, timeout=60)
    return process.returncode, out, err


async def test_a_broken_rule_is_reported_in_every_format_and_reproduced(serve, tmp_path):
    outputs = {
        name: tmp_path / f"report.{name}" for name in ("json", "junit", "github", "markdown", "sarif", "concise")
    }
    arguments = [part for name, path in outputs.items() for part in ("--format", name, "--output", path)]
    async with serve() as service, without_run_ids(service) as url:
        assert (await run(tmp_path, "--init", url))[0] == 0
        only = "runs/busy-while-running,errors/unknown-path,tenancy/stream"
        record = tmp_path / "run.db"
        status, out, err = await run(
            tmp_path, "--only", only, "--record", record, "--no-config", *arguments, "--format", "text"
        )
        assert status == 1, out + err
        assert [live.id for live in service.sessions.by_id.values() if live.engine.active] == []

    assert "broken        runs/busy-while-running: BUSY001, ERR007" in out
    assert "not possible  tenancy/stream: probe.toml has no keys.other-tenant, or its environment variable" in out
    assert "4 cases: 2 held, 1 broken, 1 not possible · seed 0 · left behind: 2 sessions" in out
    assert "held         errors/unknown-path" in err

    text = {name: path.read_text("utf-8") for name, path in outputs.items()}
    document = json.loads(text["json"])
    jsonschema.validate(document, schema())
    verdicts = {case["name"]: case["verdict"] for case in document["cases"]}
    assert verdicts["runs/busy-while-running"] == "broken"
    assert document["probe"]["coverage"]["broken"] == ["BUSY001", "ERR007"]
    cases = {case.get("name"): case for case in ET.fromstring(text["junit"]).iter("testcase")}  # noqa: S314
    assert set(cases) == set(verdicts)
    assert "active_run_id" in cases["runs/busy-while-running"].find("failure").get("message")
    assert cases["tenancy/stream"].find("skipped") is not None
    assert "::error title=BUSY001" in text["github"]
    assert "| 🔴 error | runs/busy-while-running | `BUSY001, ERR007` |" in text["markdown"]
    assert "BUSY001" in text["concise"]
    assert json.loads(text["sarif"])["runs"][0]["results"][0]["ruleId"] == "BUSY001"

    found, _ = document["probe"]["reproductions"]
    assert found["code"] == "BUSY001"
    assert found["removed_steps"] > 0
    assert "BUSY001" in {finding.code for finding in check(tmp_path / found["tape"]).findings}
    with open_recording(record) as recording:
        agents = {dict(each.request.headers)["User-Agent"] for each in recording.exchanges()}
    assert "wiretape-probe (errors/unknown-path)" in agents


async def test_the_curl_commands_reproduce_the_steps(serve, probe_file, tmp_path):
    """They create the session and the runs, and get the refusal, as the steps do."""
    find_program("curl")
    async with serve() as service:
        steps = [
            Send("POST", "/v1/sessions", body="{}", id_name="session-1"),
            Send("GET", "/v1/sessions/<<session-1>>/events/stream", stream="stream-1"),
            Send("POST", "/v1/sessions/<<session-1>>/runs", body='{"input": "tool"}', id_name="run-1"),
            Read("stream-1", ("agent.custom_tool_use",)),
            Send(
                "GET",
                "/v1/sessions/<<session-1>>/events/stream",
                headers=(("Last-Event-ID", "<<stream-1.id-1>>"),),
                stream="stream-2",
            ),
            Read("stream-2", until_id="<<stream-1.id-2>>"),
            Send(
                "POST",
                "/v1/sessions/<<session-1>>/runs/<<run-1>>/resume",
                body='{"tool_call_id": "<<stream-1.call-1>>", "output": {"celsius": 1}}',
            ),
            Close("stream-1"),
            Close("stream-2"),
        ]
        script = "\n".join(curl_lines(probe_file(service.url), steps))
        assert "main-key" not in script
        process = await asyncio.create_subprocess_exec(
            *("bash", "-e", "-c", script),
            cwd=tmp_path,
            env={**os.environ, "A": "main-key"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, script + err.decode()
    assert out.startswith(b"HTTP/1.1 200 OK")
    assert b"event: tool.started" in (tmp_path / "stream-2.sse").read_bytes()


async def test_the_exit_status_is_that_of_a_report(serve, tmp_path):
    async with serve() as service:
        await run(tmp_path, "--init", service.url)
        status, out, _ = await run(tmp_path, "--only", "errors/unknown-path", "--record", "a.db", "--no-config")
        assert status == 0
        assert "2 cases: 2 held" in out
        status, _, err = await run(tmp_path, "--only", "errors/unknown-path", "--record", "a.db", "--no-config")
        assert status == 2
        assert "a.db" in err
        status, out, _ = await run(
            tmp_path, "--only", "errors/unknown-path", "--record", "a.db", "--force", "--no-config", key="wrong-key"
        )
        assert status == 1
        assert "Expected a new session for POST /v1/sessions, got 401 authentication_required." in out
        again = await run(tmp_path, "--init", service.url)
        assert again[0] == 2
        assert "probe.toml already exists" in again[2]
    status, _, err = await run(tmp_path, "--record", "b.db", "--no-config")
    assert status == 2
    assert "cannot be reached" in err
    assert not (tmp_path / "b.db").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "replya"], "No cases match 'replya': specify names, groups (authentication,"),
        (["--only", ","], "--only has an empty value: specify names, groups or rule codes"),
        (["--only", "tenancy", "--skip", "tenancy"], "No cases are left"),
        (["--init", "localhost:80"], "Invalid URL 'localhost:80': expected the address of the service"),
        (["nothing.toml"], "There is no file nothing.toml."),
    ],
)
def test_invalid_arguments_are_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(wiretape, ["probe", *arguments])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "probe.toml: base-url is missing."),
        ('base-url = "service"', "probe.toml: base-url: invalid base 'service'"),
        ('base-url = "/api"', "probe.toml: base-url: expected a URL such as https://service.test, got '/api'."),
        (
            'base-url = "http://a"\n[create-run]\nrequest = "/v1/runs"',
            "probe.toml: create-run.request: expected a method and a path such as POST /v1/sessions, got '/v1/runs'.",
        ),
        ('base-url = "http://a/v1"', "probe.toml: base-url: expected only the part before /v1, got 'http://a/v1'."),
        (
            'base-url = "http://a"\n[keys]\nmain = "secret-key"',
            "probe.toml: keys.main: expected the name of an environment variable such as SERVICE_KEY.",
        ),
        (
            'base-url = "http://a"\n[create-run]\nrequest = "POST /v1/runs/{id}"',
            "probe.toml: create-run.request: expected {session_id}, got {id} in 'POST /v1/runs/{id}'.",
        ),
        ('base-url = "http://a"\n[runs]\nlnog = {}', "probe.toml: runs.lnog: unknown key; did you mean long?"),
        ('base-url = "http://a"', "The environment variable SERVICE_KEY is not set: set it to a key for the service."),
    ],
)
def test_an_invalid_file_is_refused(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERVICE_KEY", raising=False)
    (tmp_path / "probe.toml").write_text(text, "utf-8")
    result = CliRunner().invoke(wiretape, ["probe"])
    assert result.exit_code == 2
    assert message in result.output


def test_the_list_describes_every_case():
    result = CliRunner().invoke(wiretape, ["probe", "--list"])
    assert result.exit_code == 0
    for case in CASES.values():
        assert case.name in result.output
        assert case.steps in result.output
