"""Replay: streams with a cursor, and stream.resync."""

from functools import partial

from wiretape.rules import Severity
from wiretape_contracts.agent_sessions import DELTA_TYPES, INVALID_CURSOR, STREAM_RESYNC, TERMINAL_RUN_TYPES
from wiretape_contracts.agent_sessions.probe.prober import Prober, case, require
from wiretape_inspect.probe.probe_case import NotPossible

_REPLAY = 'Stream rule 1: "persisted events after that id are replayed first, then live output resumes"'
_INVALID = 'Stream rule 2: "When the cursor is invalid, the error is invalid_cursor (HTTP 400)."'
_RULES = "RES001 RES002 RES003 RES005"
_QUIET_SECONDS = 0.3
_MOST_CURSORS = 25
_replay_case = partial(case, clause=_REPLAY)
_ready_case = partial(case, clause=_REPLAY, leaves="nothing")
_invalid_case = partial(case, clause=_INVALID, rules="ERR004", leaves="nothing")


@_ready_case("replay/after-each-event", rules=_RULES)
async def after_each_event(probe: Prober) -> None:
    """Each cursor replays exactly the events after it.

    For each durable event of a finished run, open a stream with the event's id as the cursor.
    """
    ready = probe.ready
    for index in range(max(1, min(len(ready.stream.durable) - 1, _MOST_CURSORS))):
        stream = await probe.open_stream(ready.session, ready.stream.cursor(index))
        await stream.expect_replay(ready.stream, index)
        await stream.close()


@_replay_case("replay/after-last-event", rules="RES001")
async def after_last_event(probe: Prober) -> None:
    """A stream that starts after the last event replays nothing, and carries live output.

    Open a stream with the id of the last event, wait, and create a run.
    """
    session, run, stream = await probe.start()
    await stream.until_idle(run)
    await stream.read_for(_QUIET_SECONDS)
    await stream.close()
    again = await probe.open_stream(session, stream.cursor())
    await again.read_for(_QUIET_SECONDS)
    await again.until_run_ends(await probe.create_run(session))
    known = {event.id for event in stream.durable}
    early = [event.type for event in again.durable if event.id in known]
    probe.expect(not early, f"Expected no event up to the cursor, got {', '.join(early[:3])}.")


@_ready_case("replay/same-twice", rules="RES003")
async def same_twice(probe: Prober) -> None:
    """The same cursor replays the same events.

    Open two streams with the same cursor.
    """
    ready, replays = probe.ready, []
    for _ in range(2):
        stream = await probe.open_stream(ready.session, ready.stream.cursor(0), deltas=False)
        await stream.expect_replay(ready.stream, 0)
        replays.append([event.document for event in stream.durable])
    probe.expect(replays[0] == replays[1], "Expected the same replay twice, got two different ones.")


@_invalid_case("replay/unknown-cursor")
async def unknown_cursor(probe: Prober) -> None:
    """An unknown cursor is refused.

    Open a stream with an id that no event has.
    """
    await _expect_invalid(probe, "probe-cursor-that-no-event-has")


@_invalid_case("replay/malformed-cursor")
async def malformed_cursor(probe: Prober) -> None:
    """A malformed cursor is refused.

    Open streams with cursors that cannot be ids.
    """
    for cursor in ("%00", "'; --", "é" * 3, "9" * 400):
        await _expect_invalid(probe, cursor)


async def _expect_invalid(probe: Prober, cursor: str) -> None:
    stream = await probe.request_stream(probe.ready.session, cursor)
    probe.expect_error(stream.exchange, INVALID_CURSOR)


@case("replay/foreign-cursor", _INVALID, rules="RES006", severity=Severity.WARNING)
async def foreign_cursor(probe: Prober) -> None:
    """The cursor of another session is refused.

    Open a stream with the id of an event of another session.
    """
    session, run, stream = await probe.start()
    await stream.until_run_ends(run)
    await stream.close()
    if {event.id for event in probe.ready.stream.durable[:1]} & {event.id for event in stream.durable}:
        raise NotPossible("events of different sessions have the same ids")
    foreign = await probe.request_stream(session, probe.ready.stream.cursor(0))
    probe.expect_error(foreign.exchange, INVALID_CURSOR)


@case(
    "replay/restart-without-cursor",
    'Codes, invalid_cursor: "Restart replay without the bad cursor."',
    rules="RES003",
    leaves="nothing",
)
async def restart_without_cursor(probe: Prober) -> None:
    """After a cursor is refused, the stream opens without a cursor.

    Open a stream with an unknown cursor, and then without one.
    """
    refused = await probe.request_stream(probe.ready.session, "probe-cursor-that-no-event-has")
    await refused.close()
    stream = await probe.open_stream(probe.ready.session)
    await stream.read_for(_QUIET_SECONDS)


