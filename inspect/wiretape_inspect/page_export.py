"""Page export: the debugger's page as one file that contains its recording.

The page contains one JSON document in `<script type="application/json" id="data">`, with `<` written as `\\u003c`:

`{format: 1, answers, events, states}`

`answers`
    By path, such as `/api/rows?exchange=2`, what the API of the debugger answers (see `wiretape_inspect.debugger`): a
    list for an endpoint that answers with lines.  These are `recording`, in which `live` is false, and `replay` and
    `position` are null; `longest-silence`; for each exchange `rows` and `bodies`; for each stream `overview`, and `cut`
    for each row `cut`; and `resume` for each stream and the one before it in its channel.
`events`, `states`
    By stream, the answers of `event` in two pieces.  Each is a list of blocks `{first, last, gzip}`: the numbers of the
    first and last event and, as gzip in base64, a JSON array with an item for each event.  In `events`, that is the
    answer without `state`; in `states`, the change from the state after the event before to the one after this event,
    as `find_change` describes it.  The first item of a block is `[state]`.

Filters have no answers: the page applies them itself.

A report (`wiretape report --format html`) contains more: `<script … id="report">` is `{format: 1, start, files}`, with
`{file, summary, severities}` of each recording.  Their documents are `data`, `data-2`, `data-3` and so on; `f` in the
fragment of the URL selects one by its number.  `/api/recording` then has `report`, and more fields of findings and
rules: `report/html_format.py` makes them.  If `report.radius` is not null, the document contains only events at most
that far from a finding: `rows?…` contains rows `{row: "omitted", first, last}` in place of the other events.
"""

import gzip
import sys
from base64 import b64encode
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import compress, count
from operator import is_not
from typing import Any
from urllib.parse import urlencode

from wiretape.event import Event
from wiretape.json_codec import dump_json
from wiretape.observations import Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import timeline_json
from wiretape_inspect.debugger.api_endpoints import DOCUMENTS, LINES
from wiretape_inspect.event_detail import Chunk, chunks
from wiretape_inspect.page import exported_page
from wiretape_inspect.timeline_text import stored_findings
from wiretape_inspect.view.accumulated_state import ClientHistory, State, longest_silence
from wiretape_inspect.view.delta_folding import stream_rows
from wiretape_inspect.view.filters import CompiledFilter, Subject
from wiretape_inspect.view.timeline_rows import CutRow, DeltaRow, EndRow, EventRow, event_rows

_Parts = Iterator[bytes]
_LARGE = 256 << 10
"""Events and bodies with more bytes are left out of a page that does not contain all events."""
_BLOCK_EVENTS, _BLOCK_STATES, _BLOCK_CHARACTERS = 256, 2048, 2 << 20
"""About how much a block contains at most.  The first state of each may have long texts."""
_OVERLAP = 64
"""Characters by which the beginning of a text is found in the text before."""


class _EventWindow:
    """The events of one exchange that are at most `radius` events away from a finding.

    A finding about the exchange as a whole counts as one about its first event, and so does no finding at all.
    """

    def __init__(self, findings: Iterable[Finding], radius: int) -> None:
        self._middles = sorted({finding.event or 1 for finding in findings} or {1})
        self._radius = radius
        self.last = self._middles[-1] + radius
        """The number of the last event in the window."""

    def __contains__(self, event: object) -> bool:
        if not isinstance(event, int):
            return False
        at = bisect_left(self._middles, event - self._radius)
        return at < len(self._middles) and self._middles[at] <= event + self._radius


@dataclass(frozen=True, slots=True)
class PageContent:
    """What a page contains of a recording."""

    recording: Recording
    exchanges: Sequence[Exchange]
    findings: Mapping[int, Sequence[Finding]]
    """The findings that are shown, by exchange."""
    radius: int | None = None
    """The page contains the events at most this far from a finding; None: all events."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Members of the document `recording` that are added or replaced."""

    def findings_about(self, exchange: Exchange) -> Sequence[Finding]:
        """Return the findings about an exchange."""
        return self.findings.get(exchange.number, ())

    def window(self, exchange: Exchange) -> _EventWindow | None:
        """Return the events of an exchange that the page contains; None: all of them."""
        return None if self.radius is None else _EventWindow(self.findings_about(exchange), self.radius)


def export_page(
    recording: Recording,
    exchanges: Sequence[Exchange] | None = None,
    findings: Sequence[Mapping[str, Any]] | None = None,
) -> Iterator[bytes]:
    """Yield the page with a recording, or with some of its exchanges, in parts.

    `findings` are those of the live checks with their evidence; without them, the page shows no evidence.
    """
    chosen = list(recording.exchanges()) if exchanges is None else list(exchanges)
    shown = {} if findings is None else {"findings": findings}
    content = PageContent(recording, chosen, stored_findings(recording), overrides=shown)
    return page_parts([("data", document_parts(content))])


