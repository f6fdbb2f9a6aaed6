"""A service that shares no code with wiretape, in many configurations: no case blames it for what it need not do."""

import asyncio
import itertools
import os
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import virtual_time
from for_each import for_each
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rule_mutations import MUTATIONS as DEFECTS
from rule_mutations import mutated
from second_service import DESCRIPTION, Service, Traits, listening
from service_mutations import MUTATIONS
from slow_path import slow_path
from test_probe_reproductions import run_script

from wiretape.rules import Severity
from wiretape_contracts.agent_sessions.probe.probe_file import decode_probe_file
from wiretape_contracts.agent_sessions.probe.prober import ENDED_BEFORE_COMMENT
from wiretape_contracts.agent_sessions.probe.suite import SUITE
from wiretape_inspect.probe.probe_case import LOST
from wiretape_inspect.report import ReportOptions
from wiretape_inspect.report.case_results import SERVICE_RULES, SETUP, CaseVerdict
from wiretape_inspect.report.ci_formats import junit_lines

TOO_SHORT = "a run of kind runs.long ends too soon"
CLOSED, NEEDS_LIMITS = {"SEQ004", "SSE009"}, "it needs --limits"
"""The notes that the specification leaves room for."""
FEW = Traits(many=20)
FEW_CODES = ("SSE009", "RES002", "BUSY001", "TOOL003")
"""The scripts that every run of the tests tries; `make reproductions` tries all."""
IS_LONG = "WIRETAPE_REPRODUCTIONS" in os.environ
EXAMPLES = max(1, int(os.environ.get("WIRETAPE_FUZZ", "30")) // 30)
"""Each takes two seconds; `make fuzz` tries 16 in each round."""


@pytest.fixture(scope="module")
def probe_second(probe):
    """Probe the second service in virtual time; return the result, the service, and the text of all findings."""

    def run(traits=FEW, *, delay_s=0.0, mutation=None, proxied=None, changes=None, **options):
        async def main():
            service = Service(traits)
            if mutation is not None:
                mutation(service)
            async with AsyncExitStack() as opened:
                url = await opened.enter_async_context(listening(service))
                if delay_s:
                    url = await opened.enter_async_context(slow_path(url, delay_s))
                if proxied is not None:
                    url = await opened.enter_async_context(mutated(url, proxied))
                keys = {"base-url": url, "keys": {"main": "A", "other-tenant": "B", "limited": "C"}}
                file = decode_probe_file(DESCRIPTION | keys | (changes or {}), "probe.toml")
                more = {"shrink": False, "jobs": 4, "timeout_s": 30} | options
                clock = virtual_time.LoopClock()
                return await opened.enter_async_context(probe(url, file=file, clock=clock, **more)), service

        return virtual_time.run(main)

    return run


def not_possible(traits):
    """What may be impossible to test with these traits, and why."""
    missing = dict.fromkeys(("limits/events", "limits/runs", "limits/sessions"), NEEDS_LIMITS)
    if traits.long_s < 1:
        missing |= dict.fromkeys(("runs/busy-while-running", "streams/keep-alive-during-run"), TOO_SHORT)
    elif traits.ends_after:
        # A run can end while the probe opens one stream after another.
        missing["streams/keep-alive-during-run"] = TOO_SHORT
    return missing


def check(probed, service):
    """Every case held or was not possible for a true reason, and only notes were found."""
    traits = service.traits
    ends_early = traits.ends_with_run or traits.ends_after or traits.ends_after_s
    ended = (LOST, ENDED_BEFORE_COMMENT, f"{SETUP} did not hold") if ends_early else ()
    assert probed.reasons(CaseVerdict.BROKEN) == {}
    unclear = probed.reasons(CaseVerdict.INCONCLUSIVE)
    assert not unclear or ends_early
    assert [why for why in unclear.values() if not why.endswith(f": {LOST}.")] == []
    missing = {name: why for name, why in probed.reasons(CaseVerdict.NOT_POSSIBLE).items() if why not in ended}
    assert missing.items() <= not_possible(traits).items()
    assert {code for code, _ in probed.report.counts} <= CLOSED
    assert probed.worse_than_notes == set()
    assert probed.report.cases.sessions_left == len(service.sessions)
    assert [session.active for session in service.sessions.values() if session.active] == []


CONFIGURATIONS = {
    "as the specification shows it": FEW,
    "CRLF, one counter, three open calls": replace(
        FEW, crlf=True, one_counter=True, calls=3, ids="uuid", greets=True, cut=40
    ),
    "only the named types durable, a thousand times faster": replace(FEW, durable="named", step_s=0.00002),
    "without any delay": replace(FEW, step_s=0, long_s=0, calls=3, one_counter=True),
    "streams end after three events": replace(FEW, ends_after=3, durable="named"),
    "streams end at once": replace(FEW, ends_after_s=0.05, calls=2),
    "twenty times slower": replace(
        FEW, step_s=0.6, jitter=0.8, durable="named", crlf=True, replays_all=True, ids="text", calls=2
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_no_case_blames_a_service_for_what_the_specification_leaves_open(name, probe_second):
    check(*probe_second(CONFIGURATIONS[name]))


@pytest.mark.parametrize("ends", [{"ends_with_run": True}, {"ends_after": 3}, {"ends_after_s": 20}], ids=str)
def test_cases_go_on_when_the_service_ends_a_stream(ends, probe_second):
    """If all events are stored, nothing is lost, and every case holds."""
    probed, service = probe_second(replace(FEW, **ends))
    check(probed, service)
    assert set(probed.reasons(CaseVerdict.NOT_POSSIBLE).values()) == {NEEDS_LIMITS}
    assert len(probed.reasons(CaseVerdict.HELD)) == len(SUITE.cases) + 1 - 3


def test_no_case_blames_a_service_for_a_slow_path(probe_second):
    """The run ends before the probe sees its first event."""
    check(*probe_second(replace(FEW, durable="named", step_s=0.001), delay_s=2.5))


@pytest.mark.timeout(600)
# Smaller examples would say no more.
@settings(max_examples=EXAMPLES, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    traits=st.builds(
        Traits,
        crlf=st.booleans(),
        one_counter=st.booleans(),
        durable=st.sampled_from(["all", "named"]),
        ids=st.sampled_from(["number", "uuid", "text"]),
        step_s=st.sampled_from([0, 0.00002, 0.001, 0.02, 0.1, 0.6]),
        jitter=st.sampled_from([0, 0.5, 1]),
        calls=st.integers(1, 3),
        builtin=st.booleans(),
        replays_all=st.booleans(),
        greets=st.booleans(),
        cut=st.sampled_from([0, 40]),
        compresses=st.booleans(),
        long_s=st.sampled_from([0, 25]),
        many=st.sampled_from([1, 20]),
        ends_resync=st.booleans(),
        ends_with_run=st.booleans(),
        ends_after=st.sampled_from([0, 0, 0, 1, 3, 10]),
        ends_after_s=st.sampled_from([0, 0, 0, 0.05, 0.5, 5, 20]),
        seed=st.integers(0, 1 << 30),
    ),
    delay_s=st.sampled_from([0, 0, 0.01, 0.3, 2.5]),
    seed=st.integers(0, 1 << 30),
    jobs=st.sampled_from([1, 4, 16]),
)
def test_no_case_blames_a_service_with_any_traits(traits, delay_s, seed, jobs, probe_second):
    check(*probe_second(traits, delay_s=delay_s, seed=seed, jobs=jobs))


def test_a_service_with_the_published_limits_is_probed_completely(probe_second):
    probed, _ = probe_second(replace(FEW, has_limits=True), limits=True)
    assert {result.verdict for result in probed.cases.values()} == {CaseVerdict.HELD}
    assert probed.report.findings.counts == {}
    assert probed.report.coverage.not_reached == ["SSE010"]


def test_hooks_replace_runs_that_do_something(probe_second):
    hooks = {"resync": "resync", "deadline": "expire", "closing": "close"}
    requests = {name: {"request": f"POST /v1/hooks/{{session_id}}/{path}"} for name, path in hooks.items()}
    runs = {"plain": {"goal": "work"}, "tool": {"goal": "ask"}}
    only = ("replay/resync", "replay/closing", "tools/late-result")
    probed, _ = probe_second(only=only, changes={"runs": runs, "hooks": requests})
    assert {result.verdict for result in probed.cases.values()} == {CaseVerdict.HELD}


def refuse_others(service):
    """Refuse the results of all calls except the first."""

    def check_result(run, call, result):
        Service.check_result(service, run, call, result if call is next(iter(run.calls.values()), None) else None)

    service.check_result = check_result


def forget(service):
    """Ignore idempotency keys."""
    service.recall = lambda *_: None


def end_second_stream(service):
    """End a stream of a run that sent nothing, after the first event was stored."""
    numbers = itertools.count(1)

    async def feed(reader, response, packer):
        if next(numbers) != 2:
            await Service.feed(service, reader, response, packer)
            return
        (session,) = (each for each in service.sessions.values() if reader in each.readers)
        while not session.log:
            await reader.queue.get()

    service.feed = feed


NOT_FOR_RUNS = "the service does not apply idempotency keys to the creation of runs"
DOES_NOT_REFUSE = "none of 4 requests was refused: they do not count, or the limit is not limits.{} of probe.toml"
ALLOWED = {
    "a hook fails": (
        {"only": ("replay/closing",), "changes": {"hooks": {"closing": {"request": "POST /v1/hooks/{run_id}/close"}}}},
        {"replay/closing": "the request of hooks.closing got 404 resource_not_found"},
    ),
    "limits do not refuse": (
        {"limits": True, "only": ("limits",), "changes": {"limits": {"runs": 3, "events": 3, "sessions": 3}}},
        {f"limits/{name}": DOES_NOT_REFUSE.format(name) for name in ("runs", "events", "sessions")},
    ),
    "calls of different tools": (
        {"traits": replace(FEW, calls=2), "mutation": refuse_others, "only": ("tools/correct-result",)},
        {"tools/correct-result": "the run opens several calls, and tool-result.correct of probe.toml does not fit all"},
    ),
    "no idempotency": (
        {"mutation": forget, "only": ("idempotency",)},
        {
            "idempotency/same-retry": NOT_FOR_RUNS,
            "idempotency/concurrent-twins": NOT_FOR_RUNS,
            "idempotency/different-body": "the service ignores idempotency keys when a run is resumed: "
            "the same request again got 409 event_already_resolved",
        },
    ),
    "a stream ends before its first cursor": (
        {"mutation": end_second_stream, "only": ("streams/two-readers",)},
        {"streams/two-readers": LOST},
    ),
}
"""What a service may do, and the reasons why cases are then not possible."""


@pytest.mark.parametrize(("how", "reasons"), ALLOWED.values(), ids=ALLOWED)
def test_a_case_is_not_possible_if_the_service_may_do_otherwise(how, reasons, probe_second):
    probed, _ = probe_second(**how)
    assert probed.reasons(CaseVerdict.BROKEN) == {}
    assert probed.reasons(CaseVerdict.NOT_POSSIBLE) == reasons


def test_a_service_that_is_slower_than_the_timeout_is_not_blamed(probe_second):
    """The setting is named once, and the probe fails, because it tested nothing."""
    probed, _ = probe_second(replace(FEW, step_s=12), timeout_s=10)
    assert probed.reasons(CaseVerdict.BROKEN) == {}
    ((name, why),) = probed.reasons(CaseVerdict.INCONCLUSIVE).items()
    assert name == SETUP
    assert why.startswith("Expected run.cancelled or run.completed or run.failed within 10 s, got no event")
    assert why.endswith(": if the service needs longer, increase --timeout.")
    reasons = set(probed.reasons(CaseVerdict.NOT_POSSIBLE).values())
    assert reasons == {f"{SETUP} did not hold", NEEDS_LIMITS}
    assert probed.report.fails(ReportOptions())
    assert 'message="inconclusive: Expected run' in "\n".join(junit_lines([probed.report], ReportOptions()))


def test_some_slow_runs_are_inconclusive(probe_second):
    def slow_calls(service):
        work = service.work

        async def wait(run):
            await asyncio.sleep(20 if run.kind == "fail" else 0)
            await work(run)

        service.work = wait

    probed, _ = probe_second(replace(FEW, step_s=0.2), mutation=slow_calls, timeout_s=10, only=("runs/failing",))
    (why,) = probed.reasons(CaseVerdict.INCONCLUSIVE).values()
    assert "got no event: if the service needs longer, increase --timeout." in why
    assert not probed.report.cases.fails("error")
    assert probed.report.cases.fails("error", on_inconclusive=True)


def test_a_run_that_sends_events_may_take_longer_than_the_timeout(probe_second):
    probed, _ = probe_second(
        replace(FEW, many=30, step_s=0.05), mutation=pause_in_tools, only=("replay/thousand-events",)
    )
    assert {result.verdict for result in probed.cases.values()} == {CaseVerdict.HELD}


def pause_in_tools(service):
    """Thirty calls, each of two seconds."""
    use_tool = service.use_tool

    async def use_slowly(run, name, *, quick=False):
        await asyncio.sleep(2 if quick else 0)
        await use_tool(run, name, quick=quick)

    service.use_tool = use_slowly


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_case_finds_what_a_mutation_breaks(name, probe_second):
    """The timeout is not blamed: everything took a fraction of a second before."""
    mutation = MUTATIONS[name]
    probed, _ = probe_second(mutation=mutation.apply, only=(mutation.found_by,))
    result = probed.cases[mutation.found_by]
    assert result.verdict is CaseVerdict.BROKEN
    assert "<<" not in result.reason
    assert "--timeout" not in result.reason
    assert not mutation.rule or mutation.rule in result.broken_rules


@pytest.fixture(scope="module")
def defects(probe_second):
    """What the case for each rule found: one probe for all rules, and one for each that exhausts a limit."""
    limited = [{code: mutation} for code, mutation in DEFECTS.items() if mutation.is_limited]
    found = {}
    for mutations in ({code: mutation for code, mutation in DEFECTS.items() if not mutation.is_limited}, *limited):
        names = {code: f"{mutation.case}-{code}" for code, mutation in mutations.items()}
        probed, _ = probe_second(
            replace(FEW, has_limits=mutations in limited, ids="uuid"),
            proxied={names[code]: mutation for code, mutation in mutations.items()},
            cases=[replace(SUITE.cases[mutations[code].case], name=name) for code, name in names.items()],
            limits=True,
        )
        assert probed.cases[SETUP].outcome is CaseVerdict.HELD
        assert sum(len(result.findings) for result in probed.cases.values()) == len(probed.report.findings)
        found |= {code: probed.cases[name] for code, name in names.items()}
    return found


@for_each("code", DEFECTS)
def test_a_rule_that_the_second_service_breaks_is_found_and_nothing_else(code, defects):
    result = defects[code]
    assert code in {finding.code for finding in result.findings.values()}
    assert not result.is_unexplained
    assert {finding.code for finding in result.findings.values() if finding.severity is not Severity.NOTE} <= {code}


def test_there_is_a_mutation_for_each_rule_and_its_case_is_meant_to_find_it():
    assert DEFECTS.keys() == SERVICE_RULES
    for code, mutation in DEFECTS.items():
        assert code in SUITE.cases[mutation.case].rules or code in {"SSE010", "RUN007"}, code


@pytest.mark.parametrize("code", DEFECTS if IS_LONG else FEW_CODES)
def test_the_printed_script_shows_the_defect_and_no_defect_of_a_correct_service(code, probe_second, tmp_path):
    """With both ends of lines, and ids that have to be encoded in URLs."""
    mutation, traits = DEFECTS[code], Traits(ids="text", step_s=0.001, has_limits=DEFECTS[code].is_limited)
    options = {"shrink": True, "limits": True, "cases": [SUITE.cases[mutation.case]]}
    probed, _ = probe_second(replace(traits, step_s=0.02), proxied={mutation.case: mutation}, **options)
    found = {each.code: each for each in probed.report.cases.reproductions}[code]

    async def run(applied, crlf):
        async with listening(Service(replace(traits, crlf=crlf))) as url, mutated(url, applied) as url:
            return await run_script(found.curl, url, tmp_path)

    async def run_all():
        return await asyncio.gather(*(run(*each) for each in itertools.product(({None: mutation}, {}), (False, True))))

    results = asyncio.run(run_all())
    assert [status for status, _ in results] == [1, 1, 0, 0], results
    assert all(f"{code}: " in out for _, out in results[:2])


def test_notes_do_not_break_a_case(probe_second):
    """One counter for all sessions leaves gaps in each, and a compressed stream arrives."""
    traits = replace(FEW, one_counter=True, compresses=True)
    probed, _ = probe_second(traits, only=("concurrency/sessions-side-by-side", "streams"))
    assert {code for code, _ in probed.report.counts} == CLOSED
    assert {result.verdict for result in probed.cases.values()} == {CaseVerdict.HELD}


def test_notes_are_not_the_reason_of_a_broken_case_and_have_a_script_only_if_they_come_again(probe_second):
    traits = replace(FEW, one_counter=True)
    several, one = (
        ("runs/busy", "runs/two-in-a-row", "concurrency/two-runs-at-once"),
        "concurrency/sessions-side-by-side",
    )
    for only, is_shown in ((several, False), ((one,), True)):
        probed, _ = probe_second(traits, only=only, shrink=True, mutation=MUTATIONS["two-runs-active"].apply)
        assert "SEQ004" in probed.report.broken
        assert not any("SEQ004" in why for why in probed.reasons(CaseVerdict.BROKEN).values())
        assert ("SEQ004" in [each.code for each in probed.report.cases.reproductions]) is is_shown
        assert bool(list(probed.record.parent.glob("*SEQ004.tape"))) is is_shown


def test_compression_counts_only_in_the_case_that_accepts_it(probe_second):
    for only, is_held in (("streams/run-with-deltas", False), ("streams/compression", True)):
        probed, _ = probe_second(only=(only,))
        assert ("SSE009" in probed.report.coverage.held) is is_held


def test_the_calls_that_were_asked_for_are_answered(probe_second):
    """Each once, whatever other tools are used at the same time."""
    probed, service = probe_second(replace(FEW, calls=3), only=("tools/correct-result",))
    assert probed.cases["tools/correct-result"].verdict is CaseVerdict.HELD
    runs = [run for session in service.sessions.values() for run in session.runs.values() if run.calls]
    assert [[call.state for call in run.calls.values()] for run in runs] == [["answered"] * 3]


def test_a_key_that_is_refused_is_named_by_its_environment_variable(probe_second):
    def forget_key(service):
        service.authenticate = lambda request: Service.authenticate(
            service, request.clone(headers={}) if "other" in request.headers.get("Authorization", "") else request
        )

    probed, _ = probe_second(mutation=forget_key, only=("tenancy/records",))
    why = probed.reasons(CaseVerdict.BROKEN)["tenancy/records"]
    assert why.startswith("Expected the key in the environment variable B to be accepted for ")
    assert why.endswith(", got 401 authentication_required.")


NOT_MEANT = "no case that ran is meant to exercise it"
WHY_NOT_REACHED = {
    "BUSY001": "the cases that were to exercise it are broken",
    "ERR006": f"no error envelope arrived ({NOT_MEANT})",
    "RATE001": NEEDS_LIMITS,
    "RUN003": "no durable event ended a run (the service need not store these events)",
    "SSE010": "no event with a `retry` line arrived (the specification does not define it)",
    "TOOL003": "no durable event ended a tool call that has an id (let the run of runs.plain call a tool; "
    "the service need not store these events)",
}


def test_the_report_tells_why_a_rule_was_not_reached(probe_second):
    only = ("limits/runs", "runs/busy", "runs/two-in-a-row", "streams/run-with-deltas")
    probed, _ = probe_second(
        replace(FEW, durable="named"), only=only, mutation=MUTATIONS["two-runs-active"].apply, limits=False
    )
    reasons = probed.report.cases.not_reached
    assert {code: reasons[code] for code in WHY_NOT_REACHED} == WHY_NOT_REACHED
