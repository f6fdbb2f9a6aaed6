"""The shell examples of docs/control.md."""

import json
import os
import re
import subprocess
import time
from itertools import cycle
from pathlib import Path

import pytest
from programs import find_program

from wiretape_replay import ReplayOptions
from wiretape_replay.channel.playhead import PlayheadStatus, StepTarget
from wiretape_replay.control.playhead_control import WaitCondition
from wiretape_replay.loop_thread import start_replay

PAGE = (Path(__file__).parents[2] / "docs" / "control.md").read_text("utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


@pytest.fixture
def recording(builder):
    find_program("curl")
    frames = [
        b'event: run.started\nid: e1\ndata: {"id":"e1","sequence":1,"type":"run.started","run_id":"r1"}\n\n',
        b'event: tool.started\nid: e2\ndata: {"id":"e2","sequence":2,"type":"tool.started","run_id":"r1"}\n\n',
    ]
    builder.exchange(frames)
    return builder.close()


def test_every_shell_example_succeeds(recording):
    """They run on one replay, in the order of the page."""
    outputs = []
    with start_replay(recording, ReplayOptions(paused=True)) as replay:
        env = {**os.environ, "URL": replay.url, "TOKEN": replay.token}
        for command in COMMANDS[:-1]:
            done = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, env=env, timeout=30, check=True
            )
            outputs.append(done.stdout)
        with subprocess.Popen(["sh", "-c", COMMANDS[-1]], stdout=subprocess.PIPE, text=True, env=env) as events:
            shown = [events.stdout.readline() for _ in range(3)]
            # curl notices that `head` has exited when it writes the next message: without a change, a keep-alive.
            for position in cycle((0, 1)):
                if events.poll() is not None:
                    break
                replay.control.seek(position=position)
                time.sleep(0.03)

    assert len(outputs) >= 15
    assert (shown[1], events.returncode) == ("event: playhead\n", 0)
    for command, output in zip(COMMANDS[:-1], outputs, strict=True):
        assert "error" not in json.loads(output), command


def test_the_example_of_a_state_has_all_keys_of_a_state(recording):
    shown = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
    with start_replay(recording, ReplayOptions(paused=True)) as replay:
        env = {**os.environ, "URL": replay.url, "TOKEN": replay.token}
        done = subprocess.run(
            ["sh", "-c", COMMANDS[0]], capture_output=True, text=True, env=env, timeout=30, check=True
        )
    state = json.loads(done.stdout)

    assert list(shown) == list(state)
    assert list(shown["channels"][0]) == list(state["channels"][0])
    assert list(shown["channels"][0]["next"]) == list(state["channels"][0]["next"])
    assert list(shown["requests"]) == list(state["requests"])


@pytest.mark.parametrize("values", [StepTarget, WaitCondition, PlayheadStatus])
def test_the_page_names_every_value(values):
    assert [value.value for value in values if f"`{value.value}`" not in PAGE] == []
