"""The guides are followed word for word, except for installing and ports."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from hostile_server import BODY, HostileServer
from invoke import invoke, succeed
from programs import find_program

from wiretape import __version__
from wiretape.config import load_config
from wiretape_replay.loop_thread import start_scenario
from wiretape_replay.stand_in import ServeOptions

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
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
        ["bash", "-e", "-c", command], cwd=folder, env=ENV, capture_output=True, text=True, timeout=280, check=False
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
    line = "                        event = {}\n"
    client.write_text(client.read_text("utf-8").replace(line, mended + line), "utf-8")
    assert missing(after, run(folder, "pytest test_client.py").stdout) == []
    (folder / "test_cut.py").write_text(CUT, "utf-8")
    assert "2 passed" in run(folder, "pytest test_cut.py").stdout


def missing(shown: str, said: str) -> list[str]:
    """The lines of an example that were not printed."""
    lines = [ANYTHING.sub("", line) for line in said.splitlines()]
    return [one for one in shown.splitlines()[1:] if one != "..." and ANYTHING.sub("", one) not in lines]


CUT = """
import pytest
from client import follow_run

@pytest.mark.parametrize(("do", "offset"), [("drop", 60), ("reset", 150)])
def test_an_event_that_is_cut_in_half(wiretape_service, do, offset):
    at = {"at": {"sequence": 3}, "times": 1}
    delay = {"do": "delay", "seconds": 1.1, "after": {"sequence": 2}, "times": 1}
    service = wiretape_service("hello", faults=[delay, {"do": do, "offset": offset} | at])
    assert "message.completed" in follow_run(service.url, service.key)
