"""The client verdict: findings about the client of a replay are attributed, printed and reported."""

import asyncio
import contextlib
import json
import re
import signal
import time
from itertools import count
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from for_each import for_each
from wire_bytes import durable_event

from wiretape.checker import Checker, Settings
from wiretape.cli import wiretape
from wiretape.contract.service_terms import Limit
from wiretape.errors import InputError, RecordingError
from wiretape.observations import Ending, RequestEnded, Side
from wiretape.recording import Writer, open_recording
from wiretape.rules import Severity, parse_service_base
from wiretape_replay import ReplayOptions, serve_replay
from wiretape_replay.access.access_settings import AccessPolicy
from wiretape_replay.client_verdict import client_checker
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.client_verdict.client_report import ReportRequest, VerdictOptions, check_client, fails, verdict
from wiretape_replay.server_options import fault_script

STREAM = "/v1/sessions/s1/events/stream"
KEY = {"Authorization": "Bearer key-1"}
JSON = (("Content-Type", "application/json"), ("Content-Length", "2"))


def event(number, **changes):
    return durable_event(number, "session.error", **changes)


EVENTS = [event(number) for number in (1, 2, 3)]


@pytest.fixture
def run(builder):
    """A recording of one session without findings."""
    builder.exchange(EVENTS, request_headers=tuple(KEY.items()))
    builder.exchange([b"{}"], target="/v1/sessions/other", headers=JSON)
    return builder.close()


@contextlib.asynccontextmanager
async def checked_client(path, checker, **options):
    """A client of a replay with a client checker."""
    async with (
        serve_replay(path, ReplayOptions(**options), checker=checker) as playing,
        httpx.AsyncClient(base_url=playing.url, headers=KEY, timeout=45) as client,
    ):
        yield client


async def read(client, *, cursor=None, events=3, **headers):
    """Read the given number of events of the stream, or up to its end, and disconnect."""
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


async def test_reconnecting_without_a_cursor_is_a_client_finding(run):
    checker = ClientChecker()
    async with checked_client(run, checker) as client:
        await read(client)
        assert checker.client_findings == []
        await read(client)
        assert codes(checker.client_findings) == ["CLI002"]
    assert codes(checker.attribution.client.kept) == ["CLI002"]
    assert codes(checker.attribution.service.kept) == []
    assert list(verdict(checker.attribution, "run.db", checker.catalogue)) == [
        "The client broke 1 rule (1 finding):",
        "  error CLI002 (exchange 2): " + checker.attribution.client.kept[0].message,
    ]


WITH_KEY = {"request_headers": tuple(KEY.items())}
REFUSED = {"status": 401, "target": "/v1/sessions/s1"}


@pytest.mark.parametrize(
    ("recorded", "options", "status"),
    [
        ([{}], {}, 200),
        ([{}], {"limits": True}, 200),
        ([{}], {"service": {}}, 401),
        ([{}, REFUSED], {}, 200),
        ([{}, WITH_KEY], {}, 200),
        ([{}, WITH_KEY | {"target": "/other"}], {}, 200),
        ([WITH_KEY], {}, 401),
        ([WITH_KEY, {"target": "/other"}], {}, 401),
        ([WITH_KEY], {"no_auth": True}, 200),
    ],
)
async def test_a_replay_requires_keys_if_the_recorded_service_did(builder, recorded, options, status):
    for exchange in recorded:
        builder.exchange(EVENTS, **exchange)
    checker = ClientChecker()
    async with checked_client(builder.close(), checker, **options) as client, httpx.AsyncClient() as keyless:
        async with keyless.stream("GET", f"{client.base_url}{STREAM}") as response:
            assert response.status_code == status
        assert codes(checker.client_findings) == (["CLI001"] if status == 401 else [])


@pytest.mark.parametrize("base", ["/", "https://service.test", "https://service.test/api"])
async def test_the_replay_stands_in_for_the_configured_service(builder, tmp_path, base):
    path = "/api" if base.endswith("/api") else ""
    builder.exchange(EVENTS, target=path + STREAM, request_headers=tuple(KEY.items()))
    record = tmp_path / "client.db"
    checker = ClientChecker(Settings(base=parse_service_base(base)), record=record)
    async with checked_client(builder.close(), checker) as client:
        await client.get(f"{path}/v1/sessions", headers={"Authorization": ""})
        assert codes(checker.client_findings) == ["CLI001"]
    config = tmp_path / "wiretape.toml"
    config.write_text(f'base = "{base}"')
    options = ["--config", str(config), *checker.report_options, "--format", "concise", "--select", "CLI"]
    result = CliRunner().invoke(wiretape, ["report", str(record), *options])
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["CLI001"]


