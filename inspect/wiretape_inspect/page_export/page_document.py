"""The JSON document of a recording in an exported page, made in parts so that memory use stays flat."""

import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wiretape.frame_reader import SeenFrame, read_frames
from wiretape.json_codec import base64_parts, dump_json
from wiretape.observations import BytesArrived, BytesLost, Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import timeline_json
from wiretape_inspect.event_detail import Chunk, chunks_of, find_cut_event
from wiretape_inspect.event_export import bodies, content
from wiretape_inspect.page_export.event_window import EventWindow, window_matcher, with_omissions
from wiretape_inspect.page_export.state_steps import state_parts
from wiretape_inspect.timeline_json import reconnection_json_lines, recording_document
from wiretape_inspect.view.delta_folding import stream_rows
from wiretape_inspect.view.overview import Overview, longest_silence, overview
from wiretape_inspect.view.timeline_rows import CutRow, DeltaRow, EventRow, StreamRow

_Parts = Iterator[bytes]
_MOST_RUNS = 1000
"""How many runs of a stream are listed in a page that does not contain all events."""
_LARGE = 256 << 10
"""Events and bodies with more bytes are left out of a page that does not contain all events."""
_BLOCK_EVENTS, _BLOCK_CHARACTERS = 256, 2 << 20
"""About how much a block contains at most."""
_GZIP_WINDOW = 31
"""The wbits of zlib for a gzip container, whose header then contains no time."""
_GZIP_LEVEL = 6


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
    head |= {"live": False, "replay": None, "other": None, "position": None, **page.overrides}
    head["longest_silence"] = longest_silence(recording, chosen)
    cuts: dict[int, list[tuple[int, int]]] = {}
    yield f'{{"format":1,"start":{dump_json(start)},"recording":{dump_json(head)}'.encode()
    yield from _member("rows", chosen, lambda each: _list(_rows(page, each, cuts.setdefault(each.number, []))))
    yield from _member("cuts", streams, lambda each: _list(_cuts(page, each, cuts[each.number])))
    yield from _member("bodies", others, lambda each: _text(dump_json(_bodies(page, each))))
    yield from _member("overviews", streams, lambda each: _text(dump_json(_overview(page, each))))
    yield from _object("resumes", _resumes(recording, streams if page.radius is None else []))
    yield from _member("details", streams, lambda each: _list(_event_blocks(page, each)))
    yield from _member("states", streams, lambda each: _quoted(_pack(state_parts(recording, each, page.window(each)))))
    yield b"}"


def _rows(page: PageContent, exchange: Exchange, cuts: list[tuple[int, int]]) -> Iterator[str]:
    """Yield the rows of an exchange, and note in `cuts` where its unfinished messages are."""
    window, findings = page.window(exchange), page.findings_about(exchange)
    if not exchange.is_stream:
        yield from timeline_json.exchange_json_lines(page.recording, exchange, findings)
        return
    yield dump_json({"row": "exchange", **timeline_json.exchange_document(exchange)})
    matches = None if window is None else window_matcher(window)
    body = page.recording.body(exchange.number, Side.RESPONSE)
    shown = _noting_cuts(stream_rows(exchange, body, findings, matches), cuts)
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
        if page.radius is None or len(seen.frame.raw) <= _LARGE:
            yield dump_json(
                timeline_json.cut_event_document(page.recording, exchange, seen) | content(seen.frame.raw, parse=False)
            )


def _bodies(page: PageContent, exchange: Exchange) -> dict[str, dict[str, Any] | None]:
    found = bodies(page.recording, exchange)
    for side, body in found.items() if page.radius is not None else ():
        if body is not None and len(body.get("text") or body.get("base64") or "") > _LARGE:
            found[side] = {"omitted": f"more than {_LARGE} bytes"}
    return found


def _overview(page: PageContent, exchange: Exchange) -> Overview:
    whole = overview(page.recording, exchange)
    return whole if page.radius is None else replace(whole, runs=whole.runs[:_MOST_RUNS])


def _resumes(recording: Recording, streams: Iterable[Exchange]) -> Iterator[tuple[str, _Parts]]:
    """Yield the comparison of each stream with the one before it in its session."""
    last: dict[str | None, Exchange] = {}
    for stream in streams:
        if (before := last.get(stream.session_id)) is not None:
            yield f"{before.number}:{stream.number}", _list(reconnection_json_lines(recording, before, stream))
        last[stream.session_id] = stream


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


@dataclass(slots=True)
class _Block:
    first: int
    last: int = 0
    events: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, event: int, text: str) -> None:
        self.last = event
        self.events.append(text)
        self.size += len(text)

    @property
    def is_full(self) -> bool:
        return len(self.events) >= _BLOCK_EVENTS or self.size >= _BLOCK_CHARACTERS

    def json(self) -> str:
        packed = b"".join(_pack([f"[{','.join(self.events)}]".encode()])).decode()
        return f'{{"first":{self.first},"last":{self.last},"gzip":"{packed}"}}'


def _event_blocks(page: PageContent, exchange: Exchange) -> Iterator[str]:
    """Yield the messages of a stream in full, in compressed blocks that the page unpacks when it needs them."""
    block: _Block | None = None
    for event, document in _event_documents(page, exchange):
        if block is not None and (block.is_full or event != block.last + 1):
            yield block.json()
            block = None
        block = block or _Block(event)
        block.add(event, dump_json(document))
    if block is not None:
        yield block.json()


def _event_documents(page: PageContent, exchange: Exchange) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each message with its number, without the state of the client; with a window, no large ones."""
    window = page.window(exchange)
    by_event: dict[int, list[Finding]] = {}
    for finding in page.findings_about(exchange):
        by_event.setdefault(finding.event or 0, []).append(finding)
    since_ns = exchange.began_ns
    for seen, chunks in _frames_with_chunks(page.recording, exchange):
        if seen.event is None:
            continue
        if window is not None and seen.event > window.last:
            return
        if window is None or (seen.event in window and len(seen.frame.raw) <= _LARGE):
            findings = tuple(by_event.get(seen.event, ()))
            document = timeline_json.event_document(exchange, seen, since_ns, findings, chunks)
            yield seen.event, document | content(seen.frame.raw, parse=False)
        since_ns = seen.time_ns


def _frames_with_chunks(recording: Recording, exchange: Exchange) -> Iterator[tuple[SeenFrame, list[Chunk]]]:
    """Yield each frame with the chunks that it arrived in."""
    recent = deque[Chunk]()

    def noting_chunks() -> Iterator[BytesArrived | BytesLost]:
        for part in recording.body(exchange.number, Side.RESPONSE):
            recent.extend(chunks_of(part) if isinstance(part, BytesArrived) else ())
            yield part

    for seen in read_frames(exchange.content_encoding, noting_chunks()):
        yield seen, _chunks_of(seen, recent)


def _chunks_of(seen: SeenFrame, recent: "deque[Chunk]") -> list[Chunk]:
    """Return the chunks of a frame, and drop the chunks before it."""
    start, end = seen.frame.start, seen.frame.end
    while recent and recent[0][1] <= start:
        recent.popleft()
    chunks = []
    for chunk in recent:
        if chunk[0] >= end:
            break
        chunks.append(chunk)
    return chunks


def _pack(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Return the joined parts as gzip in base64, while they are made."""
    compressor = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW)

    def compressed() -> Iterator[bytes]:
        yield from map(compressor.compress, parts)
        yield compressor.flush()

    return base64_parts(compressed())
