"""Sessions and runs: creating and reading them, one run at a time, cancelling and resuming."""

from wiretape.contract import (
    EVENT_ALREADY_RESOLVED,
    INVALID_REQUEST,
    RESOURCE_NOT_FOUND,
    RUN_CANCELLED,
    RUN_FAILED,
    RUN_NOT_CANCELLABLE,
    RUN_NOT_RESUMABLE,
    SANDBOX_PROVISION_FAILED,
    SESSION_BUSY,
)
from wiretape_inspect.probe.probe_case import ENDS_TOO_SOON, NotPossible, Prober, case

_ONE_RUN = 'What the service does: "Only one run per session may be active at a time."'
_BUSY = 'States 1: "A session with an active run … refuses a new run with HTTP 409 SESSION_BUSY."'
_IDS = 'Session and run records: "Identifiers of sessions, runs and requests are strings."'
_ENDED = 'States 2: "Cancelling a run that is already terminal fails with RUN_NOT_CANCELLABLE."'
_SETTLED_SECONDS = 2.2
"""The rules about refused commands allow two seconds between what a service does and what it reports."""
_RULES = "RUN001 RUN002 RUN003 RUN004 RUN005"


@case(
    "runs/two-in-a-row",
    _ONE_RUN,
    steps="Create a run, read until the session is idle, and create another.",
    rules=f"{_RULES} SEQ002",
)
async def two_in_a_row(probe: Prober) -> None:
    """A second run can follow the first."""
    session, run, stream = await probe.start()
    await stream.until_idle(run)
    await stream.read_for(_SETTLED_SECONDS)
    await stream.until_run_ends(await probe.create_run(session))
    await stream.close()


@case(
    "runs/failing",
    'Event types, run.failed: "The run stopped with an error."',
    steps="Create a run that fails, and read to its end.",
    rules=_RULES,
)
async def failing(probe: Prober) -> None:
    """A run that fails ends with run.failed."""
    _, run, stream = await probe.start("failing")
    end = (await stream.until_run_ends(run))[-1].type
    await stream.close()
    probe.expect(end == RUN_FAILED, f"Expected {RUN_FAILED}, got {end}.")


@case(
    "runs/busy",
    _BUSY,
    steps="While a run waits for a tool result, create another run; then cancel the first run, and create one again.",
    rules="BUSY001 BUSY002 BUSY003 RUN001 RUN007",
)
async def busy(probe: Prober) -> None:
    """A second run is refused while one is active, and possible afterwards."""
    session, run, stream = await probe.start("tool")
    await probe.await_call(run, stream, "tool")
    second = await probe.execute(probe.run_step(session))
    probe.expect_error(second, SESSION_BUSY)
    probe.expect_success(await probe.command(run, "cancel"), "a cancelled run")
    await stream.until_idle(run)
    await stream.until_run_ends(await probe.create_run(session))
    await stream.close()


@case(
    "runs/busy-while-running",
    _BUSY,
    steps="While a run is busy, create another run.",
    rules="BUSY001 BUSY002 BUSY003",
)
async def busy_while_running(probe: Prober) -> None:
    """A second run is refused while one is running."""
    session, run, stream = await probe.start("long")
    await stream.until_run_begins(run)
    second = await probe.execute(probe.run_step(session))
    cancelled = await probe.command(run, "cancel")
    await stream.close()
    if second.is_success and cancelled.error_code == RUN_NOT_CANCELLABLE:
        raise NotPossible(ENDS_TOO_SOON)
    probe.expect_error(second, SESSION_BUSY)


@case(
    "runs/cancel",
    'Endpoints, cancel: "Cancels the active run."',
    steps="Cancel a run that waits for a result, read to its end, send the result, and cancel the run again.",
    rules="RUN003 RUN006 ERR004",
)
async def cancel(probe: Prober) -> None:
    """A cancelled run ends with run.cancelled, and can neither be resumed nor cancelled again."""
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
    await stream.close()


@case("runs/cancel-completed", _ENDED, steps="Cancel a completed run.", rules="ERR004", leaves="nothing")
async def cancel_completed(probe: Prober) -> None:
    """A completed run cannot be cancelled."""
    probe.expect_error(await probe.command(probe.ready.run, "cancel"), RUN_NOT_CANCELLABLE)


@case(
    "runs/resume-completed",
    'States 3: "Resuming a run that cannot be resumed fails with run_not_resumable."',
    steps="Resume a completed run.",
    rules="ERR004",
    leaves="nothing",
)
async def resume_completed(probe: Prober) -> None:
    """A completed run cannot be resumed."""
    response = await probe.command(probe.ready.run, "resume", probe.result("probe-call"))
    # The call does not exist either: a service may check that first.
    others = (INVALID_REQUEST, RESOURCE_NOT_FOUND, EVENT_ALREADY_RESOLVED)
    probe.expect_error(response, RUN_NOT_RESUMABLE, masked_by=others)


@case(
    "runs/no-sandbox",
    'Codes, SANDBOX_PROVISION_FAILED: "503 | Back off and retry later …"',
    steps="Create a run for which no sandbox can be provided.",
    rules="ERR004 ERR007",
)
async def no_sandbox(probe: Prober) -> None:
    """A run without a sandbox is refused."""
    probe.run_body("no-sandbox")  # raises NotPossible before a session is created
    session = await probe.create_session()
    probe.expect_error(await probe.execute(probe.run_step(session, "no-sandbox")), SANDBOX_PROVISION_FAILED)


@case("sessions/create", _IDS, steps="Create a session.", rules="ERR010")
async def create(probe: Prober) -> None:
    """Two sessions have different ids."""
    ids = {probe.runner.fill(name) for name in (probe.ready.session, await probe.create_session())}
    probe.expect(len(ids) == 2, "Expected two sessions with different ids, got the same id twice.")


@case("sessions/read", _IDS, steps="Read a session and its run.", rules="ERR010", leaves="nothing")
async def read(probe: Prober) -> None:
    """A session and its run can be read."""
    async for record in probe.read_records():
        probe.expect_success(record, "the record")
