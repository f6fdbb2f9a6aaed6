"""`wiretape show --follow`, beside a writer that is at work."""

import json
import signal
import subprocess
from contextlib import contextmanager

import pytest
from findings import finding
from wiretape_process import WiretapeProcess

from wiretape.observations import Ending


@contextmanager
def following(path, *words):
    """The command, and a function that reads lines of it until one holds a word."""
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with WiretapeProcess("show", "--follow", path, *words, **pipes, text=True) as process:

        def until(word):
            lines = []
            while word not in (lines[-1] if lines else ""):
                line = process.stdout.readline()
                assert line, f"it ended before it said {word}: {lines} {process.stderr.read()}"
                lines.append(line.rstrip("\n"))
            return lines

        try:
            yield process, until
        finally:
            process.kill()


@pytest.fixture
def growing(builder, message):
    """A recording with an open stream that has one event."""
    builder.exchange([(5, message("run.started", id="e1", sequence=1))], ending=None)
    builder.save()
    return builder


def test_follow_shows_additions_until_the_recording_is_closed(growing, message):
    with following(growing.path) as (process, until):
        assert [line.split()[0] for line in until("run.started")] == ["#1", "1"]
        growing.extend(1, [(2000, message("message.completed", id="e2", sequence=2))])
        assert [line.split()[0] for line in until("message.completed")] == ["╌╌", "2"]
        growing.exchange([b"hello"], target="/x", status=500, headers=())
        growing.save()
        assert until("hello")[0].startswith("#2    GET /x  500")
        growing.find(finding(2))
        assert until("SEQ001")[-1].strip() == "└ SEQ001 error  It is wrong.  at 1:2"
        growing.extend(1, [(5, message("run.completed", id="e3", sequence=3))], ending=Ending.CLIENT_CLOSED)
        lines = until("client closed")
        assert [line.split()[0] for line in lines] == ["#1", "3", "end"]
        growing.close()
        assert (process.wait(20), process.stdout.read(), process.stderr.read()) == (0, "", "")


def test_deltas_are_shown_when_nothing_comes_for_a_while(growing, message):
    with following(growing.path, "type:*.delta") as (_, until):
        growing.extend(1, [(5, message("message.delta", delta={"text": "so far"}))])
        assert "1 message.delta · 6 chars  so far" in until("message.delta")[-1]
        growing.extend(1, [(5, message("message.delta", delta={"text": "and on"}))])
        assert until("and on")[-1].split()[0] == "3"


def test_a_filter_and_json_work_while_following(growing, message):
    with following(growing.path, "--json", "type:run.*") as (process, until):
        until("run.started")
        growing.extend(1, [message("message.completed", id="e2", sequence=2)])
        growing.extend(1, [message("run.completed", id="e3", sequence=3)])
        (line,) = until("run.completed")
        assert (json.loads(line)["row"], json.loads(line)["event"]) == ("event", 3)
        growing.close()
        assert process.wait(20) == 0


def test_follow_shows_exchanges_that_never_ended_last(growing):
    growing.exchange(target="/waiting", status=None, ending=None)
    growing.close()
    with following(growing.path) as (process, until):
        assert "still open" in until("/waiting")[-1]
        assert process.wait(20) == 0


def test_follow_prints_the_same_as_show_for_a_closed_recording(run, session):
    """In the order of time; here no two exchanges overlap, so that is the same."""
    without = [line for line in run("show", session).output.splitlines() if "gap  type" not in line]
    assert run("show", session, "--follow").output.splitlines() == without


def test_ctrl_c_ends_it(growing):
    with following(growing.path) as (process, until):
        until("run.started")
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (130, "")
