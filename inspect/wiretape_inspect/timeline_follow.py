"""Follow a recording that is still growing: print what it holds, then what is added, until it is closed."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from wiretape.contract.vocabulary import Vocabulary
from wiretape.json_codec import dump_json
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.recording import Exchange, Recording, TailPosition, open_recording
from wiretape.rules import Finding
from wiretape.sse import is_event_stream
from wiretape_inspect import timeline_json, timeline_text
from wiretape_inspect.terminal_output import Line
from wiretape_inspect.view.delta_folding import StreamFold
from wiretape_inspect.view.filters import Filter, compile_filter, finding_subject, may_match_exchange, parse_filter
from wiretape_inspect.view.timeline_rows import StreamRow

POLL_S = 0.2
"""How long to wait after nothing was added."""


def follow_recording(path: Path, filter_: str, *, as_json: bool) -> Iterator[Line | str]:
    """Yield the lines of `wiretape show --follow` in order of time, until the recording is closed."""
    follower: _Follower | None = None
    last = TailPosition()
    while True:
        # Opened anew each time: an open reader would keep the writer from closing the file cleanly.
        with open_recording(path) as recording:
            if follower is None:
                follower = _Follower(parse_filter(filter_, recording.vocabularies), as_json=as_json)
            is_closed = recording.info.ended_ns is not None
            position = recording.tail_position()
            if position != last:
                yield from follower.read(recording, last, position)
            else:
                yield from follower.release()
            if is_closed:
                yield from follower.finish(recording)
                return
        if position == last:
            time.sleep(POLL_S)
        last = position


class _Follower:
    """Folds what is added to all exchanges, and prints it.

    As text, the line of an exchange is repeated whenever another exchange came in between; as JSON, it comes once.
    """

    def __init__(self, filter_: Filter, *, as_json: bool) -> None:
        self._filter = filter_
        self._take = compile_filter(filter_)
        self._as_json = as_json
        self._open: dict[int, tuple[Exchange, StreamFold | None]] = {}
        self._headed: set[int] = set()
        """The exchanges whose line need not be printed before their next row."""

    def _rows(self, exchange: Exchange, rows: Iterable[StreamRow]) -> Iterator[Line | str]:
        vocabulary = exchange.vocabulary
        for row in rows:
            if exchange.number not in self._headed:
                self._note_head(exchange)
                yield self._head(exchange, vocabulary)
            if self._as_json:
                yield timeline_json.row_json(exchange.number, row, vocabulary)
            else:
                yield from timeline_text.row_lines(row, vocabulary)

    def _head(self, exchange: Exchange, vocabulary: Vocabulary) -> Line | str:
        if self._as_json:
            return dump_json(timeline_json.exchange_row(exchange, vocabulary))
        return timeline_text.exchange_line(exchange)

    def _note_head(self, exchange: Exchange) -> None:
        if not self._as_json:
            self._headed.clear()
        self._headed.add(exchange.number)

    def _request(self, recording: Recording, exchange: Exchange) -> Iterator[Line | str]:
        print_exchange = timeline_json.exchange_json_lines if self._as_json else timeline_text.exchange_lines
        for line in print_exchange(recording, exchange, (), self._take):
            self._note_head(exchange)
            yield line

    def _finding(self, finding: Finding) -> Line | str:
        if self._as_json:
            return dump_json({"row": "finding", "exchange": finding.exchange, "finding": finding})
        location = f"{finding.exchange}" if finding.event is None else f"{finding.exchange}:{finding.event}"
        return timeline_text.finding_line(finding, f"  at {location}")

    def read(self, recording: Recording, after: TailPosition, until: TailPosition) -> Iterator[Line | str]:
        """Yield the lines about what was added between two positions."""
        for seen in recording.observations_between(after, until):
            yield from self._observe(recording, seen)
        for finding in recording.findings(after=after, until=until):
            if self._take is None or self._take(finding_subject(finding)):
                yield self._finding(finding)

    def release(self) -> Iterator[Line | str]:
        """Nothing was added: yield the rows that were kept back because they may still grow."""
        for exchange, fold in self._open.values():
            if fold is not None:
                yield from self._rows(exchange, fold.release())

    def finish(self, recording: Recording) -> Iterator[Line | str]:
        """The recording is closed: yield the lines about exchanges that never ended."""
        for number in list(self._open):
            yield from self._end(recording, number)

    def _observe(self, recording: Recording, seen: Observation) -> Iterator[Line | str]:
        number = seen.exchange
        if isinstance(seen, RequestStarted):
            exchange = recording.exchange(number)
            if may_match_exchange(self._filter, exchange):
                self._open[number] = (exchange, None)
            return
        if number not in self._open:
            return
        exchange, fold = self._open[number]
        if isinstance(seen, ResponseStarted) and is_event_stream(header(seen.headers, "content-type")):
            exchange = recording.exchange(number)
            self._open[number] = (exchange, StreamFold(exchange, (), self._take))
        elif isinstance(seen, BytesArrived | BytesLost) and seen.side is Side.RESPONSE and fold is not None:
            yield from self._rows(exchange, fold.feed(seen))
        elif isinstance(seen, ExchangeEnded):
            yield from self._end(recording, number)

    def _end(self, recording: Recording, number: int) -> Iterator[Line | str]:
        _, fold = self._open.pop(number)
        exchange = recording.exchange(number)
        if fold is not None:
            yield from self._rows(exchange, fold.finish(exchange))
        else:
            yield from self._request(recording, exchange)
