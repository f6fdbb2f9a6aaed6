"""Live updates: an event stream of what changes in a recording while it is made; the package lists its messages."""

import asyncio
import fcntl
import os
import re
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aiohttp import web

from wiretape.contract.vocabulary import Vocabulary
from wiretape.errors import InputError
from wiretape.http_headers import LAST_EVENT_ID
from wiretape.json_codec import dump_json
from wiretape.observations import BytesArrived, Side
from wiretape.recording import Exchange, Recording, TailPosition
from wiretape.rules import Finding
from wiretape.safe_text import shorten
from wiretape.sse import EVENT_STREAM
from wiretape_inspect import timeline_json
from wiretape_inspect.debugger.api_endpoints import error_document, find_exchange, parse_query
from wiretape_inspect.debugger.recording_thread import RecordingThread
from wiretape_inspect.exchange_selection import channels_of, name_channels
from wiretape_inspect.timeline_json import rules_of
from wiretape_inspect.view.delta_folding import Checkpoint, StreamFold
from wiretape_inspect.view.timeline_rows import StreamRow

_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.2, 2.0
"""Between two reads; within these bounds, the wait is as long as the read, which leaves half the time to others."""
_KEEP_ALIVE_S = 15.0
_MOST_ROWS, _MOST_CHARACTERS = 500, 64 * 1024
"""About how much one change contains at most."""
_UNKNOWN_HASH, _STALE_HASH = 0, 1
"""Of a row that the page has from an earlier connection, and of such a row that a finding may have changed."""
_POSITION = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.(-1|[0-9]{1,18})(?:\.([0-9]{1,9}))?", re.ASCII)


class RecorderLock:
    """Tells whether a recorder is writing to a recording, by the lock that it holds.

    The file stays open until `close`: closing it would drop the locks of all readers in this process.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def is_held(self) -> bool:
        """Whether a recorder is running.  If not, the file is complete when it is read after this."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


async def live_response(request: web.Request, thread: RecordingThread, lock: RecorderLock) -> web.StreamResponse:
    """Respond with the updates until the recording is closed.  Raises InputError and RecordingError."""
    updates = _requested(request, **parse_query(request, _requested))
    if (number := updates.number) is not None:
        await thread.run(lambda recording: find_exchange(recording, number))
        await thread.close_recording()
    response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
    await response.prepare(request)
    try:
        await _send_updates(response, updates, thread, lock)
    except InputError as error:
        data = {"ended_ns": None, **error_document(str(error))}
        await response.write(f"{_format_message('closed', dump_json(data))}\n".encode())
    await response.write_eof()
    return response


async def _send_updates(
    response: web.StreamResponse, updates: "LiveUpdates", thread: RecordingThread, lock: RecorderLock
) -> None:
    last_write = time.monotonic()
    while True:
        began, is_recording = time.monotonic(), lock.is_held
        async for data in thread.lines(lambda recording: updates.read(recording, is_recording=is_recording)):  # noqa: B023
            await response.write(data)
            last_write = time.monotonic()
        await thread.close_recording()
        if updates.closed:
            return
        if time.monotonic() - last_write >= _KEEP_ALIVE_S:
            await response.write(b": keep-alive\n\n")
            last_write = time.monotonic()
        await asyncio.sleep(min(max(time.monotonic() - began, _SHORTEST_WAIT_S), _LONGEST_WAIT_S))


def _requested(
    request: web.Request, *, exchange: int | None = None, after: str | None = None, rows: int = 0
) -> "LiveUpdates":
    """Return the updates that a request asks for; its query parameters are the keyword parameters."""
    last_id = request.headers.get(LAST_EVENT_ID)
    if last_id:
        # A browser reconnects by itself, with the URL of its first request.
        since, known = parse_position(last_id)
        return LiveUpdates(exchange, since, known or 0)
    # The number of rows in the id of a message may belong to another exchange.
    return LiveUpdates(exchange, parse_position(after)[0] if after is not None else TailPosition(), rows)


def format_position(position: TailPosition) -> str:
    """Return a position in a recording as text, for clients that ask for what comes after it."""
    return f"{position.segment}.{position.finding}.{position.time_ns}"