TOO_MANY = (("Content-Type", "application/json"), ("Retry-After", "60"), ("Content-Length", "2"))


@pytest.mark.parametrize("mode", ["channel", "verbatim"])
@pytest.mark.parametrize("speed", ["0.05", "1", "1000", "max"])
async def test_the_wait_of_a_client_is_real_time_at_every_speed(builder, mode, speed):
    cancel = "/v1/sessions/s1/runs/r1/cancel"
    builder.exchange([b"{}"], method="POST", target=cancel, status=429, headers=TOO_MANY)
    builder.exchange([b"{}"], method="POST", target=cancel, headers=JSON)
    checker = ClientChecker()
    async with checked_client(builder.close(), checker, mode=mode, speed=speed) as client:
        assert (await client.post(cancel)).status_code == 429
        await asyncio.sleep(0.1)
        assert (await client.post(cancel)).status_code == 200
    (finding,) = checker.attribution.client.kept
    assert finding.code == "CLI004"
    assert float(re.search(r"got (.+) s", finding.message)[1]) >= 0.1


async def test_a_missing_key_is_a_client_finding_if_a_key_is_required(run):
    for options, found in (
        ({}, ["CLI001"]),
        ({"service": AccessPolicy(authentication=False)}, []),
        ({"mode": "verbatim"}, []),
    ):
        checker = ClientChecker()
        async with checked_client(run, checker, **options) as client:
            del client.headers["Authorization"]
            await client.get("/v1/sessions/other")
        assert (codes(checker.attribution.client.kept), codes(checker.attribution.service.kept)) == (found, [])


async def test_responses_of_wiretape_are_attributed_to_nobody_and_what_they_ask_for_counts(run):
    """The limit is not a published one, but it comes from neither the service nor the recording."""
    checker = ClientChecker()
    async with checked_client(run, checker, service=AccessPolicy(limits={"events": Limit(1, 60)})) as client:
        await read(client)
        answers = [await client.get(STREAM, headers={"Last-Event-ID": "e3"}) for _ in range(2)]
        answers.append(await client.get("/v1/sessions/s1/unrecorded"))
    assert [answer.status_code for answer in answers] == [429, 429, 501]
    assert [codes(found.kept) for found in (checker.attribution.client, checker.attribution.service)] == [
        ["CLI004"],
        [],
    ]


async def test_findings_about_the_recorded_service_are_counted_separately(builder):
    builder.exchange([event(1), event(1), event(3, data=[])])
    checker = ClientChecker()
    async with checked_client(builder.close(), checker, mode="verbatim") as client:
        await read(client)
    assert not checker.attribution.client
    assert set(checker.attribution.service.codes) >= {"SEQ001"}
    assert re.fullmatch(
        r"The replayed responses of the service break \d rules? \(\d findings?\); `wiretape report run\.db` checks .*",
        list(verdict(checker.attribution, "run.db", checker.catalogue))[-1],
    )


async def test_findings_caused_by_a_fault_are_not_attributed_to_the_service(run, tmp_path):
    script = tmp_path / "faults.toml"
    script.write_text('[[fault]]\nname = "twice"\ndo = "duplicate"\nat = { sequence = 2 }\n')
    checker = ClientChecker()
    async with checked_client(run, checker, faults=fault_script(script)) as client:
        await read(client, events=4)
    assert not checker.attribution.service
    assert checker.attribution.injected
    assert {fault for _, fault in checker.attribution.faults} == {"twice"}
    assert list(verdict(checker.attribution, "run.db", checker.catalogue))[-1].startswith("Injected faults caused ")


