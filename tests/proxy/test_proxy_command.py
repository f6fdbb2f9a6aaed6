"""The command `wiretape proxy`: its output, its errors and its exit status."""

import contextlib
import json
import logging
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner
from for_each import for_each
from invoke import refusal, succeed
from tables import read_tables
from wire_bytes import CHUNKED, OK, STREAM, chunk
from wiretape_process import run_wiretape

from wiretape.checker import Settings
from wiretape.cli import wiretape
from wiretape.config import load_config
from wiretape.observations import Ending, Side
from wiretape.recording import Writer, open_recording
from wiretape_inspect.report import check_recording
from wiretape_proxy.ipc_codec import CaptureBuffer
from wiretape_proxy.proxy_runner import exit_status
from wiretape_proxy.recorder_client import RecorderClient
from wiretape_proxy.recorder_messages import RecordingClosed
from wiretape_proxy.stderr_writer import LogHandler

TABLES = read_tables(__file__)

DOCS = Path(__file__).parents[2] / "docs"


def holds(peer):
    peer.send(CHUNKED + b"7\r\ndata: 1\r\n")
    peer.rest()


def test_the_first_line_contains_the_address_the_upstream_and_the_recording(start_proxy, service):
    proxy = start_proxy(service.url)

    (line,) = proxy.lines
    what = f"forwarding to {service.url}, recording to {proxy.file}; Ctrl-C to stop."
    assert line == f"Listening on http://127.0.0.1:{proxy.port}, {what}"
    assert stat.S_IMODE(proxy.file.stat().st_mode) == 0o600


def test_streams_findings_and_a_summary_are_one_line_each(start_proxy, service, eventually):
    def behave(peer):
        peer.send(CHUNKED)
        for number in (1, 3, 5, 7, 9):
            peer.send(chunk(b'id: e%d\ndata: {"id":"e%d","sequence":%d,"type":"run.started"}\n\n' % ((number,) * 3)))
        peer.send(b"0\r\n\r\n")

    proxy = start_proxy(service.url)
    service.on(STREAM + "?key=secret", behave)
    service.on("/quiet", lambda peer: peer.send(OK))
    proxy.get(STREAM + "?key=secret").until(b"0\r\n\r\n")
    proxy.get("/quiet").until(b"ok")
    proxy.ended("/quiet")

    assert proxy.stop() == 0
    found = [line for line in proxy.lines if "(exchange 1, event" in line]
    assert found
    with open_recording(proxy.file) as recording:
        stored = list(recording.findings())
    (message,) = [finding.message for finding in stored if finding.code == "AUTH001"]
    assert any(line.endswith(message) for line in proxy.lines), "it mentions a bearer key"
    per_rule = Counter(finding.code for finding in stored if finding.event is not None)
    assert len(found) == sum(min(count, 3) for count in per_rule.values())
    last = [line for line in found if line.endswith(" (further ones in this exchange are recorded but not shown)")]
    assert len(last) == sum(count >= 3 for count in per_rule.values()) > 0
    ending, ordinary = [line for line in proxy.lines if line.startswith("exchange ")]
    assert re.fullmatch(r"exchange 2: GET /quiet 200: 2 bytes in \d+ ms, complete", ordinary)
    assert ending.startswith(f"exchange 1: GET {STREAM} 200: 5 events, ")
    assert ", service closed, " in ending  # the label of other commands
    total = f"{len(stored)} finding" + "s" * (len(stored) != 1)
    assert proxy.lines[-1] == f"Recorded 2 exchanges, 1 stream, 5 events, {total} to {proxy.file}"
    assert "secret" not in "".join(proxy.lines)