def parse_position(text: str) -> tuple[TailPosition, int | None]:
    """Return the position, and the number of rows if `text` is the id of a message.  Raises InputError."""
    match = _POSITION.fullmatch(text)
    if match is None:
        raise InputError(f"Invalid position '{shorten(text, 60)}': use one that `recording` returned.")
    rows = int(match[4]) if match[4] is not None else None
    return TailPosition(int(match[1]), int(match[2]), int(match[3])), rows


class LiveUpdates:
    """The messages about what has changed since the last read."""

    def __init__(self, number: int | None, since: TailPosition, rows: int = 0) -> None:
        """Report changes after `since`, and the rows of exchange `number` without the first `rows`."""
        self.number = number
        self.closed = False
        """Whether the last message was sent."""
        self._since = since
        self._rows: ChangingRows | None = None
        self._known_rows = rows
        self._settled = rows
        self._last_exchange = 0
        self._open: dict[int, Exchange] = {}
        self._channels: frozenset[str] = frozenset()
        self._codes: set[str] = set()
        self._sent_id = ""

    def read(self, recording: Recording, *, is_recording: bool) -> Iterator[str]:
        """Yield the messages; `is_recording` tells whether a recorder held the lock before the file was opened."""
        until = recording.tail_position()
        watched = recording.exchange(self.number) if self.number is not None else None
        changed = list(self._changed_exchanges(recording))
        self._channels |= channels_of(changed)
        for exchange in name_channels(recording, changed, self._channels):
            listed = timeline_json.listed_exchange(recording, exchange)
            yield self._message("exchange", dump_json(listed))
        yield from self._findings(recording, watched, until)
        self._since = until
        if self._id != self._sent_id:
            # An id without data dispatches no event, but the browser remembers it.
            yield f"id: {self._id}\n"
            self._sent_id = self._id
        ended_ns = recording.info.ended_ns
        if ended_ns is not None or not is_recording:
            self.closed = True
            yield self._message("closed", dump_json({"ended_ns": ended_ns}))

    def _changed_exchanges(self, recording: Recording) -> Iterator[Exchange]:
        is_first_read = not self._last_exchange
        for number, before in list(self._open.items()):
            exchange = recording.exchange(number)
            self._remember(exchange)
            if exchange != before:
                yield exchange
        for exchange in recording.exchanges(self._last_exchange):
            self._last_exchange = exchange.number
            self._remember(exchange)
            if not is_first_read or exchange.ended_ns is None or exchange.ended_ns > self._since.time_ns:
                yield exchange

    def _remember(self, exchange: Exchange) -> None:
        if exchange.ended_ns is None:
            self._open[exchange.number] = exchange
        else:
            self._open.pop(exchange.number, None)

    def _findings(self, recording: Recording, watched: Exchange | None, until: TailPosition) -> Iterator[str]:
        """Yield the new findings, then the changed rows of the watched exchange."""
        found = list[Finding]()
        if recording.has_replaced_findings(self._since):
            self._since = replace(self._since, finding=0)
            self._rows, self._known_rows = None, 0
            yield self._message("findings-replaced", "{}")
        for finding in recording.findings(after=self._since, until=until):
            rule = rules_of(recording, [finding]).get(finding.code) if finding.code not in self._codes else None
            self._codes.add(finding.code)
            yield self._message("finding", dump_json({"finding": finding, "rule": rule}))
            if watched is not None and finding.exchange == watched.number:
                found.append(finding)
        if watched is not None:
            yield from self._changed_rows(recording, watched, found)

    def _changed_rows(self, recording: Recording, exchange: Exchange, found: Sequence[Finding]) -> Iterator[str]:
        if self._rows is None:
            # Findings since the page's last connection may change rows that it already has.
            self._rows = ChangingRows(exchange.number, 0 if found else self._known_rows)
            found = [*recording.findings(exchange.number, until=self._since), *found]
        for change in self._rows.read(recording, exchange, found):
            self._settled = change.settled
            rows = ",".join(change.rows)
            yield self._message(
                "rows",
                f'{{"exchange":{exchange.number},"first":{change.first},"rows":[{rows}],"settled":{change.settled}}}',
            )

    def _message(self, name: str, data: str) -> str:
        self._sent_id = self._id
        return f"id: {self._sent_id}\n{_format_message(name, data)}"

    @property
    def _id(self) -> str:
        return f"{format_position(self._since)}.{self._settled}"


def _format_message(name: str, data: str) -> str:
    """Return a message without its last, empty line."""
    return f"event: {name}\ndata: {data}\n"


