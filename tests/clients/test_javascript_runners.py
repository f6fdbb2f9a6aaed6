"""The code of docs/javascript.md, run by node, alone and below `wiretape cassette`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from programs import find_program

PAGE = (Path(__file__).parents[2] / "docs" / "javascript.md").read_text("utf-8")
TAPE = """\
tape: 1
---
request: POST /v1/sessions/ses_1/runs/run_1/cancel
headers:
- Authorization: Bearer key
response-body: {}
"""
TEST = """
import { startReplay } from "./replay.mjs";
const [key, upstream] = process.argv.slice(2);
const replay = upstream ? { url: process.env.WIRETAPE_URL, stop() {} } : await startReplay("run.tape");
const headers = key ? { Authorization: `Bearer ${key}` } : {};
const { fault } = (await replay.control?.("fault", { fault: { do: "hold", operation: "cancel" } })) ?? {};
const responding = fetch(`${replay.url}/v1/sessions/ses_1/runs/run_1/cancel`, { method: "POST", headers });
await replay.control?.("wait", { until: "held", fault });
await replay.control?.("release", { fault });
const response = await responding;
console.log(response.status);
await replay.stop();
"""
HOLD = """
import { startReplay } from "./replay.mjs";
const replay = await startReplay("run.tape");
const { fault } = await replay.control("fault", { fault: { do: "hold", after: { type: "*.delta" } } });
const headers = { Authorization: "Bearer key" };
await fetch(`${replay.url}/v1/sessions/ses_1/runs/run_1/cancel`, { method: "POST", headers });
await replay.control("wait", { until: "held", fault, timeout_s: 0 }).catch((error) => console.log(error.message));
await replay.stop().catch((error) => console.log(error.message));
"""


@pytest.fixture
def run(tmp_path):
    (replay,) = re.findall(r"^```js\n// replay.mjs\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "replay.mjs").write_text(replay, "utf-8")
    (tmp_path / "run.tape").write_text(TAPE, "utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    node = [find_program("node"), "test.mjs"]

    def _run(*arguments, cassette=(), script=TEST):
        (tmp_path / "test.mjs").write_text(script, "utf-8")
        return subprocess.run(
            [*cassette, *(["--"] if cassette else []), *node, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )

    return _run


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("key", "status", "response"), [("key", 0, "200"), ("", 1, "401")])
def test_the_replay_judges_the_client(run, key, status, response):
    done = run(key)
    assert (done.returncode, done.stdout) == (status, f"{response}\n"), done.stderr
    assert ("The replay failed the client: the lines above say why." in done.stderr) == bool(status)


@pytest.mark.timeout(300)
def test_a_hold_that_never_matches_fails(run):
    done = run(script=HOLD)
    assert done.stdout.splitlines() == [
        "The replay was not held in time.",
        "The replay failed the client: the lines above say why.",
    ], done.stderr
    assert "Faults that never matched: hold-1." in done.stderr


@pytest.mark.timeout(300)
def test_a_script_of_package_json_runs_with_a_tape(run):
    (script,) = re.findall("^(wiretape cassette .*) -- npx vitest run$", PAGE, re.MULTILINE)
    cassette = script.replace("tapes/run.tape", "run.tape").split()
    done = run("key", "upstream", cassette=cassette)
    assert (done.returncode, done.stdout) == (0, "200\n"), done.stderr
    assert done.stderr.endswith("The client broke no rules.\n")
    assert run("", "upstream", cassette=cassette).returncode == 1
