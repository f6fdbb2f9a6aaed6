"""Cassettes: tapes that tests record from a service and then replay, with pytest, with `wiretape cassette`, without."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest
from wiretape_process import WiretapeProcess, run_wiretape

from wiretape.errors import InputError
from wiretape.recording import lock_for_writing, open_recording
from wiretape.testing import replay

CHAT = """
    import json

    def chat(url, text):
        where = urlsplit(url)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=45)
        headers = {"Authorization": "Bearer sk-secret-secret"}
        connection.request("POST", where.path + "/chat", json.dumps({"text": text}), headers)
        body = connection.getresponse().read().decode()
        connection.close()
        return body
"""


class Service(ThreadingHTTPServer):
    """Streams back the text of a request."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.texts = []
        """Those of the requests."""
        threading.Thread(target=self.serve_forever, args=[0.01], daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        self.server.texts.append(text)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {text}\n\ndata: [DONE]\n\n".encode())

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def service():
    with closing(Service()) as service:
        yield service
        service.shutdown()


Service.close = Service.server_close


def module(service, *texts, tape="", body="assert chat(wiretape.url, '{0}').startswith('data: {0}')"):
    """A module with a test for each text."""
    marker = f"@pytest.mark.wiretape({tape}upstream={service.url!r})\n"
    return CHAT + "".join(
        f"\n    {marker}    def test_{text}(wiretape):\n        {body.format(text)}\n" for text in texts
    )


def targets(path):
    with open_recording(path) as recording:
        return [each.request.target for each in recording.exchanges()]


def test_the_first_run_records_and_the_second_needs_no_service(project, service):
    result = project.run(module(service, "a", "b"))
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["wiretape: 2 tapes used, 2 written"])
    tapes = [project.path / "tapes" / "test_it" / f"test_{name}.tape" for name in "ab"]
    assert [targets(tape) for tape in tapes] == [["/v1/chat"]] * 2
    assert b"sk-secret" not in tapes[0].read_bytes()
    assert sorted(path.name for path in tapes[0].parent.iterdir()) == ["test_a.tape", "test_b.tape"]
    assert service.texts == ["a", "b"]
    service.shutdown()
    service.server_close()
    result = project.run(module(service, "a", "b"), "--wiretape-record=none")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["wiretape: 2 tapes used, 0 written"])


@pytest.mark.parametrize(("mode", "ci"), [("none", ""), ("once", ""), (None, "true"), (None, "")])
def test_a_changed_request_fails_and_names_the_command_that_records_it(project, service, monkeypatch, mode, ci):
    project.run(module(service, "a"))
    before = (project.path / "tapes/test_it/test_a.tape").read_bytes()
    monkeypatch.setenv("CI", ci)
    changed = module(service, "a", body="assert '501' not in chat(wiretape.url, 'other')")
    result = project.run(changed, *([f"--wiretape-record={mode}"] if mode else []))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            'POST /v1/chat was not recorded. Closest: * (differs in body: $.text: "other" instead of "a").',
            "Record what is missing with `pytest --wiretape-record=missing test_it.py::test_a`.",
        ]
    )
    result = project.run(changed, "--wiretape-record=missing")
    result.assert_outcomes(passed=1)
    assert service.texts == ["a", "other"]
    after = (project.path / "tapes/test_it/test_a.tape").read_bytes()
    assert before.partition(b"---")[2] in after
    project.run(changed, "--wiretape-record=missing").assert_outcomes(passed=1)
    assert service.texts == ["a", "other"]
    project.run(changed, "--wiretape-record=all").assert_outcomes(passed=1)
    assert len(targets(project.path / "tapes/test_it/test_a.tape")) == 1


def test_a_missing_tape_fails_in_one_sentence_if_nothing_is_recorded(project, service, monkeypatch):
    result = project.run(module(service, "a"), "--wiretape-record=none")
    result.assert_outcomes(errors=1)
    tape = project.path / "tapes/test_it/test_a.tape"
    command = "pytest --wiretape-record=once test_it.py::test_a"
    result.stdout.fnmatch_lines([f"There is no tape {tape}: record it with `{command}`."])
    assert not tape.parent.exists()
    folder = project.path / "sub"
    folder.mkdir()
    monkeypatch.chdir(folder)
    result = project.pytest("--wiretape-record=none", "..")
    result.stdout.fnmatch_lines([f"*: record it with `{command.replace('test_it', '../test_it')}`."])


def test_a_test_that_fails_writes_no_tape_and_names_what_was_recorded(project, service):
    result = project.run(module(service, "a", tape="'a.tape', ", body="chat(wiretape.url, '{0}'); assert not wiretape"))
    result.assert_outcomes(failed=1)
    tape, kept = project.path / "a.tape", project.path / "a.tape.recording"
    result.stdout.fnmatch_lines([f"* {tape} was not written; 1 recorded exchange is in {kept}."])
    assert (tape.exists(), targets(kept)) == (False, ["/v1/chat"])
    project.run(module(service, "a", tape="'a.tape', ")).assert_outcomes(passed=1)
    assert (targets(tape), kept.exists()) == (["/v1/chat"], False)


