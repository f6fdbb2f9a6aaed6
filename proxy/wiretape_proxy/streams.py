"""What mitmproxy's own interfaces show of an event stream: its last events, and what was found about them."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from shlex import quote

from wiretape import labels
from wiretape.errors import InputError
from wiretape.frame_reader import StreamPosition
from wiretape.labels import count_of
from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape.safe_text import printable, shorten
from wiretape_proxy.reading import Reading
from wiretape_proxy.reports import Found
from wiretape_proxy.rows import HEAD, INDENT, lines_of
from wiretape_proxy.tail import Tail

_LONGEST_MESSAGE = 300


class Stream:
    """An event stream that is recorded, or was."""

    def __init__(self, recording: str, exchange: int, content_encoding: str | None) -> None:
        """`recording`: its path; `exchange`: the number of the stream there."""
        self.tail = Tail(content_encoding)
        self.ending = Ending.OPEN
        self._recording = recording
        self._exchange = exchange
        self._reading = Reading(self.tail)

    def lines(self, findings: Iterable[Found]) -> list[str]:
        """Its last events, with findings beside them, safe to show."""
        self._reading.catch_up(self._find)
        ended = self.ending is not Ending.OPEN
        standing = labels.ending_label(self.ending, stream=True, in_event=ended and self._reading.unfinished > 0)
        beside: dict[int | None, list[Found]] = {}
        for found in findings:
            beside.setdefault(found.event, []).append(found)
        first = f"exchange {self._exchange}: {standing}, {_sum(self._reading, self.tail)}"
        about_all = map(_finding, beside.pop(None, ()))
        return [first, *about_all, *self._hints(), *_table(self._reading, beside, ended=ended)]

    def _find(self, offset: int) -> StreamPosition | None:
        with suppress(InputError), open_recording(self._recording) as recording:
            return recording.position_at_offset(self._exchange, offset)
        return None

    def _hints(self) -> Iterator[str]:
        all_of_it = f"wiretape show {quote(printable(self._recording))} --exchange {self._exchange}"
        if self.tail.size > self.tail.end:
            yield f"Encoded: {count_of(self.tail.end, 'byte')} are kept here; what came after shows {all_of_it}"
        elif not self._reading.whole:
            yield f"The last events are shown here, all of them by {all_of_it}"


def lines_of_body(body: bytes, content_encoding: str | None) -> list[str]:
    """The same for a stream of which there is only the body."""
    tail = Tail(content_encoding)
    tail.keep(body)
    reading = Reading(tail, timed=False)
    reading.catch_up(lambda _: None)
    return [_sum(reading, tail), *_table(reading, {}, ended=True)]


def _sum(reading: Reading, tail: Tail) -> str:
    parts = [] if reading.events is None else [count_of(reading.events, "event")]
    return ", ".join((*parts, count_of(tail.size, "byte")))


def _table(reading: Reading, beside: dict[int | None, list[Found]], *, ended: bool) -> Iterator[str]:
    """The rows, each above its findings."""
    yield HEAD
    for event, line in lines_of(reading.rows):
        yield line
        if event is not None:
            yield from map(_finding, beside.get(event, ()))
    if reading.unfinished:
        yield f"{'cut' if ended else '…':>7}  {count_of(reading.unfinished, 'byte')} of an unfinished event"
    elsewhere = sum(map(len, beside.values())) - sum(len(beside.get(row.event, ())) for row in reading.rows)
    if elsewhere:
        yield f"{INDENT}└ {count_of(elsewhere, 'finding')} about events that are not shown"
    if reading.trouble is not None:
        yield f"Not read on: {shorten(reading.trouble)}."


def _finding(found: Found) -> str:
    return f"{INDENT}└ {found.code} {found.severity}  {shorten(found.message, _LONGEST_MESSAGE)}"
