"""The streams of channels: which client requested which, who is connected, and what is sent as the playhead moves."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Protocol

from wiretape.contract.contract_tables import ErrorCase
from wiretape.safe_text import shorten
from wiretape_replay.access.contract_errors import refuse
from wiretape_replay.channel.channel_log import (
    ChannelLog,
    LogEntry,
    LogReader,
    PlayableChannel,
    UnknownCursorError,
)
from wiretape_replay.channel.playhead_clock import IdleTimer, PlayheadClock, Playheads
from wiretape_replay.channel.stream_facts import StreamOpening
from wiretape_replay.http_server.http_messages import HttpRequest, HttpResponse
from wiretape_replay.http_server.response_writer import CHUNKS_PER_TURN, ResponseWriter
from wiretape_replay.replayed_contracts import ReplayedContracts


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A request for a stream, served or refused."""

    channel: str
    cursor: str | None
    deltas: bool
    position: int
    """The playhead's position at the time of the request."""
    refusal: str | None = None
    """The error code of the response, or its status if it has none, if the request was refused."""


@dataclass(frozen=True, slots=True, eq=False)
class ConnectedStream:
    """A stream that is connected now."""

    clock: PlayheadClock
    reader: LogReader
    cursor: str | None
    """As the client sent it."""
    deltas: bool


class FaultySender(Protocol):
    """Sends a stream that faults can hit."""

    @property
    def is_active(self) -> bool:
        """Whether a fault can hit it now: entries have to be sent with `send`, one at a time."""
        ...

    def skip(self, entries: Iterable[LogEntry]) -> None:
        """Note that entries were sent without faults."""
        ...

    async def send(self, entry: LogEntry | None) -> bool:
        """Send an event or comment with faults; None sends what is held back, because nothing follows it.

        Return True if a fault ended the stream.  Raises ConnectionError.
        """
        ...


class ChannelStreams:
    """Serves streams by the playheads of their channels, and refuses invalid stream requests."""

    def __init__(
        self,
        playheads: Playheads,
        request_ids: Callable[[], str],
        contracts: ReplayedContracts,
        faulty_sender: Callable[[ResponseWriter], FaultySender | None] | None = None,
    ) -> None:
        """`faulty_sender` returns the sender of a stream that faults can hit, None for other streams."""
        self.playheads = playheads
        self.contracts = contracts
        self.requests: list[StreamRequest] = []
        """In order of arrival."""
        self.connected: list[ConnectedStream] = []
        """In order of their beginning."""
        self._request_ids = request_ids
        self._faulty_sender = faulty_sender

    async def serve(self, request: HttpRequest, writer: ResponseWriter, channel: PlayableChannel) -> None:
        """Answer a request for the stream of a channel."""
        log = channel.log
        facts = self.contracts.of(request)
        opening = facts.read_opening(request) or StreamOpening(facts, request.target)
        cursor = (opening.cursor or None) if not log.restarts else None
        clock = self.playheads.for_stream(log, request, cursor)
        if cursor is not None:
            clock.start_after(cursor)
        position = clock.playhead.position
        seen = StreamRequest(log.name, opening.cursor, opening.deltas, position)
        begins_at_start = opening.begins_at_start or log.restarts
        start = f"after {cursor}" if cursor else "from the beginning" if begins_at_start else "from now on"
        try:
            reader = LogReader(log, position, cursor=cursor, deltas=opening.deltas, begins_at_start=begins_at_start)
        except UnknownCursorError:
            refusal = facts.refuse_cursor(cursor or "", log.name, self._request_ids)
            if refusal is not None:
                await self._refuse_cursor(request, writer, seen, log, refusal)
                return
            start = f"from the beginning, because the cursor {shorten(cursor or '')} is unknown"
            reader = LogReader(log, position, cursor=None, deltas=opening.deltas)
        self.requests.append(seen)
        writer.log_outcome(request, f"{log.noun} {log.name} {start}, playhead at {position} of {len(log)}")
        with self._connect(ConnectedStream(clock, reader, opening.cursor, opening.deltas)):
            await writer.start(channel.head)
            faulty = None if self._faulty_sender is None else self._faulty_sender(writer)
            await send_stream(writer, clock, reader, channel.keep_alive, faulty)

    async def _refuse_cursor(
        self, request: HttpRequest, writer: ResponseWriter, seen: StreamRequest, log: ChannelLog, refusal: HttpResponse
    ) -> None:
        self.requests.append(replace(seen, refusal=refusal.code or str(refusal.status)))
        writer.log_outcome(request, refusal.outcome)
        await writer.respond(refusal)
        if log.position_of(seen.cursor or "") is not None:
            writer.log(f"  The event is in the log, but ahead of the playhead (at {seen.position} of {len(log)}).")

    async def refuse(self, request: HttpRequest, writer: ResponseWriter, case: ErrorCase, message: str) -> None:
        """Answer with an error."""
        described = self.contracts.describe(request.method, request.target)
        errors, request_id = described.facts.errors, self._request_ids()
        response = refuse(errors, case, message, request_id, values=described.parameters)
        writer.log_outcome(request, response.outcome)
        await writer.respond(response)

    @contextmanager
    def _connect(self, stream: ConnectedStream) -> Iterator[None]:
        self.connected.append(stream)
        self.playheads.changes.notify()
        try:
            yield
        finally:
            self.connected.remove(stream)
            self.playheads.release(stream.clock)
            self.playheads.changes.notify()


