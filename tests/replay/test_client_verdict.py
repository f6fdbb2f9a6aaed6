"""The client judged: what it does wrong against a replay is found, told and reported, and nobody else is blamed."""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.contract import Limit
from wiretape.errors import InputError, RecordingError
from wiretape.observations import Ending, Side
from wiretape.recording import open_recording
from wiretape.rules import Checker, Settings, Severity
from wiretape_replay import ReplayOptions, serve_replay
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.client_verdict.client_report import ClientVerdict, ReportRequest, fails, verdict
from wiretape_replay.faults.fault_script import read_fault_script
from wiretape_replay.responses.access_settings import AccessPolicy

STREAM = "/v1/sessions/s1/events/stream"
KEY = {"Authorization": "Bearer key-1"}
JSON = (("Content-Type", "application/json"), ("Content-Length", "2"))


def event(number, kind="session.error", /, **changes):
    document = {
        "id": f"e{number}",
        "sequence": number,
        "type": kind,
        "workspace_id": "w1",
        "session_id": "s1",
        "run_id": "r1",
        "created_at": "2025-01-01T00:00:00Z",
        "content": {},
        "data": {},
    } | changes
    return f"event: {kind}\nid: {document['id']}\ndata: {json.dumps(document)}\n\n".encode()


EVENTS = [event(number) for number in (1, 2, 3)]


@pytest.fixture
def run(reel):
    """A recording of one session in good order."""
    reel.exchange(EVENTS, request_headers=tuple(KEY.items()))
    reel.exchange([b"{}"], target="/v1/other", headers=JSON)
    return reel.close()


@contextlib.asynccontextmanager
async def judged(path, judge, **options):
    """A client of a replay that is judged."""
    async with (
        serve_replay(path, ReplayOptions(**options), judge=judge) as playing,
        httpx.AsyncClient(base_url=playing.url, headers=KEY, timeout=45) as client,
    ):
        yield client


async def read(client, *, cursor=None, events=3, **headers):
    """Read so many events of the stream, or whatever there is, and leave."""
    headers |= {"Last-Event-ID": cursor} if cursor else {}
    received = b""
    async with client.stream("GET", STREAM, headers=headers) as response:
        with contextlib.suppress(httpx.RemoteProtocolError):
            async for data in response.aiter_raw():
                received += data
                if received.count(b"\n\n") >= events:
                    break
    return received


def codes(findings):
    return [finding.code for finding in findings]


async def test_a_client_that_reconnects_without_its_cursor_is_told_so(run):
    judge = ClientChecker()
    async with judged(run, judge) as client:
        await read(client)
        assert judge.against_client == []
        await read(client)
        assert codes(judge.against_client) == ["CLI002"]
    assert codes(judge.blame.client.kept) == ["CLI002"]
    assert codes(judge.blame.service.kept) == []
    assert list(verdict(judge.blame, "run.db")) == [
        "The client broke 1 rule (1 finding):",
        "  error CLI002 (exchange 2): " + judge.blame.client.kept[0].message,
    ]


async def test_a_client_that_sends_its_cursor_is_blamed_for_nothing(run):
    judge = ClientChecker()
    async with judged(run, judge) as client:
        await read(client)
        async with client.stream("GET", STREAM, headers={"Last-Event-ID": "e3"}) as response:
            assert response.status_code == 200
    assert list(verdict(judge.blame, "run.db")) == ["The client broke no rule."]
    assert not fails(judge.blame, "note")