def page_parts(documents: Iterable[tuple[str, Iterator[bytes]]]) -> Iterator[bytes]:
    """Yield the page with JSON documents, each in an element with the given id."""
    page = exported_page()
    yield page.before.encode()
    for name, parts in documents:
        yield f'<script type="application/json" id="{name}">'.encode()
        for part in parts:
            # In JSON, `<` occurs only in strings; in the page, it could end the script element.
            yield part.replace(b"<", b"\\u003c")
        yield b"</script>\n"
    yield page.after.encode()


def document_parts(page: PageContent) -> _Parts:
    """Yield the document of a recording."""
    recording, chosen = page.recording, page.exchanges
    streams = [exchange for exchange in chosen if exchange.is_stream]
    head = timeline_json.recording_document(recording, chosen, page.findings)
    head |= {"live": False, "replay": None, "other": None, "position": None, **page.overrides}
    yield f'{{"format":1,"answers":{{\n"/api/recording":{dump_json(head)}'.encode()
    for path, parts in _answers(page, streams):
        yield f",\n{dump_json(path)}:".encode()
        yield from parts
    yield b'},"events":{'
    yield from _members(
        streams, lambda each: _list(_blocks(_event_documents(page, each), _BLOCK_EVENTS, lambda _, document: document))
    )
    yield b'},"states":{'
    yield from _members(streams, lambda each: _list(_blocks(_states(page, each), _BLOCK_STATES, find_change)))
    yield b"}}"


def _answers(page: PageContent, streams: Sequence[Exchange]) -> Iterator[tuple[str, _Parts]]:
    """Yield the answers of the API to all requests of the page but those about single events."""
    recording = page.recording
    yield _path("longest-silence"), _text(dump_json(longest_silence(recording, page.exchanges)))
    for exchange in page.exchanges:
        number = exchange.number
        cuts: list[tuple[int, int]] = []
        yield _path("rows", exchange=number), _list(_rows(page, exchange, cuts))
        yield _path("bodies", exchange=number), _text(dump_json(_bodies(page, exchange)))
        if not exchange.is_stream:
            continue
        yield _path("overview", exchange=number), _text(dump_json(DOCUMENTS["overview"](recording, exchange=number)))
        for start, event in cuts:
            answer = DOCUMENTS["cut"](recording, exchange=number, start=start, event=event)
            if page.radius is None or answer["end"] - start <= _LARGE:
                yield _path("cut", exchange=number, start=start, event=event), _text(dump_json(answer))
    last: dict[str | None, Exchange] = {}
    for stream in streams if page.radius is None else ():
        if (before := last.get(stream.channel)) is not None:
            query = {"first": before.number, "second": stream.number}
            yield _path("resume", **query), _list(LINES["resume"](recording, **query))
        last[stream.channel] = stream


def _path(name: str, **query: int) -> str:
    return f"/api/{name}" + (f"?{urlencode(query)}" if query else "")


def _rows(page: PageContent, exchange: Exchange, cuts: list[tuple[int, int]]) -> Iterator[str]:
    """Yield the rows of an exchange, with a row `omitted` wherever events are missing between them.

    Adds to `cuts` the offset of each unfinished message, and the number of the event before.
    """
    window, findings = page.window(exchange), page.findings_about(exchange)
    if not exchange.is_stream:
        yield from timeline_json.exchange_json_lines(page.recording, exchange, findings)
        return
    vocabulary = exchange.vocabulary
    yield dump_json({"row": "exchange", **timeline_json.exchange_document(exchange, vocabulary)})
    matches = None if window is None else _window_filter(window)
    following = 1  # the number of the next event
    for row in stream_rows(exchange, page.recording.body(exchange.number, Side.RESPONSE), findings, matches):
        first, last = following, following - 1
        if isinstance(row, EventRow | DeltaRow):
            first, last = row.numbers
        elif isinstance(row, EndRow):
            first, last = row.events + 1, row.events
        elif isinstance(row, CutRow):
            cuts.append((row.start, max(last, 1)))
        if first > following:
            omitted = {"row": "omitted", "exchange": exchange.number, "first": following, "last": first - 1}
            yield dump_json(omitted | {"time_ns": None})
        following = last + 1
        yield timeline_json.row_json(exchange.number, row, vocabulary)


def _window_filter(window: _EventWindow) -> CompiledFilter:
    """Return a filter for the events in the window, the other rows among them, and all rows with findings."""
    inside = True

    def matches(subject: Subject) -> bool:
        nonlocal inside
        if subject.event is not None:
            inside = subject.event in window
            return inside
        return inside or bool(subject.codes) or "end" in subject.kinds

    return CompiledFilter(matches)


def _bodies(page: PageContent, exchange: Exchange) -> dict[str, dict[str, Any] | None]:
    found: dict[str, dict[str, Any] | None] = DOCUMENTS["bodies"](page.recording, exchange=exchange.number)
    for side, body in found.items() if page.radius is not None else ():
        if body is not None and len(body.get("text") or body.get("base64") or "") > _LARGE:
            found[side] = {"omitted": f"more than {_LARGE} bytes"}
    return found


