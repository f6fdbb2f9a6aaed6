"""Build traffic for tests: requests, responses and events, as observations or as a recording."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import orjson

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
    reason_phrase,
)
from wiretape.recording import RecordingMetadata, RecordingSource, build_recording
from wiretape.sse import EVENT_STREAM

HeaderInput = Mapping[str, str] | Iterable[tuple[str, str]]
_STEP_NS = 1_000_000
_HTTP = "HTTP/1.1"


class TrafficBuilder:
    """Builds exchanges step by step; each step is a millisecond after the one before.

    >>> traffic = TrafficBuilder()
    >>> stream = traffic.request("GET", "/v1/sessions/ses_1/events/stream").respond_stream()
    >>> stream.event("run.started", {"type": "run.started", "sequence": 1}, id="evt_1").end()
    """

    def __init__(self, *, authority: str = "service.test", client: str = "127.0.0.1", key: str = "key") -> None:
        """`key` is the bearer key that requests carry unless they have an Authorization header of their own."""
        self._authority = authority
        self._client = client
        self._key = key
        self._observations: list[Observation] = []
        self._now_ns = 0
        self._exchanges = 0

    def request(
        self, method: str, target: str, *, headers: HeaderInput = (), body: bytes = b"", key: str | None = None
    ) -> "ExchangeBuilder":
        """Send a request and return the exchange, to respond to."""
        given = _headers(headers)
        if not any(name.lower() == "authorization" for name, _ in given):
            given = (("Authorization", f"Bearer {key or self._key}"), *given)
        self._exchanges += 1
        number = self._exchanges
        self.add(
            RequestStarted(number, self.tick(), self._client, method, "http", self._authority, target, _HTTP, (*given,))
        )
        exchange = ExchangeBuilder(self, number)
        if body:
            exchange.add_bytes(Side.REQUEST, body)
        self.add(RequestEnded(number, self.tick()))
        return exchange

    def wait(self, seconds: float) -> None:
        """Let time pass before the next step."""
        self._now_ns += round(seconds * 1e9)

    def observations(self) -> list[Observation]:
        """Everything so far, in order of time."""
        return list(self._observations)

    def write(self, path: Path | str) -> Path:
        """Write a recording, with the findings of the rules; return its path.  Raises InputError."""
        metadata = RecordingMetadata(f"http://{self._authority}", 0)
        build_recording(RecordingSource(metadata, iter(self._observations)), Path(path))
        return Path(path)

    def tick(self) -> int:
        """The time of the next step (ns)."""
        self._now_ns += _STEP_NS
        return self._now_ns

    def add(self, seen: Observation) -> None:
        """Append an observation."""
        self._observations.append(seen)


class ExchangeBuilder:
    """One exchange: respond, then send chunks or events, then end."""

    def __init__(self, traffic: TrafficBuilder, number: int) -> None:
        self.number = number
        self._traffic = traffic
        self._sent = {Side.REQUEST: 0, Side.RESPONSE: 0}

    def respond(self, status: int = 200, *, headers: HeaderInput = (), json: Any = None, body: bytes = b"") -> Self:
        """Respond with a JSON value or with bytes, and end the exchange."""
        given = _headers(headers)
        if json is not None:
            given, body = (("Content-Type", "application/json"), *given), orjson.dumps(json)
        self._start(status, given)
        if body:
            self.add_bytes(Side.RESPONSE, body)
        self.end()
        return self

    def respond_stream(self, *, headers: HeaderInput = ()) -> Self:
        """Begin an event stream."""
        self._start(200, (("Content-Type", EVENT_STREAM), *_headers(headers)))
        return self

    def send(self, data: bytes) -> Self:
        """Send one chunk of the response body."""
        self.add_bytes(Side.RESPONSE, data)
        return self

    def event(self, name: str, data: Mapping[str, Any] | bytes, *, id: str | None = None) -> Self:  # noqa: A002 - SSE's word
        """Send one event, in a chunk of its own."""
        text = data if isinstance(data, bytes) else orjson.dumps(data)
        lines = [b"event: " + name.encode()]
        lines += [b"id: " + id.encode()] if id is not None else []
        lines += [b"data: " + line for line in text.split(b"\n")]
        return self.send(b"\n".join([*lines, b"", b""]))

    def keep_alive(self) -> Self:
        """Send a keep-alive comment."""
        return self.send(b": keep-alive\n\n")

    def end(self, ending: Ending = Ending.COMPLETE) -> None:
        """End the exchange."""
        self._traffic.add(ExchangeEnded(self.number, self._traffic.tick(), ending))

    def add_bytes(self, side: Side, data: bytes) -> None:
        """Add a chunk to one of the bodies."""
        start = self._sent[side]
        self._sent[side] = end = start + len(data)
        self._traffic.add(BytesArrived(self.number, side, start, data, (end,), (self._traffic.tick(),)))

    def _start(self, status: int, headers: Headers) -> None:
        self._traffic.add(
            ResponseStarted(self.number, self._traffic.tick(), status, reason_phrase(status), _HTTP, headers)
        )


def _headers(headers: HeaderInput) -> Headers:
    return tuple(headers.items() if isinstance(headers, Mapping) else headers)
