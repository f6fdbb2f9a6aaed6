"""Gives one client its stream: what its follower carries, as the playhead moves."""

from wiretape.observe import Ending
from wiretape_replay.faults.performing import FaultyStream
from wiretape_replay.front.line import Line
from wiretape_replay.session.drive import Drive
from wiretape_replay.session.follower import Follower
from wiretape_replay.session.log import Entry, EntryKind


async def give(
    line: Line, drive: Drive, follower: Follower, keep_alive: bytes, faulty: FaultyStream | None = None
) -> None:
    """Send the stream on `line`, whose head is sent, until it ends.  Raises ConnectionError when the client leaves.

    With `faulty` it is sent with faults.
    """
    playhead, resets = drive.playhead, drive.resets
    drive.start()
    while drive.resets == resets:
        for entry in follower.take(playhead.place):
            if await _pass(entry, line, faulty):
                return
            if drive.resets != resets:
                break
        if drive.resets != resets or follower.place < playhead.place:
            continue  # both happen while a slow client is sent something
        if not await drive.moved():
            if faulty is not None and await faulty.flush():
                return
            await line.send(keep_alive)
    line.close()


async def _pass(entry: Entry, line: Line, faulty: FaultyStream | None) -> bool:
    """Send an entry; True when that ended the stream."""
    if entry.kind is EntryKind.ENDING:
        if faulty is None or not await faulty.flush():
            await end(line, entry.ending)
        return True
    if faulty is not None:
        return await faulty.send(entry)
    await line.send(entry.data)
    return False


async def end(line: Line, ending: Ending | None) -> None:
    """End the stream as the service ended it."""
    if ending is Ending.SERVICE_RESET:
        await line.reset()
    elif ending is Ending.COMPLETE:
        await line.finish()
    else:
        line.close()
