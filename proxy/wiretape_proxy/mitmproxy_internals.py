"""Every use of mitmproxy's private API.  All other modules use its public API only.

Tested with mitmproxy 11.0.2 and 12.2.3.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import h11
from h2.exceptions import ProtocolError
from mitmproxy.connection import Client, Connection
from mitmproxy.http import HTTPFlow
from mitmproxy.master import Master
from mitmproxy.net.http.http1 import expected_http_body_size
from mitmproxy.optmanager import OptManager
from mitmproxy.proxy.commands import CloseConnection, Command, Log, SendData
from mitmproxy.proxy.events import ConnectionClosed, DataReceived
from mitmproxy.proxy.layers.http import HttpStream, SendHttp
from mitmproxy.proxy.layers.http._base import HttpConnection, ReceiveHttp
from mitmproxy.proxy.layers.http._events import RequestData, ResponseData, ResponseProtocolError
from mitmproxy.proxy.layers.http._http1 import Http1Client, Http1Connection, Http1Server, make_error_response
from mitmproxy.proxy.layers.http._http2 import Http2Client, Http2Connection, Http2Server
from mitmproxy.proxy.server import ConnectionHandler

from wiretape_proxy.endings import ErrorSide

__all__ = ["ConnectionHandler"]

_CONNECTIONS = 1000
"""HTTP/1 connections to the service for one HTTP/2 client; mitmproxy allows 5, which five streams occupy."""
_NEVER_S = 10 * 365 * 86_400
_SHUTDOWN_S = 3.0
_SHUTDOWN_STEP_S = 0.02
_END_OF_MESSAGE = h11.EndOfMessage
_MOST_JOINED = 16
"""Chunks that are sent in one write; with more of them, the first would wait too long for the last."""

_MOST_BUFFERED = 1 << 20
"""Bytes that may wait: a head for its end, or a body for the flow-control window of an HTTP/2 peer."""
_MOST_READS = 16
"""Parts of a request body, of 64 KiB at most, that may wait while the connection to the service is made."""
_STREAM_WINDOW = 4 << 20
"""Flow-control window of each HTTP/2 stream from a client or service; mitmproxy allows 2 GiB."""

_error_sides: WeakKeyDictionary[HTTPFlow, ErrorSide] = WeakKeyDictionary()
_connecting: WeakKeyDictionary[HTTPFlow, bool] = WeakKeyDictionary()
_senders: WeakValueDictionary[str, "_HeldWindows"] = WeakValueDictionary()
"""For each HTTP/2 connection, by its id."""
_paused: WeakKeyDictionary[Connection, asyncio.Event] = WeakKeyDictionary()
"""The HTTP/1 connections that are not read until the event is set."""
_gates: list[asyncio.Event] = []
"""While no connection is read, the event that ends this."""


# Options


def convert_options_to_text(options: OptManager, names: list[str]) -> None:
    """Convert the values given for these options to text before they are declared.

    mitmproxy silently disables an addon for a value that it cannot convert: an option given twice, `--set NAME`
    without a value, a number in its config.yaml.  As usual on command lines, the last value wins.
    """
    for name in names:
        given = options.deferred.get(name)
        values = getattr(given, "val", given)
        if isinstance(values, list):
            values = values[-1] if values else "true"
        if values is not None:
            options.deferred[name] = str(values).lower() if isinstance(values, bool) else str(values)


# The server


def listen_exceptions(master: Master) -> list[Exception]:
    """Return why the proxy does not listen; empty if it does."""
    return [server.last_exception for server in master.addons.get("proxyserver").servers if server.last_exception]


def listen_address(master: Master) -> tuple[str, int]:
    """Return the address that the proxy listens on, with the port that was chosen for port 0."""
    host, port, *_ = master.addons.get("proxyserver").listen_addrs()[0]
    return host, port


async def shut_down(master: Master) -> None:
    """Close the listeners and all connections; wait, for a few seconds at most, until their hooks have run."""
    proxyserver = master.addons.get("proxyserver")
    await proxyserver.servers.update([])
    until = asyncio.get_running_loop().time() + _SHUTDOWN_S
    while proxyserver.connections and asyncio.get_running_loop().time() < until:
        for handler in list(proxyserver.connections.values()):
            io = handler.transports.get(handler.client)
            if io is not None and io.handler is not None:
                io.handler.cancel("proxy shutdown")
        await asyncio.sleep(_SHUTDOWN_STEP_S)


# Connections


def connection_handler(master: Master, client: Client) -> ConnectionHandler | None:
    """Return the handler of a client's connection."""
    connections: dict[Any, ConnectionHandler] = master.addons.get("proxyserver").connections
    return connections.get(client.id)


