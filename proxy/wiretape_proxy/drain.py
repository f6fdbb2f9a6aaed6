"""Ending what is open before mitmproxy stops, so that each exchange gets its end."""

import asyncio

from mitmproxy.master import Master

PATIENCE_S = 3.0
_STEP_S = 0.02


async def drain(master: Master) -> None:
    """Close the listeners and all connections, and wait (a few seconds at most) until their hooks have run."""
    proxyserver = master.addons.get("proxyserver")
    if proxyserver is None:
        return
    await proxyserver.servers.update([])
    until = asyncio.get_running_loop().time() + PATIENCE_S
    while proxyserver.connections and asyncio.get_running_loop().time() < until:
        for handler in list(proxyserver.connections.values()):
            io = handler.transports.get(handler.client)
            if io is not None and io.handler is not None:
                io.handler.cancel("proxy shutdown")
        await asyncio.sleep(_STEP_S)
