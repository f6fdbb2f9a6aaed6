"""`wiretape serve`, and services started from Python without an event loop."""

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner
from for_each import for_each
from wiretape_process import WiretapeProcess

from wiretape.cli import wiretape
from wiretape.errors import InputError
from wiretape_contracts.agent_sessions.stand_in.assumptions import DEFAULT_KEY, default_settings
from wiretape_contracts.agent_sessions.stand_in.event_emitter import generate_id
from wiretape_contracts.agent_sessions.stand_in.scenario_file import bundled_scenarios
from wiretape_replay.access.access_settings import DEFAULT_TENANT
from wiretape_replay.loop_thread import start_scenario
from wiretape_replay.stand_in import ServeOptions


def test_the_command_serves_a_file_and_ends_with_a_client_verdict(tmp_path):
    """Everything that needs a real process, in one."""
    scenario = tmp_path / "mine.toml"
    scenario.write_text('title = "Mine"\n[[run]]\nsteps = [{ say = "Hi." }]\n', "utf-8")
    process = WiretapeProcess(
        *("serve", scenario, "--listen", "127.0.0.1:0", "--clock", "virtual", "--no-config"),
        *("--fail-on", "error", "--report", "json:-", "--record", tmp_path / "passed.db"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = process.stderr.readline()
    words = first.split()
    url = next(word for word in words if word.startswith("http://")).rstrip(",")
    assert first.startswith(f"Serving {scenario} on http://127.0.0.1:")
    assert f"Authorization: Bearer {DEFAULT_KEY};" in first
    assert process.stderr.readline().startswith("Control: ")
    seed = process.stderr.readline().split()[-6]
    session = _post(f"{url}/v1/sessions")["id"]
    assert _post(f"{url}/v1/sessions/{session}/runs")["status"] == "running"
    with pytest.raises(urllib.error.HTTPError) as refused:
        _post(f"{url}/v1/sessions", key="other")
    assert json.load(refused.value)["error"]["code"] == "authentication_required"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "The client broke no rules." in err
    assert "Traceback" not in err
    assert json.loads(out)["findings"] == []
    assert session == generate_id("ses", int(seed), 1), "the printed seed generates the same ids"


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--strict",), 1)])
def test_strict_fails_if_a_fault_never_matched(tmp_path, options, status):
    faults = tmp_path / "faults.toml"
    faults.write_text('[[fault]]\ndo = "drop"\nbefore = { sequence = 9 }\n', "utf-8")

    assert _serve("--faults", faults, "--no-config", *options)[0] == status


@pytest.mark.parametrize(("ignored", "verdict"), [("CLI002", "The client broke 1 rule"), ("CLI008", "broke no rules")])
def test_config_chooses_the_rules_for_the_client(tmp_path, ignored, verdict):
    config = tmp_path / "rules.toml"
    config.write_text(f'ignore = ["{ignored}"]\n', "utf-8")

    assert verdict in _serve("--config", config, target="/v1/sessions?api_key=secret")[1]


def _serve(*options, target="/v1/sessions"):
    """Create a session at a target; returns the exit status and what the command printed."""
    command = ("serve", "--listen", "127.0.0.1:0", "--clock", "virtual", *options)
    with WiretapeProcess(*command, stderr=subprocess.PIPE, text=True) as process:
        _post(re.search(r"http://[^,]+", process.stderr.readline())[0] + target)
        process.send_signal(signal.SIGINT)
        printed = process.communicate(timeout=30)[1]
        return process.returncode, printed


def _post(url, key=DEFAULT_KEY):
    request = urllib.request.Request(url, b"{}", {"Authorization": f"Bearer {key}"})  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=45) as response:  # noqa: S310
        return json.load(response)


def test_the_list_has_every_bundled_scenario():
    listed = CliRunner().invoke(wiretape, ["serve", "--list"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.output.splitlines()] == list(bundled_scenarios())


@for_each(
    ("args", "words"),
    [
        (["helo"], "Unknown scenario helo; did you mean hello?"),
        (["nowhere.toml"], "There is no file nowhere.toml"),
        (["--listen", "here"], "Invalid address"),
        (["--service", "nowhere.toml"], "There is no file nowhere.toml"),
        (["--faults", "nowhere.toml"], "There is no file nowhere.toml"),
        (["--report", "junit"], "expected FORMAT:FILE"),
    ],
)
def test_errors_are_one_sentence_with_status_2(args, words):
    result = CliRunner().invoke(wiretape, ["serve", *args, "--no-config"])
    assert (result.exit_code, words in result.output) == (2, True), result.output
    assert "Traceback" not in result.output


def test_control_shows_a_service_like_a_replay_without_recorded_responses():
    """Without `0 other requests`."""
    with start_scenario("hello", ServeOptions(clock="virtual")) as service:
        result = CliRunner().invoke(wiretape, ["control", service.url, "state"], env={"WIRETAPE_TOKEN": service.token})
        assert result.output == "no playhead: no channel yet\nserved: 0 streams\n"


def test_a_service_can_be_started_without_an_event_loop():
    with start_scenario("silence", ServeOptions(clock="virtual")) as service:
        session = _post(f"{service.url}/v1/sessions", service.key)["id"]
        _post(f"{service.url}/v1/sessions/{session}/runs", service.key)
        service.control.advance(100)
        assert service.control.channel(session).channel_state().length > 5, "a whole run, with 40 seconds of silence"
    with (
        start_scenario("hello", ServeOptions()) as service,
        pytest.raises(InputError, match="Real time cannot be advanced"),
    ):
        service.control.advance(1)


def test_the_default_settings_have_one_key_and_the_published_limits():
    service = default_settings().access
    assert {key: known.tenant for key, known in service.keys.items()} == {DEFAULT_KEY: DEFAULT_TENANT}
    assert {name: limit.requests for name, limit in service.limits.items()} == {
        "sessions": 30,
        "runs": 60,
        "events": 120,
    }
