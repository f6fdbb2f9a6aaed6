"""Conversations with a small agent, recorded and replayed: its official client notices no difference."""

import json
import subprocess
from pathlib import Path

import httpx
import pytest
from invoke import invoke
from programs import find_program
from running import PATIENCE_S, Running, serve_in_thread
from weather_agent import APP, DEFECTS

CLIENTS = Path(__file__).parents[1] / "clients"
DRIVER = CLIENTS / "drivers" / "ag-ui.mjs"
HEADERS = {"Accept": "text/event-stream"}
TOOLS = [{"name": "confirm", "description": "Asks the user."}]
CODES = {
    "an error and an end": ["AGU012"],
    "a message that stays open": ["AGU031"],
    "no end": ["AGU014"],
    "another run": ["AGU020"],
}


@pytest.fixture(scope="module")
def agent():
    with serve_in_thread(APP) as url:
        yield f"{url}"


@pytest.fixture
def official_client():
    """Return a function that has a conversation with the official client, and returns what that prints."""
    node = find_program("node")
    if not (CLIENTS / "node_modules" / "@ag-ui" / "client").is_dir():
        pytest.skip("@ag-ui/client is not installed: make client-packages")

    def converse(url, prefix):
        command = [node, str(DRIVER), json.dumps({"url": f"{url}/agent", "prefix": prefix})]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        assert "ag-ui" not in done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return converse


def ask(url, number, *, messages=(), **more):
    """Run the agent once, as a client does; return the types of the events."""
    user = {"id": "m0", "role": "user", "content": "Shall I take an umbrella?"}
    asked = {"threadId": "t1", "runId": f"r{number}", "messages": [user, *messages], "tools": TOOLS} | more
    text = httpx.post(f"{url}/agent", json=asked, headers=HEADERS).text
    return [json.loads(line.removeprefix("data: "))["type"] for line in text.splitlines() if line]


ANSWER = {"id": "m9", "role": "tool", "toolCallId": "confirm-1", "content": "yes"}
RESUME = [{"interruptId": "i1", "status": "resolved", "payload": True}]


@pytest.fixture(scope="module")
def recording(agent, tmp_path_factory):
    """Three runs of one thread."""
    file = tmp_path_factory.mktemp("ag-ui") / "run.db"
    proxy = Running("proxy", agent, "--output", file, "--contract", "ag-ui", begin="Listening on ")
    for number, more in enumerate([{}, {"messages": [ANSWER]}, {"messages": [ANSWER], "resume": RESUME}], 1):
        assert ask(proxy.url, number, **more)[-1] == "RUN_FINISHED"
    assert proxy.stop() == 0
    return file


def test_a_conversation_has_no_finding_and_shows_its_entities(recording):
    assert invoke("report", recording, "--fail-on", "note").exit_code == 0
    entities = invoke("show", recording, "--entities").output
    for part in ("step  locate ", "tool  locate-1 ", "reasoning  r1 thought ", "message  r3 text ", "RUN_FINISHED"):
        assert part in entities
    shown = invoke("show", recording, "tool:confirm-1").output
    assert '{"city": "Rome"}' in shown
    assert "locate-1" not in shown


def test_the_official_client_gets_the_same_from_the_agent_and_from_a_replay(agent, official_client, tmp_path):
    file = tmp_path / "run.db"
    proxy = Running("proxy", agent, "--output", file, "--contract", "ag-ui", begin="Listening on ")
    live = official_client(proxy.url, "r")
    assert proxy.stop() == 0
    assert (live[-1], live[-2]["content"]) == ({"runs": 3, "errors": 0, "state": {"city": "Rome"}}, "No, it is sunny.")
    assert invoke("report", file, "--fail-on", "note").exit_code == 0

    replay = Running("replay", file, "--speed", "max", "--fail-on", "note", begin="Replaying ")
    assert official_client(replay.url, "another ") == live
    assert replay.stop() == 0
    assert "The client broke no rules." in replay.lines
    assert "recorded service" not in " ".join(replay.lines)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_one_finding(defect, agent, tmp_path):
    file = tmp_path / "run.db"
    proxy = Running("proxy", agent, "--output", file, "--contract", "ag-ui", begin="Listening on ")
    body = {"threadId": "t1", "runId": "r3", "messages": [ANSWER], "resume": RESUME}
    httpx.post(f"{proxy.url}/agent", params={"defect": defect}, json=body, headers=HEADERS)
    assert proxy.stop() == 0
    report = json.loads(invoke("report", file, "--format", "json").output)
    assert [each["code"] for each in report["findings"]] == CODES[defect]


CLIENT_MISTAKES = {
    "AGU062": {"messages": [ANSWER], "tools": None},
    "AGU063": {},
    "AGU065": {"messages": [ANSWER], "runId": "r1"},
}


@pytest.mark.parametrize("code", CLIENT_MISTAKES)
def test_a_replay_reports_what_its_client_breaks(recording, code):
    arguments = ["--speed", "max", "--ignore-body", "$", "--fail-on", "error"]
    replay = Running("replay", recording, *arguments, begin="Replaying ")
    ask(replay.url, 1)
    ask(replay.url, 2, **CLIENT_MISTAKES[code])
    assert replay.stop() == 1
    assert code in " ".join(replay.lines)
