"""Replay: streams with a cursor, and stream.resync."""

from wiretape.contract import (
    AGENT_CUSTOM_TOOL_USE,
    INVALID_CURSOR,
    MESSAGE_DELTA,
    REASONING_DELTA,
    RUN_COMPLETED,
    RUN_STARTED,
    STATUS_IDLE,
    STREAM_RESYNC,
)
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_case import NotPossible, Prober, case

_REPLAY = 'Stream rule 1: "persisted events after that id are replayed first, then live output resumes"'
_INVALID = 'Stream rule 2: "When the cursor is invalid, the error is invalid_cursor (HTTP 400)."'
_RULES = "RES001 RES002 RES003 RES005"
_QUIET_SECONDS = 0.3


@case(
    "replay/after-each-event",
    _REPLAY,
    steps="For each durable event of a finished run, open a stream with the event's id as the cursor.",
    rules=_RULES,
    leaves="nothing",
)
async def after_each_event(probe: Prober) -> None:
    """Each cursor replays exactly the events after it."""
    ready = probe.ready
    ids = [event.id for event in ready.events]
    for index in range(min(len(ids) - 1, 25)):
        stream = await probe.open_stream(ready.session, ready.cursor(index))
        read = [event.id for event in await stream.until_event(ready.cursor(-1)) if event.is_durable]
        await stream.close()
        probe.expect(
            read == ids[index + 1 :], f"Expected exactly the events after {ids[index]}, got {len(read)} that differ."
        )


@case(
    "replay/after-last-event",
    _REPLAY,
    steps="Open a stream with the id of the last event, wait, and create a run.",
    rules="RES001",
)
async def after_last_event(probe: Prober) -> None:
    """Nothing is replayed after the last event, and live output resumes."""
    session, _, stream = await probe.start()
    await stream.until_run_ends()
    await stream.read_for(_QUIET_SECONDS)
    await stream.close()
    again = await probe.open_stream(session, stream.cursor())
    early = [event.type for event in await again.read_for(_QUIET_SECONDS) if event.is_durable]
    await probe.create_run(session)
    await again.until_run_ends()
    await again.close()
    probe.expect(not early, f"Expected no event after the last one, got {', '.join(early[:3])}.")


@case(
    "replay/same-twice",
    _REPLAY,
    steps="Open two streams with the same cursor.",
    rules="RES003",
    leaves="nothing",
)
async def same_twice(probe: Prober) -> None:
    """The same cursor replays the same events."""
    ready, replays = probe.ready, []
    for _ in range(2):
        stream = await probe.open_stream(ready.session, ready.cursor(0), deltas=False)
        replays.append([event.json for event in await stream.until_event(ready.cursor(-1)) if event.is_durable])
        await stream.close()
    probe.expect(replays[0] == replays[1], "Expected the same replay twice, got two different ones.")


@case(
    "replay/unknown-cursor",
    _INVALID,
    steps="Open a stream with an id that no event has.",
    rules="ERR004",
    leaves="nothing",
)
async def unknown_cursor(probe: Prober) -> None:
    """An unknown cursor is refused."""
    stream = await probe.request_stream(probe.ready.session, "probe-cursor-that-no-event-has")
    await stream.close()
    probe.expect_error(stream.exchange, INVALID_CURSOR)


@case(
    "replay/malformed-cursor",
    _INVALID,
    steps="Open streams with cursors that cannot be ids.",
    rules="ERR004",
    leaves="nothing",
)
async def malformed_cursor(probe: Prober) -> None:
    """A malformed cursor is refused."""
    for cursor in ("%00", "'; --", "é" * 3, "9" * 400):
        stream = await probe.request_stream(probe.ready.session, cursor)
        await stream.close()
        probe.expect_error(stream.exchange, INVALID_CURSOR)


@case(
    "replay/foreign-cursor",
    _INVALID,
    steps="Open a stream with the id of an event of another session.",
    rules="RES006",
    severity=Severity.WARNING,
)
async def foreign_cursor(probe: Prober) -> None:
    """The cursor of another session is refused."""
    session, _, stream = await probe.start()
    await stream.until_run_ends()
    await stream.close()
    if probe.ready.events[0].id in {event.id for event in stream.durable}:
        raise NotPossible("events of different sessions have the same ids")
    foreign = await probe.request_stream(session, probe.ready.cursor(0))
    await foreign.close()
    probe.expect_error(foreign.exchange, INVALID_CURSOR)


