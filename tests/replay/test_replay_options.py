"""The options of `wiretape replay` that choose answers, --strict and --verify, as people give them."""

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from wiretape_process import WiretapeProcess

from wiretape.cli import wiretape
from wiretape.observations import BytesLost, Ending, Side
from wiretape_replay.commands.replay import replay

JSON = (("Content-Type", "application/json"), ("Content-Length", "1"))
KEY = {"Authorization": "Bearer anything"}
STREAM = "/v1/sessions/s1/events/stream"


class Running:
    """The command while it serves, and what it said once it has ended."""

    def __init__(self, *args: object) -> None:
        command = ["replay", "--listen", "127.0.0.1:0", "--speed", "max", *args]
        self.process = WiretapeProcess(*command, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in iter(self.process.stderr.readline, ""):
            lines.append(line)
            if line.startswith("Replaying "):
                break
        found = re.search(r"^Replaying .* on (http://\S+)", "".join(lines), re.MULTILINE)
        assert found, lines
        self.url = found[1]
        self.said = ""

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        self.said = self.process.communicate(timeout=45)[1]
        return self.process.returncode


@contextlib.contextmanager
def running(*args: object) -> Iterator[Running]:
    it = Running(*args)
    try:
        yield it
    finally:
        it.process.kill()
        it.process.communicate()


def run(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(wiretape, ["replay", *map(str, args)])
    assert done.stdout == ""
    return done.exit_code, done.stderr


@pytest.fixture
def runs(builder) -> Path:
    """Two runs that were created, in JSON that differs; no streams."""
    for number in (1, 2):
        builder.exchange(
            [b"%d" % number],
            method="POST",
            target=f"/v1/runs?t={number}",
            request_headers=(("X-Kind", f"k{number}"),),
            body=b'{"n":%d,"at":%d}' % (number, number),
            headers=JSON,
        )
    return builder.close()


@pytest.mark.parametrize("mode", ["verbatim", "session"])
def test_what_counts_is_chosen_by_options_in_both_modes(runs, mode):
    options = ("--ignore-query", "t", "--ignore-body", "$.at", "--match-header", "x-kind", "--repeat", "last")
    with running(runs, "--mode", mode, *options) as it:
        answers = [
            httpx.post(f"{it.url}/v1/runs?t=9", json={"at": 0, "n": number}, headers={**KEY, "X-Kind": kind}).text[:1]
            for number, kind in ((2, "k2"), (1, "k1"), (1, "k1"), (1, "k2"))
        ]
        status = it.stop()

    assert answers == ["2", "1", "1", "{"]
    assert "3 requests; 1 request had no match.\n" in it.said
    assert "Everything in the recording was requested.\n" in it.said
    assert status == 0


@pytest.mark.parametrize(
    ("asked", "status"),
    [(["/a", "/b"], 0), (["/a"], 1), (["/a", "/a", "/b"], 1)],
    ids=["all", "one was never asked for", "one had no match"],
)
def test_strict_makes_misses_and_what_was_never_asked_for_an_exit_status(builder, asked, status):
    for target in ("/a", "/b"):
        builder.exchange([b"1"], target=target, headers=JSON)
    with running(builder.close(), "--mode", "verbatim", "--strict", "--order", "strict") as it:
        for target in asked:
            httpx.get(it.url + target)

        assert it.stop() == status


@pytest.fixture
def stream(builder) -> Path:
    """A stream of a service that required a key."""
    frame = b'event: run.started\nid: e1\ndata: {"id":"e1","sequence":1,"type":"run.started","run_id":"r1"}\n\n'
    builder.exchange([frame], request_headers=tuple(KEY.items()))
    return builder.close()


@pytest.mark.parametrize(("options", "playheads"), [((), 1), (("--playhead", "connection"), 2)])
def test_playhead_chooses_between_one_for_all_and_one_for_each_stream(stream, options, playheads):
    with running(stream, "--paused", "--control-token", "mine", *options) as it, contextlib.ExitStack() as streams:
        for key in ("one", "other"):
            headers = {"Authorization": f"Bearer {key}"}
            streams.enter_context(httpx.stream("GET", it.url + STREAM, headers=headers))
        state = httpx.get(it.url + "/_wiretape/state", headers={"X-Wiretape-Token": "mine"}).json()

    assert (len(state["sessions"][0]["streams"]), state["sessions"][0]["playheads"]) == (2, playheads)


@pytest.mark.parametrize(("options", "last"), [((), 501), (("--limits",), 429)])
def test_limits_enforces_the_published_limits(stream, options, last):
    with running(stream, *options) as it, httpx.Client(base_url=it.url, headers=KEY) as client:
        statuses = [client.post("/v1/sessions").status_code for _ in range(31)]

    assert statuses == [501] * 30 + [last]


@pytest.mark.parametrize(("options", "status"), [((), 401), (("--no-auth",), 200)])
def test_no_auth_accepts_requests_without_a_key(stream, options, status):
    with running(stream, *options) as it:
        assert httpx.get(it.url + STREAM).status_code == status


def test_verify_says_that_all_is_as_recorded(builder):
    builder.exchange([b"data: 1\n\n"])
    builder.exchange([b"data: 2\n\n", b"data: 3\n\n"], ending=Ending.SERVICE_RESET)

    assert run(builder.close(), "--verify") == (
        0,
        "2 exchanges came back as recorded: 27 bytes of body in 3 chunks, with their heads and endings.\n",
    )


def test_verify_says_what_cannot_be_compared_as_it_was(builder):
    gap = BytesLost(0, 0, Side.RESPONSE, 0, 7, "disk full")
    builder.exchange([b"data: 1\n\n", gap], version="HTTP/2.0", headers=(("content-type", "text/event-stream"),))

    status, said = run(builder.close(), "--verify")

    assert status == 0
    assert said.splitlines() == [
        "1 exchange came back as recorded: 9 bytes of body in 1 chunk, with their heads and endings.",
        "Recorded over HTTP/2, served and compared over HTTP/1.1: 1 exchange.",
        "Not recorded, and therefore left out: 7 bytes.",
    ]


def test_verify_says_the_first_difference_in_one_sentence(builder):
    builder.exchange(target="/a")
    for _ in range(2):
        builder.exchange(method="G\x00T", target="/b")

    status, said = run(builder.close(), "--verify")

    assert status == 1
    assert said.startswith(
        "2 of 3 exchanges came back differently. The first is exchange 2, G\\x00T /b: the connection was closed "
    )
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--mode", "verbatim"], "--mode"),
        (["--strict", "--speed", "1"], "--speed and --strict"),
        (["--ignore-body", "$.at"], "--ignore-body"),
    ],
)
def test_verify_goes_with_no_other_option(runs, options, named):
    assert run(runs, "--verify", *options) == (
        2,
        f"Error: --verify cannot be combined with {named}.\n",
    )


