"""The guides are followed word for word, except for installing and ports."""

import contextlib
import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from wiretape.config import load_config
from wiretape_replay.loop_thread import start_scenario
from wiretape_replay.service.serve_options import ServeOptions

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
CLIENT_PAGE = (GUIDES / "test-your-client.md").read_text("utf-8")
SERVICE_PAGE = (GUIDES / "judge-your-service.md").read_text("utf-8")
ANYTHING = re.compile(r"in \d+\.\d+s =+$|^=+ ")
# Without --import-mode and the like of the outer run, and with the programs of this interpreter.
ENV = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "WIRETAPE_"))}
ENV["COLUMNS"] = "120"
ENV["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\naddopts = -p no:anyio -p no:cacheprovider\n"


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does: bash that stops at the first failure."""
    return subprocess.run(
        ["bash", "-e", "-c", command], cwd=folder, env=ENV, capture_output=True, text=True, timeout=50, check=False
    )


def free_port() -> int:
    """A port outside the range from which systems assign free ports, which all other tests use."""
    for port in random.sample(range(20000, 32000), 50):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@pytest.fixture
def folder(tmp_path):
    """The files of the first guide."""
    for code in blocks(CLIENT_PAGE, "python"):
        if code.startswith("# "):
            (tmp_path / code.partition("\n")[0].removeprefix("# ")).write_text(code, "utf-8")
    (tmp_path / "pytest.ini").write_text(INI, "utf-8")
    return tmp_path


def test_the_client_prints_what_the_guide_shows(folder):
    (shown,) = [block for block in blocks(CLIENT_PAGE, "console") if block.startswith("$ python")]
    command, *said = shown.splitlines()
    with start_scenario("hello", ServeOptions(clock="virtual")) as service:
        result = run(folder, command.removeprefix("$ ").replace("http://127.0.0.1:8090", service.url))
        assert command.split()[-1] == service.key
    assert (result.stdout.splitlines(), result.stderr) == (said, "")


def test_the_client_fails_as_shown_and_passes_when_fixed(folder):
    before, after = [block for block in blocks(CLIENT_PAGE, "console") if block.startswith("$ pytest")]
    assert missing(before, run(folder, "pytest test_client.py").stdout) == []

    client = folder / "client.py"
    (mended,) = [code for code in blocks(CLIENT_PAGE, "python") if not code.startswith("# ")]
    line = '                        if line.startswith("data: "):\n'
    client.write_text(client.read_text("utf-8").replace(line, mended + line), "utf-8")
    assert missing(after, run(folder, "pytest test_client.py").stdout) == []


def missing(shown: str, said: str) -> list[str]:
    """The lines of an example that were not printed."""
    lines = [ANYTHING.sub("", line) for line in said.splitlines()]
    return [one for one in shown.splitlines()[1:] if one != "..." and ANYTHING.sub("", one) not in lines]


def test_the_workflow_checks_the_service_and_writes_the_reports(folder):
    """Every step with a command runs; the others belong to GitHub."""
    (text,) = blocks(SERVICE_PAGE, "yaml")
    workflow = yaml.safe_load(text)
    (job,) = workflow["jobs"].values()
    steps = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    assert steps.pop("Install").startswith("pip install")
    ports = "\n".join(f"export {name}=http://127.0.0.1:{free_port()}" for name in workflow["env"])
    script = "\n".join([ports, "trap 'kill $(jobs -p)' EXIT", *steps.values(), *blocks(SERVICE_PAGE, "sh")])

    result = run(folder, script)

    log = "".join(path.read_text("utf-8") for path in folder.glob("*.log"))
    assert result.returncode == 0, result.stderr + log
    assert "run.completed" in result.stdout
    assert "Recorded 3 exchanges" in log
    kept = [line for step in job["steps"] for line in step.get("with", {}).get("path", "").split() if "uses" in step]
    given = [*kept[1:], job["steps"][-2]["with"]["sarif_file"], "known.json"]
    assert [name for name in given if not list(folder.glob(name))] == []


def test_the_settings_shown_are_valid(folder):
    (text,) = blocks(SERVICE_PAGE, "toml")
    path = folder / "wiretape.toml"
    path.write_text(text, "utf-8")
    assert load_config(path).fail_on == "warning"