@dataclass(frozen=True, slots=True)
class RowChange:
    """From number `first` on, the rows are these, as JSON.  The first `settled` of all rows no longer grow."""

    first: int
    rows: tuple[str, ...]
    settled: int


class ChangingRows:
    """Folds a stream as far as it is recorded, and reports the rows that differ from those reported before.

    A finding arrives later than its event, so the rows from that event on are made again.
    """

    def __init__(self, number: int, known: int = 0) -> None:
        """Report the rows of exchange `number`, without the first `known` rows."""
        self._number = number
        self._findings: list[Finding] = []
        self._fold: StreamFold | None = None
        self._checkpoints: list[Checkpoint] = []
        self._made = 0
        self._read_to = 0
        self._finished = False
        self._reported = array("q", [_UNKNOWN_HASH]) * known
        """The hashes of the rows that were reported."""

    def read(self, recording: Recording, exchange: Exchange, found: Sequence[Finding]) -> Iterator[RowChange]:
        """Yield what has changed; `exchange` was read before the bytes, and `found` are the new findings."""
        if self._fold is None or found:
            self._restart(exchange, found)
        if exchange.is_stream and not self._finished:
            yield from self._changes(self._numbered(recording, exchange), exchange.vocabulary)

    def _restart(self, exchange: Exchange, found: Sequence[Finding]) -> None:
        """Go back to the last checkpoint before the first of the findings."""
        if self._fold is not None:
            self._reported = array("q", [known or _STALE_HASH for known in self._reported])
        self._findings += found
        del self._checkpoints[min((self._checkpoints_before(finding) for finding in found), default=0) :]
        since = self._checkpoints[-1] if self._checkpoints else None
        self._fold = StreamFold(exchange, self._findings, None, since)
        self._made, self._read_to = (since.rows, since.position.start) if since else (0, 0)
        self._finished = False

    def _checkpoints_before(self, finding: Finding) -> int:
        if finding.event is not None:
            return bisect_right(self._checkpoints, finding.event - 1, key=lambda mark: mark.position.events)
        if finding.byte_offset is not None:
            return bisect_right(self._checkpoints, finding.byte_offset, key=lambda mark: mark.position.start)
        return len(self._checkpoints)

    def _numbered(self, recording: Recording, exchange: Exchange) -> Iterator[tuple[int, StreamRow]]:
        """Yield the rows with their numbers; the last ones may still grow."""
        for row in self._settled_rows(recording, exchange):
            self._made += 1
            yield self._made - 1, row
        if self._fold is not None and not self._finished:
            yield from enumerate(self._fold.growing(), self._made)

    def _settled_rows(self, recording: Recording, exchange: Exchange) -> Iterator[StreamRow]:
        if self._fold is None:
            return
        for part in recording.body(self._number, Side.RESPONSE, self._read_to):
            end = part.end if isinstance(part, BytesArrived) else part.start + part.count
            if end <= self._read_to:
                continue
            # A stored run of bytes never grows: it is new, or contains the checkpoint at which the fold begins.
            self._read_to = end
            yield from self._fold.feed(part)
            self._checkpoints += self._fold.checkpoints
            self._fold.checkpoints.clear()
        if exchange.ended_ns is not None:
            self._finished = True
            yield from self._fold.finish(exchange)

    def _changes(self, rows: Iterator[tuple[int, StreamRow]], vocabulary: Vocabulary) -> Iterator[RowChange]:
        """Yield all rows from the first one on that differs from what was reported."""
        begin: int | None = None
        batch, size, end = list[str](), 0, self._made
        for number, row in rows:
            end = number + 1
            before = self._reported[number] if begin is None and number < len(self._reported) else None
            if before == _UNKNOWN_HASH:
                continue
            text = timeline_json.row_json(self._number, row, vocabulary)
            if before == hash(text):
                continue
            begin = number if begin is None else begin
            del self._reported[number:]
            self._reported.append(hash(text))
            batch.append(text)
            size += len(text)
            if len(batch) >= _MOST_ROWS or size >= _MOST_CHARACTERS:
                yield RowChange(begin, tuple(batch), min(self._made, end))
                begin, size = end, 0
                batch.clear()
        if batch or len(self._reported) > end:
            del self._reported[end:]
            yield RowChange(end if begin is None else begin, tuple(batch), self._made)