def test_a_hold_of_a_response_that_is_recorded_says_to_record_first(project, service):
    body = "with wiretape.hold(after={{'event': 1}}): chat(wiretape.url, '{0}')"
    result = project.run(module(service, "a", body=body))
    result.assert_outcomes(failed=1)
    reason = (
        "1 response was forwarded, and faults at events apply only to replayed ones: record first without the fault."
    )
    result.stdout.fnmatch_lines(["The fault hold-1 never matched.", reason])


@pytest.mark.parametrize("mode", ["once", "all"])
def test_tests_that_share_a_tape_add_to_it_in_one_run(project, service, mode):
    shared = module(service, "a", "b", tape="'tapes/shared.tape', ")
    for _ in range(2):
        result = project.run(shared, f"--wiretape-record={mode}")
        result.assert_outcomes(passed=2)
    assert len(targets(project.path / "tapes/shared.tape")) == 2
    assert service.texts == ["a", "b"] * (1 + (mode == "all"))


def test_two_processes_never_write_one_tape(project, service):
    partial = project.path / "a.tape.recording"
    partial.touch()
    with closing(os.fdopen(lock_for_writing(partial))):
        result = project.run(module(service, "a", tape="'a.tape', "))
    result.assert_outcomes(failed=1)
    hint = "With pytest-xdist, mark the tests of a tape with xdist_group, or give each its own tape."
    reason = f"it cannot be recorded: Another process is recording to {partial}. {hint}"
    result.stdout.fnmatch_lines([f"POST /v1/chat was not recorded, and {reason}"])
    assert not (project.path / "a.tape").exists()


def test_two_replays_of_a_test_never_write_one_tape(project, service):
    body = "chat(wiretape.url, '{0}'); print(chat(wiretape_replay().url, 'b')); assert 0"
    tests = module(service, "a", tape="'a.tape', ", body=body).replace("(wiretape)", "(wiretape, wiretape_replay)")
    reason = f"Another replay is recording to {project.path}/a.tape.recording: start one replay for each tape."
    project.run(tests).stdout.fnmatch_lines([f"POST /v1/chat was not recorded, and it cannot be recorded: {reason}"])


def test_a_test_that_passes_keeps_what_one_that_fails_recorded(project, service):
    body = "chat(wiretape.url, '{0}'); assert '{0}' == 'b'"
    result = project.run(module(service, "a", "c", "b", tape="'a.tape', ", body=body))
    kept = [project.path / f"a.tape.recording{number}" for number in ("", "-2")]
    result.stdout.fnmatch_lines([f"* was not written; 1 recorded exchange is in {path}." for path in kept])
    assert [targets(path) for path in (*kept, project.path / "a.tape")] == [["/v1/chat"]] * 3
    assert len(list(project.path.glob("a.tape*"))) == 3


def test_a_service_that_refuses_leaves_no_recording(project, service):
    service.shutdown()
    service.server_close()
    project.run(module(service, "a", tape="'a.tape', ")).assert_outcomes(failed=1)
    assert list(project.path.glob("a.tape*")) == []


def test_workers_of_xdist_record_and_the_summary_counts_their_tapes(project, service):
    pytest.importorskip("xdist")
    result = project.run(module(service, *"abcd"), "-n2", subprocess=True)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["wiretape: 4 tapes used, 4 written"])


def test_the_summary_lists_unused_and_old_tapes(project, service):
    project.file("tapes/old.tape", "tape: 1\nstarted: 2020-01-01T00:00:00Z\n---\nrequest: POST /v1/chat\n")
    project.file("tapes/unused.tape", "tape: 1\n")
    old = module(service, "a", tape="'tapes/old.tape', ", body="chat(wiretape.url, '')")
    old += "\n    @pytest.mark.skip\n" + module(service, "b", tape="'tapes/b.tape', ").removeprefix(CHAT)
    hints = "1 unused (list them with --wiretape-unused)"
    project.run(old, "--wiretape-record=missing").stdout.fnmatch_lines([f"wiretape: 1 tape used, 1 written, {hints}"])
    result = project.run(old, "--wiretape-unused", "--wiretape-max-age=30d", "--wiretape-record=none")
    summary = "1 unused, 1 older than 30 days (record them again with --wiretape-record=all)"
    result.stdout.fnmatch_lines(
        [f"wiretape: 1 tape used, 0 written, {summary}", "  unused: tapes/unused.tape", "  old: tapes/old.tape"]
    )
    project.pytest("test_it.py::test_a").stdout.fnmatch_lines(["wiretape: 1 tape used, 0 written"])


