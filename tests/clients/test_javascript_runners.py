"""The files of docs/javascript.md for Vitest and Jest, called by node as these programs call them."""

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
# Jest calls the function before all tests and after them; Vitest calls the one that it imports.
RUN = """
const [setup, teardown] = [require("./jest.config.cjs").globalSetup, require("./jest.config.cjs").globalTeardown];
const fail = (error) => { console.log(error.message); process.exitCode = 1; };
(async () => {
  await require(setup)();
  const headers = process.argv[2] ? { Authorization: `Bearer ${process.argv[2]}` } : {};
  const url = process.env.WIRETAPE_URL + "/v1/sessions/ses_1/runs/run_1/cancel";
  const response = await fetch(url, { method: "POST", headers });
  console.log(response.status);
  await require(teardown)();
})().catch(fail);
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("key", "expected"),
    [("key", (0, ["200"])), ("", (1, ["401", "The client broke a rule: the lines above name it."]))],
)
def test_the_replay_judges_the_client(key, expected, tmp_path):
    files = dict(re.findall(r"^```js\n// (\S+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    assert set(files) == {"wiretape.setup.mjs", "vitest.config.mjs", "wiretape.jest.cjs", "jest.config.cjs"}
    for name, code in {**files, "run.cjs": RUN}.items():
        (tmp_path / name).write_text(code, "utf-8")
    (tmp_path / "run.db").write_text(TAPE, "utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        [find_program("node"), "run.cjs", key],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert (done.returncode, done.stdout.splitlines()) == expected, done.stderr
