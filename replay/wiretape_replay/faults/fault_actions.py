"""Apply the faults of one server to its connections, and hold streams until somebody says how they go on."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wiretape.errors import InputError
from wiretape.event import Event, TimedFrame
from wiretape.frame_reader import FrameReader
from wiretape.observations import BytesArrived, Ending, Side
from wiretape_replay.channel.channel_log import LogEntry
from wiretape_replay.channel.channel_streams import FaultySender
from wiretape_replay.channel.recorded_connection import BLANK_LINES, other_entry
from wiretape_replay.channel.stream_facts import StreamFacts
from wiretape_replay.faults.fault_schedule import FaultSchedule, StreamFaults
from wiretape_replay.faults.fault_script import FaultRequest, Hold
from wiretape_replay.faults.frame_damage import HoldResponse, Instruction, LogFault, PauseSending, SendBytes, SendError
from wiretape_replay.http_server.aiohttp_server import Handler
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.http_server.response_writer import ResponseWriter

HeldStep = bytes | Ending | None
"""What happens next to a response that is held: bytes are sent, an ending ends it, and with None it goes on."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldResponse:
    """A response that is held."""

    fault: Hold
    request: FaultRequest
    steps: "asyncio.Queue[HeldStep]" = field(default_factory=asyncio.Queue)


class FaultActions:
    """Applies the faults of one server to its connections.  Use it in the event loop's thread only."""

    def __init__(self, schedule: FaultSchedule, ids: Callable[[], str]) -> None:
        """`ids` are for errors that are sent."""
        self.held: list[HeldResponse] = []
        """In the order in which they were held."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when a response is held, and when it no longer is."""
        self.schedule = schedule
        self._ids = ids
        self._streams: dict[ResponseWriter, StreamSender] = {}
        self._early: dict[str, list[HeldStep]] = {}
        """The steps of faults that hold no response yet, by their names."""
        self._times_held: Counter[str] = Counter()

    def wrap(self, handler: Handler) -> Handler:
        """Return a handler that applies the faults of a request, before the response of `handler` or in its place."""

        async def respond(request: HttpRequest, writer: ResponseWriter) -> None:
            injection = self.schedule.inject(request)
            if await self.execute(injection.before, injection.request, writer):
                return
            if injection.stream is not None:
                self._streams[writer] = StreamSender(injection.request, self, injection.stream, writer)
            try:
                await handler(request, writer)
            finally:
                self._streams.pop(writer, None)

        return respond

    def sender(self, writer: ResponseWriter) -> FaultySender | None:
        """The sender of the stream that is requested from `writer`; None if the request opens none."""
        return self._streams.get(writer)

    def frame_sender(self, writer: ResponseWriter) -> "StreamFrames | None":
        """The sender of the frames of a stream that is served as recorded; None if the request opens none."""
        sender = self._streams.get(writer)
        return None if sender is None else StreamFrames(sender, sender.request.described.facts)

    def find_held(self, name: str | None = None, channel: str | None = None) -> Sequence[HeldResponse]:
        """Return the responses that are held: all, or those of a fault or of a channel."""
        return [
            each for each in self.held if name in {None, each.fault.name} and channel in {None, each.request.channel}
        ]

    def is_held(self, name: str | None, channel: str | None) -> bool:
        """Whether a response is held now; see `find_held`.  Raises InputError if a fault will hold none any more."""
        held = self.find_held(name, channel)
        if name is not None and not held:
            self._next_hold(name)
        return bool(held)

    def proceed(self, step: HeldStep, name: str | None = None, channel: str | None = None) -> None:
        """Do the next step of all responses that are held, or of those of a fault or of a channel.

        If the fault holds no response yet, the step is done as soon as it holds one.  Raises InputError.
        """
        held = self.find_held(name, channel)
        holds = [each.fault for each in held] or ([] if name is None else [self._next_hold(name)])
        if not holds:
            raise InputError("No response is held now.")
        for each in holds:
            if isinstance(step, bytes) and each.events is None:
                raise InputError(f"The fault {each.name} holds responses before they start: events can only follow.")
        if not held:
            self._early.setdefault(holds[0].name, []).append(step)
        for response in held:
            self._proceed(response, step)

    def add(self, document: Mapping[str, Any]) -> str:
        """Add a fault, and return its name.  Raises InputError."""
        return self.schedule.add(document).name

    def remove(self, name: str) -> None:
        """Remove a fault; what it holds goes on.  Raises InputError.

        If steps wait until it holds a response, it stays until then.
        """
        fault = self.schedule.find(name)
        if self.find_held(name) or name in self._early:
            self.proceed(None, name)
        if name not in self._early:
            self.schedule.remove(fault)

    def reset(self) -> None:
        """Start over: without the faults that were added, and without the responses that are held."""
        self._early.clear()
        self._times_held.clear()
        self.cut()
        self.schedule.rewind()

    def cut(self, channel: str | None = None) -> None:
        """Close the connections whose response is held."""
        for held in self.find_held(channel=channel):
            self._proceed(held, Ending.SERVICE_CLOSED)

    async def execute(self, instructions: Iterable[Instruction], request: FaultRequest, writer: ResponseWriter) -> bool:
        """Execute instructions; return True if that ended the response.  Raises ConnectionError."""
        for instruction in instructions:
            if isinstance(instruction, SendBytes):
                await writer.write(instruction.data)
            elif isinstance(instruction, LogFault):
                writer.mark_fault(instruction.fault)
                writer.log(instruction.text)
            elif isinstance(instruction, PauseSending):
                await asyncio.sleep(instruction.time_ns / 1e9)
            elif isinstance(instruction, HoldResponse):
                if await self._hold(HeldResponse(instruction.fault, request), writer):
                    return True
            elif isinstance(instruction, SendError):
                await writer.respond(instruction.response(self._ids()))
                return True
            else:
                await writer.end(instruction.ending)
                return True
        return False

    async def _hold(self, held: HeldResponse, writer: ResponseWriter) -> bool:
        """Hold a response until it goes on or ends; return True if it ended."""
        self.held.append(held)
        self.on_change()
        self._times_held[held.fault.name] += 1
        for early in self._early.pop(held.fault.name, ()):
            self._proceed(held, early)
        try:
            while (step := await held.steps.get()) is not None:
                if isinstance(step, Ending):
                    await writer.end(step)
                    return True
                await writer.write(step)
            return False
        finally:
            self._forget(held)

    def _next_hold(self, name: str) -> Hold:
        """A fault that can hold another response.  Raises InputError."""
        fault = self.schedule.find(name)
        if not isinstance(fault, Hold):
            raise InputError(f"The fault {name} does not hold responses.")
        if fault.times is not None and self._times_held[name] >= fault.times:
            raise InputError(f"The fault {name} holds no response any more: it went on, or its client left.")
        return fault

    def _proceed(self, held: HeldResponse, step: HeldStep) -> None:
        held.steps.put_nowait(step)
        if not isinstance(step, bytes):
            self._forget(held)

    def _forget(self, held: HeldResponse) -> None:
        if held in self.held:
            self.held.remove(held)
            self.on_change()


