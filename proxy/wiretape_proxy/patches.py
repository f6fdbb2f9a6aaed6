"""What is changed of mitmproxy's private classes, once a process; guarded, as in `internals`."""

from collections.abc import Callable, Generator
from typing import Any
from weakref import WeakKeyDictionary

import h11
from mitmproxy.http import HTTPFlow
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.http._events import ResponseProtocolError
from mitmproxy.proxy.layers.http._http1 import Http1Connection

from wiretape_proxy.endings import Origin

_END = h11.EndOfMessage

_origins: WeakKeyDictionary[HTTPFlow, Origin] = WeakKeyDictionary()
_connecting: WeakKeyDictionary[HTTPFlow, bool] = WeakKeyDictionary()


def origin_of(flow: HTTPFlow) -> Origin | None:
    """On which side mitmproxy met the trouble that ended this flow, if it was seen."""
    return _origins.get(flow)


def is_connecting(flow: HTTPFlow) -> bool:
    """Whether a connection to the service is still being made for this flow."""
    return flow in _connecting


def install(on_trailers: Callable[[HTTPFlow | None], None]) -> None:
    """Watch where trouble comes from, and keep HTTP/1 trailers from hanging the client.  Once a process.

    `on_trailers` is called with the flow of which trailers were dropped.
    """
    if not getattr(HttpStream, "_wiretape", False):
        HttpStream._wiretape = True  # type: ignore[attr-defined]  # noqa: SLF001
        _watch_origins()
        _watch_connecting()
        _tolerate_trailers(on_trailers)


def _watch_origins() -> None:
    """mitmproxy says "reset by client" of both sides' resets; the event that it handles knows which side it was."""
    original = getattr(HttpStream, "handle_protocol_error", None)
    if original is None:
        return

    def handle_protocol_error(self: HttpStream, event: Any) -> Any:
        _origins.setdefault(self.flow, Origin.SERVICE if isinstance(event, ResponseProtocolError) else Origin.CLIENT)
        return original(self, event)

    HttpStream.handle_protocol_error = handle_protocol_error  # type: ignore[method-assign]


def _watch_connecting() -> None:
    original = getattr(HttpStream, "make_server_connection", None)
    if original is None:
        return

    def make_server_connection(self: HttpStream) -> Generator[Any, Any, bool]:
        _connecting[self.flow] = True
        try:
            made: bool = yield from original(self)
        finally:
            _connecting.pop(self.flow, None)
        return made

    HttpStream.make_server_connection = make_server_connection  # type: ignore[method-assign]


def _tolerate_trailers(on_trailers: Callable[[HTTPFlow | None], None]) -> None:
    """mitmproxy gives up on a chunked body with trailers, and its client waits for ever.

    The trailers themselves are dropped: mitmproxy cannot write them to an HTTP/1 peer.
    """
    original = getattr(Http1Connection, "read_body", None)
    if original is None:
        return

    def read_body(self: Http1Connection, event: Any) -> Any:
        if type(self.body_reader).__name__ == "ChunkedReader":  # h11's, which it does not export
            reader: Any = _WithoutTrailers(self.body_reader, lambda: on_trailers(_flow_of(self)))
            self.body_reader = reader
        return original(self, event)

    Http1Connection.read_body = read_body  # type: ignore[method-assign]


def _flow_of(connection: Http1Connection) -> HTTPFlow | None:
    """The flow whose body this connection is reading."""
    for layer in connection.context.layers:
        stream = getattr(layer, "streams", {}).get(connection.stream_id)
        if isinstance(stream, HttpStream):
            return stream.flow
    return None


class _WithoutTrailers:
    """h11's reader of a chunked body, without the trailers."""

    __slots__ = ("_on_trailers", "_reader", "read_eof")

    def __init__(self, reader: Any, on_trailers: Callable[[], None]) -> None:
        self._reader = reader
        self._on_trailers = on_trailers
        self.read_eof = reader.read_eof

    def __call__(self, buffer: Any) -> Any:
        event = self._reader(buffer)
        if type(event) is _END and event.headers:
            self._on_trailers()
            return h11.EndOfMessage()
        return event