async def test_only_findings_after_a_fault_are_attributed_to_it(builder, tmp_path):
    builder.exchange([event(1, data=[]), event(2), event(3), event(4)])
    script = tmp_path / "faults.toml"
    script.write_text(
        "".join(
            f'[[fault]]\nname = "cut-{at}"\ndo = "corrupt"\nhow = "json"\nat = {{ sequence = {at} }}\n' for at in (3, 4)
        )
    )
    checker = ClientChecker()
    async with checked_client(builder.close(), checker, faults=fault_script(script)) as client:
        await read(client, events=4)
    assert codes(checker.attribution.service.kept) == ["EVT004"]
    assert [(finding.event, fault) for finding, fault in checker.attribution.faults] == [(3, "cut-3"), (4, "cut-4")]


async def test_findings_about_the_client_after_a_fault_are_attributed_to_the_client(run, tmp_path):
    script = tmp_path / "faults.toml"
    # The client has time to read what was sent.
    delay = '[[fault]]\ndo = "delay"\nafter = { sequence = 2 }\nseconds = 1.1\ntimes = 1\n'
    script.write_text(f'{delay}[[fault]]\ndo = "drop"\nafter = {{ sequence = 2 }}\ntimes = 1\n')
    checker = ClientChecker()
    async with checked_client(run, checker, faults=fault_script(script)) as client:
        assert (await read(client)).count(b"\n\n") == 2
        await read(client)
    assert codes(checker.attribution.client.kept) == ["CLI002"]
    assert not checker.attribution.service


async def test_a_client_that_resumes_after_an_incomplete_event_has_a_finding(run, tmp_path):
    """It has lost that event."""
    script = tmp_path / "faults.toml"
    offset = EVENTS[1].index(b"data:")
    script.write_text(f'[[fault]]\ndo = "drop"\nat = {{ sequence = 2 }}\noffset = {offset}\ntimes = 1\n')
    checker = ClientChecker()
    async with checked_client(run, checker, faults=fault_script(script)) as client:
        assert (await read(client)).endswith(b"id: e2\n")
        await read(client, cursor="e2", events=1)
    (finding,) = checker.attribution.client.kept
    assert finding.code == "CLI002"
    assert finding.message.endswith("got `e2`: the client resumed after an event that was never received completely.")


async def test_the_recording_contains_the_traffic(run, tmp_path):
    path = tmp_path / "replayed.db"
    checker = ClientChecker(record=path)
    async with checked_client(run, checker) as client:
        await read(client)
        await read(client)
        await client.post("/v1/sessions/other", content=b'{"a":1}')
    live = checker.attribution.client.kept + checker.attribution.service.kept
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
        assert sum(isinstance(seen, RequestEnded) for seen in recording.observations()) == 3
        assert "key-1" not in repr(exchanges[0].request.headers)
        assert recording.info.ended_ns is not None
        rules = Checker(Settings(off=checker._checker.settings.off))
        again = [finding for seen in recording.observations() for finding in rules.feed(seen)] + rules.finish()
        stored = [(row.code, row.exchange) for row in recording.findings()]
    own = [(finding.code, finding.exchange) for finding in again if finding.exchange != 3]
    assert sorted(own) == sorted((finding.code, finding.exchange) for finding in live)
    assert set(own) <= set(stored)


async def test_traffic_is_checked_when_streams_pause(run):
    found = asyncio.Queue()
    checker = ClientChecker(on_finding=found.put_nowait)
    async with checked_client(run, checker) as client:
        await read(client)
        await read(client)
        assert (await found.get()).code == "CLI002"


async def test_traffic_is_checked_if_streams_never_pause(run, monkeypatch):
    """The clock stands still, so everything was sent just now."""
    monkeypatch.setattr("wiretape_replay.client_verdict.client_checker._OLDEST_NS", -1)
    found = asyncio.Queue()
    checker = ClientChecker(on_finding=found.put_nowait, clock=lambda: 0)
    async with checked_client(run, checker) as client:
        await read(client)
        await read(client)
        assert (await found.get()).code == "CLI002"


async def test_the_buffer_is_bounded(run, monkeypatch):
    monkeypatch.setattr("wiretape_replay.client_verdict.client_checker._MOST_WAITING", 1)
    monkeypatch.setattr("wiretape_replay.client_verdict.client_checker._QUIET_NS", 10**15)
    checker = ClientChecker()
    async with checked_client(run, checker) as client:
        await read(client)
        await read(client)
        assert not checker._buffer
        assert codes(checker.attribution.client.kept) == ["CLI002"]


