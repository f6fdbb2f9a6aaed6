"""`wiretape replay` as people start it."""

import contextlib
import signal
import socket
import sqlite3
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.observations import Ending
from wiretape_replay.commands.replay import replay as replay_command

JSON = (("Content-Type", "application/json"), ("Content-Length", "2"))
STREAM = "/v1/sessions/s1/events/stream"


def run(*args: object) -> tuple[int, str]:
    """The exit status of a command that does not serve, and what it says."""
    done = CliRunner().invoke(wiretape, ["replay", *map(str, args)])
    assert done.stdout == ""
    return done.exit_code, done.stderr


def refused(*args: object) -> str:
    """What the command says when it cannot do what was asked."""
    status, said = run(*args)
    assert (status, len(said.splitlines())) == (2, 1)
    return said


@pytest.fixture
def recording(builder) -> Path:
    builder.exchange([b"data: 1\n\n"])
    builder.exchange([b"{}"], method="POST", target="/v1/sessions", headers=JSON, status=201)
    builder.exchange([b"data: 2\n\n"], ending=Ending.CLIENT_CLOSED)
    return builder.close()


KEY_IN_URL = "Expected credentials only in the header Authorization, got the parameter `api_key`."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_what_is_asked_and_in_the_end_what_was_not(start, recording, number):
    """It stops with a stream open."""
    replay = start(recording, "--mode", "verbatim")
    url = replay.url
    assert httpx.get(url + STREAM).content == b"data: 1\n\n"
    assert httpx.get(url + "/v1/sessions/nothing?api_key=sk-secret").status_code == 501
    with httpx.stream("GET", url + STREAM) as response:
        next(response.iter_raw())
        assert replay.stop(number) == 0

    assert replay.first == f"Replaying {recording} (3 exchanges) on {url} at the recorded speed; Ctrl-C to stop.\n"
    assert replay.out == ""
    assert replay.err.splitlines() == [
        f"GET {STREAM} → exchange 1, 200",
        "GET /v1/sessions/nothing → no match, 501",
        f"GET {STREAM} → exchange 3, 200, client-closed",
        "Served 2 requests; 1 request had no match.",
        "Never requested: 1 recorded exchange.",
        "      2  POST /v1/sessions",
        "The client broke 1 rule (1 finding):",
        f"  warning CLI008 (exchange 2): {KEY_IN_URL}",
        (
            "The replayed responses of the service break 2 rules (4 findings); "
            f"`wiretape report {recording}` checks the whole recording."
        ),
    ]


def test_it_says_when_everything_was_asked_for(start, builder):
    builder.exchange([b"{}"], target="/v1", headers=JSON)
    replay = start(builder.close(), "--mode", "verbatim")
    httpx.get(replay.url + "/v1")
    replay.stop()

    assert replay.err.splitlines()[1:] == [
        "Served 1 request; 0 requests had no match.",
        "Everything in the recording was requested.",
        "The client broke no rules.",
    ]


def test_a_long_list_of_what_was_never_asked_for_is_cut_and_safe_to_print(start, builder):
    for number in range(25):
        builder.exchange([b"{}"], target=f"/v1/{number}\x1b[2J\u009b", headers=JSON)
    replay = start(builder.close(), "--mode", "verbatim")
    replay.stop()

    assert replay.err.splitlines()[-3:] == [
        "     20  GET /v1/19\\x1b[2J\\x9b",
        "  and 5 more.",
        "The client broke no rules.",
    ]


def test_it_can_listen_on_ipv6(start, recording):
    with contextlib.closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
    url = start(recording, "--listen", "[::1]:0", "--no-auth").url
    assert url.startswith("http://[::1]:")
    assert httpx.get(url + STREAM).status_code == 200


def test_a_port_in_use_is_one_sentence(recording):
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]

        said = refused(recording, "--listen", f"127.0.0.1:{port}")

    assert said == (
        f"Error: Cannot listen on 127.0.0.1:{port}: the port is in use; "
        "choose another with --listen, or 0 for a free one.\n"
    )


@pytest.mark.parametrize("address", ["192.0.2.1:0", "no-such-host.invalid:0"])
def test_an_address_of_somebody_else_is_one_sentence(recording, address):
    assert refused(recording, "--listen", address).startswith(f"Error: Cannot listen on {address}: ")


def test_no_file_and_a_foreign_file_are_one_sentence_each(tmp_path):
    (tmp_path / "notes.txt").write_text("no recording")
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (x)")

    assert refused(tmp_path / "none.db") == f"Error: There is no file {tmp_path / 'none.db'}.\n"
    assert refused(tmp_path / "notes.txt").startswith(f"Error: {tmp_path / 'notes.txt'} is not a wiretape recording. ")
    assert refused(tmp_path / "other.db") == f"Error: {tmp_path / 'other.db'} is not a wiretape recording.\n"


# Options that choose responses, --strict and --verify.


ONE = (("Content-Type", "application/json"), ("Content-Length", "1"))
KEY = {"Authorization": "Bearer anything"}


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
            headers=ONE,
        )
    return builder.close()