def test_of_many_requests_at_once_ten_are_listed_and_the_others_counted(start_proxy, service):
    proxy = start_proxy(service.url)
    service.on("/many", lambda peer: peer.send(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"))
    client = proxy.connect()
    for _ in range(200):
        client.send(b"GET /many HTTP/1.1\r\nHost: x\r\n\r\n")
        client.until(b"\r\n\r\n")
    proxy.stop()

    listed = [line for line in proxy.lines if line.startswith("exchange ")]
    counts = [re.match(r"(\d+) more requests? ended, \1 with a status of 400 or above\.", line) for line in proxy.lines]
    assert len(listed) + sum(int(found[1]) for found in counts if found) == 200
    assert 10 <= len(listed) < 200


def test_the_option_quiet_leaves_out_ordinary_requests(start_proxy, service):
    proxy = start_proxy(service.url, "--quiet")
    service.on("/quiet", lambda peer: peer.send(OK))
    service.on("/cut", lambda peer: (peer.send(CHUNKED), peer.close()))
    proxy.get("/quiet").until(b"ok")
    proxy.get("/cut").rest()
    proxy.stop()

    (listed,) = [line for line in proxy.lines if line.startswith("exchange ")]
    assert "GET /cut 200" in listed


def test_the_option_log_format_json_prints_objects(start_proxy, service):
    proxy = start_proxy(service.url, "--log-format", "json")
    service.on("/quiet?pin=1", lambda peer: peer.send(OK))
    service.on(STREAM, finds)
    proxy.get("/quiet?pin=1").until(b"ok")
    proxy.get(STREAM).until(b"0\r\n\r\n")
    proxy.stop()

    lines = [json.loads(line) for line in proxy.lines]
    assert all(datetime.fromisoformat(line["time"]).tzinfo for line in lines)
    assert lines[0]["url"] == f"http://127.0.0.1:{proxy.port}"
    (request,) = [line for line in lines if line.get("path") == "/quiet"]
    facts = {"method": "GET", "status": 200, "ending": "complete", "bytes": 2, "events": 0, "findings": 0}
    assert facts.items() <= request.items()
    assert 0 < request["seconds"] < 45
    finding = next(line for line in lines if "code" in line)
    assert (finding["level"], finding["exchange"]) == ("warning", 2)


def test_control_characters_of_recorded_text_are_escaped(start_proxy, service):
    proxy = start_proxy(service.url)
    path = service.on("/\x1b[2J", lambda peer: (peer.send(CHUNKED), peer.close()))

    proxy.get(path).rest()

    assert "GET /\\x1b[2J 200" in proxy.wait_line("exchange 1:")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_closes_the_recording_while_streams_are_open(start_proxy, service, number):
    proxy = start_proxy(service.url)
    service.on("/held", holds)
    plain, other = proxy.get("/held"), proxy.connect_h2()
    plain.until(b"data: 1")
    other.wait_body(other.request("/held"), b"data: 1")

    assert proxy.stop(number) == 0

    assert plain.rest() == b"\r\n"
    with open_recording(proxy.file) as recording:
        assert recording.info.ended_ns is not None
        assert [seen.ending for seen in recording.exchanges()] == [Ending.PROXY_STOPPED] * 2
        bodies = [[run.data for run in recording.body(exchange, Side.RESPONSE)] for exchange in (1, 2)]
        assert bodies == [[b"data: 1"]] * 2
    assert not list(proxy.file.parent.glob("*-wal"))
    assert "Recorded 2 exchanges, 2 streams" in proxy.lines[-1]


def test_a_second_signal_exits_at_once_and_the_recording_still_opens(start_proxy, service, eventually):
    proxy = start_proxy(service.url)
    service.on("/held", holds)
    proxy.get("/held").until(b"data: 1")
    # Both are delivered before the event loop can handle the first one.
    proxy.process.send_signal(signal.SIGSTOP)
    proxy.process.send_signal(signal.SIGINT)
    proxy.process.send_signal(signal.SIGTERM)
    proxy.process.send_signal(signal.SIGCONT)

    assert proxy.process.wait(45) == 130
    eventually(lambda: not list(proxy.file.parent.glob("*-wal")), "the recorder to tidy up")
    with open_recording(proxy.file) as recording:
        assert recording.info.ended_ns is None


# The exit status


def finds(peer):
    peer.send(CHUNKED + b"a\r\ndata: {}\n\n\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("arguments", "config", "status"),
    [
        (["--fail-on", "error"], '[severity]\nALL = "warning"\n', 0),
        (["--fail-on", "error", "--no-config"], 'ignore = ["ALL"]\n', 1),
        (["--fail-on", "note", "--config", "own.toml"], "", 0),
    ],
)
def test_the_option_fail_on_sets_the_exit_status(start_proxy, service, tmp_path, arguments, config, status):
    (tmp_path / "wiretape.toml").write_text(config)
    (tmp_path / "own.toml").write_text('select = ["RATE"]\n')
    proxy = start_proxy(service.url, *arguments)
    proxy.get(service.on(STREAM, finds)).until(b"0\r\n\r\n")
    proxy.ended(STREAM)

    assert proxy.stop() == status
    settings = Settings() if "--no-config" in arguments else load_config(tmp_path / "wiretape.toml").settings
    with open_recording(proxy.file) as recording:
        live = [(found.code, found.severity, found.message) for found in recording.findings()]
        reported = check_recording(recording, "run.db", settings=settings).findings
    if "own.toml" not in arguments:
        assert sorted(live) == sorted((found.code, found.severity, found.message) for found in reported) != []
    else:
        assert live == []


def test_the_help_and_the_page_agree_about_exit_statuses():
    help_ = CliRunner().invoke(wiretape, ["proxy", "--help"], terminal_width=120).output.partition("Exit status:")[2]
    page = (DOCS / "proxy.md").read_text().partition("## Exit status")[2].partition("##")[0]
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", page, re.MULTILINE)
    assert [status for status, _ in rows] == ["0", "1", "2", "130"]
    text = " ".join(help_.split())
    assert text.startswith(" ".join(f"{status} {when}" for status, when in rows).replace("`", ""))


@for_each(("fail_on", "change", "status"), TABLES["exit-statuses"])
def test_the_exit_status_depends_on_how_the_recording_was_closed(fail_on, change, status):
    recorder = RecorderClient(CaptureBuffer(), lambda _: None)
    closed = RecordingClosed(
        1, 1, 1, 1, severities={}, inconclusive=[], is_missing=False, files="", checks_failed=False, lost_bytes=0
    )
    recorder.closed = msgspec.structs.replace(closed, **change)
    assert exit_status(recorder, fail_on) == status


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("nonsense = 1\n", "wiretape.toml: nonsense: unknown key;"),
        ('ignore = ["ALL"]\n', "No rules left to check: every selected rule is ignored or turned off ("),
    ],
)
def test_an_invalid_configuration_is_reported(tmp_path, service, config, message):
    (tmp_path / "wiretape.toml").write_text(config)

    line = refused_when_running(tmp_path, service.url, "--listen", "127.0.0.1:0", "--output", "run.db")

    assert line.startswith("Error: ")
    assert message in line
    assert not (tmp_path / "run.db").exists()


