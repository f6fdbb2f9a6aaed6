"""Gives one client its stream: what its follower carries, as the playhead moves."""

from wiretape.observe import Ending
from wiretape_replay.front.line import Line
from wiretape_replay.session.drive import Drive
from wiretape_replay.session.follower import Follower
from wiretape_replay.session.log import EntryKind


async def give(line: Line, drive: Drive, follower: Follower, keep_alive: bytes) -> None:
    """Send the stream on `line`, whose head is sent, until it ends.  Raises ConnectionError when the client leaves."""
    playhead, resets = drive.playhead, drive.resets
    drive.start()
    while drive.resets == resets:
        for entry in follower.take(playhead.place):
            if entry.kind is EntryKind.ENDING:
                await end(line, entry.ending)
                return
            await line.send(entry.data)
            if drive.resets != resets:
                break
        if drive.resets != resets or follower.place < playhead.place:
            continue  # both happen while a slow client is sent something
        moved = await drive.moved(drive.keep_alive_s)
        if not moved and playhead.standing:
            await line.send(keep_alive)
    line.close()


async def end(line: Line, ending: Ending | None) -> None:
    """End the stream as the service ended it."""
    if ending is Ending.SERVICE_RESET:
        await line.reset()
    elif ending is Ending.COMPLETE:
        await line.finish()
    else:
        line.close()
