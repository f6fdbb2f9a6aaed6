"""The hooks that see traffic: each notes what happened, and lets it pass."""

import logging
import time
from functools import partial

from mitmproxy.connection import Client
from mitmproxy.http import HTTPFlow
from mitmproxy.master import Master
from mitmproxy.proxy.mode_specs import ReverseMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from wiretape.observations import ExchangeEnded, RequestEnded, Side
from wiretape_proxy import internals, patches
from wiretape_proxy.endings import Facts, Origin, Verdict, classify
from wiretape_proxy.exchanges import Exchanges, OpenExchange, Visitor
from wiretape_proxy.heads import request_started, response_started
from wiretape_proxy.notes import Notes, Tap
from wiretape_proxy.settings import Settings
from wiretape_proxy.views import Views

RESTING_S = 600.0
"""After this time without a byte a client's connection on which nothing is open is closed, as mitmproxy does."""

_SWITCHED = 101

log = logging.getLogger(__name__)


class Capture:
    """Streams every body through, and notes what is to be recorded."""

    name = "wiretape_capture"

    def __init__(self, master: Master, notes: Notes, *, put_base_before: bool = False) -> None:
        """`put_base_before`: requests go to the upstream's base path, so it is put before theirs (reverse mode)."""
        self.settings = Settings()
        self.stopping = False
        """Whether what ends now ends because the proxy was stopped."""
        self.views: Views | None = None
        self.first_exchange = 1
        """The number that our first exchange has in the recording."""
        self._put_base_before = put_base_before
        self._master = master
        self._notes = notes
        self._exchanges = Exchanges()
        self._gate = internals.Gate()

    # Connections

    def client_connected(self, client: Client) -> None:
        """Make long streams, and many of them, possible on this connection."""
        handler = internals.handler_of(self._master, client)
        visitor = self._exchanges.arrive(client.id, handler)
        if handler is not None:
            internals.lift_limits(handler, partial(self._give_up, visitor))
            if self._gate.closed:
                self._gate.put_before(handler)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Keep what tells a reset from an orderly close."""
        visitor = self._exchanges.visitor(data.client.id)
        if visitor is not None and visitor.handler is not None:
            reader = internals.reader_of(visitor.handler, data.server)
            if reader is not None:
                visitor.readers[data.server] = reader

    def client_disconnected(self, client: Client) -> None:
        """End what mitmproxy forgot: streams that waited for a connection to the service get no hook."""
        visitor = self._exchanges.leave(client.id)
        if visitor is not None:
            for exchange in list(visitor.exchanges.values()):
                self._end(exchange, self._abandoned(exchange))

    # Exchanges

    def requestheaders(self, flow: HTTPFlow) -> None:
        """A request's head came."""
        # A request that an addon has answered cannot be streamed.
        if flow.is_replay or flow.response:
            return
        flow.request.stream = True
        if self._put_base_before and self.settings.upstream is not None and _is_reverse(flow):
            flow.request.path = self.settings.upstream.base + flow.request.path
        if not self._is_wanted(flow):
            return
        exchange = self._exchanges.begin(flow)
        if self.views is not None:
            self.views.watch(self._number(exchange), flow)
        self._notes.put(request_started(exchange.number, flow))
        flow.request.stream = self._tap(exchange, Side.REQUEST)
        if self.settings.identity:
            flow.request.headers["accept-encoding"] = "identity"

    def request(self, flow: HTTPFlow) -> None:
        """A request is whole.  Its response may be so already."""
        exchange = self._exchanges.get(flow)
        if exchange is None:
            return
        self._notes.put(RequestEnded(exchange.number, 0))
        exchange.request_ended = True
        if exchange.responded:
            self._end(exchange, classify(self._facts(exchange, None)))

    def responseheaders(self, flow: HTTPFlow) -> None:
        """A response's head came."""
        response = flow.response
        if flow.is_replay or response is None:
            return
        response.stream = True
        exchange = self._exchanges.get(flow)
        if exchange is None:
            return
        self._notes.put(response_started(exchange.number, response))
        if response.raw_content is None:
            response.stream = self._tap(exchange, Side.RESPONSE)
        else:  # another addon answered
            self._notes.chunk(exchange.number, Side.RESPONSE, response.raw_content)

    def response(self, flow: HTTPFlow) -> None:
        """A response is whole.  Its request need not be."""
        exchange = self._exchanges.get(flow)
        if exchange is None:
            return
        exchange.responded = True
        if exchange.request_ended:
            self._end(exchange, classify(self._facts(exchange, None)))

    def error(self, flow: HTTPFlow) -> None:
        """An exchange was cut off."""
        exchange = self._exchanges.get(flow)
        if exchange is not None and flow.error is not None:
            error = None if exchange.responded else flow.error.msg
            self._end(exchange, classify(self._facts(exchange, error)))

    # What the addon asks for

    def end_all(self) -> None:
        """End what is still open."""
        for exchange in self._exchanges:
            self._end(exchange, self._abandoned(exchange))

    def slow_down(self, slow: bool) -> None:
        """Stop reading from all connections, or go on."""
        self._gate.set(internals.handlers(self._master), closed=slow)

    def trailers_dropped(self, flow: HTTPFlow | None) -> None:
        """Say that what mitmproxy cannot pass on was left out."""
        exchange = self._exchanges.get(flow) if flow is not None else None
        of = f" of exchange {self._number(exchange)}" if exchange is not None else ""
        log.warning("HTTP/1 trailers%s were dropped, because mitmproxy cannot pass them on.", of)

    async def close_idle(self) -> None:
        """Close the connections on which no byte came for too long, though nothing kept it from coming."""
        if self._gate.closed:
            return
        now = time.time()
        for visitor in self._exchanges.visitors:
            limit = self.settings.idle_timeout if visitor.exchanges else RESTING_S
            since = internals.idle_since(visitor.handler) if visitor.handler is not None else None
            if limit is not None and since is not None and now - since > limit:
                await self._give_up(visitor)

    async def _give_up(self, visitor: Visitor) -> None:
        visitor.timed_out = True
        if visitor.handler is not None:
            await visitor.handler.on_timeout()

    def _is_wanted(self, flow: HTTPFlow) -> bool:
        if flow.request.method == "PRI":  # how HTTP/2 begins, which mitmproxy then closes: no request of a client
            return False
        upstream = self.settings.upstream
        if upstream is None or _is_reverse(flow):
            return True
        here = (flow.request.host.lower(), flow.request.port) == (upstream.host, upstream.port)
        return here and (not upstream.base or upstream.holds(flow.request.path))

    def _number(self, exchange: OpenExchange) -> int:
        """The number of an exchange in the recording."""
        return exchange.number + self.first_exchange - 1

    def _tap(self, exchange: OpenExchange, side: Side) -> Tap:
        tap = self._notes.tap(exchange.number, side)
        return self.views.keep(self._number(exchange), exchange.flow, side, tap) if self.views is not None else tap

    def _facts(self, exchange: OpenExchange, error: str | None) -> Facts:
        flow = exchange.flow
        return Facts(
            error,
            origin=patches.origin_of(flow),
            stopping=self.stopping,
            timed_out=exchange.visitor.timed_out,
            connecting=patches.is_connecting(flow),
            client_open=flow.client_conn.connected,
            service_open=flow.server_conn.connected,
            service_fault=exchange.visitor.fault_of(flow.server_conn),
            until_close=internals.until_close(flow),
            upgraded=flow.response is not None and flow.response.status_code == _SWITCHED,
        )

    def _abandoned(self, exchange: OpenExchange) -> Verdict:
        """The ending of an exchange whose client's connection is over."""
        if exchange.responded:
            return classify(self._facts(exchange, None))
        facts = Facts(
            "Client disconnected.",
            origin=Origin.CLIENT,
            stopping=self.stopping,
            timed_out=exchange.visitor.timed_out,
        )
        return classify(facts)

    def _end(self, exchange: OpenExchange, verdict: Verdict) -> None:
        ending, detail = verdict
        self._exchanges.end(exchange)
        self._notes.put(ExchangeEnded(exchange.number, 0, ending, detail))
        if self.views is not None:
            self.views.settle(exchange.flow, ending)


def _is_reverse(flow: HTTPFlow) -> bool:
    return isinstance(flow.client_conn.proxy_mode, ReverseMode)