async def test_a_client_that_does_not_wait_as_long_as_it_was_told_is_told_so(run):
    judge = ClientChecker()
    service = AccessPolicy(limits={"events": Limit(1, 60)})
    async with judged(run, judge, service=service) as client:
        await read(client)
        answers = [await client.get(STREAM, headers={"Last-Event-ID": "e3"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [429, 429]
    assert codes(judge.blame.client.kept) == ["CLI004"]
    # The limit is not one that is published, but neither the service nor the recording said so.
    assert codes(judge.blame.service.kept) == []


async def test_a_client_without_a_key_is_told_so_where_one_is_asked_for(run):
    for options, found in (
        ({}, ["CLI001"]),
        ({"service": AccessPolicy(authentication=False)}, []),
        ({"mode": "verbatim"}, []),
    ):
        judge = ClientChecker()
        async with judged(run, judge, **options) as client:
            del client.headers["Authorization"]
            await client.get("/v1/other")
        assert (codes(judge.blame.client.kept), codes(judge.blame.service.kept)) == (found, [])


async def test_a_request_that_was_not_recorded_is_nobodys_fault(run):
    judge = ClientChecker()
    async with judged(run, judge, mode="verbatim") as client:
        assert (await client.get("/v1/nothing")).status_code == 501
    assert (judge.blame.client.codes, judge.blame.service.codes, judge.blame.injected.codes) == ({}, {}, {})


async def test_what_the_recording_breaks_is_counted_and_not_the_clients_fault(reel):
    reel.exchange([event(1), event(1), event(3, data=[])])
    judge = ClientChecker()
    async with judged(reel.close(), judge, mode="verbatim") as client:
        await read(client)
    assert not judge.blame.client
    assert set(judge.blame.service.codes) >= {"SEQ001"}
    assert re.fullmatch(
        r"The recorded service breaks \d rules? \(\d findings?; see `wiretape report run\.db`\)\.",
        list(verdict(judge.blame, "run.db"))[-1],
    )


async def test_the_service_is_not_blamed_for_what_a_fault_does(run, tmp_path):
    script = tmp_path / "faults.toml"
    script.write_text('[[fault]]\nname = "twice"\ndo = "duplicate"\nat = { sequence = 2 }\n')
    judge = ClientChecker()
    async with judged(run, judge, faults=read_fault_script(script)) as client:
        await read(client, events=4)
    assert not judge.blame.service
    assert judge.blame.injected
    assert {fault for _, fault in judge.blame.faults} == {"twice"}
    assert list(verdict(judge.blame, "run.db"))[-1].startswith("Injected faults caused ")


async def test_only_what_comes_after_a_fault_is_put_down_to_it(reel, tmp_path):
    reel.exchange([event(1, data=[]), event(2), event(3)])
    script = tmp_path / "faults.toml"
    script.write_text('[[fault]]\nname = "cut"\ndo = "corrupt"\nhow = "json"\nat = { sequence = 3 }\n')
    judge = ClientChecker()
    async with judged(reel.close(), judge, faults=read_fault_script(script)) as client:
        await read(client)
    assert codes(judge.blame.service.kept) == ["EVT004"]
    assert [(finding.event, fault) for finding, fault in judge.blame.faults] == [(3, "cut")]


async def test_a_client_is_blamed_for_what_it_does_after_a_fault(run, tmp_path):
    script = tmp_path / "faults.toml"
    script.write_text('[[fault]]\ndo = "drop"\nafter = { sequence = 2 }\ntimes = 1\n')
    judge = ClientChecker()
    async with judged(run, judge, faults=read_fault_script(script)) as client:
        assert (await read(client)).count(b"\n\n") == 2
        await read(client)
    assert codes(judge.blame.client.kept) == ["CLI002"]
    assert not judge.blame.service


async def test_what_is_recorded_is_what_passed(run, tmp_path):
    path = tmp_path / "replayed.db"
    judge = ClientChecker(record=path)
    async with judged(run, judge) as client:
        await read(client)
        await read(client)
        await client.post("/v1/other", content=b'{"a":1}')
    live = judge.blame.client.kept + judge.blame.service.kept
    with open_recording(path) as recording:
        exchanges = list(recording.exchanges())
        assert [(each.request.method, each.response.status) for each in exchanges] == [
            ("GET", 200),
            ("GET", 200),
            ("POST", 501),
        ]
        assert b"".join(part.data for part in recording.body(1, Side.RESPONSE)) == b"".join(EVENTS)
        assert b"".join(part.data for part in recording.body(3, Side.REQUEST)) == b'{"a":1}'
        assert exchanges[0].ending is Ending.COMPLETE
        assert "key-1" not in repr(exchanges[0].request.headers)
        assert recording.info.ended_ns is not None
        checker = Checker(Settings(off=judge._checker.settings.off))
        again = [finding for seen in recording.observations() for finding in checker.feed(seen)] + checker.finish()
        stored = [(row.code, row.exchange) for row in recording.findings()]
    own = [(finding.code, finding.exchange) for finding in again if finding.exchange != 3]
    assert sorted(own) == sorted((finding.code, finding.exchange) for finding in live)
    assert set(own) <= set(stored)


async def test_everything_is_judged_once_streams_rest_without_being_asked(run):
    told = asyncio.Queue()
    judge = ClientChecker(told=told.put_nowait)
    async with judged(run, judge) as client:
        await read(client)
        await read(client)
        assert (await told.get()).code == "CLI002"


async def test_what_streams_that_never_rest_send_is_judged_too(run, monkeypatch):
    """To a judge whose clock stands, everything was written just now."""
    monkeypatch.setattr("wiretape_replay.client_verdict.client_checker._OLDEST_NS", -1)
    told = asyncio.Queue()
    judge = ClientChecker(told=told.put_nowait, clock=lambda: 0)
    async with judged(run, judge) as client:
        await read(client)
        await read(client)
        assert (await told.get()).code == "CLI002"


async def test_what_waits_is_bounded(run, monkeypatch):
    monkeypatch.setattr("wiretape_replay.client_verdict.client_checker._MOST_WAITING", 1)
    monkeypatch.setattr("wiretape_replay.client_verdict.client_checker._QUIET_NS", 10**15)
    judge = ClientChecker()
    async with judged(run, judge) as client:
        await read(client)
        await read(client)
        assert not judge._notes
        assert codes(judge.blame.client.kept) == ["CLI002"]


async def test_checks_that_fail_end_no_stream(run, monkeypatch):
    def broken(self, seen):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(Checker, "feed", broken)
    judge = ClientChecker()
    async with judged(run, judge) as client:
        assert await read(client) == b"".join(EVENTS)
    assert judge.failed == "ZeroDivisionError: no"


def test_a_file_that_exists_is_not_recorded_over(run):
    with pytest.raises(RecordingError, match="exists"):
        ClientChecker(record=run)


async def test_as_bad_as_asked_for_or_worse_fails(run):
    judge = ClientChecker()
    async with judged(run, judge, mode="verbatim") as client:
        await client.get("/v1/other?api_key=1")
    assert judge.blame.client.severities == {Severity.WARNING: 1}
    assert [fails(judge.blame, word) for word in ("error", "warning", "note", "never")] == [False, True, True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("junit", "Invalid --report 'junit': expected FORMAT:FILE, for example junit:report.xml."),
        ("junit:", "expected FORMAT:FILE"),
        ("junti:a.xml", "Unknown report format 'junti'; did you mean junit?"),
        ("xyz:a", "Unknown report format 'xyz'; choose from text, concise, json,"),
        ("junit:no/such/folder/a.xml", "cannot be written: there is no folder no/such/folder."),
    ],
)
def test_a_report_that_cannot_be_made_is_told_before_anything_is_served(text, said):
    with pytest.raises(InputError) as caught:
        ReportRequest.of(text)
    assert said in caught.value.message


def test_a_report_in_place_of_a_recording_is_refused_before_anything_is_served(run):
    before = run.read_bytes()
    with pytest.raises(InputError, match=r"is a recording or another database: give --report another name\."):
        ReportRequest.of(f"junit:{run}")
    assert run.read_bytes() == before


@pytest.mark.parametrize("reports", [("junit:a.x", "html:./a.x"), ("text:-", "json:-"), ("text:kept.db",)])
def test_reports_that_would_be_one_file_are_told_before_anything_is_served(reports):
    with (
        pytest.raises(InputError, match=r"^Two outputs have the name .*: give --report another name"),
        ClientVerdict.of(reports, Path("kept.db"), None, no_config=True),
    ):
        pass


FORMS = ["text", "concise", "json", "ndjson", "junit", "github", "sarif", "markdown", "html"]


@contextlib.contextmanager
def replaying(*args):
    command = [sys.executable, "-m", "wiretape", "replay", *map(str, args), "--listen", "127.0.0.1:0", "--speed", "max"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        yield process, re.search(r"http://\S+", line)[0]
    finally:
        process.kill()
        process.communicate()


def break_a_rule(url):
    """Reconnect without a cursor."""
    for _ in range(2):
        with httpx.stream("GET", url + STREAM, headers=KEY, timeout=45) as response:
            text = ""
            for part in response.iter_text():
                text += part
                if text.count("\n\n") == 3:
                    break


def test_the_command_tells_reports_keeps_and_fails(run, tmp_path):
    reports = [option for form in FORMS for option in ("--report", f"{form}:{tmp_path / form}")]
    kept = tmp_path / "kept.db"
    with replaying(run, "--fail-on", "error", *reports, "--record", kept, "--no-config") as (process, url):
        break_a_rule(url)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)

    assert (out, process.returncode) == ("", 1), err
    assert "The client broke 1 rule (1 finding):\n  error CLI002 (exchange 2): " in err
    for form in FORMS:
        assert "CLI002" in (tmp_path / form).read_text()
    assert 'tests="9" failures="1"' in (tmp_path / "junit").read_text(), "a finding that --fail-on names is a failure"
    document = json.loads((tmp_path / "json").read_text())
    assert {rule["side"] for rule in document["rules"] if rule["selected"]} == {"client"}
    assert [finding["code"] for finding in document["findings"]] == ["CLI002"]
    with open_recording(kept) as recording:
        assert len(list(recording.exchanges())) == 2


def test_a_report_needs_no_recording_that_is_kept(run, tmp_path):
    with replaying(run, "--report", "concise:-") as (process, url):
        break_a_rule(url)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)

    assert process.returncode == 0, err
    assert "CLI002" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.db"]


def test_the_commands_settings_of_the_service_are_those_of_the_file(run, tmp_path):
    service = tmp_path / "service.toml"
    service.write_text('[[keys]]\nkey = "good"\nworkspace = "w2"\n[[keys]]\nkey = "free"\n')
    with replaying(run, "--service", service) as (_, url):
        statuses = [
            httpx.get(url + "/v1/sessions/s1", headers={"Authorization": f"Bearer {key}"}).status_code
            for key in ("bad", "good", "free")
        ]

    assert statuses == [401, 404, 501]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--service", "nowhere.toml"], "There is no file nowhere.toml"),
        (["--report", "nothing"], "expected FORMAT:FILE"),
        (["--record", "{run}"], "exists"),
        (["--config", "nowhere.toml"], "There is no file nowhere.toml"),
        (["--config", "nowhere.toml", "--no-config"], "not both"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(run, options, said):
    done = CliRunner().invoke(wiretape, ["replay", str(run), *(each.format(run=run) for each in options)])

    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
