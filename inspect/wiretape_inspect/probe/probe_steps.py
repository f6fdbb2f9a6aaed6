"""The steps of a case as data: what it sends and waits for, so that it can be repeated, shortened, and shown.

Ids that the service chooses are not in the steps.  A name such as `<<session-1>>` stands for them, and is filled in
when the step is executed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from wiretape.event import Event
from wiretape.http_headers import AUTHORIZATION
from wiretape.observations import Observation
from wiretape_inspect.probe.probe_client import HttpExchange, ObservationLog, ProbeClient

NAME = re.compile(r"<<((?:[a-z]+-)+[0-9]+(?:\.[a-z]+-[0-9]+)?)>>")
"""What stands for an id in a step: `session-1`, or the first id on a stream, `stream-1.id-1`."""


def is_replayed(event: Event) -> bool:
    """Whether an event is durable, and its id can be a cursor."""
    return event.kind == "durable" and event.cursor is not None


class UnknownNameError(Exception):
    """A step uses an id that no earlier step produced."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request, and wait for its response (only for its head if it is a stream), and those of earlier ones."""

    method: str
    target: str
    key: str | None = "main"
    """Which key to send: its name in the probe file, or None for no key."""
    headers: tuple[tuple[str, str], ...] = ()
    body: str | None = None
    id_name: str | None = None
    """What to call the id in the response."""
    id_pointer: str = "/id"
    stream: str | None = None
    """What to call the stream."""
    is_slow: bool = False
    is_started_only: bool = False
    """Whether the next step begins before the response arrives."""
    causes_events: bool = False
    """Whether later steps wait for the events that it causes."""


