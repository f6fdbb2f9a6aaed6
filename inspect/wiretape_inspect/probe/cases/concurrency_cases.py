"""Ordering and totality while much happens at the same time."""

from wiretape.contract import SESSION_BUSY
from wiretape_inspect.probe.probe_case import Prober, case

_ONE_RUN = 'What the service does: "Only one run per session may be active at a time."'
_ORDER = 'Durable event, sequence: "Order number of the durable event."'


@case(
    "concurrency/two-runs-at-once",
    _ONE_RUN,
    steps="Create two runs of one session at the same time.",
    rules="BUSY001",
)
async def two_runs_at_once(probe: Prober) -> None:
    """One of two runs is created, and the other is refused."""
    session = await probe.create_session()
    responses = await probe.together(probe.run_step(session, "tool"), probe.run_step(session, "tool"))
    refused = [response for response in responses if not response.is_success]
    probe.expect(len(refused) == 1, f"Expected one of two runs to be refused, got {len(refused)} refused.")
    probe.expect_error(refused[0], SESSION_BUSY)


@case(
    "concurrency/readers-come-and-go",
    _ORDER,
    steps="During a run, open four streams with the cursor of its first durable event, and read all that follows it.",
    rules="SEQ001 RES003",
)
async def readers_come_and_go(probe: Prober) -> None:
    """All readers get the same events in the same order."""
    session, run, stream = await probe.start()
    await stream.until_durable(run)
    readers = [await probe.open_stream(session, stream.cursor(0)) for _ in range(4)]
    await stream.until_run_ends(run)
    for reader in readers:
        await reader.expect_replay(stream, 0)
        await reader.close()
    await stream.close()


@case(
    "concurrency/sessions-side-by-side",
    _ORDER,
    steps="Create a run in each of two sessions at the same time, and read both to their ends.",
    rules="EVT009 EVT010 SEQ001",
    leaves="two sessions",
)
async def sessions_side_by_side(probe: Prober) -> None:
    """Sessions do not disturb each other."""
    sessions = [await probe.create_session() for _ in range(2)]
    streams = [await probe.open_stream(session) for session in sessions]
    steps = [probe.run_step(session) for session in sessions]
    for response in await probe.together(*steps):
        probe.expect_success(response, "a new run")
    for step, stream in zip(steps, streams, strict=True):
        await stream.until_run_ends(f"<<{step.id_name}>>")
        await stream.close()


@case(
    "concurrency/results-at-once",
    'Codes, event_already_resolved: "Do not execute the tool again."',
    steps="Send the result that a run is waiting for twice, at the same time.",
    rules="TOOL003",
)
async def results_at_once(probe: Prober) -> None:
    """Only one of two equal results is accepted."""
    _, run, stream, call = await probe.start_tool_call()
    body = probe.result(call)
    responses = await probe.together(*(probe.command_step(run, "resume", body) for _ in range(2)))
    accepted = sum(response.is_success for response in responses)
    outcomes = " and ".join(response.outcome for response in responses)
    probe.expect(accepted > 0, f"Expected one of two equal results to be accepted, got {outcomes}.")
    await probe.answer_calls(run, stream, call)
    await stream.close()
    probe.expect(accepted == 1, "Expected one of two equal results to be refused, got both accepted.")
