"""Idempotency keys: retries, conflicts, twins."""

from dataclasses import replace

from wiretape.contract import AGENT_CUSTOM_TOOL_USE, IDEMPOTENCY_CONFLICT, SESSION_BUSY
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_case import Prober, case

_CONFLICT = 'Codes, idempotency_conflict: "Reuse an idempotency key only with the same payload."'


@case(
    "idempotency/same-retry",
    _CONFLICT,
    steps="Create a run twice with the same key and payload.",
    severity=Severity.WARNING,
)
async def same_retry(probe: Prober) -> None:
    """A retry gets the run that the first request created."""
    session = await probe.create_session()
    header = probe.idempotency("run")
    steps = [probe.run_step(session, "tool") for _ in range(2)]
    first, second = [await probe.execute(replace(step, headers=(*step.headers, header))) for step in steps]
    probe.expect_success(first, "a new run")
    probe.expect_success(second, "the same run")
    ids = [probe.runner.ids.get(step.id_name or "") for step in steps]
    probe.expect(ids[0] == ids[1], "Expected the same run for the same idempotency key, got two runs.")


@case(
    "idempotency/different-body",
    _CONFLICT,
    steps="Resume a run twice with the same key and different payloads.",
    rules="ERR004",
)
async def different_body(probe: Prober) -> None:
    """A different payload with the same key is refused."""
    probe.result("", wrong=True)
    _, run, stream = await probe.start("tool")
    await stream.until(AGENT_CUSTOM_TOOL_USE)
    call = f"<<{stream.name}.call-1>>"
    first = await probe.command(run, "resume", probe.result(call), idempotency_key="result")
    await stream.until_run_ends()
    second = await probe.command(run, "resume", probe.result(call, wrong=True), idempotency_key="result")
    await stream.close()
    probe.expect_success(first, "a resumed run")
    probe.expect_error(second, IDEMPOTENCY_CONFLICT)


@case(
    "idempotency/concurrent-twins",
    _CONFLICT,
    steps="Send the same request for a run twice, at the same time and with the same key.",
    rules="RUN001",
    severity=Severity.WARNING,
)
async def concurrent_twins(probe: Prober) -> None:
    """Two identical requests create one run."""
    session = await probe.create_session()
    stream = await probe.open_stream(session)
    header = probe.idempotency("run")
    steps = [probe.run_step(session) for _ in range(2)]
    twins = await probe.together(*(replace(step, headers=(*step.headers, header)) for step in steps))
    await stream.until_run_ends()
    await stream.close()
    ids = {found for step in steps if (found := probe.runner.ids.get(step.id_name or ""))}
    probe.expect(len(ids) == 1, f"Expected one run for two identical requests, got {len(ids)}.")
    for twin in twins:
        if not twin.is_success:
            probe.expect_error(twin, IDEMPOTENCY_CONFLICT, SESSION_BUSY)


@case("idempotency/cancel-retry", _CONFLICT, steps="Cancel a run twice with the same key.", severity=Severity.WARNING)
async def cancel_retry(probe: Prober) -> None:
    """A repeated cancel gets the same response."""
    _, run, stream = await probe.start("tool")
    await stream.until(AGENT_CUSTOM_TOOL_USE)
    first = await probe.command(run, "cancel", idempotency_key="cancel")
    second = await probe.command(run, "cancel", idempotency_key="cancel")
    await stream.close()
    probe.expect_success(first, "a cancelled run")
    probe.expect(first.outcome == second.outcome, f"Expected {first.outcome} again, got {second.outcome}.")