async def send_stream(
    writer: ResponseWriter,
    clock: PlayheadClock,
    reader: LogReader,
    keep_alive: bytes,
    faulty: FaultySender | None = None,
) -> None:
    """Send a stream, whose head is sent already, until it ends.  Raises ConnectionError if the client leaves."""
    idle = clock.idle_timer()
    try:
        await _send_entries(writer, clock, reader, keep_alive, faulty, idle=idle)
    finally:
        idle.stop()


async def _send_entries(
    writer: ResponseWriter,
    clock: PlayheadClock,
    reader: LogReader,
    keep_alive: bytes,
    faulty: FaultySender | None,
    *,
    idle: IdleTimer,
) -> None:
    playhead, resets = clock.playhead, clock.playhead.resets
    clock.start()
    while playhead.resets == resets:
        before = reader.position
        due = reader.read(playhead.position)
        has_sent = False
        while batch := list(islice(due, 1 if faulty is not None and faulty.is_active else CHUNKS_PER_TURN)):
            has_sent = True
            if await _send_batch(batch, writer, faulty):
                return
            if playhead.resets != resets:
                break
        if has_sent:
            idle.stop()
        if playhead.resets != resets or reader.position < playhead.position:
            continue  # a slow client kept this task waiting in the meantime
        if not playhead.is_moving or (reader.position > before and not has_sent):
            # The playhead may pass entries that this client does not get, such as deltas: the client sees silence.
            # But while the playhead moves through a recorded silence, only the recorded keep-alives are sent.
            idle.start()
        if not await clock.wait_for_move(idle):
            if faulty is not None and await faulty.send(None):
                return
            await writer.write(keep_alive)
            idle.stop()
    writer.close()


async def _send_batch(batch: Sequence[LogEntry], writer: ResponseWriter, faulty: FaultySender | None) -> bool:
    """Send entries, one at a time if there are faults; return True if that ended the stream."""
    ending = next((entry.ending for entry in batch if entry.ending is not None), None)
    if faulty is not None and faulty.is_active:
        if await faulty.send(batch[0] if ending is None else None):
            return True
    else:
        await writer.write_all([entry.data for entry in takewhile(lambda entry: entry.ending is None, batch)])
        if faulty is not None:
            faulty.skip(batch)
    if ending is not None:
        await writer.end(ending)
    return ending is not None