# Errors


def refused_when_running(tmp_path: Path, *arguments: str) -> str:
    """Run the command in another process until it fails; return its one line."""
    done = run_wiretape("proxy", *arguments, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("", 2), done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_a_port_in_use_is_reported_and_nothing_is_recorded(tmp_path, service):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"

        line = refused_when_running(tmp_path, service.url, "--listen", address)

    assert line == (
        f"Error: Cannot listen on {address}: the port is in use; choose another with --listen, or 0 for a free one."
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("arguments", "line"), TABLES["unusable"])
def test_what_the_proxy_cannot_use_is_reported_and_nothing_is_recorded(tmp_path, arguments, line):
    (tmp_path / "file").touch()
    (tmp_path / "mitmproxy-ca.pem").write_text("no key")
    assert refused_when_running(tmp_path, *arguments).startswith(f"Error: {line}")
    assert not list(tmp_path.glob("*.db"))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("what", "append", "part"),
    [
        ("a recording", False, "exists: choose another name for --output, or append to it with --append."),
        ("a text", False, "exists: choose another name for --output."),
        ("a text", True, "is not a wiretape recording"),
        ("a newer recording", False, "exists: choose another name for --output."),
        ("a newer recording", True, "newer"),
    ],
)
def test_an_output_that_must_not_be_overwritten_is_left_unchanged(tmp_path, service, what, append, part):
    if what == "a text":
        (tmp_path / "run.db").write_text(what)
    else:
        Writer.create(tmp_path / "run.db", upstream="http://service.test").close(1)
    if what == "a newer recording":
        with contextlib.closing(sqlite3.connect(tmp_path / "run.db")) as connection:
            connection.execute("PRAGMA user_version = 99")
    before = files(tmp_path)

    arguments = ["--listen", "127.0.0.1:0", "--output", str(tmp_path / "run.db")]
    if append:  # checked by the recorder only
        line = refused_when_running(tmp_path, service.url, *arguments, "--append")
    else:
        line = refusal("proxy", service.url, *arguments)

    assert part in line
    assert files(tmp_path) == before


def test_an_output_in_use_by_another_proxy_is_reported(tmp_path, start_proxy, service):
    proxy = start_proxy(service.url)

    arguments = ["--listen", "127.0.0.1:0", "--output", str(proxy.file), "--append"]
    line = refused_when_running(tmp_path, service.url, *arguments)

    assert "Another process is recording to" in line


