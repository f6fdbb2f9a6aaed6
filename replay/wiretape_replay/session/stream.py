"""Gives one client its stream: what its follower carries, as the playhead moves."""

from collections.abc import Sequence
from itertools import islice, takewhile

from wiretape.observations import Ending
from wiretape_replay.faults.fault_application import FaultyStream
from wiretape_replay.http_server.response_writer import CHUNKS_PER_TURN, ResponseWriter
from wiretape_replay.session.follower import Follower
from wiretape_replay.session.idle_timer import IdleTimer
from wiretape_replay.session.playhead_clock import PlayheadClock
from wiretape_replay.session.session_log import EntryKind, LogEntry


async def give(
    line: ResponseWriter,
    drive: PlayheadClock,
    follower: Follower,
    keep_alive: bytes,
    faulty: FaultyStream | None = None,
) -> None:
    """Send the stream on `line`, whose head is sent, until it ends.  Raises ConnectionError when the client leaves.

    With `faulty` it is sent with faults.
    """
    silence = drive.silence()
    try:
        await _give(line, drive, follower, keep_alive, faulty, silence=silence)
    finally:
        silence.broken()


async def _give(
    line: ResponseWriter,
    drive: PlayheadClock,
    follower: Follower,
    keep_alive: bytes,
    faulty: FaultyStream | None,
    *,
    silence: IdleTimer,
) -> None:
    playhead, resets = drive.playhead, drive.resets
    drive.start()
    while drive.resets == resets:
        before = follower.place
        due = follower.take(playhead.place)
        sent = False
        while together := list(islice(due, 1 if faulty is not None else CHUNKS_PER_TURN)):
            sent = True
            if await _pass(together, line, faulty):
                return
            if drive.resets != resets:
                break
        if sent:
            silence.broken()
        if drive.resets != resets or follower.place < playhead.place:
            continue  # both happen while a slow client is sent something
        if playhead.standing or (follower.place > before and not sent):
            # What is kept from this client, deltas for one, is no sign of life to it.  Where the playhead moves
            # through a silence of the log, the silence is the recorded one.
            silence.watch()
        if not await drive.moved(silence):
            if faulty is not None and await faulty.flush():
                return
            await line.write(keep_alive)
            silence.broken()
    line.close()


async def _pass(due: Sequence[LogEntry], line: ResponseWriter, faulty: FaultyStream | None) -> bool:
    """Send entries, with faults one at a time; True when that ended the stream."""
    if faulty is not None:
        return await _pass_faulty(due[0], line, faulty)
    await line.write_all([entry.data for entry in takewhile(_is_sent, due)])
    ending = next((entry for entry in due if not _is_sent(entry)), None)
    if ending is not None:
        await end(line, ending.ending)
    return ending is not None


async def _pass_faulty(entry: LogEntry, line: ResponseWriter, faulty: FaultyStream) -> bool:
    if _is_sent(entry):
        return await faulty.send(entry)
    if not await faulty.flush():
        await end(line, entry.ending)
    return True


def _is_sent(entry: LogEntry) -> bool:
    return entry.kind is not EntryKind.ENDING


async def end(line: ResponseWriter, ending: Ending | None) -> None:
    """End the stream as the service ended it."""
    if ending is Ending.SERVICE_RESET:
        await line.reset()
    elif ending is Ending.COMPLETE:
        await line.finish()
    else:
        line.close()
