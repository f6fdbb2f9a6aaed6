"""The guide about the Responses API, word by word, and what the official clients do with a replay."""

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from invoke import invoke, succeed
from programs import find_program
from running import PATIENCE_S, Running

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "test-a-responses-client.md").read_text("utf-8")
CLIENTS = ROOT / "tests" / "clients"
SERVER = [sys.executable, "-m", "wiretape_contracts.open_responses.demo_server", "--port", "0"]
TIMES = re.compile(r" +[\d.]+ m?s| in [\d.]+s =+|=+ |\d+ of 36 |\b1[34] events| · \d+ inconclusive \(.*\)")
DROP = '[[fault]]\ndo = "drop"\nafter = { type = "response.output_text.delta" }\nskip = 2\ntimes = 1\n'
ANSWER = "Good morning, Rome!"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def console(command):
    """The outputs that the guide shows for a command."""
    shown = "\n".join(blocks("console")).split("$ ")
    return [each.partition("\n")[2].splitlines() for each in shown if each.startswith(command)]


def missing(shown, output):
    """The lines of an example that were not printed."""
    lines = {TIMES.sub("", line) for line in output.splitlines()}
    return [line for line in shown if line not in {"", "..."} and TIMES.sub("", line) not in lines]


def run(folder, *command):
    settings = {"cwd": folder, "env": {"COLUMNS": "120", "PATH": "/usr/bin"}, "timeout": 2 * PATIENCE_S}
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings).stdout


@contextmanager
def demo_server():
    with subprocess.Popen(SERVER, stdout=subprocess.PIPE, text=True) as process:
        yield re.search(r"http://[\d.:]+\d", process.stdout.readline())[0]
        process.terminate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of the guide, its client fixed, and its recording."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:anyio -p no:asyncio -p no:cacheprovider\n", "utf-8")
    client, test, fixed = blocks("python")
    (line,) = [line for line in client.splitlines(keepends=True) if "retrieve(" in line]
    (folder / "client.py").write_text(client, "utf-8")
    (folder / "fixed.py").write_text(client.replace(line, fixed), "utf-8")
    (folder / "test_client.py").write_text(test, "utf-8")
    (folder / "drop.toml").write_text(DROP, "utf-8")
    with demo_server() as url:
        (shown,) = console("python client.py")
        assert missing(shown, run(folder, sys.executable, "client.py", url, "Hello")) == []
        file = folder / "run.db"
        proxy = Running("proxy", url, "--output", file, "--contract", "openai", begin="Listening on ")
        run(folder, sys.executable, "client.py", proxy.url, "Hello")
        assert proxy.stop() == 0
    return folder


def test_the_recording_has_what_the_guide_shows(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (report,), (entities,) = console("wiretape report"), console("wiretape show")
    assert missing(report, succeed("report", "run.db").output) == []
    assert missing(entities, succeed("show", "run.db", "--entities").output) == []
    assert "no findings" in succeed("report", "run.db", "--contract", "open-responses").output


def test_the_client_fails_as_shown_and_passes_when_fixed(folder):
    before, after = console("pytest")
    command = [sys.executable, "-m", "pytest", "test_client.py"]
    assert missing(before, run(folder, *command)) == []
    test = folder / "test_client.py"
    test.write_text(test.read_text("utf-8").replace("from client", "from fixed"), "utf-8")
    assert missing(after, run(folder, *command)) == []


def ask_with_python(folder, url):
    return run(folder, sys.executable, "fixed.py", url, "Hello").strip()


def ask_with_node(node, folder, url):
    driver = CLIENTS / "drivers" / "openai-responses.mjs"
    said = json.loads(run(folder, node, str(driver), json.dumps({"url": url, "question": "Hello"})))
    assert (said["type"], said["resumed"]) == ("response.completed", 1)
    return said["text"]


@pytest.fixture(params=["python", "node"])
def ask(request):
    """Return a function that asks with an official client; skip the test before it starts a replay."""
    if request.param == "python":
        return ask_with_python
    node = find_program("node")
    if not (CLIENTS / "node_modules" / "openai").is_dir():
        pytest.skip("openai is not installed: make client-packages")
    return partial(ask_with_node, node)


def test_an_official_client_resumes_a_replay_and_notices_no_difference(ask, folder):
    replay = Running("replay", folder / "run.db", "--faults", folder / "drop.toml", "--strict", begin="Replaying ")
    assert ask(folder, replay.url) == ANSWER
    assert replay.stop() == 0
    assert "Faults injected: fault-1 1 time." in replay.lines
    assert "The client broke no rules." in replay.lines


def test_a_client_that_skips_events_or_reads_on_after_the_end_breaks_a_rule(folder):
    import httpx  # noqa: PLC0415 - it takes long

    body = {"model": "demo", "input": "Hello", "background": True, "stream": True}
    replay = Running("replay", folder / "run.db", "--faults", folder / "drop.toml", begin="Replaying ")
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{replay.url}/v1/responses", json=body, headers={"Authorization": "Bearer k"})
    name = json.loads(succeed("channels", folder / "run.db", "--json").output)["channels"][0]["id"]
    resume = f"{replay.url}/v1/responses/{name}?stream=true&starting_after="
    for after in (10, 12):
        assert httpx.get(f"{resume}{after}", headers={"Authorization": "Bearer k"}).status_code == 200
    replay.stop()
    found = [line.partition("): ")[2] for line in replay.lines if "OAI003" in line]
    said = "Expected an event that the client received, such as 6, in `starting_after`, got `10`. (and 1 more)"
    assert found == [said]
    assert invoke("diff", folder / "run.db", folder / "run.db").exit_code == 0
