"""A recording that is still being written, as lines: what there is, then what comes, until it is closed."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from wiretape.contract import is_event_stream
from wiretape.json_output import dump_json
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
from wiretape_inspect import timeline, timeline_json, timeline_text
from wiretape_inspect.timeline_text import Paper
from wiretape_inspect.view.filter_grammar import Filter
from wiretape_inspect.view.filter_match import compile_filter, finding_subject, may_match_exchange
from wiretape_inspect.view.stream_fold import StreamFold
from wiretape_inspect.view.timeline_rows import StreamRow

WAIT_S = 0.2
"""How long nothing is asked after nothing has come."""


def follow(path: Path, whole: Filter, *, paper: Paper, as_json: bool) -> Iterator[str]:
    """The lines of `wiretape show --follow`, in order of time; ends when the recording is closed."""
    follower = _Json(whole) if as_json else _Lines(whole, paper)
    seen = TailPosition()
    while True:
        # Opened anew each time: a reader that stays would keep the writer from closing the file tidily.
        with open_recording(path) as recording:
            closed = recording.info.ended_ns is not None
            until = recording.tail_position()
            if until != seen:
                yield from follower.read(recording, seen, until)
            else:
                yield from follower.rest()
            if closed:
                yield from follower.finish(recording)
                return
        if until == seen:
            time.sleep(WAIT_S)
        seen = until


class _Follower:
    """Folds what comes of all exchanges; says it in the words of `_Lines` or `_Json`."""

    def __init__(self, whole: Filter) -> None:
        self._filter = whole
        self._take = compile_filter(whole)
        self._open: dict[int, tuple[Exchange, StreamFold | None]] = {}

    def read(self, recording: Recording, after: TailPosition, until: TailPosition) -> Iterator[str]:
        """What came."""
        for seen in recording.observations_between(after, until):
            yield from self._observe(recording, seen)
        for found in timeline.findings_between(recording, after, until):
            if self._take is None or self._take(finding_subject(found)):
                yield from self._finding(found)

    def rest(self) -> Iterator[str]:
        """Nothing comes just now: show what was kept because it could have grown."""
        for exchange, fold in self._open.values():
            if fold is not None:
                yield from self._said(exchange, fold.release())

    def finish(self, recording: Recording) -> Iterator[str]:
        """The recording is closed: show what nobody ended."""
        for number in list(self._open):
            yield from self._end(recording, number)

    def _observe(self, recording: Recording, seen: Observation) -> Iterator[str]:
        number = seen.exchange
        if isinstance(seen, RequestStarted):
            exchange = recording.exchange(number)
            if may_match_exchange(self._filter, exchange):
                self._open[number] = (exchange, None)
        elif number in self._open:
            yield from self._go_on(recording, number, seen)

    def _go_on(self, recording: Recording, number: int, seen: Observation) -> Iterator[str]:
        """What is seen of an exchange that has begun."""
        exchange, fold = self._open[number]
        if isinstance(seen, ResponseStarted) and is_event_stream(header(seen.headers, "content-type")):
            exchange = recording.exchange(number)
            self._open[number] = (exchange, StreamFold(exchange, (), self._take))
        elif isinstance(seen, BytesArrived | BytesLost) and seen.side is Side.RESPONSE and fold is not None:
            yield from self._said(exchange, fold.feed(seen))
        elif isinstance(seen, ExchangeEnded):
            yield from self._end(recording, number)

    def _end(self, recording: Recording, number: int) -> Iterator[str]:
        _, fold = self._open.pop(number)
        exchange = recording.exchange(number)
        if fold is not None:
            yield from self._said(exchange, fold.finish(exchange))
        else:
            yield from self._request(recording, exchange)

    def _said(self, exchange: Exchange, rows: Iterable[StreamRow]) -> Iterator[str]:
        raise NotImplementedError

    def _request(self, recording: Recording, exchange: Exchange) -> Iterator[str]:
        raise NotImplementedError

    def _finding(self, found: Finding) -> Iterator[str]:
        raise NotImplementedError


class _Lines(_Follower):
    """For people: the head of an exchange stands wherever the lines of another one stood before."""

    def __init__(self, whole: Filter, paper: Paper) -> None:
        super().__init__(whole)
        self._paper = paper
        self._last = 0

    def _said(self, exchange: Exchange, rows: Iterable[StreamRow]) -> Iterator[str]:
        for row in rows:
            if self._last != exchange.number:
                self._last = exchange.number
                yield self._paper.line(timeline_text.head(exchange))
            yield from map(self._paper.line, timeline.row_spans(row))

    def _request(self, recording: Recording, exchange: Exchange) -> Iterator[str]:
        for spans in timeline.spans(recording, exchange, (), self._take):
            self._last = exchange.number
            yield self._paper.line(spans)

    def _finding(self, found: Finding) -> Iterator[str]:
        where = f"{found.exchange}" if found.event is None else f"{found.exchange}:{found.event}"
        yield self._paper.line([*timeline_text.finding(found), (f"  at {where}", "dim")])


class _Json(_Follower):
    """For programs: the head of an exchange comes once, before its first row, and findings by themselves."""

    def __init__(self, whole: Filter) -> None:
        super().__init__(whole)
        self._known: set[int] = set()

    def _said(self, exchange: Exchange, rows: Iterable[StreamRow]) -> Iterator[str]:
        for row in rows:
            if exchange.number not in self._known:
                self._known.add(exchange.number)
                yield dump_json({"row": "exchange", **timeline_json.head(exchange)})
            yield dump_json(timeline_json.row(exchange.number, row))

    def _request(self, recording: Recording, exchange: Exchange) -> Iterator[str]:
        yield from map(dump_json, timeline_json.rows(recording, exchange, (), self._take))

    def _finding(self, found: Finding) -> Iterator[str]:
        said: dict[str, Any] = {"row": "finding", "exchange": found.exchange, "finding": found}
        yield dump_json(said)
