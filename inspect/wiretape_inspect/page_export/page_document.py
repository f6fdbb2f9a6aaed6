"""The JSON document of a recording in an exported page, made in parts so that memory use stays flat."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wiretape.json_codec import dump_json
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import timeline, timeline_json
from wiretape_inspect.event_detail import find_cut_event
from wiretape_inspect.event_export import bodies, content
from wiretape_inspect.page.page_data import recording_document, resume_lines
from wiretape_inspect.page_export.event_blocks import LARGE, event_blocks, pack
from wiretape_inspect.page_export.event_window import EventWindow, window_matcher, with_omissions
from wiretape_inspect.page_export.state_steps import state_parts
from wiretape_inspect.view.overview import Overview, overview
from wiretape_inspect.view.timeline_rows import CutRow, DeltaRow, EventRow, StreamRow

_Parts = Iterator[bytes]
_MOST_RUNS = 1000
"""How many runs of a stream are listed in a page that does not contain all events."""


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

    def window(self, exchange: Exchange) -> EventWindow | None:
        """Return the events of an exchange that the page contains; None: all of them."""
        return None if self.radius is None else EventWindow(self.findings_about(exchange), self.radius)


def document_parts(page: PageContent, start: str = "") -> _Parts:
    """Yield the document of a recording.  `start` is the fragment of the URL that the page opens with."""
    recording, chosen = page.recording, page.exchanges
    streams = [exchange for exchange in chosen if exchange.is_stream]
    others = [exchange for exchange in chosen if not exchange.is_stream]
    head = recording_document(recording, chosen, page.findings)
    head |= {"live": False, "replay": None, "position": None, **page.overrides}
    cuts: dict[int, list[tuple[int, int]]] = {}
    yield f'{{"format":1,"start":{dump_json(start)},"recording":{dump_json(head)}'.encode()
    yield from _member("rows", chosen, lambda each: _list(_rows(page, each, cuts.setdefault(each.number, []))))
    yield from _member("cuts", streams, lambda each: _list(_cuts(page, each, cuts[each.number])))
    yield from _member("bodies", others, lambda each: _text(dump_json(_bodies(page, each))))
    yield from _member("overviews", streams, lambda each: _text(dump_json(_overview(page, each))))
    yield from _resumes(recording, streams if page.radius is None else [])
    yield from _member("details", streams, lambda each: _list(_blocks(page, each)))
    yield from _member("states", streams, lambda each: _quoted(pack(state_parts(recording, each, page.window(each)))))
    yield b"}"


def _rows(page: PageContent, exchange: Exchange, cuts: list[tuple[int, int]]) -> Iterator[str]:
    """Yield the rows of an exchange, and note in `cuts` where its unfinished messages are."""
    window, findings = page.window(exchange), page.findings_about(exchange)
    if not exchange.is_stream:
        yield from timeline_json.exchange_json_lines(page.recording, exchange, findings)
        return
    yield dump_json({"row": "exchange", **timeline_json.exchange_document(exchange)})
    matches = None if window is None else window_matcher(window)
    shown = _noting_cuts(timeline.rows(page.recording, exchange, findings, matches), cuts)
    for row in shown if window is None else with_omissions(shown, exchange.number):
        yield dump_json(row) if isinstance(row, dict) else timeline_json.row_json(exchange.number, row)


def _noting_cuts(rows: Iterable[StreamRow], cuts: list[tuple[int, int]]) -> Iterator[StreamRow]:
    """Yield the rows, and add to `cuts` the offset of each unfinished message and the number of the event before."""
    event = 1
    for row in rows:
        if isinstance(row, EventRow | DeltaRow):
            event = row.last_event if isinstance(row, DeltaRow) else row.event
        elif isinstance(row, CutRow):
            cuts.append((row.start, event))
        yield row


def _cuts(page: PageContent, exchange: Exchange, cuts: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield the bytes of the unfinished messages."""
    for start, event in cuts:
        seen = find_cut_event(page.recording, exchange, start, event)
        if page.radius is None or len(seen.frame.raw) <= LARGE:
            yield dump_json(
                timeline_json.cut_event_document(page.recording, exchange, seen) | content(seen.frame.raw, parse=False)
            )


def _blocks(page: PageContent, exchange: Exchange) -> Iterator[str]:
    return event_blocks(page.recording, exchange, page.findings_about(exchange), page.window(exchange))


def _bodies(page: PageContent, exchange: Exchange) -> dict[str, dict[str, Any] | None]:
    found = bodies(page.recording, exchange)
    return found if page.radius is None else {side: _omit_large(body) for side, body in found.items()}


def _omit_large(body: dict[str, Any] | None) -> dict[str, Any] | None:
    is_large = body is not None and len(body.get("text") or body.get("base64") or "") > LARGE
    return {"omitted": f"more than {LARGE} bytes"} if is_large else body


def _overview(page: PageContent, exchange: Exchange) -> Overview:
    whole = overview(page.recording, exchange)
    return whole if page.radius is None else replace(whole, runs=whole.runs[:_MOST_RUNS])


def _resumes(recording: Recording, streams: Iterable[Exchange]) -> _Parts:
    """Yield the comparison of each stream with the one before it in its session."""
    pairs, last = list[tuple[Exchange, Exchange]](), dict[str | None, Exchange]()
    for stream in streams:
        if stream.session_id in last:
            pairs.append((last[stream.session_id], stream))
        last[stream.session_id] = stream
    yield from _object(
        "resumes",
        ((f"{first.number}:{second.number}", _list(resume_lines(recording, first, second))) for first, second in pairs),
    )


def _member(name: str, exchanges: Iterable[Exchange], make: Callable[[Exchange], _Parts]) -> _Parts:
    """Yield a member of the document that is an object with a member for each exchange."""
    yield from _object(name, ((str(exchange.number), make(exchange)) for exchange in exchanges))


def _object(name: str, members: Iterable[tuple[str, _Parts]]) -> _Parts:
    yield f',"{name}":{{'.encode()
    for number, (key, value) in enumerate(members):
        yield f'{"," if number else ""}\n"{key}":'.encode()
        yield from value
    yield b"}"


def _text(text: str) -> _Parts:
    yield text.encode()


def _quoted(parts: _Parts) -> _Parts:
    yield b'"'
    yield from parts
    yield b'"'


def _list(lines: Iterable[str]) -> _Parts:
    yield b"["
    for number, line in enumerate(lines):
        yield f"{',' if number else ''}\n{line}".encode()
    yield b"]"