def test_coroutines_record(project, service):
    result = project.run(
        CHAT
        + f"""
    import asyncio

    @pytest.mark.wiretape(upstream={service.url!r})
    async def test_it(wiretape):
        assert "data: a" in await asyncio.to_thread(chat, wiretape.url, "a")
    """
    )
    result.assert_outcomes(passed=1)
    assert service.texts == ["a"]


def test_what_cannot_be_used_is_one_sentence(project, service):
    rows = {
        "'bad.tape', ": "*bad.tape, line 3: * Correct it, or delete it to record it again.",
        "'file/a.tape', ": "*file/a.tape cannot be written: *",
        "'a.tape', record='twice', ": "Invalid record 'twice': expected none, once, missing or all.",
        "upstrem='', no_auth=True)  # ": "A replay has no option upstrem; did you mean upstream?",
        "'a.tape', mode='best', ": "Invalid mode 'best': *",
        "'future.tape', ": "*future.tape, line 1: *",
    }
    project.file("bad.tape", "tape: 1\nrubbish: {\n")
    project.file("future.tape", "tape: 99\n")
    project.file("file", "")
    tests = [module(service, number, tape=row).removeprefix(CHAT) for number, row in enumerate(rows)]
    result = project.run(CHAT + "".join(tests))
    result.assert_outcomes(errors=6)
    lines = [line for n, message in enumerate(rows.values()) for line in (f"*_ ERROR at setup of test_{n} _*", message)]
    result.stdout.fnmatch_lines([*lines, "=* short test summary*"], consecutive=True)


COMMAND = """
import json, os, sys, urllib.request
request = urllib.request.Request(os.environ["WIRETAPE_URL"] + "/chat", json.dumps({"text": sys.argv[1]}).encode())
try:
    print(urllib.request.urlopen(request, timeout=45).read().decode())
except OSError as error:
    print(error)
sys.exit(int(sys.argv[2]))
"""


def run(tmp_path, service, text, status=0, *options):
    command = ["--", sys.executable, "-c", COMMAND, text, str(status)]
    return run_wiretape("cassette", "a.tape", "--upstream", service.url, *options, *command, cwd=tmp_path)


def test_a_command_finds_the_address_and_its_status_is_passed_on(tmp_path, service):
    tape = tmp_path / "a.tape"
    failed = run(tmp_path, service, "a", 7)
    assert (failed.returncode, tape.exists()) == (7, False)
    assert "a.tape was not written; 1 recorded exchange is in a.tape.recording." in failed.stderr
    done = run(tmp_path, service, "a")
    assert (done.returncode, done.stdout) == (0, "data: a\n\ndata: [DONE]\n\n\n")
    assert done.stderr == "Recorded 1 new exchange in a.tape.\nThe client broke no rules.\n"
    before = tape.read_bytes()
    missed = run(tmp_path, service, "b", 0, "--record", "none")
    assert (missed.returncode, tape.read_bytes()) == (1, before)
    assert "1 request had no match. Record what is missing with `wiretape cassette a.tape --upstream" in missed.stderr
    assert run(tmp_path, service, "b", 0, "--record", "missing").returncode == 0
    assert (targets(tape), service.texts) == (["/v1/chat"] * 2, ["a", "a", "b"])


def test_a_second_interrupt_kills_a_command_that_ignores_the_first(tmp_path):
    code = "import os, signal as s; s.signal(s.SIGINT, s.SIG_IGN); print(os.getpid(), flush=True); s.pause()"
    command = ["cassette", "a.tape", "--upstream", "http://127.0.0.1:1", "--", sys.executable, "-c", code]
    with WiretapeProcess(*command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        killed = os.pidfd_open(int(process.stdout.readline()))
        while not select.select([killed], [], [], 0.05)[0]:  # two that follow at once can become one
            process.send_signal(signal.SIGINT)
        os.close(killed)
    assert process.returncode == 128 + signal.SIGKILL


def test_a_command_that_cannot_be_run_is_one_sentence(tmp_path, service):
    done = run_wiretape("cassette", tmp_path / "a.tape", "--upstream", service.url, "--", "no-such-command")
    assert (done.returncode, done.stderr) == (2, "Error: Cannot run no-such-command: No such file or directory.\n")


def test_other_test_runners_record(tmp_path, service, monkeypatch):
    monkeypatch.chdir(tmp_path)
    missing = pytest.raises(InputError, match=r'There is no tape a\.tape: record it with `record="once"`\.')
    with missing, replay("a.tape", upstream=service.url, record="none"):
        pass
    with replay("a.tape", upstream=service.url):
        pass
    assert not (tmp_path / "a.tape").exists()
    for record in ("once", "none"):
        with replay("a.tape", upstream=service.url, record=record) as recorded:
            request = Request(recorded.url + "/chat", b'{"text": "a"}')  # noqa: S310
            urlopen(request, timeout=45).close()  # noqa: S310
    assert service.texts == ["a"]
