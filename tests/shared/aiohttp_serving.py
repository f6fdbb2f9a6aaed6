"""Serve with aiohttp in the loop of a test, and leave no connection open at its end."""

from contextlib import asynccontextmanager

from wiretape.listening import listening_url, start_listening, stop_listening


@asynccontextmanager
async def serving(runner):
    """Serve until the end of the block; yield the address."""
    await runner.setup()
    listening = await start_listening(runner.server, "127.0.0.1", 0)
    try:
        yield listening_url(listening)
    finally:
        await stop_listening(listening)
        transports = [connection.transport for connection in runner.server.connections]
        await runner.cleanup()
        for transport in transports:
            if transport is not None:
                transport.abort()  # aiohttp leaves open what it could not send
