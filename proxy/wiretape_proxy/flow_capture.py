"""The mitmproxy hooks that capture traffic: each appends to the capture buffer, and lets the traffic pass."""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

from mitmproxy.connection import Client, Connection
from mitmproxy.http import HTTPFlow
from mitmproxy.master import Master
from mitmproxy.proxy.mode_specs import ReverseMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from wiretape.observations import ExchangeEnded, RequestEnded, Side
from wiretape_proxy import mitmproxy_internals as internals
from wiretape_proxy.endings import ErrorSide, Facts, classify
from wiretape_proxy.flow_display import FlowDisplay
from wiretape_proxy.flow_heads import request_started, response_started
from wiretape_proxy.ipc_codec import BodyTap, CaptureBuffer
from wiretape_proxy.proxy_options import Settings

CONNECTION_IDLE_TIMEOUT_S = 600.0
"""Idle timeout of a client's connection without an open exchange, the same as mitmproxy's."""

_SWITCHING_PROTOCOLS = 101

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class ClientConnection:
    """A client's connection."""

    handler: internals.ConnectionHandler | None
    timed_out: bool = False
    readers: WeakKeyDictionary[Connection, asyncio.StreamReader] = field(default_factory=WeakKeyDictionary)
    """The readers of its connections to the service."""
    exchanges: dict[str, "OpenExchange"] = field(default_factory=dict)
    """The open exchanges by the id of their flow."""

    def service_fault(self, server: Connection) -> str | None:
        """Return the operating system's error of a connection to the service that was not closed in order."""
        reader = self.readers.get(server)
        error = reader.exception() if reader is not None else None
        return None if error is None else type(error).__name__


@dataclass(slots=True, eq=False)
class OpenExchange:
    """An exchange that has not ended."""

    number: int
    flow: HTTPFlow
    client: ClientConnection
    request_ended: bool = False
    response_ended: bool = False


