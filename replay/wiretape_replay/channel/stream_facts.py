"""What a contract says about streams: which requests open them, where they begin, and the facts of their events.

Pure: no I/O, no clock.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from wiretape.agent_sessions import INVALID_CURSOR, STREAM, deltas_requested, operation_of
from wiretape.contract.contract_model import Contract
from wiretape.event import Event, Shape
from wiretape.http_headers import LAST_EVENT_ID, cursor_in
from wiretape.observations import RequestStarted, header
from wiretape.patterns import MISSING
from wiretape.safe_text import shorten
from wiretape_replay.access.error_envelope import error_response
from wiretape_replay.channel.channel_log import EntryKind, LogEntry
from wiretape_replay.http_server.http_messages import HttpRequest, HttpResponse

RequestHead = RequestStarted | HttpRequest
"""The head of a request, recorded or received."""


@dataclass(frozen=True, slots=True)
class StreamOpening:
    """What a request for a stream asks for."""

    target: str
    """The target of the request, without the cursor."""
    channel: str | None = None
    """The channel that its path names; None if it is found by comparing the request with recorded ones."""
    cursor: str | None = None
    """As the client sent it; empty or None if it sent none."""
    deltas: bool = True
    """Whether the stream carries deltas."""
    begins_at_start: bool = True
    """Whether it begins with the first event of its channel if it has no cursor."""


class StreamFacts(Protocol):
    """How requests for streams and their events are read."""

    has_sequences: bool
    """Whether events have numbers that define their order."""
    is_split: bool
    """Whether recorded streams without durable events are channels of their own, and end as they were recorded."""
    names_channels: bool
    """Whether events name their channel."""
    noun: str
    """What messages call a channel."""

    def read_opening(self, request: RequestHead) -> StreamOpening | None:
        """Return what a request asks for; None if it cannot open a stream."""
        ...

    def make_entry(self, event: Event, findings: tuple[str, ...] = ()) -> LogEntry:
        """Return the entry of an event, with its time in the recording."""
        ...

    def find_channel(self, event: Event) -> str | None:
        """Return the channel that an event names; None without any."""
        ...

    def refuse_cursor(self, cursor: str, channel: str, request_id: Callable[[], str], /) -> HttpResponse | None:
        """Return the response to a request with an unknown cursor; None if its stream begins at the start."""
        ...


class ServiceStreamFacts:
    """The streams of the Agent Session Service: each is one of a session, which its path names."""

    has_sequences = True
    is_split = False
    names_channels = False
    noun = "session"

    def read_opening(self, request: RequestHead) -> StreamOpening | None:
        """See StreamFacts."""
        match = operation_of(request.method, request.target)
        if match is None or match.operation is not STREAM:
            return None
        sent = header(request.headers, LAST_EVENT_ID)
        return StreamOpening(
            request.target, match.session_id, cursor_in(sent) or sent, deltas_requested(request.target)
        )

    def make_entry(self, event: Event, findings: tuple[str, ...] = ()) -> LogEntry:
        """See StreamFacts.

        An event with an id is durable, whatever else it contains, because clients may resume with that id.  So is one
        with a sequence and no id, although no cursor names it.
        """
        # As a client would send it back: bytes that are not UTF-8 become U+FFFD.
        event_id = event.id or None
        is_durable = event_id is not None or (event.shape is Shape.DURABLE and event.sequence is not None)
        return LogEntry(
            EntryKind.DURABLE if is_durable else EntryKind.EPHEMERAL,
            event.time_ns,
            event.raw,
            event_id,
            _interned(event.type or None),
            event.sequence,
            _interned(event.run_id),
            _interned(event.tool_call_id),
            source=(event.exchange, event.number),
            findings=findings,
        )

    def find_channel(self, event: Event) -> None:
        """See StreamFacts."""

    def refuse_cursor(self, cursor: str, channel: str, request_id: Callable[[], str], /) -> HttpResponse:
        """See StreamFacts."""
        message = f"The cursor {cursor} names no persisted event of session {channel}."
        return error_response(INVALID_CURSOR, message, request_id())


SERVICE = ServiceStreamFacts()
"""The facts of the Agent Session Service."""


class ContractStreamFacts:
    """The streams of a contract."""

    is_split = True
    noun = "channel"

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._format = contract.format
        self._has_cursors = any(operation.cursor is not None for operation in contract.operations)
        self.names_channels = contract.format.channel is not None
        self.has_sequences = contract.format.sequence is not None

    def read_opening(self, request: RequestHead) -> StreamOpening | None:
        """See StreamFacts.

        What no contract says is what suits most clients: where a contract is about any method, a stream without a
        cursor begins at the start.
        """
        operation, parameters = self._contract.find_operation(request.method, request.target)
        if operation is None or request.method == "HEAD":
            return None
        target, cursor = request.target, None
        if operation.cursor is not None:
            head = RequestStarted(0, 0, "", request.method, "", "", target, "", request.headers)
            target, cursor = operation.cursor.remove_from(target), operation.cursor.read(head)
        return StreamOpening(
            target,
            None if operation.channel is None else parameters[operation.channel],
            cursor,
            begins_at_start=operation.begins_at_start or operation.pattern.method == "*",
        )

    def make_entry(self, event: Event, findings: tuple[str, ...] = ()) -> LogEntry:
        """See StreamFacts.  Only what a cursor can name is replayed to streams that begin later."""
        cursor = event.cursor
        is_durable = self._has_cursors and cursor is not None and event.is_durable
        return LogEntry(
            EntryKind.DURABLE if is_durable else EntryKind.EPHEMERAL,
            event.time_ns,
            event.raw,
            cursor,
            _interned(event.type or None),
            event.sequence,
            source=(event.exchange, event.number),
            findings=findings,
        )

    def find_channel(self, event: Event) -> str | None:
        """See StreamFacts."""
        value = MISSING if self._format.channel is None else self._format.channel.read(event.json)
        return None if value is MISSING or isinstance(value, dict | list) else str(value)

    def refuse_cursor(self, cursor: str, _channel: str, _request_id: Callable[[], str], /) -> HttpResponse | None:
        """See StreamFacts."""
        status = self._contract.unknown_cursor_status
        text = f"The cursor {shorten(cursor)} names no persisted event.\n"
        return None if status is None else HttpResponse(status, text.encode(), content_type="text/plain; charset=utf-8")


def comparable_target(facts: StreamFacts, request: RequestHead) -> str:
    """The target of a request, without the cursor of a stream."""
    opening = facts.read_opening(request)
    return request.target if opening is None else opening.target


def _interned(text: str | None) -> str | None:
    """The same text, held in memory once."""
    return None if text is None else sys.intern(text)
