"""`wiretape replay` as people start it."""

import contextlib
import re
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from wiretape_process import WiretapeProcess

from wiretape.cli import wiretape
from wiretape.observations import Ending

JSON = (("Content-Type", "application/json"), ("Content-Length", "2"))
STREAM = "/v1/sessions/s1/events/stream"


@contextlib.contextmanager
def replaying(*args: object) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The running command, its first line, and the URL in it."""
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with WiretapeProcess("replay", "--mode", "verbatim", *args, **pipes, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r"http://\S+", line)
            assert match, line + process.stderr.read()
            yield process, line, match[0]
        finally:
            process.kill()


def refused(*args: object) -> str:
    """What the command says when it cannot do what was asked."""
    done = CliRunner().invoke(wiretape, ["replay", *map(str, args)])

    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


@pytest.fixture
def recording(builder) -> Path:
    builder.exchange([b"data: 1\n\n"])
    builder.exchange([b"{}"], method="POST", target="/v1/sessions", headers=JSON, status=201)
    builder.exchange([b"data: 2\n\n"], ending=Ending.CLIENT_CLOSED)
    return builder.close()


KEY_IN_URL = "Expected credentials only in the header Authorization, got the parameter `api_key`."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_what_is_asked_and_in_the_end_what_was_not(recording, number):
    with replaying(recording, "--listen", "127.0.0.1:0") as (process, line, url):
        assert httpx.get(url + STREAM).content == b"data: 1\n\n"
        assert httpx.get(url + "/v1/sessions/nothing?api_key=sk-secret").status_code == 501
        process.send_signal(number)
        out, err = process.communicate(timeout=45)

    assert line == f"Replaying {recording} (3 exchanges) on {url} at the recorded speed; Ctrl-C to stop.\n"
    assert err.splitlines() == [
        f"GET {STREAM} → exchange 1, 200",
        "GET /v1/sessions/nothing → no match, 501",
        "Served 1 request; 1 request had no match.",
        "Never requested: 2 recorded exchanges.",
        "      2  POST /v1/sessions",
        f"      3  GET {STREAM}",
        "The client broke 1 rule (1 finding):",
        f"  warning CLI008 (exchange 2): {KEY_IN_URL}",
        f"The recorded service breaks 2 rules (2 findings; see `wiretape report {recording}`).",
    ]
    assert (out, process.returncode) == ("", 0)


def test_it_stops_with_streams_open(recording):
    with replaying(recording, "--listen", "127.0.0.1:0", "--speed", "max") as (process, _, url):
        httpx.get(url + STREAM)
        with httpx.stream("GET", url + STREAM) as response:
            next(response.iter_raw())
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=45)

    assert f"GET {STREAM} → exchange 3, 200, client-closed\n" in err
    assert (out, process.returncode) == ("", 0)


def test_it_says_when_everything_was_asked_for(builder):
    builder.exchange([b"{}"], target="/v1", headers=JSON)
    with replaying(builder.close(), "--listen", "127.0.0.1:0") as (process, _, url):
        httpx.get(url + "/v1")
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=45)[1]

    assert err.splitlines()[1:] == [
        "Served 1 request; 0 requests had no match.",
        "Everything in the recording was requested.",
        "The client broke no rules.",
    ]


def test_a_long_list_of_what_was_never_asked_for_is_cut(builder):
    for number in range(25):
        builder.exchange([b"{}"], target=f"/v1/{number}", headers=JSON)
    with replaying(builder.close(), "--listen", "127.0.0.1:0") as (process, _, _):
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=45)[1]

    assert err.splitlines()[-3:] == ["     20  GET /v1/19", "  and 5 more.", "The client broke no rules."]


def test_recorded_text_cannot_steer_the_terminal(builder):
    builder.exchange([b"{}"], target="/v1/\x1b[2J\u009b", headers=JSON)
    with replaying(builder.close(), "--listen", "127.0.0.1:0") as (process, _, _):
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=45)[1]

    assert "GET /v1/\\x1b[2J\\x9b" in err


def test_it_can_listen_on_ipv6(recording):
    with contextlib.closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
    with replaying(recording, "--listen", "[::1]:0") as (_, _, url):
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


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1:", "127.0.0.1:70000", "::1:80", "a b:1"])
def test_a_bad_address_is_one_sentence(recording, address):
    assert refused(recording, "--listen", address).startswith(f"Error: Invalid address {address!r}: ")


@pytest.mark.parametrize("address", ["192.0.2.1:0", "no-such-host.invalid:0"])
def test_an_address_of_somebody_else_is_one_sentence(recording, address):
    assert refused(recording, "--listen", address).startswith(f"Error: Cannot listen on {address}: ")


@pytest.mark.parametrize("speed", ["fast", "0", "-1", "nan"])
def test_a_bad_speed_is_one_sentence(recording, speed):
    assert refused(recording, "--speed", speed).startswith(f"Error: Invalid speed {speed!r}: expected max or a number")


def test_no_file_and_a_foreign_file_are_one_sentence_each(tmp_path):
    (tmp_path / "notes.txt").write_text("no recording")
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (x)")

    assert refused(tmp_path / "none.db") == f"Error: There is no file {tmp_path / 'none.db'}.\n"
    assert refused(tmp_path / "notes.txt").startswith(f"Error: {tmp_path / 'notes.txt'} is not a wiretape recording. ")
    assert refused(tmp_path / "other.db") == f"Error: {tmp_path / 'other.db'} is not a wiretape recording.\n"