class FlowCapture:
    """Streams every body, and captures the exchanges that are to be recorded."""

    name = "wiretape_capture"

    def __init__(self, master: Master, buffer: CaptureBuffer, *, prepend_base: bool = False) -> None:
        """`prepend_base`: put the upstream's base path before the path of each request (in reverse mode)."""
        self.settings = Settings()
        self.is_stopping = False
        """Whether exchanges that end now end because the proxy stops."""
        self.display: FlowDisplay | None = None
        self.first_exchange = 1
        """The number of our first exchange in the recording."""
        self._prepend_base = prepend_base
        self._master = master
        self._buffer = buffer
        self._clients: dict[str, ClientConnection] = {}
        self._exchange_count = 0

    # Connections

    def client_connected(self, client: Client) -> None:
        """Lift mitmproxy's limits on the number and duration of streams."""
        handler = internals.connection_handler(self._master, client)
        connection = self._clients[client.id] = ClientConnection(handler)
        if handler is not None:
            internals.lift_limits(handler, partial(self._time_out, connection))
            internals.join_writes(handler)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Keep the reader, which distinguishes a reset from an orderly close."""
        connection = self._clients.get(data.client.id)
        if connection is not None and connection.handler is not None:
            reader = internals.stream_reader(connection.handler, data.server)
            if reader is not None:
                connection.readers[data.server] = reader

    def client_disconnected(self, client: Client) -> None:
        """End the exchanges for which mitmproxy calls no hook: those that waited for a connection to the service."""
        connection = self._clients.pop(client.id, None)
        if connection is not None:
            self._end_without_hook(connection.exchanges.values())

    # Exchanges

    def requestheaders(self, flow: HTTPFlow) -> None:
        """Begin an exchange."""
        # A request that another addon has answered cannot be streamed.
        if flow.is_replay or flow.response:
            return
        flow.request.stream = True
        if self._prepend_base and self.settings.upstream is not None and _is_reverse(flow):
            flow.request.path = self.settings.upstream.base + flow.request.path
        if not self._is_recorded(flow):
            return
        exchange = self._begin(flow)
        if self.display is not None:
            self.display.begin(flow, self._recorded_number(exchange))
        flow.request.stream = self._body_tap(exchange, Side.REQUEST)
        if self.settings.identity:
            flow.request.headers["accept-encoding"] = "identity"

    def request(self, flow: HTTPFlow) -> None:
        """Note the end of a request.  Its response may have ended before."""
        exchange = self._exchange_of(flow)
        if exchange is None:
            return
        self._buffer.add_observation(RequestEnded(exchange.number, 0))
        exchange.request_ended = True
        if exchange.response_ended:
            self._end(exchange)

    def responseheaders(self, flow: HTTPFlow) -> None:
        """Begin a response."""
        response = flow.response
        if flow.is_replay or response is None:
            return
        response.stream = True
        exchange = self._exchange_of(flow)
        if exchange is None:
            return
        self._buffer.add_observation(response_started(response, exchange.number))
        if response.raw_content is None:
            response.stream = self._body_tap(exchange, Side.RESPONSE)
        else:  # of another addon
            self._buffer.add_chunk(exchange.number, Side.RESPONSE, response.raw_content)

    def response(self, flow: HTTPFlow) -> None:
        """Note the end of a response.  Its request may still continue."""
        exchange = self._exchange_of(flow)
        if exchange is None:
            return
        exchange.response_ended = True
        if exchange.request_ended:
            self._end(exchange)

    def error(self, flow: HTTPFlow) -> None:
        """End an exchange that was cut off."""
        exchange = self._exchange_of(flow)
        if exchange is not None and flow.error is not None:
            self._end(exchange, flow.error.msg)

    # Called by the addon

    def end_all(self) -> None:
        """End all open exchanges."""
        for client in self._clients.values():
            self._end_without_hook(client.exchanges.values())

    def warn_of_trailers(self, flow: HTTPFlow | None) -> None:
        """Log that trailers were dropped."""
        exchange = self._exchange_of(flow) if flow is not None else None
        of = f" of exchange {self._recorded_number(exchange)}" if exchange is not None else ""
        log.warning("HTTP/1 trailers%s were dropped: mitmproxy cannot forward them.", of)

    async def close_idle(self) -> None:
        """Close connections that were idle for too long, unless reading was paused."""
        if internals.is_reading_paused():
            return
        now = time.time()
        for connection in list(self._clients.values()):
            limit = self.settings.idle_timeout if connection.exchanges else CONNECTION_IDLE_TIMEOUT_S
            since = internals.idle_since(connection.handler) if connection.handler is not None else None
            if limit is not None and since is not None and now - since > limit:
                await self._time_out(connection)

    async def _time_out(self, connection: ClientConnection) -> None:
        connection.timed_out = True
        if connection.handler is not None:
            await internals.close_idle(connection.handler)

    def _is_recorded(self, flow: HTTPFlow) -> bool:
        if flow.request.method == "PRI":  # the preface of HTTP/2, not a request; mitmproxy closes the connection
            return False
        upstream = self.settings.upstream
        if upstream is None or _is_reverse(flow):
            return True
        is_upstream = (flow.request.host.lower(), flow.request.port) == (upstream.host, upstream.port)
        return is_upstream and (not upstream.base or upstream.contains(flow.request.path))

    def _begin(self, flow: HTTPFlow) -> OpenExchange:
        # A client can have connected before the addon was loaded.
        client = self._clients.get(flow.client_conn.id)
        if client is None:
            client = self._clients[flow.client_conn.id] = ClientConnection(None)
        # If this fails, the exchange is not recorded at all: the recorder refuses what belongs to no request.
        self._buffer.add_observation(request_started(flow, self._exchange_count + 1))
        self._exchange_count += 1
        exchange = client.exchanges[flow.id] = OpenExchange(self._exchange_count, flow, client)
        return exchange

    def _exchange_of(self, flow: HTTPFlow) -> OpenExchange | None:
        """Return the open exchange of a flow, if it is recorded."""
        client = self._clients.get(flow.client_conn.id)
        return client.exchanges.get(flow.id) if client is not None else None

    def _recorded_number(self, exchange: OpenExchange) -> int:
        """Return the number of an exchange in the recording."""
        return exchange.number + self.first_exchange - 1

    def _body_tap(self, exchange: OpenExchange, side: Side) -> BodyTap:
        tap = self._buffer.body_tap(exchange.number, side)
        return self.display.body_tap(exchange.flow, side, tap) if self.display is not None else tap

    def _end(self, exchange: OpenExchange, error: str | None = None, side: ErrorSide | None = None) -> None:
        """End an exchange, whose response is complete if there is no error of mitmproxy."""
        flow = exchange.flow
        facts = Facts(
            None if exchange.response_ended else error,
            side=side or internals.error_side(flow),
            stopping=self.is_stopping,
            timed_out=exchange.client.timed_out,
            connecting=internals.is_connecting(flow),
            service_fault=exchange.client.service_fault(flow.server_conn),
            delimited_by_close=internals.is_delimited_by_close(flow),
            upgraded=flow.response is not None and flow.response.status_code == _SWITCHING_PROTOCOLS,
        )
        ending, detail = classify(facts)
        exchange.client.exchanges.pop(flow.id, None)
        self._buffer.add_observation(ExchangeEnded(exchange.number, 0, ending, detail))
        if self.display is not None:
            self.display.end(flow)

    def _end_without_hook(self, exchanges: Iterable[OpenExchange]) -> None:
        """End exchanges because the connection of their client is closed."""
        for exchange in list(exchanges):
            self._end(exchange, "Client disconnected.", ErrorSide.CLIENT)


def _is_reverse(flow: HTTPFlow) -> bool:
    return isinstance(flow.client_conn.proxy_mode, ReverseMode)
