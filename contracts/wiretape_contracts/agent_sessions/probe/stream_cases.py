"""Streams: framing, contents, deltas, keep-alives, several readers."""

from collections.abc import Sequence

from wiretape_contracts.agent_sessions import DELTA_TYPES, KEEP_ALIVE_SECONDS, RUN_NOT_CANCELLABLE
from wiretape_contracts.agent_sessions.probe.prober import (
    ENDED_BEFORE_COMMENT,
    ENDS_TOO_SOON,
    KEEP_ALIVE_LIMIT_SECONDS,
    Prober,
    StreamReader,
    case,
)
from wiretape_inspect.probe.probe_case import LOST, NotPossible

_FRAMING = (
    'Endpoints, stream response: "each message has an event: line naming the type, an id: line …, and a data: line"'
)
_KEEP_ALIVE = 'Stream rule 3: "Every 15 seconds the server sends an SSE keep-alive comment."'
_PERSISTED = 'What the service does: "Durable events are persisted, carry an SSE id and a JSON sequence."'
_ORDER = 'Durable event, sequence: "Order number of the durable event."'
_MESSAGES = "SSE001 SSE003 SSE004 SSE005 SSE006 SSE008 SSE011"
_CONTENTS = "EVT001 EVT002 EVT003 EVT004 EVT005 EVT006 EVT007 EVT008 EVT009 EVT010 EVT012"
_DURABILITY = "DUR001 DUR002 DUR003 DUR006"
_SEQUENCES = "SEQ001 SEQ002 SEQ003 SEQ004 SEQ005"
_RUN = "RUN001 RUN002 RUN003 RUN004 RUN005"
_TOOLS = "TOOL001 TOOL002 TOOL003 TOOL004 TOOL005"


@case(
    "streams/run-with-deltas",
    _FRAMING,
    rules=f"{_MESSAGES} {_CONTENTS} {_DURABILITY} {_SEQUENCES} {_RUN} {_TOOLS} EVT011 DUR004 DUR005 SSE007 KAL002",
)
async def run_with_deltas(probe: Prober) -> None:
    """All events of a run arrive, including deltas.

    Open a stream with deltas, create a run, and read until it ends.
    """
    _, run, stream = await probe.start()
    await stream.until_run_ends(run)


@case("streams/compression", 'Endpoints: "Opens an SSE stream of the session\'s events."', rules="SSE009")
async def compression(probe: Prober) -> None:
    """A client that accepts compressed responses receives all events of a run.

    Open a stream with `Accept-Encoding: gzip, br`, create a run, and read until it ends.
    """
    session = await probe.create_session()
    stream = await probe.open_stream(session, codings="gzip, br")
    await stream.until_run_ends(await probe.create_run(session))


@case(
    "streams/deltas-on-and-off",
    'Events 2: "The final durable message events arrive either way."',
    rules="DUR007 RES003",
)
async def deltas_on_and_off(probe: Prober) -> None:
    """All streams carry the same durable events, and only a stream that requests deltas carries them.

    Open streams with event_deltas true, false, and absent, create a run, and read all until the run ends.
    """
    session = await probe.create_session()
    streams = [await probe.open_stream(session, deltas=deltas) for deltas in (True, False, None)]
    await _expect_same(probe, session, streams, "on all streams")


@case("streams/keep-alive", _KEEP_ALIVE, rules="KAL001", leaves="nothing", long=True)
async def keep_alive(probe: Prober) -> None:
    """A comment arrives on an idle stream.

    Keep the stream of an idle session open for the keep-alive interval plus the tolerance.
    """
    stream = await probe.open_stream(probe.ready.session)
    # The session may become idle only now; a comment may come as late as after the silence that follows.
    while await stream.read_for(KEEP_ALIVE_LIMIT_SECONDS) and not stream.exchange.comments:
        pass
    comments, received = stream.exchange.comments, stream.exchange.received
    if stream.has_ended and not comments:
        raise NotPossible(ENDED_BEFORE_COMMENT)
    probe.expect(comments > 0, f"Expected a comment in {KEEP_ALIVE_SECONDS + 2} s of silence, got {received}.")


