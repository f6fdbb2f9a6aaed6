"""The exchanges that are open, as the addon keeps them between hooks."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from mitmproxy.connection import Connection
from mitmproxy.http import HTTPFlow
from mitmproxy.proxy.server import ConnectionHandler


@dataclass(slots=True, eq=False)
class Visitor:
    """A client's connection."""

    handler: ConnectionHandler | None
    timed_out: bool = False
    readers: WeakKeyDictionary[Connection, asyncio.StreamReader] = field(default_factory=WeakKeyDictionary)
    """Where the bytes of its connections to the service come in."""
    exchanges: dict[str, "OpenExchange"] = field(default_factory=dict)
    """The open exchanges, by the id of the flow."""

    def fault_of(self, server: Connection) -> str | None:
        """What the operating system said of a connection to the service that did not end in good order."""
        reader = self.readers.get(server)
        error = reader.exception() if reader is not None else None
        return None if error is None else type(error).__name__


@dataclass(slots=True, eq=False)
class OpenExchange:
    """A request whose exchange is not over."""

    number: int
    flow: HTTPFlow
    visitor: Visitor
    request_ended: bool = False
    responded: bool = False
    """The response ended; the exchange goes on as long as the request does."""


class Exchanges:
    """All open exchanges, numbered from 1 in the order of their requests."""

    def __init__(self) -> None:
        self.count = 0
        self._visitors: dict[str, Visitor] = {}

    def __iter__(self) -> Iterator[OpenExchange]:
        for visitor in self.visitors:
            yield from list(visitor.exchanges.values())

    @property
    def visitors(self) -> list[Visitor]:
        """The connections of clients."""
        return list(self._visitors.values())

    def visitor(self, client_id: str) -> Visitor | None:
        """A client's connection, if it is there."""
        return self._visitors.get(client_id)

    def arrive(self, client_id: str, handler: ConnectionHandler | None) -> Visitor:
        """A client connected."""
        visitor = self._visitors[client_id] = Visitor(handler)
        return visitor

    def leave(self, client_id: str) -> Visitor | None:
        """A client's connection is over."""
        return self._visitors.pop(client_id, None)

    def begin(self, flow: HTTPFlow) -> OpenExchange:
        """A request began."""
        # A client can have connected before the addon was there.
        visitor = self._visitors.get(flow.client_conn.id) or self.arrive(flow.client_conn.id, None)
        self.count += 1
        exchange = visitor.exchanges[flow.id] = OpenExchange(self.count, flow, visitor)
        return exchange

    def get(self, flow: HTTPFlow) -> OpenExchange | None:
        """The open exchange of a flow, if it is recorded."""
        visitor = self._visitors.get(flow.client_conn.id)
        return visitor.exchanges.get(flow.id) if visitor is not None else None

    def end(self, exchange: OpenExchange) -> None:
        """An exchange is over."""
        exchange.visitor.exchanges.pop(exchange.flow.id, None)
