"""All cases against the stand-in, which conforms."""

import asyncio
import re
from pathlib import Path

import pytest

from wiretape.checker import CATALOGUE
from wiretape.observations import BytesArrived, Side
from wiretape.recording import open_recording
from wiretape_contracts.agent_sessions import CLAUSES, ERROR_CODES, EVENT_TYPES
from wiretape_contracts.agent_sessions.probe.probe_file import initial_file
from wiretape_contracts.agent_sessions.probe.prober import Prober
from wiretape_contracts.agent_sessions.probe.suite import SUITE
from wiretape_inspect.probe.probe_case import NotPossible
from wiretape_inspect.probe.probe_runner import ProbeOptions, select_cases
from wiretape_inspect.report.case_results import SERVICE_RULES, SETUP, CaseVerdict, decode_results

PAGE = (Path(__file__).parents[2] / "docs" / "probe.md").read_text("utf-8")
NOT_REACHED = {"SSE010": "no event with a `retry` line arrived (the specification does not define it)"}


async def test_every_case_holds_and_exercises_its_rules(serve, probe, clock_of):
    """Nothing is broken, every rule that a service can break is exercised, and no run stays active.

    The stand-in shows every event type, and every error code with its status.
    """
    async with serve() as service, probe(service.url, clock=clock_of(service), limits=True) as probed:
        assert probed.reasons(CaseVerdict.BROKEN) == {}
        assert probed.reasons(CaseVerdict.NOT_POSSIBLE) == {"replay/closing": "probe.toml has no hooks.closing"}
        assert probed.report.coverage.broken == []
        assert probed.report.cases.not_reached == NOT_REACHED
        missing = {name: set(result.case.rules) - result.exercised for name, result in probed.cases.items()}
        assert {name: codes for name, codes in missing.items() if codes} == {"replay/closing": {"RES001", "SSE002"}}
        assert [live.id for live in service.sessions.by_id.values() if live.engine.active] == []
        assert probed.report.cases.sessions_left == len(service.sessions.by_id)
        with open_recording(probed.record) as recording:
            seen = [each for each in recording.observations() if isinstance(each, BytesArrived)]
        sent = b"".join(each.data for each in seen if each.side is Side.RESPONSE).decode()
        assert set(EVENT_TYPES) <= set(re.findall(r"^event: (\S+)", sent, re.MULTILINE))
        assert {code for code in ERROR_CODES if f'"code":"{code}"' in sent} == set(ERROR_CODES) - {"tool_input_invalid"}


async def test_the_same_seed_gives_the_same_order_and_verdicts(serve, probe, clock_of):
    async def verdicts(seed):
        async with probe(service.url, clock=clock_of(service), seed=seed, only=("tenancy",)) as probed:
            return [(name, result.verdict, sorted(result.exercised)) for name, result in probed.cases.items()]

    async with serve() as service:
        first, same, other = await verdicts(7), await verdicts(7), await verdicts(8)
    assert first == same
    assert first != other
    assert sorted(first) == sorted(other)


async def test_what_the_file_does_not_have_is_not_possible(serve, probe, clock_of):
    lacking = {"runs": {"plain": {"input": "plain"}}, "tool_result": None, "idempotency_header": None}
    async with (
        serve() as service,
        probe(
            service.url,
            clock=clock_of(service),
            keys={"main": "main-key"},
            changes=lacking,
            only=("tools", "idempotency", "tenancy", "runs", "streams/keep-alive-during-run"),
        ) as probed,
    ):
        assert probed.reasons(CaseVerdict.BROKEN) == {}
        missing = probed.reasons(CaseVerdict.NOT_POSSIBLE)
        assert missing["tools/correct-result"] == "probe.toml has no tool-result.correct"
        assert missing["runs/busy"] == "probe.toml has no runs.tool"
        assert missing["tenancy/stream"] == "the environment variable B (keys.other-tenant in probe.toml) is not set"
        assert missing["idempotency/concurrent-twins"] == "probe.toml has no idempotency-header"


async def test_the_proxy_gives_the_same_findings(serve, probe, clock_of):
    found = []
    for through_proxy in (False, True):
        async with (
            serve() as service,
            probe(
                service.url,
                clock=clock_of(service),
                through_proxy=through_proxy,
                only=("authentication", "replay/after-each-event", "errors/malformed-json"),
            ) as probed,
        ):
            verdicts = {name: (result.verdict, result.problem) for name, result in probed.cases.items()}
            tallies = {code: tally.verdict for code, tally in probed.report.outcomes.tallies.items()}
            found.append((verdicts, tallies))
    assert found[0] == found[1]