@case(
    "replay/restart-without-cursor",
    'Codes, invalid_cursor: "Restart replay without the bad cursor."',
    steps="Open a stream with an unknown cursor, and then without one.",
    rules="RES003",
    leaves="nothing",
)
async def restart_without_cursor(probe: Prober) -> None:
    """The stream opens without the bad cursor."""
    refused = await probe.request_stream(probe.ready.session, "probe-cursor-that-no-event-has")
    await refused.close()
    stream = await probe.open_stream(probe.ready.session)
    await stream.read_for(_QUIET_SECONDS)
    await stream.close()


@case(
    "replay/during-run",
    _REPLAY,
    steps="While a run waits, open a stream with the cursor of its first event, and then cancel the run.",
    rules="RES001 RES002 RES003 RES004",
)
async def during_run(probe: Prober) -> None:
    """A replay during a run is followed by the live events."""
    session, run, stream = await probe.start("tool")
    await stream.until(AGENT_CUSTOM_TOOL_USE)
    again = await probe.open_stream(session, stream.cursor(0))
    await again.until_event(stream.cursor())
    await probe.command(run, "cancel")
    await again.until_run_ends()
    await again.close()
    await stream.close()


@case(
    "replay/between-deltas",
    'Events 3: "Deltas can repeat after a reconnect; only the SSE id of durable events is used as the cursor."',
    steps="Close a stream at a delta, and reconnect with the last durable id.",
    rules="RES001",
)
async def between_deltas(probe: Prober) -> None:
    """A reader that leaves between deltas loses no durable event."""
    session, _, stream = await probe.start()
    await stream.until(MESSAGE_DELTA, REASONING_DELTA, RUN_COMPLETED)
    await stream.close()
    again = await probe.open_stream(session, stream.cursor())
    await again.until_run_ends()
    await again.close()


@case(
    "replay/live-after-replay",
    _REPLAY,
    steps="Create a second run, and meanwhile open a stream with the first cursor of the session.",
    rules="RES004 RES002",
)
async def live_after_replay(probe: Prober) -> None:
    """Replayed events come before live output."""
    session, _, stream = await probe.start()
    await stream.until_run_ends()
    await stream.until(STATUS_IDLE)
    await probe.create_run(session)
    await stream.until(RUN_STARTED)
    again = await probe.open_stream(session, stream.cursor(0))
    await again.until_run_ends()
    await again.until_run_ends()
    await again.close()
    await stream.close()


@case(
    "replay/thousand-events",
    _REPLAY,
    steps="Read a run with a thousand durable events, and then read it again from its first event.",
    rules=_RULES,
    leaves="a session with a thousand events",
    safe=False,
)
async def thousand_events(probe: Prober) -> None:
    """A thousand events are replayed."""
    session, _, stream = await probe.start("many")
    await stream.until_run_ends()
    ids = [event.id for event in stream.durable]
    last = stream.cursor()
    await stream.close()
    again = await probe.open_stream(session, stream.cursor(0))
    read = [event.id for event in await again.until_event(last) if event.is_durable]
    await again.close()
    got = "another order" if len(read) == len(ids) - 1 else f"{len(read)} events"
    probe.expect(read == ids[1:], f"Expected the same {len(ids) - 1} events in the same order, got {got}.")


@case(
    "replay/resync",
    'Events 6: "On stream.resync the client reconnects sending it in Last-Event-ID, and reads the replay."',
    steps="Read a run up to stream.resync, reconnect with the last durable id, and read to the end of the run.",
    rules="RES001 SSE002",
)
async def resync(probe: Prober) -> None:
    """Nothing is lost in a resync."""
    session, _, stream = await probe.start("resync")
    await stream.until(STREAM_RESYNC)
    # The service may end the stream now; that it does so between two events can be seen only if the client does not.
    await stream.read_for(_QUIET_SECONDS)
    await stream.close()
    again = await probe.open_stream(session, stream.cursor())
    if await again.has_ended_before_run():
        # The service may end streams at any time: a client reconnects.
        cursor = again.cursor() if again.durable else stream.cursor()
        again = await probe.open_stream(session, cursor)
        await again.until_run_ends()
    await again.close()