@dataclass(frozen=True, slots=True)
class StreamSender:
    """Sends one stream with its faults; see FaultySender."""

    request: FaultRequest
    _actions: FaultActions
    _faults: StreamFaults
    _writer: ResponseWriter

    @property
    def is_active(self) -> bool:
        """See FaultySender."""
        return self._faults.is_active

    def skip(self, entries: Iterable[LogEntry]) -> None:
        """See FaultySender."""
        self._faults.skip(entries)

    async def send(self, entry: LogEntry | None) -> bool:
        """See FaultySender."""
        instructions = self._faults.flush() if entry is None else self._faults.apply(entry)
        return await self._actions.execute(instructions, self.request, self._writer)


class StreamFrames:
    """Sends one stream that is served as recorded with its faults; see FrameSender of the verbatim player."""

    def __init__(self, sender: StreamSender, facts: StreamFacts) -> None:
        self._sender = sender
        self._facts = facts
        self._frames: FrameReader | None = None
        self._begins_frame = True
        self._size = 0

    def takes(self, data: bytes) -> bool:
        """See FrameSender."""
        if self._frames is None and self._begins_frame and self._sender.is_active:
            self._frames = FrameReader(event_format=self._facts.contract.format)
        self._begins_frame = data.endswith(BLANK_LINES)
        return self._frames is not None

    async def send(self, time_ns: int, data: bytes) -> bool:
        """See FrameSender."""
        if self._frames is None or not data:
            return False
        start, self._size = self._size, self._size + len(data)
        return await self._send(
            self._frames.feed(BytesArrived(0, Side.RESPONSE, start, data, (self._size,), (time_ns,)))
        )

    async def finish(self) -> bool:
        """See FrameSender."""
        return self._frames is not None and (await self._send(self._frames.close()) or await self._sender.send(None))

    async def _send(self, frames: Iterable[TimedFrame]) -> bool:
        for frame in frames:
            entry = self._facts.make_entry(frame) if isinstance(frame, Event) else other_entry(frame)
            if await self._sender.send(entry):
                return True
        return False
