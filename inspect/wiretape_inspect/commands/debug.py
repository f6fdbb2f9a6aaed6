"""`wiretape debug`: show a recording in a browser."""

import asyncio
import os
import signal
import sys
import threading
import webbrowser
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path

import click

from wiretape.addresses import parse_address
from wiretape.files import PATH
from wiretape.recording import recording_opener
from wiretape.safe_text import shorten
from wiretape.wiretape_subprocess import TOKEN_VARIABLE
from wiretape_inspect.debugger.debugger_server import Debugger, serve_debugger
from wiretape_inspect.debugger.replay_forwarder import ReplayAddress


@click.command()
@click.argument("file", type=PATH)
@click.argument("other", type=PATH, required=False)
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    default="127.0.0.1:0",
    show_default=True,
    help="Loopback address to listen on; port 0 picks a free port.",
)
@click.option("--open", "browse", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--replay", metavar="URL", help="Control the replay of FILE at this URL; the token is read from $WIRETAPE_TOKEN."
)
@click.option("--with-parent", is_flag=True, hidden=True, help="Exit when standard input closes.")
def debug(file: Path, other: Path | None, *, listen: str, browse: bool, replay: str | None, with_parent: bool) -> None:
    """Show the recording FILE in a browser: events, bytes, findings, and what the client knew at each event.

    With OTHER, another recording, the page also shows how the two differ.

    If FILE is still being recorded, the page follows it. The printed URL contains an access token, without
    which nobody can see the recording; only programs on this machine can connect. Press Ctrl-C to stop.

    `wiretape proxy --debug` and `wiretape replay --debug` also serve this page for what they record or replay.

    \b
    Examples:
        wiretape debug run.db --open
        wiretape debug before.db after.db --open
        WIRETAPE_TOKEN=7bd0c3… wiretape debug run.db --replay http://127.0.0.1:8090
    """
    host, port = parse_address(listen)
    address = ReplayAddress.parse(replay, os.environ.get(TOKEN_VARIABLE)) if replay is not None else None
    with ExitStack() as opened:
        opening = opened.enter_context(recording_opener(file))
        compare = opened.enter_context(recording_opener(other)) if other is not None else None
        serving = serve_debugger(file, host=host, port=port, replay=address, opening=opening, compare=compare)
        asyncio.run(_debug(file, serving, browse=browse, with_parent=with_parent))


async def _debug(
    file: Path, serving: AbstractAsyncContextManager[Debugger], *, browse: bool, with_parent: bool
) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if with_parent:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    async with serving as debugger:
        hint = "" if with_parent else " ; Ctrl-C to stop."
        click.echo(f"Debugging {shorten(str(file))} on {debugger.address}{hint}", err=True)
        if browse:
            # In a thread, because it may wait until the browser exits.
            threading.Thread(target=webbrowser.open, args=[debugger.address], daemon=True).start()
        await stop.wait()
