"""Tool results: correct, wrong, repeated, late."""

from wiretape_contracts.agent_sessions import (
    EVENT_ALREADY_RESOLVED,
    EVENT_EXPIRED,
    RUN_COMPLETED,
    RUN_NOT_RESUMABLE,
    RUNTIME_RESUME_UNAVAILABLE,
    TERMINAL_RUN_TYPES,
    TOOL_FAILED,
    TOOL_RESULT_INVALID,
)
from wiretape_contracts.agent_sessions.probe.prober import Prober, case

_RESULT = 'Endpoints, resume: "also used to return application tool results"'
_WRONG = 'Tool result validation: "A 422 tool_result_invalid leaves the run waiting."'
_RESOLVED = 'Codes, event_already_resolved: "Do not execute the tool again."'
_RULES = "TOOL001 TOOL002 TOOL003 TOOL004 TOOL005"


@case("tools/correct-result", _RESULT, rules=_RULES)
async def correct_result(probe: Prober) -> None:
    """A run continues after a correct result.

    Send the result that a run is waiting for, and read to the end of the run.
    """
    _, run, stream, call = await probe.start_tool_call()
    response = await probe.command(run, "resume", probe.result(call))
    probe.expect_success(response, "a resumed run")
    end = (await probe.answer_calls(run, stream, call)).type
    probe.expect(end == RUN_COMPLETED, f"Expected {RUN_COMPLETED}, got {end}.")


@case("tools/wrong-result", _WRONG, rules="ERR004 ERR005")
async def wrong_result(probe: Prober) -> None:
    """A wrong result is refused, and the run keeps waiting.

    Send the result of an unknown call, and one that does not match the schema; then cancel the run.
    """
    probe.result("", wrong=True)
    _, run, stream, call = await probe.start_tool_call()
    unknown = await probe.command(run, "resume", probe.result("probe-call-that-does-not-exist"))
    response = await probe.command(run, "resume", probe.result(call, wrong=True))
    probe.expect_refused(unknown)
    probe.expect_error(response, TOOL_RESULT_INVALID)
    cancelled = await probe.command(run, "cancel")
    probe.expect_success(cancelled, "a run that still waits and can be cancelled")
    await stream.until_run_ends(run)


@case(
    "tools/corrected-result",
    'Tool result validation: "The client corrects the result and retries with the same idempotency key."',
    rules="ERR004 TOOL003",
)
async def corrected_result(probe: Prober) -> None:
    """A corrected result with the same idempotency key is accepted.

    Send a wrong result, and then the correct one with the same idempotency key.
    """
    probe.result("", wrong=True)
    _, run, stream, call = await probe.start_tool_call()
    wrong = await probe.command(run, "resume", probe.result(call, wrong=True), idempotency_key="result")
    probe.expect_error(wrong, TOOL_RESULT_INVALID)
    right = await probe.command(run, "resume", probe.result(call), idempotency_key="result")
    probe.expect_success(right, "a resumed run")
    await probe.answer_calls(run, stream, call)


@case("tools/repeated-result", _RESOLVED, rules="ERR004 TOOL003")
async def repeated_result(probe: Prober) -> None:
    """A result is accepted only once.

    Send a result, read to the end of the run, and send the result again.
    """
    _, run, stream, call = await probe.start_tool_call()
    probe.expect_success(await probe.command(run, "resume", probe.result(call)), "a resumed run")
    await probe.answer_calls(run, stream, call)
    again = await probe.command(run, "resume", probe.result(call))
    probe.expect_error(again, EVENT_ALREADY_RESOLVED, RUN_NOT_RESUMABLE)


@case("tools/late-result", 'Codes, event_expired: "Start a new run."', rules="ERR004")
async def late_result(probe: Prober) -> None:
    """A late result is refused.

    Let the deadline of a call pass, and send the result.
    """
    session, run, stream, call = await probe.start_tool_call("brief-tool")
    await probe.provoke("deadline", session, run)
    waited_s = 0
    while not {TOOL_FAILED, *TERMINAL_RUN_TYPES} & {event.type for event in await stream.read_for(1)}:
        waited_s += 1
        if waited_s >= probe.timeout_s:
            raise stream.lacks(f"no deadline of runs.brief-tool passed within {probe.timeout_s:g} s (--timeout)")
    response = await probe.command(run, "resume", probe.result(call))
    probe.expect_error(response, EVENT_EXPIRED, RUN_NOT_RESUMABLE)


@case(
    "tools/runtime-unavailable",
    'Codes, runtime_resume_unavailable: "Retry with the same idempotency key."',
    rules="ERR004",
)
async def runtime_unavailable(probe: Prober) -> None:
    """A result that is temporarily refused is accepted later.

    Send a result that is refused once, and send it again with the same idempotency key.
    """
    _, run, stream, call = await probe.start_tool_call("unavailable-tool")
    body = probe.result(call)
    refused = await probe.command(run, "resume", body, idempotency_key="result")
    probe.expect_error(refused, RUNTIME_RESUME_UNAVAILABLE)
    accepted = await probe.command(run, "resume", body, idempotency_key="result")
    probe.expect_success(accepted, "a resumed run")
    await probe.answer_calls(run, stream, call)


@case("concurrency/results-at-once", _RESOLVED, rules="TOOL003")
async def results_at_once(probe: Prober) -> None:
    """Only one of two identical results is accepted.

    Send the result that a run is waiting for twice, at the same time.
    """
    _, run, stream, call = await probe.start_tool_call()
    body = probe.result(call)
    responses = await probe.together(*(probe.command_step(run, "resume", body) for _ in range(2)))
    accepted = sum(response.is_success for response in responses)
    outcomes = " and ".join(response.outcome for response in responses)
    probe.expect(accepted > 0, f"Expected one of two equal results to be accepted, got {outcomes}.")
    await probe.answer_calls(run, stream, call)
    probe.expect(accepted == 1, "Expected one of two equal results to be refused, got both accepted.")
