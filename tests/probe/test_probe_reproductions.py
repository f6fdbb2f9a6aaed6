"""The scripts that a report prints show the defect of a broken service, and no defect of a correct one."""

import asyncio
import os
import re
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from programs import find_program
from rule_mutations import MUTATIONS, mutated

from wiretape_contracts.agent_sessions.probe.suite import SUITE
from wiretape_inspect.probe import reproduction_script
from wiretape_inspect.probe.probe_steps import Close, Read, Send
from wiretape_inspect.probe.reproduction_script import Defect
from wiretape_inspect.report.case_results import SERVICE_RULES

LONGEST_S = 100
curl_lines = partial(reproduction_script.curl_lines, SUITE.script)


async def start_script(lines, url, folder, *shell):
    """Start a script as it is printed, with another address."""
    find_program("jq")
    find_program("curl")
    return await asyncio.create_subprocess_exec(
        *(*shell, "bash", "-c", "\n".join(lines)),
        cwd=folder,
        env={**os.environ, "SERVICE": url, "A": "main-key", "B": "other-key", "C": "limited-key"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


async def run_script(lines, url, folder):
    """Run a script; return its status and its output."""
    process = await start_script(lines, url, folder)
    try:
        out, _ = await asyncio.wait_for(process.communicate(), LONGEST_S)
        return process.returncode, out.decode("utf-8", "replace")
    finally:
        # Everything that the script started.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


STREAM = "/v1/sessions/<<session-1>>/events/stream"
UNTIL_CALL = [
    Send("POST", "/v1/sessions", body="{}", id_name="session-1"),
    Send("GET", STREAM, stream="stream-1"),
    Send("POST", "/v1/sessions/<<session-1>>/runs", body='{"input": "tool"}', id_name="run-1"),
    Read("stream-1", ("agent.custom_tool_use",), "<<run-1>>"),
]
DEFECT = Defect("EVT001", 2)


async def test_the_script_executes_the_steps(serve, probe_file, tmp_path):
    """It reads ids, cursors and tool calls from responses, as the steps do."""
    async with serve() as service:
        steps = [
            *UNTIL_CALL,
            Send("GET", STREAM, headers=(("Last-Event-ID", "<<stream-1.id-1>>"),), stream="stream-2"),
            Read("stream-2", until_id="<<stream-1.id-2>>"),
            Send("POST", "/v1/sessions", body="{}", id_name="session-2"),
            # Its response is read only when that of the next request has arrived.
            Send("POST", "/v1/sessions/<<session-2>>/runs", body="{}", id_name="run-2", is_started_only=True),
            Send(
                "POST",
                "/v1/sessions/<<session-1>>/runs/<<run-1>>/resume",
                body='{"tool_call_id": "<<stream-1.call-1>>", "output": {"celsius": 1}}',
            ),
            Send("GET", "/v1/sessions/<<session-2>>/runs/<<run-2>>"),
            Close("stream-1"),
        ]
        # Its response is a success, which the last line looks for.
        lines = [*curl_lines(probe_file(service.url), steps, Defect("AUTH001", 8))]
        assert "main-key" not in "\n".join(lines)
        status, out = await run_script(lines, service.url, tmp_path)
    assert (status, out.splitlines()[-1]) == (
        1,
        "AUTH001: The response to a request without a bearer key has a status below 400.",
    )
    assert list(tmp_path.iterdir()) == []


async def test_a_script_ends_all_its_programs_although_its_parent_died(serve, probe_file, tmp_path):
    facts = replace(SUITE.script, shortest_limit_s=0)
    async with serve() as service:
        steps = [*UNTIL_CALL, Read("stream-1", ("never",))]
        lines = [*reproduction_script.curl_lines(facts, probe_file(service.url), steps, None, 1)]
        lines = ["echo begins", *lines]
        process = await start_script(lines, service.url, tmp_path, "sh", "-c", '"$@"; exit', "sh")
        assert await asyncio.wait_for(process.stdout.readline(), 30) == b"begins\n"
        process.kill()
        # The output ends when no program has it open.
        rest = await asyncio.wait_for(process.stdout.read(), 60)
    assert b"Not seen in 1 seconds" in rest


async def test_a_script_without_a_temporary_folder_leaves_all_files_alone(probe_file, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    (tmp_path / "file").write_text("It stays.", "utf-8")
    lines = curl_lines(probe_file("http://127.0.0.1:9"), UNTIL_CALL, DEFECT)
    status, out = await run_script(lines, "http://127.0.0.1:9", tmp_path)
    assert status == 2
    assert "mktemp" in out
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


async def test_a_script_tells_a_service_that_is_down_from_a_correct_one(probe_file, tmp_path):
    lines = curl_lines(probe_file("http://127.0.0.1:9"), UNTIL_CALL, DEFECT)
    status, out = await run_script(lines, "http://127.0.0.1:9", tmp_path)
    assert status == 2
    assert "Failed to connect" in out or "Couldn't connect" in out


async def test_a_script_tells_a_key_that_is_refused_from_a_correct_service(serve, probe_file, tmp_path):
    async with serve() as service:
        lines = [
            line.replace("Bearer $A", "Bearer wrong")
            for line in curl_lines(probe_file(service.url), UNTIL_CALL, DEFECT)
        ]
        status, out = await run_script(lines, service.url, tmp_path)
    assert status == 2
    assert "No id: HTTP/1.1 401" in out


def test_each_rule_about_the_service_has_a_check():
    assert SUITE.script.checks.keys() == SERVICE_RULES


@pytest.mark.parametrize(
    ("case", "code", "run"),
    [
        ("streams/two-readers", "EVT004", "fail"),
        ("streams/slow-reader", "EVT004", "fail"),
        ("replay/thousand-events", "EVT007", "plain"),
    ],
)
async def test_the_smallest_run_and_one_reader_are_enough(case, code, run, serve, probe, clock_of):
    async with (
        serve() as service,
        mutated(service.url, {case: MUTATIONS[code]}) as url,
        probe(url, clock=clock_of(service), cases=[SUITE.cases[case]]) as probed,
    ):
        (found,) = probed.report.cases.reproductions
    commands = [line for line in found.curl if line.startswith("curl -sSND-")]
    paths = [re.search(r'"\$SERVICE"(/\S+)', line)[1] for line in commands]
    assert [path.rpartition("/")[2] for path in paths] == ["sessions", "stream", "runs"]
    assert "--limit-rate" not in commands[1]
    assert f'{{"input": "{run}"}}' in commands[2]