async def test_an_error_in_the_checks_does_not_end_streams(run, monkeypatch):
    def broken(self, seen):
        raise ZeroDivisionError("no")

    monkeypatch.setattr(Checker, "feed", broken)
    checker = ClientChecker()
    async with checked_client(run, checker) as client:
        assert await read(client) == b"".join(EVENTS)
    assert checker.failed == "ZeroDivisionError: no"


def test_an_existing_file_is_not_overwritten(run):
    with pytest.raises(RecordingError, match=r"exists: .*--record"):
        ClientChecker(record=run)


async def test_findings_as_severe_as_fail_on_fail(run):
    checker = ClientChecker()
    async with checked_client(run, checker, mode="verbatim") as client:
        await client.get("/v1/sessions/other?api_key=1")
    assert checker.attribution.client.severities == {Severity.WARNING: 1}
    assert [fails(checker.attribution, word) for word in ("error", "warning", "note", "never")] == [
        False,
        True,
        True,
        False,
    ]


async def test_a_client_that_ignores_a_resync_and_leaves_at_once_is_inconclusive(builder):
    builder.exchange(EVENTS, ending=Ending.CLIENT_CLOSED)
    checker = ClientChecker(clock=count(step=1000).__next__)
    faults = {"do": "insert", "type": "stream.resync", "after": {"sequence": 2}}
    async with checked_client(builder.close(), checker, faults=faults) as client:
        await read(client)
    reason = "the connection or the recording ended before the client could reconnect"
    assert checker.inconclusive == {"CLI005": {reason: 1}}
    assert list(verdict(checker.attribution, "run.db", checker.catalogue, checker.inconclusive)) == [
        "The client broke no rules, but 1 rule was inconclusive:",
        f"  inconclusive CLI005 resync-ignored: {reason} (1 time)",
    ]
    assert not fails(checker.attribution, "note", checker.inconclusive)
    assert fails(checker.attribution, "inconclusive", checker.inconclusive)


@for_each(
    ("text", "message"),
    [
        ("junit", "Invalid --report 'junit': expected FORMAT:FILE, for example junit:report.xml."),
        ("junit:", "expected FORMAT:FILE"),
        ("junti:a.xml", "Unknown report format 'junti'; did you mean junit?"),
        ("xyz:a", "Unknown report format 'xyz'; choose from text, concise, json,"),
        ("junit:no/such/folder/a.xml", "cannot be written: there is no folder no/such/folder."),
    ],
)
def test_an_invalid_report_option_is_refused_before_serving(text, message):
    with pytest.raises(InputError) as caught:
        ReportRequest.of(text)
    assert message in caught.value.message


def test_a_report_does_not_overwrite_a_recording(run):
    before = run.read_bytes()
    with pytest.raises(InputError, match=r"is a recording or another database: choose another name for --report\."):
        ReportRequest.of(f"junit:{run}")
    assert run.read_bytes() == before


@pytest.mark.parametrize("reports", [("junit:a.x", "html:./a.x"), ("text:-", "json:-"), ("text:kept.db",)])
def test_two_outputs_with_the_same_name_are_refused_before_serving(reports):
    with (
        pytest.raises(InputError, match=r"^Two outputs have the name .*: choose another name for --report"),
        check_client(VerdictOptions(reports=reports, record=Path("kept.db"), no_config=True)),
    ):
        pass


FORMS = ["text", "concise", "json", "ndjson", "junit", "github", "sarif", "markdown", "html"]


def break_a_rule(url):
    """Reconnect without a cursor."""
    for _ in range(2):
        with httpx.stream("GET", url + STREAM, headers=KEY, timeout=45) as response:
            text = ""
            for part in response.iter_text():
                text += part
                if text.count("\n\n") == 3:
                    break


def test_the_command_prints_the_verdict_writes_reports_and_a_recording_and_fails(start, run, tmp_path):
    reports = [option for form in FORMS for option in ("--report", f"{form}:{tmp_path / form}")]
    kept = tmp_path / "kept.db"
    replay = start(run, "--speed", "max", "--fail-on", "error", *reports, "--record", kept, "--no-config")
    break_a_rule(replay.url)

    assert (replay.stop(), replay.out) == (1, "")
    assert "The client broke 1 rule (1 finding):\n  error CLI002 (exchange 2): " in replay.err
    for form in FORMS:
        assert "CLI002" in (tmp_path / form).read_text()
    assert 'tests="9" failures="1"' in (tmp_path / "junit").read_text(), "a finding that --fail-on names is a failure"
    document = json.loads((tmp_path / "json").read_text())
    assert {rule["side"] for rule in document["rules"] if rule["selected"]} == {"client"}
    assert [finding["code"] for finding in document["findings"]] == ["CLI002"]
    with open_recording(kept) as recording:
        assert len(list(recording.exchanges())) == 2


