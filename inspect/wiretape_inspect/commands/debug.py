"""`wiretape debug`: the recording in a browser."""

import asyncio
import signal
import webbrowser
from pathlib import Path

import click

from wiretape.local import address
from wiretape.text import shown
from wiretape_inspect.debugging.serving import serve_debugger


@click.command(epilog="Example: wiretape debug run.db --open")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Port 0: a free one.")
@click.option("--open", "browse", is_flag=True, help="Open it in the browser.")
def debug(file: Path, *, listen: str, browse: bool) -> None:
    """Look at recording FILE in a browser: events, bytes, findings, and what a client knew at each event.

    The address that is said holds a token; nobody else on this machine sees the recording.
    A recording that is still being written is followed.  Ctrl-C ends it.
    """
    host, port = address(listen)
    asyncio.run(_debug(file, host, port, browse=browse))


async def _debug(file: Path, host: str, port: int, *, browse: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serve_debugger(file, host=host, port=port) as running:
        click.echo(f"Debugging {shown(str(file))} on {running.address} ; Ctrl-C to stop.", err=True)
        if browse:
            await asyncio.to_thread(webbrowser.open, running.address)
        await stop.wait()