@case("streams/keep-alive-during-run", _KEEP_ALIVE, rules="KAL003", long=True)
async def keep_alive_during_run(probe: Prober) -> None:
    """A comment arrives while a run is silent.

    Create a long run, and read until a comment arrives or the run ends.
    """
    _, run, stream = await probe.start("long")
    await stream.until_comment()
    # Whether a blank line follows the comment shows with what comes next.
    response = await probe.command(run, "cancel")
    if response.error_code == RUN_NOT_CANCELLABLE:
        raise NotPossible(ENDS_TOO_SOON)
    probe.expect_success(response, "a cancelled run")
    await stream.until_run_ends(run)


@case("streams/two-readers", _PERSISTED, rules="RES003 SEQ002 EVT010")
async def two_readers(probe: Prober) -> None:
    """Two readers receive the same durable events in the same order.

    Open two streams of one session, create a run, and read both until the run ends.
    """
    session = await probe.create_session()
    streams = [await probe.open_stream(session) for _ in range(2)]
    await _expect_same(probe, session, streams, "on both streams")


@case("streams/slow-reader", _PERSISTED, rules="RES003")
async def slow_reader(probe: Prober) -> None:
    """A slow reader receives every durable event, and does not delay other readers.

    During a run, read one stream at 50 kB per second and another at full speed.
    """
    session = await probe.create_session()
    slow, fast = await probe.open_stream(session, slow=True), await probe.open_stream(session)
    await _expect_same(probe, session, [fast, slow], "for the slow reader")


async def _expect_same(probe: Prober, session: str, streams: Sequence[StreamReader], where: str) -> None:
    """Create a run, read streams until it ends, and expect the same durable events of all.

    Raises NotPossible if a stream with a gap may lack events that others have.
    """
    run = await probe.create_run(session)
    for stream in streams:
        await stream.until_run_ends(run)
    first, *others = ([event.id for event in stream.durable] for stream in streams)
    is_same = all(ids == first for ids in others)
    if not is_same and any(stream.has_gap for stream in streams):
        raise NotPossible(LOST)
    probe.expect(is_same, f"Expected the same durable events {where}, got different ones.")


@case(
    "streams/disconnect", 'Symptom to action: "Stream drops: Reconnect with the last durable SSE id."', rules="RES001"
)
async def disconnect(probe: Prober) -> None:
    """A run continues without readers, and nothing is lost.

    Close the only stream after the first durable event of a run, reconnect with the cursor, read to the end of the run,
    and read all again.
    """
    session, run, stream = await probe.start()
    await stream.until_durable(run)
    await stream.close()
    await probe.expect_same_replay(session, stream.cursor())


@case(
    "streams/deltas-are-not-replayed", 'Events 2: "never persisted, never replayed"', rules="RES004", leaves="nothing"
)
async def deltas_are_not_replayed(probe: Prober) -> None:
    """A replay contains no deltas.

    Read the stream of a finished session from its first event, with deltas.
    """
    ready = probe.ready
    stream = await probe.open_stream(ready.session, ready.stream.cursor(0))
    events = await stream.expect_replay(ready.stream, 0)
    deltas = [event.type for event in events if event.type in DELTA_TYPES]
    probe.expect(not deltas, f"Expected no deltas in the replay, got {', '.join(deltas[:3])}.")


@case("concurrency/readers-come-and-go", _ORDER, rules="SEQ001 RES003")
async def readers_come_and_go(probe: Prober) -> None:
    """All readers receive the same events in the same order.

    During a run, open four streams with the cursor of its first durable event, and read all that follows it.
    """
    session, run, stream = await probe.start()
    await stream.until_durable(run)
    readers = [await probe.open_stream(session, stream.cursor(0)) for _ in range(4)]
    await stream.until_run_ends(run)
    for reader in readers:
        await reader.expect_replay(stream, 0)
