"""What is used of mitmproxy's private parts, guarded, in one place; `patches` is what is changed of them.

Each of these is looked for before it is used; where a later mitmproxy has it no longer, the proxy goes on
with what the public interface gives.  Tried with 11.0.2 and 12.2.3.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mitmproxy import contentviews
from mitmproxy.connection import Client, Connection
from mitmproxy.http import HTTPFlow
from mitmproxy.master import Master
from mitmproxy.net.http.http1 import expected_http_body_size
from mitmproxy.optmanager import OptManager
from mitmproxy.proxy.server import ConnectionHandler

_CONNECTIONS = 1000
"""How many HTTP/1 connections to the service one HTTP/2 client may have; mitmproxy stops at 5, and streams stay."""
_NEVER_S = 10 * 365 * 86_400


def as_text(options: OptManager, names: Iterable[str]) -> None:
    """Make what was given for these options one text each, before they are declared.

    What mitmproxy cannot convert (an option given twice, or `--set NAME` alone, or a number in its config.yaml)
    would switch the addon off in silence.  As usual on command lines, the last one counts.
    """
    for name in names:
        given = options.deferred.get(name)
        values = getattr(given, "val", given)
        if isinstance(values, list):
            values = values[-1] if values else "true"
        if values is not None:
            options.deferred[name] = str(values).lower() if isinstance(values, bool) else str(values)


def handler_of(master: Master, client: Client) -> ConnectionHandler | None:
    """What handles this client's connection."""
    proxyserver = master.addons.get("proxyserver")
    connections: dict[Any, ConnectionHandler] = getattr(proxyserver, "connections", {})
    return connections.get(client.id)


def show_anew(master: Master, flow: HTTPFlow) -> None:
    """Have a response's body shown anew, though it is the same: interfaces look again only where it differs.

    So mitmweb is told of one that lacks a byte, and before it comes to look that is whole again.  The console
    forgets what it made of bodies when it is told that there are other views.
    """
    told = getattr(master.addons.get("view"), "sig_view_update", None)
    whole = flow.response.data.content if flow.response is not None else None
    if told is None or flow.response is None or not whole:
        return
    flow.response.data.content = whole[:-1]
    try:
        told.send(flow=flow)
    finally:
        flow.response.data.content = whole
    changed = getattr(getattr(contentviews, "registry", None), "on_change", getattr(contentviews, "on_add", None))
    if changed is not None:
        changed.send(None)


def handlers(master: Master) -> list[ConnectionHandler]:
    """What handles the connections of all clients."""
    return list(getattr(master.addons.get("proxyserver"), "connections", {}).values())


def lift_limits(handler: ConnectionHandler, on_timeout: Callable[[], Awaitable[None]]) -> None:
    """Let one client have many connections to the service, and leave it to us when an idle one is closed."""
    if hasattr(handler, "max_conns"):
        handler.max_conns = defaultdict(lambda: asyncio.Semaphore(_CONNECTIONS))
    if watchdog := getattr(handler, "timeout_watchdog", None):
        watchdog.timeout = _NEVER_S
        watchdog.callback = on_timeout


def idle_since(handler: ConnectionHandler) -> float | None:
    """When (`time.time()`) the last byte came on either side; None while mitmproxy itself waits for something."""
    watchdog = getattr(handler, "timeout_watchdog", None)
    if watchdog is None or watchdog.blocker:
        return None
    return float(watchdog.last_activity)


def reader_of(handler: ConnectionHandler, connection: Connection) -> asyncio.StreamReader | None:
    """Where the bytes of a connection come in.  Keep it: its exception tells a reset from an orderly close."""
    transport = handler.transports.get(connection)
    reader = transport.reader if transport else None
    return reader if isinstance(reader, asyncio.StreamReader) else None


class Gate:
    """Stops reading on all connections, and lets it go on.

    After each read, mitmproxy waits for its writers to have room; while the gate is closed, they have none.
    (Pausing the transports would not do: asyncio's readers resume them as they see fit.)
    """

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    @property
    def closed(self) -> bool:
        """Whether nothing is read."""
        return not self._open.is_set()

    def set(self, handlers: Iterable[ConnectionHandler], *, closed: bool) -> None:
        """Close it, also for these connections, or open it."""
        if not closed:
            self._open.set()
            return
        self._open.clear()
        for handler in handlers:
            self.put_before(handler)

    def put_before(self, handler: ConnectionHandler) -> None:
        """Have a connection heed the gate until it opens."""
        original = getattr(handler, "drain_writers", None)
        if original is None or "drain_writers" in vars(handler):
            return

        async def drain_writers() -> None:
            await self._open.wait()
            vars(handler).pop("drain_writers", None)
            await original()

        vars(handler)["drain_writers"] = drain_writers


def until_close(flow: HTTPFlow) -> bool:
    """Whether nothing but the end of the connection says where this response ends."""
    if flow.response is None or flow.response.is_http2 or flow.response.is_http3:
        return False
    try:
        return expected_http_body_size(flow.request, flow.response) == -1
    except ValueError:
        return False
