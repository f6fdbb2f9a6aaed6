"""The debugger as a server that runs while it is needed."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiohttp import web
from aiohttp.http import HttpProcessingError

from wiretape.addresses import is_loopback, listen_error, origin_of
from wiretape.errors import InputError
from wiretape.recording import Recording, open_recording
from wiretape_inspect.debugging.access import Access
from wiretape_inspect.debugging.forwarding import Replay
from wiretape_inspect.debugging.presence import Presence
from wiretape_inspect.debugging.routes import Routes


@dataclass(frozen=True, slots=True)
class Debugger:
    """A debugger that runs."""

    url: str
    """Its origin, without a slash at its end."""
    access: Access

    @property
    def address(self) -> str:
        """What a browser is to open."""
        return f"{self.url}/?token={self.access.token}"


@asynccontextmanager
async def serve_debugger(
    path: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    replay: Replay | None = None,
    opening: Callable[[], Recording] | None = None,
) -> AsyncIterator[Debugger]:
    """Serve the page of a recording, which drives a replay if there is one.  Port 0 takes a free port.

    `opening` opens the recording where that is not to be done by its path each time.

    Raises InputError where the recording cannot be read, or nothing can listen there.
    """
    opening = opening or partial(open_recording, path)
    opening().close()
    if host != "localhost" and not is_loopback(host):
        raise InputError(f"{host} is no loopback address: the debugger serves this machine only, say 127.0.0.1:{port}.")
    access, presence = Access(), Presence(path)
    runner = web.AppRunner(
        Routes(opening, access, presence, replay).app(),
        access_log=None,
        logger=_log(),
        handler_cancellation=True,
        shutdown_timeout=0.1,
    )
    await runner.setup()
    try:
        await _listen(runner, host, port)
        yield Debugger(origin_of(*runner.addresses[0][:2]), access)
    finally:
        await runner.cleanup()
        presence.close()


def _log() -> logging.Logger:
    """For what goes wrong in here: what is no HTTP gets its answer, and is nobody's concern."""
    log = logging.getLogger(__name__)
    log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise InputError(listen_error(host, port, error)) from None
