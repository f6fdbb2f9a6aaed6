"""The pytest plugin in real runs of pytest: which tests pass, which fail, and with which message."""

import re
import sys

import pytest
from click.testing import CliRunner
from tables import read_tables

from wiretape.recording import open_recording
from wiretape_inspect.commands.report import report

TABLES = read_tables(__file__)

BAD = "def test_bad(wiretape_replay):\n    url = wiretape_replay('run.db').url\n    read(url); read(url)\n"
"""A client that resumes without its cursor."""


def text_of(result: pytest.RunResult) -> str:
    return result.stdout.str()


def test_a_correct_client_passes_and_leaves_no_recordings(project):
    result = project.run("""
        def test_good(wiretape_replay):
            replay = wiretape_replay("run.db")
            assert read(replay.url) == ["e1", "e2", "e3"]
            assert read(replay.url, events=0, cursor="e3") == []
            assert replay.findings == []
    """)
    result.assert_outcomes(passed=1)
    assert project.kept == []


def test_a_finding_fails_the_test_with_the_text_of_the_report(project):
    result = project.run(BAD)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*_ test_bad _*", "The client broke rule CLI002 (1 finding).", "", "CLI002 *"], consecutive=True
    )
    (kept,) = project.kept
    assert f"The traffic is recorded in {kept}." in text_of(result)
    assert "Traceback" not in text_of(result)
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_bad - Failed: The client broke rule CLI002 (1 finding)."])
    same = CliRunner().invoke(report, [str(kept), "--select", "CLI", "--no-config"])
    blocks, _, summary = same.stdout.rstrip().rpartition("\n")
    assert blocks in text_of(result)
    assert summary.partition(" of ")[0] in text_of(result)


def test_the_recording_of_a_failed_test_is_complete(project):
    project.run(BAD + "    wiretape_replay('run.db')\n")
    (kept,) = project.kept
    assert project.findings(kept) == ["CLI002"]
    with open_recording(kept) as recording:
        assert [exchange.request.target for exchange in recording.exchanges()] == ["/v1/sessions/s1/events/stream"] * 2
        assert recording.info.ended_ns is not None


def test_a_test_that_fails_for_another_reason_shows_that_reason_first(project):
    result = project.run(BAD + "    assert 'mine' == 'yours'\n")
    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert (
        text.index("assert 'mine' == 'yours'")
        < text.index("wiretape replay")
        < text.index("The client broke rule CLI002")
    )
    assert text.count("The client broke rule CLI002") == 1
    assert "GET /v1/sessions/s1/events/stream → session s1 from the beginning" in text
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_bad - *'mine' == 'yours'*"])
    assert project.findings(project.kept[0]) == ["CLI002"]


def test_a_test_that_fails_for_another_reason_keeps_its_recording(project):
    result = project.run("""
        def test_own(wiretape_replay):
            get(wiretape_replay("run.db").url)
            raise LookupError("mine")
    """)
    result.assert_outcomes(failed=1)
    (kept,) = project.kept
    result.stdout.fnmatch_lines(["The client passed the checks.", f"The traffic is recorded in {kept}."])


def test_a_rule_broken_in_teardown_is_an_error_at_teardown(project):
    result = project.run("""
        @pytest.fixture
        def client(wiretape_replay):
            url = wiretape_replay("run.db").url
            yield url
            read(url)

        def test_late(client):
            read(client)
    """)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_late*", "The client broke rule CLI002 (1 finding)."])


def test_skipped_tests_and_expected_failures_are_not_failed(project):
    result = project.run("""
        def test_skipped(wiretape_replay):
            url = wiretape_replay("run.db").url
            read(url); read(url)
            pytest.skip("enough")

        @pytest.mark.xfail(raises=LookupError, strict=True)
        def test_own(wiretape_replay):
            url = wiretape_replay("run.db").url
            read(url); read(url)
            raise LookupError

        @pytest.mark.xfail(strict=True)
        def test_findings(wiretape_replay):
            url = wiretape_replay("run.db").url
            read(url); read(url)
    """)
    result.assert_outcomes(skipped=1, xfailed=2)


