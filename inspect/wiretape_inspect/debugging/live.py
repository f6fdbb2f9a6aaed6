"""What changes in a recording, told as an event stream; `debugging` says what its messages are."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from wiretape.errors import InputError
from wiretape.recording import Exchange, Recording, TailPosition
from wiretape.rules import Finding
from wiretape.safe_text import shorten
from wiretape_inspect import jsonlines, timeline
from wiretape_inspect.debugging import documents
from wiretape_inspect.debugging.growing import GrowingRows

KEEP_ALIVE = ": keep-alive\n"
_PLACE = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.(-1|[0-9]{1,18})(?:\.([0-9]{1,9}))?", re.ASCII)


def place_text(progress: TailPosition) -> str:
    """A place in a recording, for one who wants to know what comes after it."""
    return f"{progress.segment}.{progress.finding}.{progress.time_ns}"


def place_of(text: str) -> tuple[TailPosition, int | None]:
    """The place that a text means, and the number of rows where it is the id of a message.  Raises InputError."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise InputError(f"{shorten(text, 60)} is no place in a recording: give one that `recording` told.")
    rows = int(match[4]) if match[4] is not None else None
    return TailPosition(int(match[1]), int(match[2]), int(match[3])), rows


class Live:
    """Tells what has changed since it was asked last."""

    def __init__(self, number: int | None, since: TailPosition, rows: int = 0) -> None:
        """Of exchange `number` the rows are told, but the first `rows` of them."""
        self._number = number
        self._since = since
        self._rows = rows
        self._growing: GrowingRows | None = None
        self._last = 0
        self._open: dict[int, Exchange] = {}
        self._codes: set[str] = set()
        self._sure = rows
        self._told = ""
        self.closed = False
        """Whether there will be no more."""

    def read(self, recording: Recording, *, recorded: bool) -> Iterator[str]:
        """The messages about what has changed.  `recorded`: whether somebody was at it before it was opened."""
        until = recording.tail_position()
        watched = recording.exchange(self._number) if self._number is not None else None
        for exchange in self._changed(recording):
            yield self._message("exchange", jsonlines.dump(jsonlines.head(exchange)))
        yield from self._found(recording, watched, until)
        self._since = until
        if self._id != self._told:
            # Without data nobody is told of it, but a browser remembers it.
            yield f"id: {self._id}\n"
            self._told = self._id
        ended_ns = recording.info.ended_ns
        if ended_ns is not None or not recorded:
            self.closed = True
            yield self._message("closed", jsonlines.dump({"ended_ns": ended_ns}))

    def _changed(self, recording: Recording) -> Iterator[Exchange]:
        """The exchanges that are not as they were told."""
        first = not self._last
        for number, before in list(self._open.items()):
            exchange = recording.exchange(number)
            self._remember(exchange)
            if exchange != before:
                yield exchange
        for exchange in recording.exchanges(self._last):
            self._last = exchange.number
            self._remember(exchange)
            if not first or exchange.ended_ns is None or exchange.ended_ns > self._since.time_ns:
                yield exchange

    def _remember(self, exchange: Exchange) -> None:
        if exchange.ended_ns is None:
            self._open[exchange.number] = exchange
        else:
            self._open.pop(exchange.number, None)

    def _found(self, recording: Recording, watched: Exchange | None, until: TailPosition) -> Iterator[str]:
        """Findings, and the rows of the exchange that is watched."""
        mine = list[Finding]()
        for finding in timeline.findings_between(recording, self._since, until):
            yield self._message("finding", jsonlines.dump(self._finding(finding)))
            if watched is not None and finding.exchange == watched.number:
                mine.append(finding)
        if watched is not None:
            yield from self._watched(recording, watched, mine)

    def _finding(self, finding: Finding) -> dict[str, Any]:
        new = finding.code not in self._codes
        self._codes.add(finding.code)
        return {"finding": finding, "rule": documents.rules_of([finding]).get(finding.code) if new else None}

    def _watched(self, recording: Recording, exchange: Exchange, found: Sequence[Finding]) -> Iterator[str]:
        if self._growing is None:
            # What was found since the page left off may change rows that it has.
            self._growing = GrowingRows(exchange.number, 0 if found else self._rows)
            found = [*timeline.findings_about(recording, exchange, self._since), *found]
        for change in self._growing.read(recording, exchange, found):
            self._sure = change.sure
            rows = ",".join(change.rows)
            data = f'{{"exchange":{exchange.number},"first":{change.first},"rows":[{rows}],"sure":{change.sure}}}'
            yield self._message("rows", data)

    def _message(self, name: str, data: str) -> str:
        self._told = self._id
        return f"id: {self._told}\n{message(name, data)}"

    @property
    def _id(self) -> str:
        return f"{place_text(self._since)}.{self._sure}"


def message(name: str, data: str) -> str:
    """A message without its last, empty line."""
    return f"event: {name}\ndata: {data}\n"