def lift_limits(handler: ConnectionHandler, on_timeout: Callable[[], Awaitable[None]]) -> None:
    """Allow one client many connections to the service, and disable mitmproxy's own idle timeout."""
    handler.max_conns = defaultdict(lambda: asyncio.Semaphore(_CONNECTIONS))
    handler.timeout_watchdog.timeout = _NEVER_S
    handler.timeout_watchdog.callback = on_timeout


def join_writes(handler: ConnectionHandler) -> None:
    """Send the chunks that arrive together in few writes: a system call for each takes much of mitmproxy's time."""
    original = handler.layer.handle_event
    vars(handler.layer)["handle_event"] = lambda event: _join_data(original(event))


def _join_data(commands: Iterable[Command]) -> Iterator[Command]:
    """Join consecutive data for one connection."""
    held: list[SendData] = []
    try:
        for command in commands:
            # A datagram must stay one.
            if isinstance(command, SendData) and command.connection.transport_protocol == "tcp":
                if held and (command.connection is not held[0].connection or len(held) == _MOST_JOINED):
                    yield _take_joined(held)
                held.append(command)
                continue
            if held:
                yield _take_joined(held)
            yield command
    except Exception:
        if held:
            yield _take_joined(held)
        raise
    if held:
        yield _take_joined(held)


def _take_joined(held: list[SendData]) -> SendData:
    joined = held[0] if len(held) == 1 else SendData(held[0].connection, b"".join([each.data for each in held]))
    held.clear()
    return joined


def idle_since(handler: ConnectionHandler) -> float | None:
    """Return when (`time.time()`) the last byte arrived from either side; None while mitmproxy itself waits."""
    watchdog = handler.timeout_watchdog
    return None if watchdog.blocker else float(watchdog.last_activity)


async def close_idle(handler: ConnectionHandler) -> None:
    """Close a client's connection as after mitmproxy's idle timeout."""
    await handler.on_timeout()


def stream_reader(handler: ConnectionHandler, connection: Connection) -> asyncio.StreamReader | None:
    """Return the reader of a connection.  Keep it: its exception distinguishes a reset from an orderly close."""
    transport = handler.transports.get(connection)
    reader = transport.reader if transport else None
    return reader if isinstance(reader, asyncio.StreamReader) else None


def pause_reading(pause: bool) -> None:
    """Pause or resume reading on all connections.

    After each read, mitmproxy waits until its writers have room; while reading is paused, they have none.  (Pausing the
    transports does not work: asyncio's readers resume them on their own.)
    """
    if pause and not _gates:
        _gates.append(asyncio.Event())
    while _gates and not pause:
        _gates.pop().set()


def is_reading_paused() -> bool:
    """Whether reading is paused on all connections."""
    return bool(_gates)


# Flows


def is_delimited_by_close(flow: HTTPFlow) -> bool:
    """Whether only the end of the connection marks the end of this response."""
    if flow.response is None or flow.response.is_http2 or flow.response.is_http3:
        return False
    try:
        return expected_http_body_size(flow.request, flow.response) == -1
    except ValueError:
        return False


def error_side(flow: HTTPFlow) -> ErrorSide | None:
    """Return the side on which the error of this flow occurred, if it was observed."""
    return _error_sides.get(flow)