def test_each_replay_of_a_test_checks_its_client(project):
    result = project.run("""
        def test_two(wiretape_replay):
            first, second = wiretape_replay("run.db"), wiretape_replay("run.db", mode="verbatim", repeat="last")
            read(first.url); read(first.url)
            get(second.url, "/v1/nothing")
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "The client broke rule CLI002 (1 finding).",
            "The traffic is recorded in *replayed.db.",
            "1 request had no match.",
            "GET /v1/nothing was not recorded. Closest: *",
            "The traffic is recorded in *replayed-2.db.",
        ]
    )
    assert [path.name for path in project.kept] == ["replayed-2.db", "replayed.db"]


def test_requests_without_a_match_fail_the_test_unless_they_are_allowed(project):
    result = project.run("""
        def test_missed(wiretape_replay):
            url = wiretape_replay("run.db").url
            assert get(url, "/v1/othr")[0] == get(url, "/v1/othr")[0] == 501

        def test_may_miss(wiretape_replay):
            replay = wiretape_replay("run.db", allow_misses=True)
            assert get(replay.url, "/v1/othr")[0] == 501
            assert [miss.target for miss in replay.misses] == ["/v1/othr"]
    """)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["2 requests had no match.", "GET /v1/othr was not recorded. Closest: exchange 2, *"])


def test_the_first_ten_requests_without_a_match_are_listed_once_each(project):
    result = project.run("""
        def test_missed(wiretape_replay):
            url = wiretape_replay("run.db").url
            for number in range(26):
                get(url, f"/v1/{number % 13}")
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["26 requests had no match.", "GET /v1/0 *", "GET /v1/9 *", "… and 3 more", "The traffic *"]
    )
    assert "GET /v1/10 " not in text_of(result)


def test_findings_are_reported_even_if_they_cannot_be_recorded(project):
    result = project.run(BAD.replace("wiretape_replay)", "wiretape_replay, tmp_path)") + "    tmp_path.rmdir()\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "The client broke rule CLI002 (1 finding).",
            "error CLI002 (exchange 2): Expected `e3` as Last-Event-ID, got none.",
            "*replayed.db cannot be written: *",
        ]
    )
    assert "Traceback" not in text_of(result)


def test_a_long_log_is_shortened(project):
    result = project.run("""
        def test_own(wiretape_replay):
            url = wiretape_replay("run.db", mode="verbatim", repeat="last").url
            for _ in range(35):
                get(url)
            raise LookupError
    """)
    result.stdout.fnmatch_lines(["Requests:", "… 5 lines before"], consecutive=True)


def test_the_criteria_for_failure_can_be_chosen(project):
    result = project.run("""
        def bad(replay):
            read(replay.url); read(replay.url)
            assert [finding.code for finding in replay.findings] == ["CLI002"]

        def test_allowed(wiretape_replay):
            bad(wiretape_replay("run.db", allow=["CLI002"]))

        def test_family_allowed(wiretape_replay):
            bad(wiretape_replay("run.db", allow="CLI"))

        def test_never(wiretape_replay):
            bad(wiretape_replay("run.db", fail_on="never"))

        def test_other_allowed(wiretape_replay):
            bad(wiretape_replay("run.db", allow=["CLI003"]))

        def test_warning(wiretape_replay):
            replay = wiretape_replay("run.db", fail_on="warning", no_auth=True)
            get(replay.url, "/v1/sessions/other?api_key=k")
    """)
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(["FAILED *::test_other_allowed *", "FAILED *::test_warning *"])


