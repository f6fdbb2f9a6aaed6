"""`wiretape replay`."""

import asyncio
import re
import signal
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.text import shown
from wiretape_replay.pace import Pace
from wiretape_replay.serving import Options, Replay, serve_replay

_LISTED = 20
"""How many exchanges that were never asked for the summary names."""


@click.command(epilog="Example: wiretape replay run.db --listen 127.0.0.1:8090 --speed max")
@click.argument("recording", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--mode",
    type=click.Choice(["session", "tape"]),
    default="session",
    show_default=True,
    help="How answers are chosen: streams by a playhead, or everything in recorded order.",
)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8090", show_default=True, help="Port 0: a free one.")
@click.option("--speed", metavar="1|N|max", default="1", show_default=True, help="As recorded, N times that, at once.")
@click.option("--paused", is_flag=True, help="Playheads stand until `wiretape control` moves them.")
@click.option(
    "--playhead",
    type=click.Choice(["session", "connection"]),
    default="session",
    show_default=True,
    help="One for all clients of a session, or one for each stream that begins without a cursor.",
)
def replay(*, recording: Path, mode: str, listen: str, speed: str, paused: bool, playhead: str) -> None:
    """Play a recording back as an offline service.

    In session mode a stream is given by the playhead, a moment on the session's log that moves at --speed:
    durable events behind it are replayed after the client's Last-Event-ID, what lies ahead comes live.
    Any other request gets the recorded answers of its kind (method, path, query, and body where bodies differ) in
    recorded order; in tape mode streams do too, byte for byte and with the ending they had.
    A request that was not recorded gets status 501 and the reason.
    Ctrl-C ends the replay and prints what was asked for and what never was.
    """
    host, port = _address(listen)
    if mode == "tape" and (paused or playhead != "session"):
        raise InputError("Tape mode has no playhead: leave --paused and --playhead out, or choose --mode session.")
    options = Options(mode, Pace.of(speed), paused=paused, own_playhead=playhead == "connection")
    asyncio.run(_replay(recording, options, host, port))


async def _replay(recording: Path, options: Options, host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serve_replay(recording, options, host=host, port=port, log=_say) as playing:
        _say(f"Replaying {shown(str(recording))} ({_held(playing)}) on {playing.url} {options.pace}; Ctrl-C to stop.")
        await stop.wait()
    _summarise(playing)


def _held(playing: Replay) -> str:
    exchanges = _count(playing.tape.tape.size, "exchange")
    if playing.player is None:
        return exchanges
    return f"{_count(len(playing.player.sessions), 'session')}, {exchanges} besides"


def _summarise(playing: Replay) -> None:
    served = _count(len(playing.served), "request")
    if playing.player is not None:
        given = [stream for stream in playing.player.streamed if stream.refusal is None]
        served = f"{_count(len(given), 'stream')} and {served}"
    _say(f"Served {served}; {_count(len(playing.misses), 'request')} had no match.")
    left = playing.unconsumed
    if not left:
        _say("Every recorded exchange was asked for.")
        return
    _say(f"Never asked for: {_count(len(left), 'recorded exchange')}.")
    for entry in left[:_LISTED]:
        _say(f"  {entry.number:>5}  {shown(f'{entry.method} {entry.target}')}")
    if len(left) > _LISTED:
        _say(f"  and {len(left) - _LISTED} more.")


def _address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, with brackets around an IPv6 host.  Raises InputError."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+)):([0-9]{1,5})", text, re.ASCII)
    if match is None or int(match[3]) > 65535:
        raise InputError(f"{text!r} is no address to listen on: give HOST:PORT, such as 127.0.0.1:8090 or [::1]:0.")
    return match[1] or match[2], int(match[3])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _say(line: str) -> None:
    click.echo(line, err=True)
