"""Sessions and runs: creating and reading them, one run at a time, several at once, cancelling and resuming.

The specification does not show which requests an idempotency key applies to, except those that resume a run.
"""

from functools import partial

from wiretape.rules import Severity
from wiretape_contracts.agent_sessions import (
    EVENT_ALREADY_RESOLVED,
    IDEMPOTENCY_CONFLICT,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    RUN_CANCELLED,
    RUN_FAILED,
    RUN_NOT_CANCELLABLE,
    RUN_NOT_RESUMABLE,
    SANDBOX_PROVISION_FAILED,
    SESSION_BUSY,
)
from wiretape_contracts.agent_sessions.probe.prober import ENDS_TOO_SOON, Prober, case
from wiretape_inspect.probe.probe_case import NotPossible

_ONE_RUN = 'What the service does: "Only one run per session may be active at a time."'
_BUSY = 'States 1: "A session with an active run … refuses a new run with HTTP 409 SESSION_BUSY."'
_IDS = 'Session and run records: "Identifiers of sessions, runs and requests are strings."'
_ENDED = 'States 2: "Cancelling a run that is already terminal fails with RUN_NOT_CANCELLABLE."'
_ORDER = 'Durable event, sequence: "Order number of the durable event."'
_CONFLICT = 'Codes, idempotency_conflict: "Reuse an idempotency key only with the same payload."'
_NOT_FOR_RUNS = "the service does not apply idempotency keys to the creation of runs"
_SETTLED_SECONDS = 2.2
"""The rules about refused commands allow two seconds between what a service does and what it reports."""
_RULES = "RUN001 RUN002 RUN003 RUN004 RUN005"
_idempotency_case = partial(case, clause=_CONFLICT, severity=Severity.WARNING)


@case("runs/two-in-a-row", _ONE_RUN, rules=f"{_RULES} SEQ002")
async def two_in_a_row(probe: Prober) -> None:
    """A second run can follow the first.

    Create a run, read until the session is idle, and create another.
    """
    session, run, stream = await probe.start()
    await stream.until_idle(run)
    await stream.read_for(_SETTLED_SECONDS)
    await stream.until_run_ends(await probe.create_run(session))


@case("runs/failing", 'Event types, run.failed: "The run stopped with an error."', rules=_RULES)
async def failing(probe: Prober) -> None:
    """A run that fails ends with run.failed.

    Create a run that fails, and read to its end.
    """
    _, run, stream = await probe.start("failing")
    end = (await stream.until_run_ends(run))[-1].type
    probe.expect(end == RUN_FAILED, f"Expected {RUN_FAILED}, got {end}.")


@case("runs/busy", _BUSY, rules="BUSY001 BUSY002 BUSY003 RUN001 RUN007")
async def busy(probe: Prober) -> None:
    """A second run is refused while one is active, and accepted afterwards.

    While a run waits for a tool result, create another run; then cancel the first run, and create one again.
    """
    session, run, stream = await probe.start("tool")
    await probe.await_call(run, stream, "tool")
    second = await probe.execute(probe.run_step(session))
    probe.expect_error(second, SESSION_BUSY)
    probe.expect_success(await probe.command(run, "cancel"), "a cancelled run")
    await stream.until_idle(run)
    await stream.until_run_ends(await probe.create_run(session))


@case("runs/busy-while-running", _BUSY, rules="BUSY001 BUSY002 BUSY003")
async def busy_while_running(probe: Prober) -> None:
    """A second run is refused while one is running.

    While a run is busy, create another run.
    """
    session, run, stream = await probe.start("long")
    await stream.until_run_begins(run)
    second = await probe.execute(probe.run_step(session))
    cancelled = await probe.command(run, "cancel")
    if second.is_success and cancelled.error_code == RUN_NOT_CANCELLABLE:
        raise NotPossible(ENDS_TOO_SOON)
    probe.expect_error(second, SESSION_BUSY)


@case("runs/cancel", 'Endpoints, cancel: "Cancels the active run."', rules="RUN003 RUN006 ERR004")
async def cancel(probe: Prober) -> None:
    """A cancelled run ends with run.cancelled, and can neither be resumed nor cancelled again.

    Cancel a run that waits for a result, read to its end, send the result, and cancel the run again.
    """
    _, run, stream = await probe.start("tool")
    await probe.await_call(run, stream, "tool")
    call = stream.first_call
    await stream.read_for(_SETTLED_SECONDS)
    response = await probe.command(run, "cancel")
    if response.outcome.endswith(RUN_NOT_CANCELLABLE) and probe.file.tool_result is not None:
        # If the run continues with its result, it was active.
        await stream.read_for(_SETTLED_SECONDS)
        resumed = await probe.command(run, "resume", probe.result(call))
        if resumed.is_success:
            await probe.answer_calls(run, stream, call)
    probe.expect_success(response, "a cancelled run")
    end = (await stream.until_run_ends(run))[-1].type
    probe.expect(end == RUN_CANCELLED, f"Expected {RUN_CANCELLED}, got {end}.")
    if probe.file.tool_result is not None:
        probe.expect_refused(await probe.command(run, "resume", probe.result(call)))
    probe.expect_error(await probe.command(run, "cancel"), RUN_NOT_CANCELLABLE)


@case("runs/cancel-completed", _ENDED, rules="ERR004", leaves="nothing")
async def cancel_completed(probe: Prober) -> None:
    """A completed run cannot be cancelled.

    Cancel a completed run.
    """
    probe.expect_error(await probe.command(probe.ready.run, "cancel"), RUN_NOT_CANCELLABLE)