def test_what_is_no_path_is_one_sentence(runs):
    status, said = run(runs, "--ignore-body", "created_at")

    assert status == 2
    assert said.startswith("Error: Invalid JSON path 'created_at'")
    assert len(said.splitlines()) == 1


def test_no_file_to_verify_is_one_sentence(tmp_path):
    assert run(tmp_path / "none.db", "--verify") == (2, f"Error: There is no file {tmp_path / 'none.db'}.\n")


def test_the_help_sorts_options_and_leaves_none_out():
    done = CliRunner().invoke(wiretape, ["replay", "--help"])

    lines = done.stdout.splitlines()
    for option in (option for parameter in replay.params for option in parameter.opts if option.startswith("--")):
        assert sum(line.strip().split(" ")[0] == option for line in lines) == 1, option
    assert "FILE" not in [line.strip() for line in lines]
    assert lines.index("Time:") < next(at for at, line in enumerate(lines) if line.startswith("  --speed "))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--match-header", "a b", "Error: Invalid match_header 'a b': expected the name of a header.\n"),
        ("--match-header", "", "Error: Invalid match_header '': expected the name of a header.\n"),
        ("--ignore-query", "", "Error: Invalid ignore_query '': expected the name of a query parameter.\n"),
    ],
)
def test_a_name_that_nothing_can_have_is_refused(builder, option, value, said):
    assert run(builder.close(), option, value) == (2, said)