def is_connecting(flow: HTTPFlow) -> bool:
    """Whether the connection to the service for this flow is still being made."""
    return flow in _connecting


# Patches


def patch(on_trailers: Callable[[HTTPFlow | None], None]) -> None:
    """Patch mitmproxy's HTTP layers, once per process: observe errors, and drop HTTP/1 trailers.

    `on_trailers` is called with the flow whose trailers are dropped.
    """
    if not getattr(HttpStream, "_wiretape", False):
        HttpStream._wiretape = True  # type: ignore[attr-defined]  # noqa: SLF001
        _observe_error_sides()
        _observe_connecting()
        _drop_trailers(on_trailers)
        _bound_heads()
        _let_reading_pause()
        _bound_buffers_of(Http2Server, ResponseData)
        _bound_buffers_of(Http2Client, RequestData)


def _observe_error_sides() -> None:
    """mitmproxy's text is "reset by client" for resets of both sides; the event that it handles knows the side."""
    original = HttpStream.handle_protocol_error

    def handle_protocol_error(self: HttpStream, event: Any) -> Any:
        side = ErrorSide.SERVICE if isinstance(event, ResponseProtocolError) else ErrorSide.CLIENT
        _error_sides.setdefault(self.flow, side)
        return original(self, event)

    HttpStream.handle_protocol_error = handle_protocol_error  # type: ignore[method-assign]


def _observe_connecting() -> None:
    original = HttpStream.make_server_connection

    def make_server_connection(self: HttpStream) -> Generator[Any, Any, bool]:
        _connecting[self.flow] = True
        client = self.flow.client_conn
        held = _senders.get(client.id)
        if held is not None:
            held.hold(self.stream_id)
        else:
            self._paused_event_queue = _WaitingBody(client, self._paused_event_queue)
        try:
            made: bool = yield from original(self)
        finally:
            _connecting.pop(self.flow, None)
            if held is None:
                self._paused_event_queue = deque(self._paused_event_queue)
                _resume_reading(client)
        if held is not None:
            yield from held.release(self.stream_id)
        return made

    HttpStream.make_server_connection = make_server_connection  # type: ignore[method-assign]


class _WaitingBody(deque[Any]):
    """What an HTTP/1 client sends while the connection to the service is made.  It is not read if this is too much."""

    def __init__(self, client: Connection, events: Iterable[Any]) -> None:
        super().__init__(events)
        self._client = client

    def append(self, event: Any) -> None:
        super().append(event)
        if len(self) > _MOST_READS:
            _stop_reading(self._client)


def _stop_reading(connection: Connection) -> None:
    _paused.setdefault(connection, asyncio.Event())


def _resume_reading(connection: Connection) -> None:
    paused = _paused.pop(connection, None)
    if paused is not None:
        paused.set()


def _bound_heads() -> None:
    """mitmproxy buffers a head, and what follows a request whose response is not complete, without limit."""
    for kind in (Http1Server, Http1Client):
        _bound_head_of(kind)
    server: Any = Http1Server
    wait, mark_done = server.wait, server.mark_done

    def wait_for_response(self: Http1Server, event: Any) -> Any:
        if len(self.buf) > _MOST_BUFFERED:
            _stop_reading(self.conn)
        return wait(self, event)

    def mark_done_and_read(self: Http1Server, *, request: bool = False, response: bool = False) -> Any:
        _resume_reading(self.conn)
        return mark_done(self, request=request, response=response)

    server.wait, server.mark_done = wait_for_response, mark_done_and_read


def _bound_head_of(kind: Any) -> None:
    original = kind.read_headers

    def read_headers(self: Any, event: Any) -> Generator[Any, Any, None]:
        yield from original(self, event)
        if len(self.buf) <= _MOST_BUFFERED or self.state != self.read_headers:
            return
        message = f"The head has more than {_MOST_BUFFERED:,} bytes."
        self.state = self.done
        if kind is Http1Server:
            yield SendData(self.conn, make_error_response(431, message))
            yield Log(f"A client was refused. {message}")
        yield CloseConnection(self.conn)
        if kind is Http1Client:
            yield ReceiveHttp(ResponseProtocolError(self.stream_id, message, code=ResponseProtocolError.code))

    kind.read_headers = read_headers