@case(
    "runs/resume-completed",
    'States 3: "Resuming a run that cannot be resumed fails with run_not_resumable."',
    rules="ERR004",
    leaves="nothing",
)
async def resume_completed(probe: Prober) -> None:
    """A completed run cannot be resumed.

    Resume a completed run.
    """
    response = await probe.command(probe.ready.run, "resume", probe.result("probe-call"))
    # The call does not exist either: a service may check that first.
    others = (INVALID_REQUEST, RESOURCE_NOT_FOUND, EVENT_ALREADY_RESOLVED)
    probe.expect_error(response, RUN_NOT_RESUMABLE, masked_by=others)


@case("runs/no-sandbox", 'Codes, SANDBOX_PROVISION_FAILED: "503 | Back off and retry later …"', rules="ERR004 ERR007")
async def no_sandbox(probe: Prober) -> None:
    """A run without a sandbox is refused.

    Create a run for which no sandbox can be provided.
    """
    probe.run_body("no-sandbox")  # raises NotPossible before a session is created
    session = await probe.create_session()
    probe.expect_error(await probe.execute(probe.run_step(session, "no-sandbox")), SANDBOX_PROVISION_FAILED)


@case("sessions/create", _IDS, rules="ERR010")
async def create(probe: Prober) -> None:
    """Two sessions have different ids.

    Create a session.
    """
    ids = {probe.runner.fill(name) for name in (probe.ready.session, await probe.create_session())}
    probe.expect(len(ids) == 2, "Expected two sessions with different ids, got the same id twice.")


@case("sessions/read", _IDS, rules="ERR010", leaves="nothing")
async def read(probe: Prober) -> None:
    """A session and its run can be read.

    Read a session and its run.
    """
    async for record in probe.read_records():
        probe.expect_success(record, "the record")


@case("concurrency/two-runs-at-once", _ONE_RUN, rules="BUSY001")
async def two_runs_at_once(probe: Prober) -> None:
    """If two runs are requested at the same time, one is created and the other is refused.

    Create two runs of one session at the same time.
    """
    session = await probe.create_session()
    responses = await probe.together(probe.run_step(session, "tool"), probe.run_step(session, "tool"))
    refused = [response for response in responses if not response.is_success]
    probe.expect(len(refused) == 1, f"Expected one of two runs to be refused, got {len(refused)} refused.")
    probe.expect_error(refused[0], SESSION_BUSY)


@case("concurrency/sessions-side-by-side", _ORDER, rules="EVT009 EVT010 SEQ001", leaves="two sessions")
async def sessions_side_by_side(probe: Prober) -> None:
    """Sessions do not interfere with each other.

    Create a run in each of two sessions at the same time, and read both to their ends.
    """
    sessions = [await probe.create_session() for _ in range(2)]
    streams = [await probe.open_stream(session) for session in sessions]
    steps = [probe.run_step(session) for session in sessions]
    for response in await probe.together(*steps):
        probe.expect_success(response, "a new run")
    for step, stream in zip(steps, streams, strict=True):
        await stream.until_run_ends(f"<<{step.id_name}>>")


@_idempotency_case("idempotency/same-retry")
async def same_retry(probe: Prober) -> None:
    """A retry returns the run that the first request created.

    Create a run twice with the same key and payload.
    """
    session = await probe.create_session()
    steps = [probe.run_step(session, "tool", idempotency_key="run") for _ in range(2)]
    first, second = [await probe.execute(step) for step in steps]
    probe.expect_success(first, "a new run")
    if second.error_code == SESSION_BUSY:
        raise NotPossible(_NOT_FOR_RUNS)
    probe.expect_success(second, "the same run")
    ids = [probe.runner.ids.get(step.id_name or "") for step in steps]
    probe.expect(ids[0] == ids[1], "Expected the same run for the same idempotency key, got two runs.")


@_idempotency_case("idempotency/different-body", rules="ERR004", severity=Severity.ERROR)
async def different_body(probe: Prober) -> None:
    """A different payload with the same key is refused.

    Resume a run twice with the same key and different payloads.
    """
    probe.result("", wrong=True)
    _, run, _, call = await probe.start_tool_call()
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
    probe.expect_error(second, IDEMPOTENCY_CONFLICT, masked_by=masked_by)


@_idempotency_case("idempotency/concurrent-twins", rules="RUN001")
async def concurrent_twins(probe: Prober) -> None:
    """Two identical requests create one run.

    Send the same request for a run that waits twice, at the same time and with the same key.
    """
    session = await probe.create_session()
    stream = await probe.open_stream(session)
    steps = [probe.run_step(session, "tool", idempotency_key="run") for _ in range(2)]
    twins = await probe.together(*steps)
    ids = {found for step in steps if (found := probe.runner.ids.get(step.id_name or ""))}
    probe.expect(len(ids) == 1, f"Expected one run for two identical requests, got {len(ids)}.")
    created = next(step.id_name for step in steps if (step.id_name or "") in probe.runner.ids)
    await probe.await_call(f"<<{created}>>", stream, "tool")
    for twin in twins:
        if twin.error_code == SESSION_BUSY:
            raise NotPossible(_NOT_FOR_RUNS)
        if not twin.is_success:
            probe.expect_error(twin, IDEMPOTENCY_CONFLICT)