@pytest.mark.parametrize("mode", ["verbatim", "channel"])
def test_what_counts_is_chosen_by_options_in_both_modes(start, runs, mode):
    options = ("--ignore-query", "t", "--ignore-body", "$.at", "--match-header", "x-kind", "--repeat", "last")
    replay = start(runs, "--mode", mode, *options)
    answers = [
        httpx.post(f"{replay.url}/v1/runs?t=9", json={"at": 0, "n": number}, headers={**KEY, "X-Kind": kind}).text[:1]
        for number, kind in ((2, "k2"), (1, "k1"), (1, "k1"), (1, "k2"))
    ]

    assert (answers, replay.stop()) == (["2", "1", "1", "P"], 0)
    assert "3 requests; 1 request had no match.\n" in replay.err
    assert "Everything in the recording was requested.\n" in replay.err


@pytest.mark.parametrize(
    ("asked", "status"),
    [(["/a", "/b"], 0), (["/a"], 1), (["/a", "/a", "/b"], 1)],
    ids=["all", "one was never asked for", "one had no match"],
)
def test_strict_makes_misses_and_what_was_never_asked_for_an_exit_status(start, builder, asked, status):
    for target in ("/a", "/b"):
        builder.exchange([b"1"], target=target, headers=ONE)
    replay = start(builder.close(), "--mode", "verbatim", "--strict", "--order", "strict")
    for target in asked:
        httpx.get(replay.url + target)

    assert replay.stop() == status


@pytest.fixture
def stream(builder) -> Path:
    """A stream of a service that required a key."""
    frame = b'event: run.started\nid: e1\ndata: {"id":"e1","sequence":1,"type":"run.started","run_id":"r1"}\n\n'
    builder.exchange([frame], request_headers=tuple(KEY.items()))
    return builder.close()


@pytest.mark.parametrize(("options", "playheads"), [((), 1), (("--playhead", "connection"), 2)])
def test_playhead_chooses_between_one_for_all_and_one_for_each_stream(start, stream, options, playheads):
    url = start(stream, "--paused", "--control-token", "mine", *options).url
    with contextlib.ExitStack() as streams:
        for key in ("one", "other"):
            headers = {"Authorization": f"Bearer {key}"}
            streams.enter_context(httpx.stream("GET", url + STREAM, headers=headers))
        state = httpx.get(url + "/_wiretape/state", headers={"X-Wiretape-Token": "mine"}).json()

    assert (len(state["channels"][0]["streams"]), state["channels"][0]["playheads"]) == (2, playheads)


@pytest.mark.parametrize(("options", "last"), [((), 501), (("--limits",), 429)])
def test_limits_enforces_the_published_limits(start, stream, options, last):
    with httpx.Client(base_url=start(stream, *options).url, headers=KEY) as client:
        statuses = [client.post("/v1/sessions").status_code for _ in range(31)]

    assert statuses == [501] * 30 + [last]


@pytest.mark.parametrize(("options", "status"), [((), 401), (("--no-auth",), 200)])
def test_no_auth_accepts_requests_without_a_key(start, stream, options, status):
    with httpx.stream("GET", start(stream, *options).url + STREAM) as response:
        assert response.status_code == status


def test_verify_says_that_all_is_as_recorded(builder):
    builder.exchange([b"data: 1\n\n"])
    builder.exchange([b"data: 2\n\n", b"data: 3\n\n"], ending=Ending.SERVICE_RESET)

    assert run(builder.close(), "--verify") == (
        0,
        "2 exchanges came back as recorded: 27 bytes of body in 3 chunks, with their heads and endings.\n",
    )


def test_verify_says_what_cannot_be_compared_as_it_was(builder):
    gap = 7
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
    assert run(runs, "--verify", *options) == (2, f"Error: --verify cannot be combined with {named}.\n")


def test_the_help_sorts_options_and_leaves_none_out():
    done = CliRunner().invoke(wiretape, ["replay", "--help"])

    lines = done.stdout.partition("What to serve, and where:")[2].splitlines()
    for option in (
        option for parameter in replay_command.params for option in parameter.opts if option.startswith("--")
    ):
        assert sum(line.strip().split(" ")[0] == option for line in lines) == 1, option
    assert "FILE" not in [line.strip() for line in lines]
    assert lines.index("Time:") < next(at for at, line in enumerate(lines) if line.startswith("  --speed "))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--match-header", "a b", "Error: Invalid match_header 'a b': expected the name of a header.\n"),
        ("--match-header", "", "Error: Invalid match_header '': expected the name of a header.\n"),
        ("--ignore-query", "", "Error: Invalid ignore_query '': expected the name of a query parameter.\n"),
        ("--ignore-body", "created_at", "Error: Invalid JSON path 'created_at'"),
        *(("--speed", speed, f"Error: Invalid speed {speed!r}: expected max or a number") for speed in ("fast", "-1")),
        *(
            ("--listen", at, f"Error: Invalid address {at!r}: ")
            for at in ("localhost", "127.0.0.1:", "127.0.0.1:70000")
        ),
    ],
)
def test_an_invalid_value_is_refused(recording, option, value, said):
    assert refused(recording, option, value).startswith(said)