# The base path of a service


def test_the_base_path_of_the_upstream_is_prepended_to_requests(start_proxy, service):
    proxy = start_proxy(f"{service.url}/base/v2/")
    path = service.on("/base/v2/v1/sessions/s1/events/stream?event_deltas=true", lambda peer: peer.send(OK))
    proxy.get(f"{STREAM}?event_deltas=true").until(b"ok")

    assert proxy.ended(path).operation == "stream"
    assert f"forwarding to {service.url}/base/v2, " in proxy.lines[0]


# Standard error


def test_a_full_standard_error_affects_neither_traffic_nor_recording(start_forked, service, tmp_path):
    path = service.on("/deaf", lambda peer: peer.send(OK))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    listen = ["--listen", f"127.0.0.1:{port}", "--output", "run.db"]
    with Path("/dev/full").open("w") as full:
        process = start_forked("wiretape", ["proxy", service.url, *listen], cwd=tmp_path, stderr=full)
    for _ in range(500):
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert client.makefile("rb").read().endswith(b"ok")
            break
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)

    assert process.wait(45) == 0
    with open_recording(tmp_path / "run.db") as recording:
        assert [exchange.request.target for exchange in recording.exchanges()] == [path]


def test_log_lines_are_kept_until_the_proxy_is_ready_if_they_are_the_recorders_and_show_no_keys_otherwise():
    lines = SimpleNamespace(written=[])
    lines.write_line = lambda line, *_facts, **_level: lines.written.append(line)
    handler = LogHandler(lines)
    for name in ("wiretape_proxy.recorder_client", "mitmproxy"):
        handler.handle(logging.LogRecord(name, logging.INFO, "", 1, "Expected Bearer key.", None, None))
    assert lines.written == []
    handler.open()
    handler.handle(logging.LogRecord("mitmproxy", logging.INFO, "", 1, "Got bearer sk-1 here.\nmore", None, None))
    assert lines.written == ["Expected Bearer key.", "mitmproxy: Got bearer … here."]


# Addresses and keys


def test_an_address_that_other_machines_can_reach_causes_a_warning(start_proxy, service):
    proxy = start_proxy(service.url, "--listen", "0.0.0.0:0")

    assert proxy.wait_line("Other machines can connect to this proxy")


def test_no_keys_are_left_behind_in_reverse_mode(start_proxy, service, tmp_path):
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    home.mkdir()
    scratch.mkdir()
    proxy = start_proxy(service.url, env={"HOME": str(home), "TMPDIR": str(scratch)})
    assert proxy.connect_h2()  # the keys are in memory only

    assert list(home.iterdir()) == list(scratch.iterdir()) == []


def test_the_option_confdir_keeps_keys(start_proxy, service, tmp_path):
    folder = tmp_path / "keys"
    start_proxy(service.url, "--confdir", str(folder))

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "mitmproxy-ca-cert.pem").exists()


def test_the_help_and_the_addon_path_need_no_upstream():
    assert "UPSTREAM" in succeed("proxy", "--help").output
    assert Path(succeed("proxy", "--addon-path").output.strip()).name == "mitmproxy_script.py"


def test_standard_output_is_empty(start, service, tmp_path):
    command = [sys.executable, "-m", "wiretape", "proxy", service.url, "--listen", "127.0.0.1:0"]
    process = start(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    (out, err), status = process.communicate(timeout=45), process.returncode

    assert (out, status) == (b"", 0)
    assert err.startswith(b"Recorded 0 exchanges, 0 streams, 0 events, 0 findings to wiretape-")
    assert len(list(tmp_path.glob("wiretape-*.db"))) == 1


def test_only_needed_addons_are_imported_and_all_of_them_can_be_imported_later(start):
    code = """if True:
        import sys
        from wiretape_proxy.cli import only_needed_addons
        with only_needed_addons():
            import wiretape_proxy.proxy_runner
        assert "mitmproxy.addons.proxyserver" in sys.modules
        assert not {"flask", "ldap3", "mitmproxy.addons.onboarding", "mitmproxy.addons"} & set(sys.modules)
        from mitmproxy.addons import default_addons
        assert len(default_addons()) > 20
        with only_needed_addons():
            assert "default_addons" in dir(sys.modules["mitmproxy.addons"])
    """
    with start([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert (process.communicate()[1], process.returncode) == ("", 0)
