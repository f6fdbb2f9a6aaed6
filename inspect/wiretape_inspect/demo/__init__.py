"""`wiretape demo`: all of it once, on this machine."""

import asyncio
import signal
from importlib.util import find_spec
from pathlib import Path

import click

from wiretape.errors import InputError, RecordingError
from wiretape.recording import open_recording
from wiretape.text import printable
from wiretape_inspect.demo.service import SESSION
from wiretape_inspect.demo.steps import perform

_TERMINATED = 143
"""Exit status after SIGTERM, as shells count it."""


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("wiretape-demo.db"),
    show_default=True,
    metavar="FILE",
    help="The recording. One that an earlier demo left is replaced, nothing else.",
)
@click.pass_context
def demo(ctx: click.Context, output: Path) -> None:
    """Record, judge and replay a small service on this machine.

    Starts a stand-in of the service with a few planted violations, records a client's visit to it through
    the proxy, shows the timeline and the report, and replays the recording to the same client.
    """
    if find_spec("mitmproxy") is None:
        raise InputError("The demo records, which needs mitmproxy: pip install 'wiretape[proxy]'")
    _make_room(output)
    try:
        asyncio.run(_stoppable(output))
    except asyncio.CancelledError:
        ctx.exit(_TERMINATED)


def _make_room(path: Path) -> None:
    """Remove the recording of an earlier demo.  Raises InputError for any other file."""
    if not path.exists():
        return
    try:
        with open_recording(path) as recording:
            targets = [exchange.request.target for exchange in recording.exchanges()]
            # One that holds nothing was left by a demo that was interrupted early, or is no loss.
            ours = all(f"/sessions/{SESSION}" in target for target in targets) and (
                bool(targets) or recording.info.ended_ns is not None
            )
    except RecordingError:
        ours = False
    if not ours:
        raise InputError(f"{printable(str(path))} is no recording of an earlier demo: give --output another name.")
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


async def _stoppable(output: Path) -> None:
    """Perform the demo; SIGTERM ends it as Ctrl-C does, with its children stopped."""
    task = asyncio.ensure_future(perform(output))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task