def test_allowed_findings_are_not_reported_with_others(project):
    result = project.run("""
        def test_both(wiretape_replay):
            url = wiretape_replay("run.db", allow="CLI002").url
            read(url); read(url)
            get(url, headers={})
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["The client broke rule CLI001 (1 finding).", "CLI001 missing-bearer-key *"])
    assert "CLI002" not in text_of(result).partition("short test summary")[0].partition("The client broke")[2]


def test_the_configuration_of_the_project_applies(project):
    project.run(BAD)
    (kept,) = project.kept
    known = project.path / "known.json"
    CliRunner().invoke(report, [str(kept), "--select", "CLI", "--no-config", "--write-baseline", str(known)])
    for settings, passed in (
        ('severity = { CLI002 = "off" }', 1),
        ('severity = { CLI002 = "note" }', 1),
        ('ignore = ["CLI002"]', 1),
        ('fail-on = "never"', 1),
        ('baseline = "known.json"', 1),
        ('ignore = ["CLI003"]', 0),
    ):
        project.file("wiretape.toml", settings)
        result = project.run(BAD)
        assert result.parseoutcomes() == {"passed" if passed else "failed": 1}, settings
        assert bool(project.kept) is not bool(passed), settings
    project.file("wiretape.toml", "severity = 1")
    result = project.run(BAD)
    result.assert_outcomes(errors=1)
    result.stdout.re_match_lines([r".*wiretape\.toml: severity: expected a table, got 1\."])


def test_the_marker_gives_the_recording_and_the_options(project):
    project.file(
        "tests/faults.toml", '[[fault]]\ndo = "error"\ncode = "RATE_LIMITED"\noperation = "stream"\ntimes = 1\n'
    )
    result = project.run(
        """
        pytestmark = pytest.mark.wiretape("run.db", paused=True)

        @pytest.mark.wiretape(no_auth=True)
        class TestMarked:
            def test_of_all(self, wiretape):
                assert wiretape.control.channel_state().paused
                assert get(wiretape.url, headers={})[0] == 200

            @pytest.mark.wiretape(paused=False, faults="faults.toml")
            def test_nearest_first(self, wiretape):
                assert not wiretape.control.channel_state().paused
                assert get(wiretape.url, STREAM, headers={})[0] == 429

            def test_the_call_before_markers(self, wiretape_replay):
                assert not wiretape_replay(paused=False).control.channel_state().paused
        """,
        "--strict-markers",
        name="tests/test_marked.py",
    )
    result.assert_outcomes(passed=3)
    project.pytest("--markers").stdout.fnmatch_lines(["@pytest.mark.wiretape(recording, *"])


def test_files_are_found_next_to_the_test_and_then_in_rootdir(project):
    project.file("tests/run.db", "not a recording")
    result = project.run("def test_beside(wiretape_replay):\n    wiretape_replay('run.db')\n", name="tests/test_a.py")
    result.assert_outcomes(failed=1)
    assert "run.db is not a wiretape recording" in text_of(result)
    (project.path / "tests/run.db").unlink()
    project.run(
        "def test_root(wiretape_replay):\n    wiretape_replay('run.db')\n", name="tests/test_a.py"
    ).assert_outcomes(passed=1)


def test_a_fault_that_never_matches_fails_the_test_unless_it_may_miss(project):
    result = project.run("""
        import pytest

        FAULTS = [{"do": "drop", "after": {"sequence": 99}, "name": "late"}, {"do": "duplicate", "at": {"sequence": 1}}]

        @pytest.mark.parametrize("options", [{}, {"faults_may_miss": True}])
        def test_never(wiretape_replay, options):
            replay = wiretape_replay("run.db", faults=FAULTS, **options)
            read(replay.url)
            assert replay.unused_faults == ["late"]
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["The fault late never matched."])


def test_fail_on_inconclusive_fails_for_a_client_that_ignores_a_resync_and_leaves(project):
    result = project.run("""
        import pytest

        @pytest.mark.parametrize("fail_on", ["note", "inconclusive"])
        def test_leaves(wiretape_replay, fail_on):
            resync = {"do": "insert", "type": "stream.resync", "after": {"sequence": 2}}
            faults = [resync, {"do": "hold", "after": {"sequence": 3}}]
            read(wiretape_replay("run.db", faults=faults, fail_on=fail_on).url)
    """)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["Rule CLI005 was inconclusive.", "inconclusive CLI005 resync-ignored: *(1 time)"])


def test_faults_can_be_given_in_several_forms(project):
    project.file("faults.toml", '[[fault]]\ndo = "drop"\nafter = { sequence = 2 }\n')
    result = project.run("""
        from pathlib import Path

        FILE, DROP = Path("faults.toml"), {"do": "drop", "after": {"sequence": 2}}
        FORMS = ["faults.toml", FILE, FILE.read_text(), DROP, {"fault": [DROP], "seed": 3}, [DROP]]

        @pytest.mark.parametrize("faults", FORMS)
        def test_drops(wiretape_replay, faults):
            replay = wiretape_replay("run.db", faults=faults)
            assert read(replay.url) == ["e1", "e2"]
            assert replay.fault_counts == {"fault-1": 1}
            assert replay.requests[0].faults == ["fault-1"]
    """)
    result.assert_outcomes(passed=6)


def assert_sections(result: pytest.RunResult, header: str, messages: list[str]) -> None:
    """Each of the tests test_0, test_1 … failed with nothing but its message."""
    lines = [line for number, message in enumerate(messages) for line in (header.format(number), message)]
    result.stdout.fnmatch_lines([*lines, "=* short test summary*"], consecutive=True)


def test_invalid_arguments_fail_the_test_in_one_sentence(project):
    rows = TABLES["invalid-arguments"]
    tests = (f"def test_{n}(wiretape_replay):\n    wiretape_replay({row[0]})\n" for n, row in enumerate(rows))
    result = project.run("".join(tests))
    result.assert_outcomes(failed=len(rows))
    assert_sections(result, "*_ test_{} _*", [message.format(folder=project.path) for _, message in rows])


