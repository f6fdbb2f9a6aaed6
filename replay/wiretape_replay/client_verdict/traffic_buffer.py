"""Buffer of traffic that is checked later, and its conversion into observations."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate

from wiretape.observations import (
    BytesArrived,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape_replay.http_server.http_messages import HttpRequest, ResponseHead
from wiretape_replay.http_server.response_writer import (
    ExchangePart,
    FaultInjected,
    RequestBodyPart,
    RequestComplete,
)

_ENTRY_BYTES = 256
"""Memory that an entry takes besides its data."""
_NS_BEFORE_END = 4
"""A recording needs this much time before an end, for chunks that it held back."""

_RESPONSE = Side.RESPONSE  # Python 3.11 takes 50 ns to look up a member of an enumeration
_BODY_PARTS = (bytes, RequestBodyPart)

BufferEntry = tuple[int, int, HttpRequest | ExchangePart]
"""The time (ns), the exchange, and the part of it that was received or sent."""


class TrafficBuffer:
    """The parts of exchanges that are not checked yet, in order.  Adding one is cheap, because streams wait for it."""

    def __init__(self, clock: Callable[[], int], most_bytes: int, on_waiting: Callable[[], None]) -> None:
        """`clock` returns nanoseconds.

        `on_waiting` is called after the first entry, and after each while the entries take more than `most_bytes`.
        """
        self.clock = clock
        self.keeps_request_ends = True
        """Whether to keep the ends of requests.  No rule needs them; only a recording does."""
        self.waiting_bytes = 0
        """Memory that the entries take, roughly."""
        self.last_ns = 0
        """The time of the last entry."""
        self._entries: deque[BufferEntry] = deque()
        self._most_bytes = most_bytes
        self._on_waiting = on_waiting

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def first_ns(self) -> int:
        """The time of the first entry."""
        return self._entries[0][0]

    def add(self, exchange: int, part: HttpRequest | ExchangePart) -> None:
        """Add a part of an exchange."""
        if type(part) is RequestComplete and not self.keeps_request_ends:
            return
        self.last_ns = now_ns = self.clock()
        is_first = not self._entries
        self._entries.append((now_ns, exchange, part))
        self.waiting_bytes += _ENTRY_BYTES + (len(part) if isinstance(part, _BODY_PARTS) else 0)
        if is_first or self.waiting_bytes > self._most_bytes:
            self._on_waiting()

    def take_run(self, most: int) -> list[BufferEntry]:
        """Remove and return the first entry; if it is a chunk of a response, up to `most` consecutive ones of it."""
        entries = self._entries
        run = [entries.popleft()]
        _, exchange, part = run[0]
        size = len(part) if isinstance(part, _BODY_PARTS) else 0
        if isinstance(part, bytes):
            while entries and len(run) < most and entries[0][1] == exchange:
                following = entries[0][2]
                if not isinstance(following, bytes):
                    break
                size += len(following)
                run.append(entries.popleft())
        self.waiting_bytes -= _ENTRY_BYTES * len(run) + size
        return run


class ObservationBuilder:
    """Turns entries into observations, whose times strictly increase."""

    def __init__(self, authority: str, began_ns: int = 0, *, scheme: str = "http", last_ns: int = 0) -> None:
        """`authority` is `host[:port]` of the server; `began_ns` is the time of the entries at which times begin.

        `last_ns` is the time of the last observation before.
        """
        self.last_ns = last_ns
        """The time of the last observation."""
        self._scheme = scheme
        self._authority = authority
        self._began_ns = began_ns
        self._request_sizes: dict[int, int] = {}
        """The bytes of the request bodies so far, by exchange."""
        self._response_sizes: dict[int, int] = {}

    def observe(self, run: Sequence[BufferEntry]) -> Observation | tuple[int, FaultInjected]:
        """Return the observation of a run that was taken, or an injected fault with its exchange."""
        time_ns, exchange, part = run[0]
        match part:
            case FaultInjected():
                return exchange, part
            case HttpRequest():
                head = part.target, part.http_version, part.headers
                where = part.client, part.method, self._scheme, self._authority
                return RequestStarted(exchange, self._next_ns(time_ns), *where, *head)
            case RequestBodyPart(data):
                start = self._request_sizes.get(exchange, 0)
                end = self._request_sizes[exchange] = start + len(data)
                return BytesArrived(exchange, Side.REQUEST, start, data, (end,), (self._next_ns(time_ns),))
            case RequestComplete():
                return RequestEnded(exchange, self._next_ns(time_ns))
            case ResponseHead():
                response = part.status, part.reason, part.http_version, part.headers
                return ResponseStarted(exchange, self._next_ns(time_ns), *response)
            case bytes():
                return self._response_chunks(run)
            case _:
                self._request_sizes.pop(exchange, None)
                self._response_sizes.pop(exchange, None)
                return ExchangeEnded(exchange, self._next_ns(time_ns, _NS_BEFORE_END), part)

    def _response_chunks(self, run: Sequence[BufferEntry]) -> BytesArrived:
        exchange = run[0][1]
        chunks = [part for _, _, part in run if isinstance(part, bytes)]
        start, *ends = accumulate(map(len, chunks), initial=self._response_sizes.get(exchange, 0))
        self._response_sizes[exchange] = ends[-1]
        times = tuple([self._next_ns(time_ns) for time_ns, _, _ in run])
        return BytesArrived(exchange, _RESPONSE, start, b"".join(chunks), tuple(ends), times)

    def _next_ns(self, time_ns: int, least: int = 1) -> int:
        self.last_ns = max(time_ns - self._began_ns, self.last_ns + least)
        return self.last_ns
