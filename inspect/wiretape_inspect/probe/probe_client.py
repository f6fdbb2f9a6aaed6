"""The client of the probe: HTTP/1.1 over sockets of its own, with every byte and its time as observations.

Each exchange has its own connection, so nothing that the service does on one can disturb another.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import h11

from wiretape.content_encoding import Decoder, DecodingError, decoder
from wiretape.contract.contract_facts import detected_contracts
from wiretape.errors import InputError
from wiretape.event import Event, make_event
from wiretape.event_format import EventFormat
from wiretape.json_codec import UnreadableJson, read_json
from wiretape.labels import count_of
from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.sse import EVENT_STREAM, FrameKind, Parser

MOST_BYTES, MOST_EVENTS = 16 * 1024 * 1024, 20_000
"""Bytes, also decoded ones, and events of a response after which the probe closes the connection."""
_READ_SIZE = 64 * 1024
_SLOW_READ_SIZE, _SLOW_PAUSE_S = 512, 0.01
_LONGEST_HEAD = 256 * 1024
_CLOSED = (Ending.SERVICE_CLOSED, "the service closed the connection")
_STEP_NS = 10
"""Time between two observations at least; a recording needs room for those that it inserts."""


class ProbeTarget(Protocol):
    """How to reach a service."""

    @property
    def base_url(self) -> str:
        """Its URL, with what precedes the paths of its operations."""

    @property
    def origin(self) -> str:
        """`http://host:port`."""

    @property
    def ca_file(self) -> str | None:
        """Certificates to trust instead of the system's."""

    def key_variable(self, key: str) -> str | None:
        """Return the environment variable of a key, by its name; None if there is no such key."""


class ProbeClock:
    """Real time; tests replace it by the virtual time of a service."""

    def now_ns(self) -> int:
        """The time (ns)."""
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)


class ObservationLog:
    """Gives exchanges their numbers and observations their times, which strictly increase."""

    def __init__(self, clock: ProbeClock, on_observation: Callable[[Observation], None] = lambda _seen: None) -> None:
        self.clock = clock
        self.on_observation = on_observation
        self.exchanges = 0
        self._began_ns = clock.now_ns()
        self._last_ns = 0

    def next_exchange(self) -> int:
        """Return the number of the next exchange."""
        self.exchanges += 1
        return self.exchanges

    def tick(self) -> int:
        """The time of the next observation (ns)."""
        self._last_ns = max(self.clock.now_ns() - self._began_ns, self._last_ns + _STEP_NS)
        return self._last_ns


