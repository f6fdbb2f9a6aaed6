"""What a contract says about streams: which requests open them, where they begin, and the facts of their events.

Pure: no I/O, no clock.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wiretape.bounded_dict import cache_short, put_bounded
from wiretape.contract.contract_model import Contract
from wiretape.contract.contract_tables import ErrorCase
from wiretape.contract.vocabulary import vocabulary_of
from wiretape.event import Event
from wiretape.observations import RequestStarted
from wiretape.patterns import MISSING, Pointer
from wiretape.safe_text import shorten
from wiretape_replay.access.contract_errors import refuse
from wiretape_replay.channel.channel_log import EntryKind, LogEntry
from wiretape_replay.http_server.http_messages import HttpRequest, HttpResponse

_MOST_KEYS = 100
_SECOND_NS = 1_000_000_000


RequestHead = RequestStarted | HttpRequest
"""The head of a request, recorded or received."""


@dataclass(frozen=True, slots=True)
class StreamOpening:
    """What a request for a stream asks for."""

    facts: "StreamFacts"
    """Those of the contract that it belongs to."""
    target: str
    """The target of the request, without the cursor."""
    channel: str | None = None
    """The channel that its path names; None if it is found by comparing the request with recorded ones."""
    cursor: str | None = None
    """As the client sent it; None if it sent none."""
    deltas: bool = True
    """Whether the stream carries deltas."""
    begins_at_start: bool = True
    """Whether it begins with the first event of its channel if it has no cursor."""
    is_open_ended: bool = False
    """Whether it goes on until somebody closes it."""


class StreamFacts:
    """How requests for streams of a contract, and their events, are read."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.errors = contract.service.errors
        self.noun = vocabulary_of(contract).channel
        """What messages call a channel."""
        self.keep_alive_ns = round(contract.service.keep_alive_s * _SECOND_NS)
        self.names_channels = contract.format.channel is not None
        """Whether events name their channel."""
        self.has_sequences = contract.format.sequence is not None
        """Whether events have numbers that define their order."""
        self.has_optional_deltas = any(operation.deltas is not None for operation in contract.operations)
        """Whether only streams that ask for deltas have them."""
        self._find_operation = cache_short(contract.find_operation)
        self._format = contract.format
        self._has_cursors = any(operation.cursor is not None for operation in contract.operations)
        self._keys: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        """The last mappings: consecutive events have the same."""

    def is_over(self, entries: Sequence[LogEntry]) -> bool:
        """Whether the last stored event of a channel is one after which it is idle, and no end was recorded."""
        if not entries or entries[-1].kind is EntryKind.ENDING:
            return False
        last = next((entry.type for entry in reversed(entries) if entry.kind is EntryKind.DURABLE), None)
        return last in vocabulary_of(self.contract).idle

    def read_opening(self, request: RequestHead) -> StreamOpening | None:
        """Return what a request asks for; None if it cannot open a stream.

        What no contract says is what suits most clients: where a contract is about any method, a stream without a
        cursor begins at the start.
        """
        operation, parameters = self._find_operation(request.method, request.target)
        if operation is None or not operation.is_stream or request.method == "HEAD":
            return None
        target, cursor = request.target, None
        if operation.cursor is not None:
            head = RequestStarted(0, 0, "", request.method, "", "", target, "", request.headers)
            target, cursor = operation.cursor.remove_from(target), operation.cursor.read(head)
        return StreamOpening(
            self,
            target,
            None if operation.channel is None else parameters[operation.channel],
            cursor,
            deltas=operation.deltas is None or operation.deltas.is_in(target),
            begins_at_start=operation.begins_at_start or operation.pattern.method == "*",
            is_open_ended=operation.is_open_ended,
        )

    def make_entry(self, event: Event, findings: tuple[str, ...] = ()) -> LogEntry:
        """Return the entry of an event, with its time in the recording.

        An event with a cursor is durable, because clients may resume with it, unless the contract says that its type is
        not.  So is one that the contract stores and that has a sequence, although no cursor names it.
        """
        cursor, sequence = event.cursor, event.sequence
        if self._format.durable is not None:
            is_durable = cursor is not None and event.is_durable
        else:
            is_durable = cursor is not None or (event.is_durable and sequence is not None)
        return LogEntry(
            EntryKind.DURABLE if is_durable and self._has_cursors else EntryKind.EPHEMERAL,
            event.time_ns,
            event.raw,
            cursor,
            _interned(event.type or None),
            sequence,
            self._read_keys(event),
            is_optional=event.is_delta and self.has_optional_deltas,
            source=(event.exchange, event.number),
            findings=findings,
        )

    def _read_keys(self, event: Event) -> Mapping[str, str]:
        found = tuple(event.keys.items())
        if found not in self._keys:
            put_bounded(self._keys, found, dict(found), _MOST_KEYS)
        return self._keys[found]

    def find_channel(self, event: Event) -> str | None:
        """Return the channel that an event names; None without any."""
        return _read_name(self._format.channel, event)

    def find_workspace(self, event: Event, channel: str) -> str | None:
        """Return the workspace that an event names, unless it names another channel."""
        workspace = _read_name(self.contract.service.workspace, event)
        return workspace if self.find_channel(event) in {None, channel} else None

    def refuse_cursor(self, cursor: str, channel: str, next_id: Callable[[], str]) -> HttpResponse | None:
        """Return the response to a request with an unknown cursor; None if its stream begins at the start."""
        status, case = self.contract.unknown_cursor_status, ErrorCase.UNKNOWN_CURSOR
        if status is None and (self.errors is None or self.errors.code_of(case) is None):
            return None
        message = f"The cursor {shorten(cursor)} names no persisted event of {self.noun} {shorten(channel)}."
        return refuse(self.errors, case, message, next_id(), status=status)


def _read_name(pointer: Pointer | None, event: Event) -> str | None:
    value: Any = MISSING if pointer is None else pointer.read(event.json)
    return None if value is MISSING or isinstance(value, dict | list) else str(value)


def _interned(text: str | None) -> str | None:
    """The same text, held in memory once."""
    return None if text is None else sys.intern(text)
