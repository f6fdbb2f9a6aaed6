"""Idempotency keys: retries, conflicts, twins.

The specification does not show which requests the header applies to, except those that resume a run.
"""

from dataclasses import replace

from wiretape.contract import EVENT_ALREADY_RESOLVED, IDEMPOTENCY_CONFLICT, RUN_NOT_RESUMABLE, SESSION_BUSY
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_case import NotPossible, Prober, case

_CONFLICT = 'Codes, idempotency_conflict: "Reuse an idempotency key only with the same payload."'
_NOT_FOR_RUNS = "the service does not apply idempotency keys to the creation of runs"


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
    if second.error_code == SESSION_BUSY:
        raise NotPossible(_NOT_FOR_RUNS)
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
    _, run, stream, call = await probe.start_tool_call()
    first = await probe.command(run, "resume", probe.result(call), idempotency_key="result")
    probe.expect_success(first, "a resumed run")
    second = await probe.command(run, "resume", probe.result(call, wrong=True), idempotency_key="result")
    # The call is resolved: a service may check that first, or ignore the key.
    masked_by = (EVENT_ALREADY_RESOLVED, RUN_NOT_RESUMABLE)
    if second.error_code in masked_by:
        same = await probe.command(run, "resume", probe.result(call), idempotency_key="result")
        if not same.is_success:
            raise NotPossible(
                f"the service ignores idempotency keys when a run is resumed: the same request again got {same.outcome}"
            )
    await stream.close()
    probe.expect_error(second, IDEMPOTENCY_CONFLICT, masked_by=masked_by)


@case(
    "idempotency/concurrent-twins",
    _CONFLICT,
    steps="Send the same request for a run that waits twice, at the same time and with the same key.",
    rules="RUN001",
    severity=Severity.WARNING,
)
async def concurrent_twins(probe: Prober) -> None:
    """Two identical requests create one run."""
    session = await probe.create_session()
    stream = await probe.open_stream(session)
    header = probe.idempotency("run")
    steps = [probe.run_step(session, "tool") for _ in range(2)]
    twins = await probe.together(*(replace(step, headers=(*step.headers, header)) for step in steps))
    ids = {found for step in steps if (found := probe.runner.ids.get(step.id_name or ""))}
    probe.expect(len(ids) == 1, f"Expected one run for two identical requests, got {len(ids)}.")
    created = next(step.id_name for step in steps if (step.id_name or "") in probe.runner.ids)
    await probe.await_call(f"<<{created}>>", stream, "tool")
    await stream.close()
    for twin in twins:
        if twin.error_code == SESSION_BUSY:
            raise NotPossible(_NOT_FOR_RUNS)
        if not twin.is_success:
            probe.expect_error(twin, IDEMPOTENCY_CONFLICT)