@dataclass(eq=False, slots=True)
class HttpExchange:
    """One request and as much of its response as has arrived."""

    log: ObservationLog
    number: int
    method: str
    target: str
    observations: list[Observation] = field(default_factory=list)
    """What was observed of it."""
    status: int | None = None
    """None until the head of the response arrived."""
    headers: Headers = ()
    body: bytearray = field(default_factory=bytearray)
    """Empty for event streams."""
    events: list[Event] = field(default_factory=list)
    comments: int = 0
    ending: Ending | None = None
    """None while it is open."""
    detail: str = ""
    """Why it ended so."""
    size: int = 0
    """Bytes of the body."""
    is_slow: bool = False
    """Whether the probe reads it slowly."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None
    """Reads the response."""
    _parser: Parser = field(default_factory=Parser)
    _format: EventFormat = field(init=False)
    _decoder: Decoder | None = None

    def __post_init__(self) -> None:
        self._format = detected_contracts().find_format(self.method, self.target)

    @property
    def is_stream(self) -> bool:
        """Whether the response is an event stream."""
        return (header(self.headers, "content-type") or "").lower().startswith(EVENT_STREAM)

    @property
    def received(self) -> str:
        """What arrived, in a few words: `nothing`, `12 events, the last ticket.closed`."""
        if self.status is None:
            return "nothing"
        if self.is_incomplete:
            return f"an incomplete response ({self.status}, {self.size} bytes)"
        return f"{count_of(len(self.events), 'event')}, the last {self.events[-1].type}" if self.events else "no event"

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return self.status is not None and self.status // 100 == 2

    @property
    def is_incomplete(self) -> bool:
        """Whether more of the response has to arrive; an open stream is never complete."""
        return self.ending is None and not (self.is_stream and self.is_success)

    @property
    def json(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        value = read_json(bytes(self.body))
        return None if isinstance(value, UnreadableJson) else value

    @property
    def error_code(self) -> str | None:
        """The code in the error envelope."""
        error = self.json.get("error") if isinstance(self.json, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        return code if isinstance(code, str) else None

    @property
    def outcome(self) -> str:
        """How the service responded, in a few words: `409 too_busy`, `200`, `no response (service reset)`."""
        if self.status is None:
            return f"no response ({self.detail or (self.ending.value if self.ending else 'none yet')})"
        code = self.error_code
        # The query may hold a secret.
        location = (header(self.headers, "location") or "").partition("?")[0]
        where = f" to {location}" if self.status // 100 == 3 else ""
        return f"{self.status}{where}" + (f" {code}" if code else "")

    async def wait_until(self, is_reached: Callable[[], bool]) -> bool:
        """Wait until something is the case, or the exchange ended; return whether it is the case."""
        while not is_reached():
            if self.ending is not None:
                return False
            self._changed.clear()
            await self._changed.wait()
        return True

    def observe(self, seen: Observation) -> None:
        """Note an observation, and wake up who waits."""
        self.observations.append(seen)
        self.log.on_observation(seen)
        self._changed.set()

    def add_body(self, data: bytes, time_ns: int = 0) -> None:
        """Add bytes of the response, which arrived at a time."""
        self.size += len(data)
        if self._decoder is None:
            self._decoder = decoder(header(self.headers, "content-encoding"))
        with suppress(DecodingError):  # the rules report it
            for part in self._decoder.slices(data):
                self._add_decoded(part, time_ns)
                if self.excess:
                    break

    @property
    def excess(self) -> str:
        """Why the response is too large; empty if it is not."""
        if max(self.size, len(self.body)) > MOST_BYTES:
            return f"the response is larger than {MOST_BYTES >> 20} MiB"
        return f"the stream has more than {MOST_EVENTS:,} events" if len(self.events) > MOST_EVENTS else ""

    def _add_decoded(self, data: bytes, time_ns: int) -> None:
        if not (self.is_stream and self.status == 200):
            self.body += data
            return
        for frame in self._parser.feed(data):
            if frame.kind is FrameKind.COMMENT:
                self.comments += 1
            elif frame.is_dispatched:
                self.events.append(make_event(self.number, frame, time_ns, len(self.events) + 1, self._format))

    async def close(self) -> None:
        """Close the connection, unless the response has ended."""
        if self.task is not None:
            await asyncio.sleep(0)  # a task that is cancelled before it began does not observe the end
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


class ProbeClient:
    """Sends requests to a service, or to a proxy in front of it, and observes them."""

    def __init__(self, target: ProbeTarget, *, proxy: str | None = None) -> None:
        """`proxy` is the origin to connect to instead.  Raises InputError if `ca_file` cannot be used."""
        parts, there = urlsplit(target.origin), urlsplit(proxy or target.origin)
        self.scheme = parts.scheme
        self.authority = parts.netloc
        self._host = there.hostname or ""
        self._port = there.port or (443 if there.scheme == "https" else 80)
        self._host_header = there.netloc
        self._tls = _tls_context(target.ca_file) if there.scheme == "https" else None

    async def check_reachable(self, timeout_s: float) -> None:
        """Connect once.  Raises InputError if the service cannot be reached."""
        try:
            async with asyncio.timeout(timeout_s):
                _, writer = await self._connect()
                writer.transport.abort()
        except ssl.SSLCertVerificationError as error:
            raise InputError(
                f"The certificate of {self.authority} is not trusted ({error.verify_message}): "
                "set ca-file in the probe file to a certificate that wiretape should trust."
            ) from None
        except (OSError, TimeoutError) as error:
            raise InputError(f"{self.authority} cannot be reached: {_reason(error)}.") from None

    def start(
        self,
        log: ObservationLog,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        *,
        slow: bool = False,
    ) -> HttpExchange:
        """Send a request, and read the response in the background, slowly if `slow`."""
        exchange = HttpExchange(log, log.next_exchange(), method, target, is_slow=slow)
        sent = (("Host", self._host_header), *headers)
        if header(sent, "Accept-Encoding") is None:
            sent += (("Accept-Encoding", "identity"),)
        if body or method in {"POST", "PUT", "PATCH"}:
            sent += (("Content-Length", str(len(body))),)
        request = (exchange.number, log.tick(), "127.0.0.1", method, self.scheme, self.authority, target, "HTTP/1.1")
        exchange.observe(RequestStarted(*request, sent))
        if body:
            exchange.observe(BytesArrived(exchange.number, Side.REQUEST, 0, body, (len(body),), (log.tick(),)))
        exchange.observe(RequestEnded(exchange.number, log.tick()))
        exchange.task = asyncio.create_task(self._run(exchange, sent, body))
        return exchange

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._host, self._port, ssl=self._tls)

    async def _run(self, exchange: HttpExchange, headers: Headers, body: bytes) -> None:
        ending, detail, writer = Ending.CLIENT_CLOSED, "", None
        try:
            reader, writer = await self._connect()
            connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD)
            request = h11.Request(
                method=exchange.method,
                target=exchange.target,
                headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
            )
            parts = (request, *((h11.Data(data=body),) if body else ()), h11.EndOfMessage())
            writer.write(b"".join(connection.send(part) or b"" for part in parts))
            ending, detail = await _read_response(exchange, connection, reader)
        except h11.RemoteProtocolError as error:
            ending, detail = Ending.SERVICE_INVALID, f"not HTTP: {error}"
        except ConnectionResetError:
            ending, detail = Ending.SERVICE_RESET, "the service reset the connection"
        except OSError as error:
            ending, detail = Ending.SERVICE_UNREACHABLE, f"cannot connect: {_reason(error)}"
        finally:
            if writer is not None:
                writer.transport.abort()
            exchange.detail, exchange.ending = detail, ending
            exchange.observe(ExchangeEnded(exchange.number, exchange.log.tick(), ending, detail))


async def _read_response(
    exchange: HttpExchange, connection: h11.Connection, reader: asyncio.StreamReader
) -> tuple[Ending, str]:
    """Read a response to its end; return how it ended, and why."""
    has_begun = False
    while not exchange.excess:
        if exchange.is_slow:
            await exchange.log.clock.sleep(_SLOW_PAUSE_S)
        data = await reader.read(_SLOW_READ_SIZE if exchange.is_slow else _READ_SIZE)
        try:
            connection.receive_data(data)
            if (ended := _take(exchange, connection)) is not None:
                return ended
        except h11.RemoteProtocolError:
            if data:
                raise
            if has_begun and exchange.status is None:
                problem = "not HTTP: the service closed the connection before the head was complete"
                return Ending.SERVICE_INVALID, problem
            return _CLOSED
        has_begun |= bool(data)
    return Ending.CLIENT_CLOSED, exchange.excess


def _take(exchange: HttpExchange, connection: h11.Connection) -> tuple[Ending, str] | None:
    """Take what h11 has, the parts of the body as one chunk; return how the response ended if it did."""
    chunk = bytearray()
    try:
        while (event := connection.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                _begin(exchange, event)
            elif isinstance(event, h11.Data):
                chunk += event.data
            elif isinstance(event, h11.EndOfMessage):
                return Ending.COMPLETE, ""
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return _CLOSED
    finally:
        if chunk:
            data, start, time_ns = bytes(chunk), exchange.size, exchange.log.tick()
            ends, times = (start + len(data),), (time_ns,)
            exchange.observe(BytesArrived(exchange.number, Side.RESPONSE, start, data, ends, times))
            exchange.add_body(data, time_ns)
    return None


def _begin(exchange: HttpExchange, response: h11.Response) -> None:
    """Note the head of a response."""
    exchange.status = response.status_code
    exchange.headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw_items()
    )
    reason, version = bytes(response.reason).decode("latin-1"), f"HTTP/{bytes(response.http_version).decode()}"
    exchange.observe(
        ResponseStarted(exchange.number, exchange.log.tick(), response.status_code, reason, version, exchange.headers)
    )


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise InputError(f"{ca_file} cannot be used as ca-file: {_reason(error)}.") from None


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it does not respond"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection ({error.reason})"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
