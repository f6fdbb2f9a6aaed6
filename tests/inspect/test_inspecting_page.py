"""What docs/inspecting.md shows is what the commands say of the recording that it is about."""

import re
from pathlib import Path

import pytest

from wiretape.observations import Ending
from wiretape.recording import Writer
from wiretape.rules import Finding, Party, Severity

PAGE = (Path(__file__).parents[2] / "docs" / "inspecting.md").read_text("utf-8")
OVERVIEW, SHOWN, STATE, RESUMED, CALLS = re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
CLOCK = re.compile(r"\S*127\.0\.0\.1\S*|\S*service\.test\S*|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d(?:\.\d+)?")
"""What is different each time: when it was, and where."""
ENDED_NS = 16_495_000_000


@pytest.fixture
def judged(session):
    """The recording with what live checks found."""
    writer = Writer.create(session, upstream="http://service.test", append=True)
    problem = "Expected a sequence above 2, got 2."
    writer.add_findings(
        [
            Finding("SEQ001", Severity.ERROR, Party.SERVICE, 2, 2, 2, None, 15_000_000, problem),
            Finding("ERR001", Severity.ERROR, Party.SERVICE, 4, None, None, None, ENDED_NS - 1, "It is no envelope."),
        ]
    )
    writer.close(ENDED_NS)
    return session


def left_out(example, output):
    """The lines of an example that the command did not print, in order; a page may leave out the end of a line."""
    lines = iter(CLOCK.sub("…", output).splitlines())
    return [line for line in CLOCK.sub("…", example).splitlines() if not any(one.startswith(line) for one in lines)]


def test_sessions(run, judged):
    assert left_out(OVERVIEW, run("channels", judged).output) == []


def test_show(run, judged):
    assert left_out(SHOWN, run("show", judged).output) == []


def test_one_event(run, judged):
    assert left_out(STATE, run("show", judged, "--at", "2:11").output) == []


def test_calls(run, judged):
    assert run("show", judged, "--entities").output == CALLS


def test_two_connections(run, builder, message):
    e2 = message("tool.started", id="e2", sequence=2, content={"tool_call_id": "t1", "name": "f", "input": {}})
    e3 = message("message.completed", id="e3", sequence=3, content=[{"type": "text", "text": "word word"}])
    deltas = [(1, message("message.delta", delta={"text": "word "}))] * 37
    builder.exchange(target="/v1/runs", method="POST", status=409)
    began = (16_441, message("run.started", id="e1", sequence=1))
    builder.exchange([began, e2, *deltas, e3, b"data: {"], ending=Ending.SERVICE_RESET)
    ends = message("run.completed", id="e6", sequence=6)
    builder.exchange([e3, ends], request_headers=(("Last-Event-ID", "e1"),))
    assert run("show", builder.close(), "--resume", "2:3").output == RESUMED
