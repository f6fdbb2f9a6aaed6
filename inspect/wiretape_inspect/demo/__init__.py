"""`wiretape demo`: the full tour, on this machine."""

import asyncio
import signal
from importlib.util import find_spec
from pathlib import Path

import click

from wiretape.errors import InputError, missing_mitmproxy_error
from wiretape.files import PATH, path_exists, write_error
from wiretape.observations import header
from wiretape.recording import check_output, delete_recording, open_recording
from wiretape_inspect.demo.child_process import DemoError
from wiretape_inspect.demo.demo_client import USER_AGENT
from wiretape_inspect.demo.demo_steps import run_demo

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that stop the demo, besides Ctrl-C."""


@click.command()
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("wiretape-demo.db"),
    show_default=True,
    metavar="FILE",
    help="Recording to write; replaces only a recording of an earlier demo.",
)
@click.pass_context
def demo(ctx: click.Context, output: Path) -> None:
    """Record, check and replay a small service on this machine.

    Runs a service from a scenario with a few planted faults, records a client using it through the proxy, shows the
    timeline and the report, and replays the recording to the same client.
    """
    if find_spec("mitmproxy") is None:
        raise missing_mitmproxy_error("The demo")
    _remove_earlier_demo(output)
    try:
        stopped_by = asyncio.run(_run_until_signal(output))
    except DemoError as error:
        raise click.ClickException(str(error)) from None
    if stopped_by is not None:
        # The exit status that shells give it.
        ctx.exit(128 + stopped_by)


def _remove_earlier_demo(path: Path) -> None:
    """Remove the recording of an earlier demo.  Raises InputError for any other file, or if `path` is not writable."""
    if not path_exists(path):
        check_output(path, append=False)
        return
    try:
        with open_recording(path) as recording:
            agents = {header(exchange.request.headers, "User-Agent") for exchange in recording.exchanges()}
            # An empty recording is from a demo that was interrupted early; nothing is lost with it.
            is_ours = agents == {USER_AGENT} or (not agents and recording.info.ended_ns is not None)
    except InputError:
        is_ours = False
    if not is_ours:
        raise InputError(f"{path} is not a recording of an earlier demo: choose another name for --output.")
    try:
        delete_recording(path)
    except OSError as error:
        raise InputError(write_error(path, error)) from None


async def _run_until_signal(output: Path) -> int | None:
    """Run the demo; return the signal that stopped it, with its child processes stopped, or None."""
    task = asyncio.ensure_future(run_demo(output))
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in _STOP_SIGNALS:
        # nohup ignores SIGHUP.
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
    return received[0] if received else None