def _members(exchanges: Iterable[Exchange], make: Callable[[Exchange], _Parts]) -> _Parts:
    """Yield the members of an object with a member for each exchange."""
    for at, exchange in enumerate(exchanges):
        yield f'{"," if at else ""}\n"{exchange.number}":'.encode()
        yield from make(exchange)


def _text(text: str) -> _Parts:
    yield text.encode()


def _list(lines: Iterable[str]) -> _Parts:
    yield b"["
    for number, line in enumerate(lines):
        yield f"{',' if number else ''}\n{line}".encode()
    yield b"]"


def _blocks(
    values: Iterable[tuple[int, object]], most: int, encode: Callable[[object, object], object]
) -> Iterator[str]:
    """Yield values of events in blocks of consecutive events, which the page unpacks.

    A block contains what `encode` makes of the value before, which is None at its beginning, and of each value.
    """
    items: list[str] = []
    first = size = 0
    before: object = None
    for event, value in values:
        if items and (event != first + len(items) or len(items) >= most or size >= _BLOCK_CHARACTERS):
            yield _block(first, items)
            items, size, before = [], 0, None
        first = first if items else event
        items.append(dump_json(encode(before, value)))
        size += len(items[-1])
        before = value
    if items:
        yield _block(first, items)


def _block(first: int, items: Sequence[str]) -> str:
    """Return a JSON array with an item for each event as gzip in base64; its header contains no time."""
    packed = b64encode(gzip.compress(f"[{','.join(items)}]".encode(), 6, mtime=0)).decode()
    return f'{{"first":{first},"last":{first + len(items) - 1},"gzip":"{packed}"}}'


def _states(page: PageContent, exchange: Exchange) -> Iterator[tuple[int, State]]:
    """Yield the state after each event of a stream."""
    window = page.window(exchange)
    history = ClientHistory(page.recording, exchange)
    for event in page.recording.events(exchange.number):
        if window is not None and event.number > window.last:
            return
        history.add(event)
        if window is None or event.number in window:
            yield event.number, history.state()


def _event_documents(page: PageContent, exchange: Exchange) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each message with its number, without the state of the client; with a window, no large ones."""
    window = page.window(exchange)
    by_event: dict[int, list[Finding]] = {}
    for finding in page.findings_about(exchange):
        by_event.setdefault(finding.event or 0, []).append(finding)
    recent, later = deque[Chunk](), chunks(page.recording, exchange, 0, sys.maxsize)

    def chunks_of(event: Event) -> list[Chunk]:
        start, end = event.frame.start, event.frame.end
        while (not recent or recent[-1][1] < end) and (chunk := next(later, None)):
            recent.append(chunk)
        while recent and recent[0][1] <= start:
            recent.popleft()
        return [chunk for chunk in recent if chunk[0] < end]

    vocabulary = exchange.vocabulary
    for row in event_rows(page.recording, exchange):
        event = row.event
        if window is not None and event.number > window.last:
            return
        if window is None or (event.number in window and len(event.raw) <= _LARGE):
            shown = replace(row, findings=tuple(by_event.get(event.number, ())))
            document = timeline_json.event_document(exchange, shown, chunks_of(event), vocabulary)
            yield event.number, document | timeline_json.content(event.raw, parse=False)


def find_change(before: object, now: object) -> object:
    """Return the change from one value to another that is not equal, as JSON.

    `[value]`: the new value.  `[units, text]`: a text without its first UTF-16 code units, and with more at its end.
    `{name: change}`: the members of an object that change; of an array by index, with its new `length`.
    """
    if isinstance(before, str) and isinstance(now, str):
        return _text_change(before, now)
    if isinstance(before, tuple) and isinstance(now, tuple):
        # Most members of a long array are the same objects as before.
        others = compress(count(), map(is_not, before, now))
        changed: dict[str, object] = {
            str(at): find_change(before[at], now[at]) for at in others if before[at] != now[at]
        }
        added = {str(at): [now[at]] for at in range(len(before), len(now))}
        return {"length": len(now), **changed, **added}
    members: Iterable[tuple[str, object, object]] = ()
    if isinstance(before, dict) and isinstance(now, dict) and before.keys() == now.keys():
        members = ((name, before[name], now[name]) for name in now)
    elif type(before) is type(now) and is_dataclass(now):
        names = [member.name for member in fields(now)]
        members = ((name, getattr(before, name), getattr(now, name)) for name in names)
    if members:
        return {name: find_change(one, other) for name, one, other in members if one is not other and one != other}
    return [now]


def _text_change(before: str, now: str) -> list[object]:
    kept = 0 if now.startswith(before) else before.find(now[:_OVERLAP])
    if not before or kept < 0 or not now.startswith(before[kept:]):
        return [now]
    return [_utf16_length(before[:kept]), now[len(before) - kept :]]


def _utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
