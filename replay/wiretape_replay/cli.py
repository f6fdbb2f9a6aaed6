"""`wiretape replay`."""

import asyncio
import re
import signal
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.text import shown
from wiretape_replay.pace import Pace
from wiretape_replay.serving import ServedTape, serve_tape

_LISTED = 20
"""How many exchanges that were never asked for the summary names."""


@click.command(epilog="Example: wiretape replay run.db --listen 127.0.0.1:8090 --speed max")
@click.argument("recording", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--mode", type=click.Choice(["tape"]), default="tape", show_default=True, help="How answers are chosen.")
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8090", show_default=True, help="Port 0: a free one.")
@click.option("--speed", metavar="1|N|max", default="1", show_default=True, help="As recorded, N times that, at once.")
def replay(recording: Path, mode: str, listen: str, speed: str) -> None:  # noqa: ARG001 - there is one mode so far
    """Play a recording back as an offline service.

    The n-th request of a kind (method, path, query, and body where bodies differ) gets the n-th recorded
    answer of that kind, byte for byte, and ends as that one did.  A request that was not recorded gets
    status 501 and the reason.  Ctrl-C ends the replay and prints what was asked for and what never was.
    """
    host, port = _address(listen)
    asyncio.run(_replay(recording, Pace.of(speed), host, port))


async def _replay(recording: Path, pace: Pace, host: str, port: int) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serve_tape(recording, speed=pace.speed, host=host, port=port, log=_say) as tape:
        count = _count(tape.player.tape.size, "exchange")
        _say(f"Replaying {shown(str(recording))} ({count}) on {tape.url} {pace}; Ctrl-C to stop.")
        await stop.wait()
    _summarise(tape)


def _summarise(tape: ServedTape) -> None:
    _say(f"Served {_count(len(tape.served), 'request')}; {_count(len(tape.misses), 'request')} had no match.")
    left = tape.unconsumed
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