def test_every_service_rule_is_meant_to_be_exercised_by_a_case():
    meant = {code for case in SUITE.cases.values() for code in case.rules}
    assert meant - CATALOGUE.keys() == set()
    assert SERVICE_RULES - meant == NOT_REACHED.keys()


def test_the_page_lists_the_rules_that_the_stand_in_does_not_exercise():
    page = Path(__file__).parents[2] / "docs" / "serve.md"
    assert set(re.findall(r"^\| `([A-Z]+\d{3})` \|", page.read_text("utf-8"), re.MULTILINE)) == NOT_REACHED.keys()


def test_cases_state_what_they_do():
    for case in SUITE.cases.values():
        assert case.about.endswith(".")
        assert case.steps.endswith(".")
        assert case.clause.partition(": ")[0] in CLAUSES
        assert case.leaves
        assert case.group == case.name.split("/")[0]
    assert len({case.about for case in SUITE.cases.values()}) == len(SUITE.cases)


def test_the_page_lists_all_cases_and_the_initial_file():
    rows = re.findall(r"^\| `([a-z-]+/[a-z-]+)`( ⚠)? \| (.+) \|$", PAGE, re.MULTILINE)
    listed = {name: (not unsafe, about) for name, unsafe, about in rows}
    assert listed == {case.name: (case.is_safe, case.about) for case in SUITE.cases.values()}
    assert f"There are {len(SUITE.cases)} cases" in PAGE
    assert initial_file("http://127.0.0.1:8090") in PAGE


def test_patterns_select_cases():
    def names(**options):
        return {case.name for case in select_cases(SUITE.cases, ProbeOptions(**options))}

    assert names(only=("tenancy",)) == {f"tenancy/{name}" for name in ("commands", "records", "replay", "stream")}
    assert names(only=("RES006",)) == {"replay/foreign-cursor"}
    assert names(only=("tenancy/re*",), skip=("tenancy/replay",)) == {"tenancy/records"}
    assert "replay/thousand-events" not in names(skip=("unsafe",))
    assert [case.needs_limits for case in select_cases(SUITE.cases, ProbeOptions(seed=5))][-3:] == [True] * 3


async def test_an_id_that_is_elsewhere_is_found(serve, probe, clock_of):
    """The cases that need what the service did not create are not tried."""
    create = {"request": "POST /v1/sessions", "id": "/session/id"}
    async with (
        serve() as service,
        probe(
            service.url,
            clock=clock_of(service),
            changes={"create_session": create},
            only=("errors/unknown-path", "errors/malformed-json", "streams/two-readers"),
        ) as probed,
    ):
        (reason,) = probed.reasons(CaseVerdict.BROKEN).values()
        assert reason.startswith("Expected the id of the session at /session/id (create-session.id in probe.toml)")
        assert ", got values at /id" in reason
        missing = probed.reasons(CaseVerdict.NOT_POSSIBLE)
        assert missing == dict.fromkeys(
            ("errors/malformed-json", "streams/two-readers"), "setup/completed-run did not hold"
        )


async def test_an_interrupted_probe_cancels_its_runs_and_keeps_its_results(serve, probe, clock_of, tmp_path_factory):
    async with serve() as service:
        engines = lambda: [live.engine for live in service.sessions.by_id.values()]  # noqa: E731

        async def run():
            async with probe(service.url, clock=clock_of(service), only=("idempotency/different-body",)):
                pass

        async def stop_at_the_command(prober, run, *_, **__):
            task.cancel()
            await asyncio.sleep(0)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Prober, "command", stop_at_the_command)
            task = asyncio.create_task(run())
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len(engines()) == 2
        assert not any(engine.active for engine in engines())
    records = tmp_path_factory.getbasetemp().glob("probe*/run.db")
    with open_recording(max(records, key=lambda path: path.stat().st_mtime_ns)) as recording:
        assert [each.case.name for each in decode_results(recording).results] == [SETUP]


async def test_a_case_that_a_limit_spoils_is_tried_again(serve, probe, clock_of, monkeypatch):
    """Requests that are sent at the same time are not repeated one by one."""
    refused = []

    async def limit_once(prober, *steps):
        if not refused:
            refused.append(steps)
            prober.refused_for_s = 1
            raise NotPossible("a rate limit refused one of several simultaneous requests")
        return await together(prober, *steps)

    together = Prober.together
    monkeypatch.setattr(Prober, "together", limit_once)
    async with (
        serve() as service,
        probe(service.url, clock=clock_of(service), only=("concurrency/two-runs-at-once",)) as probed,
    ):
        assert refused
        assert {result.verdict for result in probed.cases.values()} == {CaseVerdict.HELD}