@_replay_case("replay/during-run", rules="RES001 RES002 RES003 RES004")
async def during_run(probe: Prober) -> None:
    """A replay during a run is followed by the live events.

    While a run waits, open a stream with the cursor of its first durable event, and then cancel the run.
    """
    session, run, stream = await probe.start("tool")
    await probe.await_call(run, stream, "tool")
    again = await probe.open_stream(session, stream.cursor(0))
    if len(stream.durable) > 1:
        await again.expect_replay(stream, 0)
    probe.expect_success(await probe.command(run, "cancel"), "a cancelled run")
    await again.until_run_ends(run)


@case(
    "replay/between-deltas",
    'Events 3: "Deltas can repeat after a reconnect; only the SSE id of durable events is used as the cursor."',
    rules="RES001",
)
async def between_deltas(probe: Prober) -> None:
    """A reader that disconnects between deltas loses no durable event.

    Close one of two streams at a delta, reconnect with the last durable id, and read what the other has.
    """
    session = await probe.create_session()
    whole, stream = [await probe.open_stream(session) for _ in range(2)]
    run = await probe.create_run(session)
    await stream.until_durable(run)
    if (await stream.until(*sorted(DELTA_TYPES | TERMINAL_RUN_TYPES), run=run))[-1].type in TERMINAL_RUN_TYPES:
        raise stream.lacks("a run of kind runs.plain has no delta after a durable event")
    await stream.close()
    again = await probe.open_stream(session, stream.cursor())
    await whole.until_run_ends(run)
    ids, last = [event.id for event in whole.durable], stream.durable[-1].id
    if last not in ids:
        raise whole.lacks("the other stream does not have the event of the cursor")
    if last != ids[-1]:
        await again.expect_replay(whole, ids.index(last))


@_replay_case("replay/live-after-replay", rules="RES004 RES002")
async def live_after_replay(probe: Prober) -> None:
    """Replayed events come before live output.

    Create a second run, and meanwhile open a stream with the first cursor of the session.
    """
    session, run, stream = await probe.start()
    await stream.until_idle(run)
    second = await probe.create_run(session)
    await stream.until_run_begins(second)
    again = await probe.open_stream(session, stream.cursor(0))
    await stream.until_run_ends(second)
    await again.expect_replay(stream, 0)


@_replay_case("replay/thousand-events", rules=_RULES, leaves="a session with a thousand events", safe=False)
async def thousand_events(probe: Prober) -> None:
    """A thousand events are replayed.

    Read a run with a thousand durable events, and then read it again from its first event.
    """
    session, run, stream = await probe.start("many")
    await stream.until_run_ends(run)
    await stream.close()
    again = await probe.open_stream(session, stream.cursor(0))
    await again.expect_replay(stream, 0)


@case(
    "replay/resync",
    'Events 6: "On stream.resync the client reconnects sending it in Last-Event-ID, and reads the replay."',
    rules="RES001 SSE002",
)
async def resync(probe: Prober) -> None:
    """No event is lost in a resync.

    Read a run up to stream.resync, reconnect with the last durable id, and read to the end of the run.
    """
    session, run, stream = await probe.start("resync")
    if probe.file.hooks.resync is not None:
        await stream.until_durable(run)
        await probe.provoke("resync", session, run)
        found = await stream.until(STREAM_RESYNC)
    else:
        found = await stream.until(STREAM_RESYNC, *sorted(TERMINAL_RUN_TYPES))
    if found[-1].type != STREAM_RESYNC:
        raise stream.lacks(f"a run of kind runs.resync ends without {STREAM_RESYNC}")
    cursor = stream.cursor()
    # The service may end the stream now; that it does so between two events can be seen only if the client does not.
    await stream.read_for(_QUIET_SECONDS)
    await stream.close()
    await probe.expect_same_replay(session, cursor)


@case(
    "replay/closing",
    'Symptom to action: "Stream drops: Reconnect with the last durable SSE id."',
    rules="RES001 SSE002",
)
async def closing(probe: Prober) -> None:
    """No event is lost if the service ends a stream.

    During a run, make the service end the stream with hooks.closing, reconnect with the last durable id, and read to
    the end of the run.
    """
    require(probe.file.hooks.closing, "hooks.closing")
    session, run, stream = await probe.start()
    await stream.until_durable(run)
    await probe.provoke("closing", session, run)
    await stream.until_closed()
    await probe.expect_same_replay(session, stream.cursor())