"""


PROBE, WORKFLOW, GITLAB, PRE_COMMIT = map(yaml.safe_load, blocks(SERVICE_PAGE, "yaml"))
FAULTS, SETTINGS = blocks(SERVICE_PAGE, "toml")
INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")


@pytest.fixture
def steps(folder):
    """Return a function that runs the steps of the action as GitHub does, with the inputs of the guide."""
    find_program("curl")
    (used,) = [each for each in WORKFLOW["jobs"]["contract"]["steps"] if "/wiretape@" in each.get("uses", "")]
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    runner = {"GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    ports = {port: str(free_port()) for port in ("8000", "8080")}
    groups = []

    def run_steps(**changes: str) -> dict[str, subprocess.CompletedProcess[str]]:
        inputs = {name: each.get("default") for name, each in action["inputs"].items()} | used["with"] | changes
        assert set(inputs) == set(action["inputs"])
        inputs = {name: re.sub(r"80[08]0", lambda port: ports[port[0]], str(value)) for name, value in inputs.items()}
        done = {}
        for step in action["runs"]["steps"]:
            has_failed = any(each.returncode for each in done.values())
            if has_failed and "!cancelled()" not in step.get("if", ""):
                continue
            if "run" in step and step["name"] != "Install wiretape":
                assert "${{" not in step["run"], "text that is inserted into a script runs as part of it"
                given = {name: inputs[INPUT.fullmatch(value)[1]] for name, value in step["env"].items()}
                command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
                with subprocess.Popen(
                    command,
                    cwd=folder,
                    env=ENV | runner | given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                ) as process:
                    groups.append(process.pid)
                    output = process.communicate(timeout=280)
                done[step["name"]] = subprocess.CompletedProcess(command, process.returncode, *output)
        return done

    yield run_steps
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGTERM)


@pytest.mark.timeout(300)
def test_the_action_fails_with_an_annotation_and_writes_the_reports(steps, folder):
    (folder / "faults.toml").write_text(FAULTS, "utf-8")
    done = steps(service="wiretape serve hello --listen 127.0.0.1:8000 --faults faults.toml")

    assert {name: each.returncode for name, each in done.items()} == {"Start the service": 0, "Record": 0, "Check": 1}
    assert "run.completed" in done["Record"].stdout
    assert "Recorded 3 exchanges" in (folder / "wiretape/recorder.log").read_text("utf-8")
    assert done["Check"].stdout.startswith("::error title=SEQ001 sequence-not-increasing,file=")
    assert "SEQ001" in (folder / "summary.md").read_text("utf-8")
    names = {"run.db", "report.md", "report.sarif", "report.xml", "recorder.log", "service.log"}
    assert {path.name for path in (folder / "wiretape").iterdir()} == names


def test_the_action_reports_a_service_that_ends(steps):
    done = steps(service="echo no such port; exit 3")["Start the service"]

    assert done.returncode == 2
    assert done.stdout.startswith("no such port\n::error::The service does not respond at http://127.0.0.1:")


def answer_once(listener):
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.0 404 Not Found\r\n\r\n")


def test_the_action_does_not_mistake_another_program_for_the_service(steps):
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"
        answering = threading.Thread(target=answer_once, args=(other,))
        answering.start()
        done = steps(service="sleep 60", upstream=url)["Start the service"]
        answering.join()

    assert done.returncode == 2
    assert done.stdout.startswith(f"::error::Another program already responds at {url}: ")


def test_the_action_does_not_wait_for_the_end_of_a_response(steps):
    with HostileServer(BODY, b"x" * 65536) as other:
        done = steps(service="sleep 60", upstream=f"http://{other.address}")["Start the service"]
        assert done.returncode == 2
        assert other.sent < 32 << 20


@pytest.mark.timeout(300)
def test_the_gitlab_job_records_and_writes_the_reports(folder):
    """Every line of the script but the first, which installs."""
    install, *lines = GITLAB["contract"]["script"]
    assert install == f"pip install './wiretape-{__version__}-py3-none-any.whl[proxy]' httpx"
    script = re.sub(r"80[08]0", lambda port, ports={}: ports.setdefault(port[0], str(free_port())), "\n".join(lines))
    result = run(folder, f"set -m\ntrap 'kill $(jobs -p)' EXIT\n{script}\n" + "\n".join(blocks(SERVICE_PAGE, "sh")[4:]))

    assert result.returncode == 0, result.stderr + (folder / "recorder.log").read_text("utf-8")
    assert "run.completed" in result.stdout
    artifacts = GITLAB["contract"]["artifacts"]
    names = [*artifacts["paths"], *artifacts["reports"].values(), "known.json"]
    assert [name for name in names if not list(folder.glob(name))] == []


def test_the_pre_commit_hook_reports_invalid_tapes(folder, monkeypatch):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    (repo,) = PRE_COMMIT["repos"]
    assert repo["hooks"] == [{"id": hook["id"]}]
    stream = "tape: 1\n---\nrequest: GET /v1/sessions/ses_1/events/stream\nevents:\n- data: {sequence: 1}\n"
    (folder / "good.tape").write_text(stream, "utf-8")
    (folder / "bad.tape").write_text(stream.replace("events:", "evnts:"), "utf-8")
    assert all(re.search(hook["files"], path.name) for path in folder.glob("*.tape"))

    monkeypatch.chdir(folder)
    entry = hook["entry"].split()[1:]
    succeed(*entry, "good.tape")
    assert invoke(*entry, "--fail-on=error", "good.tape").exit_code == 1
    invalid = invoke(*entry, "good.tape", "bad.tape")
    assert invalid.exit_code == 2
    assert "bad.tape, line 4: evnts: unknown key" in invalid.stderr


def test_the_probe_workflow_fails_with_an_annotation_and_writes_the_reports(folder):
    """Every step with a command runs, with the faults of the guide; the others belong to GitHub."""
    find_program("curl")
    (folder / "faults.toml").write_text(FAULTS, "utf-8")
    (job,) = PROBE["jobs"].values()
    steps = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    # All cases, and waiting for the limits, take a minute and a half: tests/probe runs them.
    steps["Probe the service"] = steps["Probe the service"].replace("probe ", "probe --only errors,sessions ")
    (folder / "service.toml").write_text('limits = false\n[[keys]]\nkey = "wiretape-key"\n', "utf-8")
    with_faults = "serve probe --faults faults.toml --service service.toml"
    steps["Start the service"] = steps["Start the service"].replace("serve probe", with_faults)
    ports = "\n".join(f"export {name}=http://127.0.0.1:{free_port()}" for name in PROBE["env"])
    keys = "\n".join(f"export {name}={value}" for name, value in job["env"].items())
    install, serve, describe, repeat, *_ = (block.strip() for block in blocks(SERVICE_PAGE, "sh"))
    assert steps.pop("Install") == install.splitlines()[-1] == f"pip install ./wiretape-{__version__}-py3-none-any.whl"
    assert serve == f"wiretape serve probe --listen {PROBE['env']['SERVICE'].rpartition(':')[2]}"
    *describe, probe = describe.replace(PROBE["env"]["SERVICE"], "$SERVICE").splitlines()
    assert probe == "wiretape probe"  # as the step below
    repeat = repeat.replace("probe ", "probe --no-shrink ")  # shrinking, which the first probe does, is mostly waiting
    *before, probe = steps.values()

    script = ["status=0", ports, keys, "trap 'kill $(jobs -p)' EXIT", *before, *describe]
    result = run(folder, "\n".join([*script, f"({probe}) || status=$?", f"({repeat}) || true", "exit $status"]))

    assert result.returncode == 1, result.stdout + result.stderr
    assert "held         errors/unknown-session" in result.stderr
    assert "\n::error title=SEQ001 sequence-not-increasing,file=run.db::Expected" in result.stdout
    given = [name for step in job["steps"][-2:] for name in step["with"].values() if name != "contract"]
    assert [name for name in "\n".join(given).split() if not list(folder.glob(name))] == []


def test_the_settings_shown_are_valid(folder):
    path = folder / "wiretape.toml"
    path.write_text(SETTINGS, "utf-8")
    assert load_config(path).fail_on == "warning"
