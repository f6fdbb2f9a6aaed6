"""Listen on an address, and stop so that no connection is left behind."""

import asyncio
from collections.abc import Callable

from wiretape.addresses import origin_of
from wiretape.errors import InputError
from wiretape.network_errors import describe_listen_error

_BACKLOG = 128
"""Connections that wait to be accepted."""
_TURNS_TO_ACCEPT = 4
"""Turns of the event loop from `accept` to the first step of a task that `connection_made` starts."""


async def start_listening(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.Server:
    """Listen, on a free port if `port` is 0; `factory` returns the protocol of a connection.  Raises InputError."""
    try:
        return await asyncio.get_running_loop().create_server(factory, host, port, backlog=_BACKLOG)
    except OSError as error:
        raise InputError(describe_listen_error(host, port, error)) from None


def listening_url(server: asyncio.Server) -> str:
    """Return `http://HOST:PORT`, where a server listens."""
    return origin_of(*server.sockets[0].getsockname()[:2])


async def stop_listening(server: asyncio.Server) -> None:
    """Stop listening, after each accepted connection has been made.

    If asyncio closes a server while it accepts a connection, nobody closes that connection (CPython issue 109564).
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener)
    for _ in range(_TURNS_TO_ACCEPT):
        await asyncio.sleep(0)
    server.close()