def _drop_trailers(on_trailers: Callable[[HTTPFlow | None], None]) -> None:
    """mitmproxy cannot write trailers to an HTTP/1 peer: it raises, and the client waits forever."""
    original = Http1Connection.read_body

    def read_body(self: Http1Connection, event: Any) -> Any:
        if type(self.body_reader).__name__ == "ChunkedReader":  # h11's, which it does not export
            reader: Any = _ReaderWithoutTrailers(self.body_reader, lambda: on_trailers(_flow_of(self, self.stream_id)))
            self.body_reader = reader
        return original(self, event)

    Http1Connection.read_body = read_body  # type: ignore[method-assign]


def _flow_of(connection: HttpConnection, stream_id: int | None) -> HTTPFlow | None:
    """Return the flow of a stream of this connection."""
    for layer in connection.context.layers:
        stream = getattr(layer, "streams", {}).get(stream_id)
        if isinstance(stream, HttpStream):
            return stream.flow
    return None


class _ReaderWithoutTrailers:
    """h11's reader of a chunked body, without the trailers."""

    __slots__ = ("_on_trailers", "_reader", "read_eof")

    def __init__(self, reader: Any, on_trailers: Callable[[], None]) -> None:
        self._reader = reader
        self._on_trailers = on_trailers
        self.read_eof = reader.read_eof

    def __call__(self, buffer: Any) -> Any:
        event = self._reader(buffer)
        if event is None and len(buffer) > _MOST_BUFFERED:
            raise h11.RemoteProtocolError("the chunked body contains an unterminated line")
        if type(event) is _END_OF_MESSAGE and event.headers:
            self._on_trailers()
            return h11.EndOfMessage()
        return event


# Back-pressure of HTTP/2.  mitmproxy buffers without limit what does not fit into the window of a client or service.


class _HeldWindows:
    """Streams of an HTTP/2 peer whose windows are not opened again for now."""

    def __init__(self, sender: Http2Connection) -> None:
        """`sender` is the connection to the peer that sends."""
        settings = sender.h2_conn.local_settings
        settings.initial_window_size = _STREAM_WINDOW
        settings.acknowledge()
        self.sender = sender
        self._bytes: dict[int, int] = {}
        self._acknowledge = sender.h2_conn.acknowledge_received_data
        sender.h2_conn.acknowledge_received_data = self.acknowledge

    def acknowledge(self, size: int, own_id: int) -> None:
        """Called in place of h2's method."""
        if own_id in self._bytes:
            self._bytes[own_id] += size
        else:
            self._acknowledge(size, own_id)

    def hold(self, stream_id: int) -> None:
        own_id = _own_id(self.sender, stream_id)
        if own_id:
            self._bytes.setdefault(own_id, 0)

    def release(self, stream_id: int) -> Generator[Any, Any, None]:
        own_id = _own_id(self.sender, stream_id)
        if size := self._bytes.pop(own_id, 0):
            with suppress(ProtocolError):  # the connection has ended
                self._acknowledge(size, own_id)
            # An event without data makes the connection send what it has to send; no client has a stream 0.
            is_service = isinstance(self.sender, Http2Client)
            event = RequestData(stream_id, b"") if is_service else ResponseData(0, b"")
            yield SendHttp(event, self.sender.conn)


def _own_id(connection: Http2Connection, stream_id: int) -> int:
    """Return the number that the connection gives to a stream of the client; 0 if it has not begun there."""
    return connection.our_stream_id.get(stream_id, 0) if isinstance(connection, Http2Client) else stream_id


