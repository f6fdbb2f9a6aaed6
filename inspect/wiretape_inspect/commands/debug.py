"""`wiretape debug`: the recording in a browser."""

import asyncio
import os
import signal
import sys
import threading
import webbrowser
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click

from wiretape.addresses import parse_address
from wiretape.debugger_process import TOKEN_VARIABLE
from wiretape.files import PATH
from wiretape.recording import recording_opener
from wiretape.safe_text import shorten
from wiretape_inspect.debugging.forwarding import Replay
from wiretape_inspect.debugging.serving import Debugger, serve_debugger


@click.command()
@click.argument("file", type=PATH)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Port 0: a free one.")
@click.option("--open", "browse", is_flag=True, help="Open the page in a browser.")
@click.option("--replay", metavar="URL", help="A replay of FILE that the page drives; its token in $WIRETAPE_TOKEN.")
@click.option("--with-parent", is_flag=True, hidden=True, help="End when standard input does.")
def debug(file: Path, *, listen: str, browse: bool, replay: str | None, with_parent: bool) -> None:
    """Look at recording FILE in a browser: events, bytes, findings, and what a client knew at each event.

    A recording that is still being written is followed.  The address that is said holds a token, without which
    nobody sees the recording; only programs of this machine can connect.  Ctrl-C ends it.

    `wiretape proxy --debug` and `wiretape replay --debug` start it with what they do.

    \b
    Examples:
        wiretape debug run.db --open
        WIRETAPE_TOKEN=7bd0c3… wiretape debug run.db --replay http://127.0.0.1:8090
    """
    host, port = parse_address(listen)
    driven = Replay.at(replay, os.environ.get(TOKEN_VARIABLE)) if replay is not None else None
    with recording_opener(file) as opening:
        serving = serve_debugger(file, host=host, port=port, replay=driven, opening=opening)
        asyncio.run(_debug(file, serving, browse=browse, with_parent=with_parent))


async def _debug(
    file: Path, serving: AbstractAsyncContextManager[Debugger], *, browse: bool, with_parent: bool
) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if with_parent:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    async with serving as running:
        how = "" if with_parent else " ; Ctrl-C to stop."
        click.echo(f"Debugging {shorten(str(file))} on {running.address}{how}", err=True)
        if browse:
            # It may wait for the browser to end.
            threading.Thread(target=webbrowser.open, args=[running.address], daemon=True).start()
        await stop.wait()