def test_a_report_leaves_no_recording_behind(start, run, tmp_path):
    replay = start(run, "--speed", "max", "--report", "concise:-")
    break_a_rule(replay.url)

    assert replay.stop(signal.SIGTERM) == 0
    assert "CLI002" in replay.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.db"]


def test_the_command_reads_the_service_settings(start, run, tmp_path):
    service = tmp_path / "service.toml"
    service.write_text('[[keys]]\nkey = "good"\nworkspace = "w2"\n[[keys]]\nkey = "free"\n')
    url = start(run, "--service", service).url
    asked = [{"Authorization": f"Bearer {key}"} for key in ("bad", "good", "free")]
    statuses = [httpx.get(url + "/v1/sessions/s1", headers=headers).status_code for headers in asked]

    assert statuses == [401, 404, 501]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--service", "nowhere.toml"], "There is no file nowhere.toml"),
        (["--report", "nothing"], "expected FORMAT:FILE"),
        (["--record", "{run}"], "exists"),
        (["--config", "nowhere.toml"], "There is no file nowhere.toml"),
        (["--config", "nowhere.toml", "--no-config"], "cannot be combined"),
    ],
)
def test_invalid_options_are_one_sentence(run, options, message):
    done = CliRunner().invoke(wiretape, ["replay", str(run), *(each.format(run=run) for each in options)])

    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def contents(path):
    """The bytes of each response, the codes of the findings, and whether the recording has ended."""
    with open_recording(path) as recording:
        parts = [list(recording.body(each.number, Side.RESPONSE)) for each in recording.exchanges()]
        bodies = [b"".join(part.data for part in body) for body in parts]
        return bodies, codes(recording.findings()), recording.info.ended_ns is not None


@pytest.mark.parametrize("kept", ["first", "between", "last"])
async def test_a_deferred_recording_has_everything_whenever_it_is_kept(run, tmp_path, kept):
    record = tmp_path / "late.db"
    checker = ClientChecker(record=record, deferred=True)
    async with checked_client(run, checker) as client:
        began_ns = time.time_ns()
        for step in ("first", "between"):
            if step == kept:
                checker.keep()
            await read(client)
            checker.check_all()
            assert record.exists() == (kept in {step, "first"})
        assert codes(checker.client_findings) == ["CLI002"]
    checker.keep()
    checker.keep()
    assert contents(record) == ([b"".join(EVENTS)] * 2, ["CLI002"], True)
    with open_recording(record) as recording:
        assert recording.info.started_unix_ns < began_ns


async def test_a_deferred_recording_is_written_only_if_it_is_kept_or_too_large(run, tmp_path, monkeypatch):
    for most, is_written in ((1 << 24, False), (2000, True)):
        monkeypatch.setattr(client_checker, "_MOST_HELD", most)
        checker = ClientChecker(record=tmp_path / "late.db", deferred=True)
        async with checked_client(run, checker) as client:
            await read(client)
        assert any(tmp_path.glob("late.db")) == is_written
    assert contents(tmp_path / "late.db")[0] == [b"".join(EVENTS)]


async def test_findings_of_a_deferred_recording_are_stored_after_their_exchanges(run, tmp_path, monkeypatch):
    record, stored, add_findings = tmp_path / "late.db", [], Writer.add_findings

    def add(self, findings):
        with open_recording(record) as recording:  # a reader may open the file at any time
            stored.append({each.exchange for each in findings} - {each.number for each in recording.exchanges()})
        add_findings(self, findings)

    monkeypatch.setattr(Writer, "add_findings", add)
    checker = ClientChecker(record=record, deferred=True)
    async with checked_client(run, checker) as client:
        await read(client)
        await read(client)
        checker.keep()
    assert stored == [set(), set()]
    assert contents(record)[1] == ["CLI002"]
