"""`wiretape demo`: all of it once, on this machine."""

import asyncio
import signal
from importlib.util import find_spec
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.files import PATH, path_exists, write_error
from wiretape.observations import header
from wiretape.recording import check_output, open_recording
from wiretape.recording.file import remove
from wiretape.safe_text import printable
from wiretape_inspect.demo.client import AGENT
from wiretape_inspect.demo.steps import perform

_ENDS = (signal.SIGTERM, signal.SIGHUP)
"""What ends it beside Ctrl-C: being told to, and a terminal that is closed."""


@click.command()
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("wiretape-demo.db"),
    show_default=True,
    metavar="FILE",
    help="The recording. One that an earlier demo left is replaced, nothing else.",
)
@click.pass_context
def demo(ctx: click.Context, output: Path) -> None:
    """Record, judge and replay a small service on this machine.

    Starts a service by a scenario, with a few planted faults, records a client's visit to it through the proxy,
    shows the timeline and the report, and replays the recording to the same client.
    """
    if find_spec("mitmproxy") is None:
        raise InputError("The demo records, which needs mitmproxy: pip install 'wiretape[proxy]'")
    _make_room(output)
    if ended_by := asyncio.run(_stoppable(output)):
        # As shells count it.
        ctx.exit(128 + ended_by[0])


def _make_room(path: Path) -> None:
    """Remove the recording of an earlier demo.  Raises InputError for any other file, and where none can be made."""
    if not path_exists(path):
        check_output(path, append=False)
        return
    try:
        with open_recording(path) as recording:
            agents = {header(exchange.request.headers, "User-Agent") for exchange in recording.exchanges()}
            # One that holds nothing was left by a demo that was interrupted early, or is no loss.
            ours = agents == {AGENT} or (not agents and recording.info.ended_ns is not None)
    except InputError:
        ours = False
    if not ours:
        raise InputError(f"{printable(str(path))} is no recording of an earlier demo: give --output another name.")
    try:
        remove(path)
    except OSError as error:
        raise InputError(write_error(path, error)) from None


async def _stoppable(output: Path) -> list[int]:
    """Perform the demo; the signals that ended it as Ctrl-C does, with its children stopped, if any did."""
    task = asyncio.ensure_future(perform(output))
    came: list[int] = []

    def end(number: int) -> None:
        came.append(number)
        task.cancel()

    for number in _ENDS:
        # nohup has SIGHUP ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        await task
    except asyncio.CancelledError:
        if not came:
            raise
    return came