class _SendBuffers:
    """The streams of an HTTP/2 connection with a full buffer."""

    def __init__(self, receiver: Http2Connection) -> None:
        """`receiver` is the connection to the peer that receives."""
        self._receiver = receiver
        self._queue = getattr(receiver, "stream_queue", {})
        self._most: dict[int, int] = {}
        """For each stream the bytes that may be in its buffer."""
        self._full: dict[int, tuple[Connection, int]] = {}
        """For each stream that is paused, the connection to the sender, and the entries of its buffer then."""

    def add(self, stream_id: int, size: int) -> None:
        """Pause the sender if the buffer of a stream, to which `size` bytes were added, is full."""
        most = self._most.get(stream_id, 0) + size
        if most > _MOST_BUFFERED and stream_id not in self._full:
            # Counting takes time, so it is done once for each half of a full buffer.
            entries = self._entries(stream_id)
            most = sum(len(getattr(entry, "data", b"")) for entry in entries)
            if most > _MOST_BUFFERED // 2:
                self._pause(stream_id, len(entries))
        self._most[stream_id] = most

    def _entries(self, stream_id: int) -> list[Any]:
        """Return what waits for the stream to begin, or for its window."""
        own_id = _own_id(self._receiver, stream_id)
        buffers = self._receiver.h2_conn.stream_buffers
        return [*self._queue.get(stream_id, ()), *buffers.get(own_id, ())]

    def _pause(self, stream_id: int, entries: int) -> None:
        sender: Connection = self._receiver.context.client
        if isinstance(self._receiver, Http2Server):
            flow = _flow_of(self._receiver, stream_id)
            if flow is None:
                return
            sender = flow.server_conn
        self._full[stream_id] = (sender, entries)
        held = _senders.get(sender.id)
        if held is None:
            _stop_reading(sender)
        else:
            held.hold(stream_id)

    def resume(self, *, all_streams: bool) -> Generator[Any, Any, None]:
        """Resume the senders of streams whose buffers are half empty, or that have ended."""
        for stream_id, (sender, entries) in list(self._full.items()):
            if len(self._entries(stream_id)) > entries // 2 and not all_streams:
                continue
            del self._full[stream_id]
            self._most.pop(stream_id, None)
            held = _senders.get(sender.id)
            _resume_reading(sender)
            if held is not None:
                yield from held.release(stream_id)


def _let_reading_pause() -> None:
    drain = ConnectionHandler.drain_writers

    async def drain_writers(self: ConnectionHandler) -> None:
        for gate in _gates:
            await gate.wait()
        if _paused:
            task = asyncio.current_task()
            for connection, io in list(self.transports.items()):
                if io.handler is task and connection in _paused:
                    await _paused[connection].wait()
        await drain(self)  # type: ignore[no-untyped-call]

    ConnectionHandler.drain_writers = drain_writers  # type: ignore[method-assign]


def _bound_buffers_of(kind: Any, data: type[RequestData | ResponseData]) -> None:
    """Bound what one kind of connection sends, which are events of type `data`, and what it receives."""
    initialize, handle_event = kind.__init__, kind._handle_event  # noqa: SLF001

    def __init__(self: Any, context: Any) -> None:  # noqa: N807 - it replaces that of mitmproxy
        initialize(self, context)
        # The method of h2 that it replaces keeps it alive.
        _senders[self.conn.id] = _HeldWindows(self)
        self.send_buffers = _SendBuffers(self)

    def _handle_event(self: Any, event: Any) -> Generator[Any, Any, None]:
        stream_id = getattr(event, "stream_id", 0)  # mitmproxy replaces it
        yield from handle_event(self, event)
        if isinstance(event, data):
            if self.h2_conn.stream_buffers or getattr(self, "stream_queue", None):
                self.send_buffers.add(stream_id, len(event.data))
        elif isinstance(event, DataReceived | ConnectionClosed):
            yield from self.send_buffers.resume(all_streams=isinstance(event, ConnectionClosed))

    kind.__init__ = __init__
    kind._handle_event = _handle_event  # noqa: SLF001