def test_an_invalid_marker_is_an_error_at_setup(project):
    rows = {
        "'none.db'": "Cannot find none.db in *",
        "'run.db', 'session'": "The `wiretape` marker takes one recording; pass all options by name.",
        "speed=1": "The recording is missing: *",
    }
    tests = (f"@pytest.mark.wiretape({row})\ndef test_{n}(wiretape):\n    pass\n" for n, row in enumerate(rows))
    result = project.run("".join(tests))
    result.assert_outcomes(errors=3)
    assert_sections(result, "*_ ERROR at setup of test_{} _*", list(rows.values()))


def test_requests_can_be_inspected(project):
    result = project.run("""
        import json

        def test_requests(wiretape_replay):
            replay = wiretape_replay("run.db", mode="verbatim", allow_misses=True)
            assert [entry.target for entry in replay.unconsumed] == [STREAM, "/v1/sessions/other"]
            get(replay.url, "/v1/sessions/other")
            connection = http.client.HTTPConnection(urlsplit(replay.url).netloc, timeout=45)
            connection.request("POST", "/v1/runs?a=1", body=json.dumps({"n": 1}), headers=KEY)
            connection.getresponse().read()
            connection.close()
            first, second = replay.requests
            assert (first.number, first.method, first.path, first.status) == (1, "GET", "/v1/sessions/other", 200)
            assert (second.path, second.target, second.status) == ("/v1/runs", "/v1/runs?a=1", 501)
            assert second.json() == {"n": 1}
            assert second.header("authorization") == "Bearer key-1"
            assert [entry.target for entry in replay.unconsumed] == [STREAM]
            assert replay.streams == []
    """)
    result.assert_outcomes(passed=1)


def test_coroutines_wait_without_blocking_their_loop(project):
    result = project.run("""
        import asyncio

        async def test_steps(wiretape_replay):
            replay = wiretape_replay("run.db", paused=True)
            reading = asyncio.create_task(asyncio.to_thread(read, replay.url, events=1))
            with pytest.raises(RuntimeError, match="async_wait"):
                replay.control.wait("connected")
            await replay.control.async_wait("connected")
            replay.control.step()
            assert await reading == ["e1"]

        @pytest.mark.wiretape("run.db")
        async def test_bad(wiretape):
            await asyncio.to_thread(read, wiretape.url)
            await asyncio.to_thread(read, wiretape.url)
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["The client broke rule CLI002 (1 finding)."])


def test_coroutines_of_anyio_can_wait(project):
    """It runs in its own process with the plugin of anyio, which is disabled in this one."""
    result = project.run(
        """
        import anyio

        pytestmark = pytest.mark.anyio

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.wiretape("run.db", paused=True)
        async def test_steps(wiretape):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, lambda: read(wiretape.url, events=1))
                await wiretape.control.async_wait("connected")
                wiretape.control.step()
        """,
        "-p",
        "anyio",
        "-o",
        "asyncio_mode=strict",
        "-o",
        "filterwarnings=",
        subprocess=True,
    )
    result.assert_outcomes(passed=1)


def test_each_worker_of_xdist_has_its_own_replays(project):
    pytest.importorskip("xdist")
    tests = "".join(f"def test_{n}(wiretape_replay):\n    read(wiretape_replay('run.db').url)\n" for n in range(6))
    result = project.run(tests + BAD, "-n", "2", subprocess=True)
    result.assert_outcomes(passed=6, failed=1)
    result.stdout.fnmatch_lines(["The client broke rule CLI002 (1 finding).", "FAILED test_it.py::test_bad*"])
    assert len(project.kept) == 1


def test_only_the_plugin_is_imported_until_a_test_starts_a_replay(project):
    result = project.run(
        """
        import sys

        def test_unused(request):
            assert request.config.pluginmanager.hasplugin("wiretape")
            ours = {name for name in sys.modules if name.partition(".")[0] in {"wiretape", "wiretape_replay"}}
            assert ours == {"wiretape_replay", "wiretape_replay.testing", "wiretape_replay.testing.plugin"}
            assert not {"aiohttp", "click", "orjson", "sqlite_utils"} & set(sys.modules)
        """,
        subprocess=True,
    )
    result.assert_outcomes(passed=1)


def test_the_fixtures_have_descriptions(project):
    result = project.run("", "--fixtures")
    text = re.sub(r"\s+", " ", text_of(result))
    assert "Replay a recording as an offline service:" in text
    assert "A replay of the recording in the marker `wiretape`" in text


def test_the_plugin_is_loaded_by_its_entry_point(project):
    """The package under test is installed."""
    result = project.run("def test_it():\n    pass\n", "--trace-config", subprocess=True)
    assert "wiretape_replay.testing.plugin" in text_of(result), sys.executable