@dataclass(frozen=True, slots=True)
class Read:
    """Read a stream up to a wanted event, or a comment, or for some seconds."""

    stream: str
    until: tuple[str, ...] = ()
    """The types of wanted events; with `run` alone, all its events are wanted."""
    run: str | None = None
    """The run whose events are wanted; any run if it is None."""
    until_id: str | None = None
    """The id of a wanted event."""
    durable: bool = False
    """Whether every durable event is wanted."""
    comment: bool = False
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection of a stream."""

    stream: str


Step = Send | Read | Close


@dataclass(slots=True)
class StepRunner:
    """Executes steps."""

    client: ProbeClient
    log: ObservationLog
    keys: Mapping[str, str]
    user_agent: str
    find_values: Mapping[str, Callable[[Sequence[Event]], list[str]]] = field(default_factory=dict)
    """What finds the values of events that names stand for, besides ids."""
    ids: dict[str, str] = field(default_factory=dict)
    """The ids that responses contained, by name."""
    streams: dict[str, HttpExchange] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    """How many events of a stream were read."""
    exchanges: list[HttpExchange] = field(default_factory=list)
    _started: list[tuple[Send, HttpExchange]] = field(default_factory=list)

    async def execute(self, step: Step) -> None:
        """Execute a step.  Raises UnknownNameError."""
        if isinstance(step, Send):
            await self.send(step)
        elif isinstance(step, Read):
            await self.read(step)
        else:
            await self.stream(step.stream).close()

    async def send(self, step: Send) -> HttpExchange:
        """Send a request; the exchange has ended, or its head has arrived.  Raises UnknownNameError."""
        authorization = () if step.key is None else ((AUTHORIZATION, f"Bearer {self.keys[step.key]}"),)
        headers = (
            ("User-Agent", self.user_agent),
            *authorization,
            *((name, self.fill(value).encode().decode("latin-1")) for name, value in step.headers),
        )
        target = NAME.sub(lambda match: quote(self.value(match[1]), safe=""), step.target)
        body = b"" if step.body is None else self.fill(step.body).encode()
        exchange = self.client.start(self.log, step.method, target, headers, body, slow=step.is_slow)
        self.exchanges.append(exchange)
        if step.stream is not None:
            self.streams[step.stream] = exchange
            self.positions[step.stream] = 0
        self._started.append((step, exchange))
        if not step.is_started_only:
            for each in self._started:
                await self._finish(*each)
            self._started.clear()
        return exchange

    async def _finish(self, step: Send, exchange: HttpExchange) -> None:
        """Wait for the response, and remember its id."""
        # A stream that is refused ends, and so does anything that is not one.
        await exchange.wait_until(lambda: step.stream is not None and exchange.status == 200)
        if step.id_name is not None:
            found = resolve_pointer(exchange.json, step.id_pointer)
            if isinstance(found, str | int) and not isinstance(found, bool) and exchange.is_success:
                self.ids[step.id_name] = str(found)

    async def read(self, step: Read) -> list[Event] | None:
        """Read a stream; return the events, or None if it ended before what was waited for, which is read then."""
        stream, begin = self.stream(step.stream), self.positions[step.stream]
        known, end, is_wanted = stream.comments, begin, self._event_test(step)

        def is_reached() -> bool:
            nonlocal end
            if step.comment:
                end = len(stream.events)
                return stream.comments > known
            while end < len(stream.events):
                end += 1
                if is_wanted(stream.events[end - 1]):
                    return True
            return False

        if step.seconds is not None:
            await self.log.clock.sleep(step.seconds)
            end = len(stream.events)
        elif not await stream.wait_until(is_reached):
            self.positions[step.stream] = len(stream.events)
            return None
        self.positions[step.stream] = end
        return stream.events[begin:end]

    def _event_test(self, step: Read) -> Callable[[Event], bool]:
        """Return what tells whether a step waits for an event.  Raises UnknownNameError."""
        last_id, run = (None if name is None else self.fill(name) for name in (step.until_id, step.run))

        def is_wanted(event: Event) -> bool:
            if (step.durable and is_replayed(event)) or (last_id is not None and event.id == last_id):
                return True
            if not step.until:
                return run is not None and event.outermost_key == run
            # An event without a run breaks a rule, and is not waited for again.
            return event.type in step.until and (run is None or event.outermost_key in {None, run})

        return is_wanted

    def stream(self, name: str) -> HttpExchange:
        """Return a stream.  Raises UnknownNameError."""
        if name not in self.streams:
            raise UnknownNameError(name)
        return self.streams[name]

    def fill(self, text: str) -> str:
        """Replace the names in a text by ids.  Raises UnknownNameError."""
        return NAME.sub(lambda match: self.value(match[1]), text)

    def value(self, name: str) -> str:
        """Return the id that a name stands for.  Raises UnknownNameError."""
        stream, _, part = name.partition(".")
        if not part:
            if name not in self.ids:
                raise UnknownNameError(name)
            return self.ids[name]
        kind, number = part.split("-")
        events = self.stream(stream).events
        found = self.find_values[kind](events) if kind != "id" else [event.id for event in events if event.id]
        with suppress(IndexError):
            return found[int(number) - 1]
        raise UnknownNameError(name)

    @property
    def observations(self) -> list[Observation]:
        """What was observed of all exchanges, in order of time."""
        return sorted((seen for each in self.exchanges for seen in each.observations), key=lambda seen: seen.time_ns)

    async def close(self) -> None:
        """Close all connections."""
        for exchange in self.exchanges:
            await exchange.close()


def names_in(step: Step) -> set[str]:
    """Return the names that a step uses."""
    if isinstance(step, Send):
        own, texts = set[str](), [step.target, step.body or "", *(value for _, value in step.headers)]
    else:
        own, texts = {step.stream}, [step.until_id or "", step.run or ""] if isinstance(step, Read) else []
    return own | {match[1].partition(".")[0] for text in texts for match in NAME.finditer(text)}


def resolve_pointer(document: Any, pointer: str) -> Any:
    """Return what a JSON pointer (RFC 6901) selects; None if there is nothing."""
    for key in pointer.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list) and name.isascii() and name.isdigit() and int(name) < len(document):
            document = document[int(name)]
        else:
            return None
    return document


def pointers(document: Any, start: str = "") -> Iterator[str]:
    """Yield the JSON pointers of all strings and whole numbers in objects."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from pointers(value, f"{start}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(document, str | int) and not isinstance(document, bool) and start:
        yield start
