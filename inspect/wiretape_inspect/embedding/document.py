"""The document in the page, and the page around it: written in parts, so that memory stays flat."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import jsonlines, timeline
from wiretape_inspect.debugging.documents import recording_document, resume_lines, row_lines
from wiretape_inspect.embedding import states
from wiretape_inspect.embedding.details import LARGE, blocks
from wiretape_inspect.embedding.near import Near, near_matcher, with_omissions
from wiretape_inspect.embedding.packing import packed
from wiretape_inspect.exporting import bodies, content
from wiretape_inspect.page import assembled
from wiretape_inspect.place import find_cut
from wiretape_inspect.view.overview import Overview, overview
from wiretape_inspect.view.rows import CutRow, DeltaRow, EventRow, StreamRow

_Parts = Iterator[bytes]
_RUNS = 1000
"""How many runs of a stream are told of, where not all events are held."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a page holds of a recording."""

    recording: Recording
    exchanges: Sequence[Exchange]
    found: Mapping[int, Sequence[Finding]]
    """The findings that it shows, by exchange."""
    radius: int | None = None
    """How far from them an event may be, to be held; None: all are."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """What the document `recording` says otherwise, or more."""
    cuts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By exchange, where the messages begin that were cut off, and the number of the event before each, or 1."""

    def about(self, exchange: Exchange) -> Sequence[Finding]:
        """The findings about an exchange."""
        return self.found.get(exchange.number, ())

    def noting_cuts(self, exchange: Exchange, rows: Iterable[StreamRow]) -> Iterator[StreamRow]:
        """The same rows, of which `cuts` remembers those that have no event of their own to be asked for."""
        event = 1
        for row in rows:
            if isinstance(row, EventRow | DeltaRow):
                event = row.last_event if isinstance(row, DeltaRow) else row.event
            elif isinstance(row, CutRow):
                self.cuts.setdefault(exchange.number, []).append((row.start, event))
            yield row

    def near(self, exchange: Exchange) -> Near | None:
        """The events of an exchange that are held; None for all of them."""
        return None if self.radius is None else Near(self.about(exchange), self.radius)


def page_with(recording: Recording, exchanges: Sequence[Exchange] | None = None, start: str = "") -> Iterator[bytes]:
    """The page with a recording in it, or some exchanges of one; `start` is what follows # where nothing does."""
    chosen = list(recording.exchanges()) if exchanges is None else list(exchanges)
    held = Held(recording, chosen, timeline.stored_findings(recording))
    return page_of([("data", document(held, start))])


def page_of(documents: Iterable[tuple[str, Iterator[bytes]]]) -> Iterator[bytes]:
    """The page with JSON documents in it, each under a name."""
    page = assembled()
    yield page.before.encode()
    for name, parts in documents:
        yield f'<script type="application/json" id="{name}">'.encode()
        for part in parts:
            # In JSON it stands in strings only; in a page it could end the script.
            yield part.replace(b"<", b"\\u003c")
        yield b"</script>\n"
    yield page.after.encode()


def document(held: Held, start: str = "") -> _Parts:
    """The document of a recording, in parts."""
    recording, chosen = held.recording, held.exchanges
    streams = [exchange for exchange in chosen if exchange.is_stream]
    others = [exchange for exchange in chosen if not exchange.is_stream]
    told = {**recording_document(recording, chosen, held.found), "live": False, "replay": None, "place": None}
    yield f'{{"format":1,"start":{jsonlines.dump(start)},"recording":{jsonlines.dump({**told, **held.told})}'.encode()
    yield from _member("rows", chosen, lambda each: _list(_rows(held, each)))
    yield from _member("cuts", streams, lambda each: _list(_cuts(held, each)))
    yield from _member("bodies", others, lambda each: _one(jsonlines.dump(_bodies(held, each))))
    yield from _member("overviews", streams, lambda each: _one(jsonlines.dump(_overview(held, each))))
    yield from _resumes(recording, streams if held.radius is None else [])
    yield from _member(
        "details", streams, lambda each: _list(blocks(recording, each, held.about(each), held.near(each)))
    )
    yield from _member("states", streams, lambda each: _quoted(packed(states.parts(recording, each, held.near(each)))))
    yield b"}"


def _rows(held: Held, exchange: Exchange) -> Iterator[str]:
    near, findings = held.near(exchange), held.about(exchange)
    if not exchange.is_stream:
        yield from row_lines(held.recording, exchange, findings)
        return
    yield jsonlines.dump({"row": "exchange", **jsonlines.head(exchange)})
    take = None if near is None else near_matcher(near)
    shown = held.noting_cuts(exchange, timeline.rows(held.recording, exchange, findings, take))
    for row in shown if near is None else with_omissions(shown, exchange.number):
        yield jsonlines.dump(row) if isinstance(row, dict) else jsonlines.row_text(exchange.number, row)


def _cuts(held: Held, exchange: Exchange) -> Iterator[str]:
    """The bytes of the messages that were cut off."""
    for start, event in held.cuts.get(exchange.number, ()):
        seen = find_cut(held.recording, exchange, start, event)
        if held.radius is None or len(seen.frame.raw) <= LARGE:
            yield jsonlines.dump(jsonlines.cut(held.recording, exchange, seen) | content(seen.frame.raw, parse=False))


def _bodies(held: Held, exchange: Exchange) -> dict[str, dict[str, Any] | None]:
    found = bodies(held.recording, exchange)
    if held.radius is None:
        return found
    return {side: _cut(body) for side, body in found.items()}


def _cut(body: dict[str, Any] | None) -> dict[str, Any] | None:
    large = body is not None and len(body.get("text") or body.get("base64") or "") > LARGE
    return {"omitted": f"more than {LARGE} bytes"} if large else body


def _overview(held: Held, exchange: Exchange) -> Overview:
    whole = overview(held.recording, exchange)
    if held.radius is None:
        return whole
    return replace(whole, runs=whole.runs[:_RUNS])


def _member(name: str, exchanges: Iterable[Exchange], make: Callable[[Exchange], _Parts]) -> _Parts:
    """A member of the document that has one for each exchange."""
    yield from _object(name, ((str(exchange.number), make(exchange)) for exchange in exchanges))


def _object(name: str, members: Iterable[tuple[str, _Parts]]) -> _Parts:
    yield f',"{name}":{{'.encode()
    for place, (key, value) in enumerate(members):
        yield f'{"," if place else ""}\n"{key}":'.encode()
        yield from value
    yield b"}"


def _resumes(recording: Recording, streams: Iterable[Exchange]) -> _Parts:
    """Each stream beside the one before it in its session."""
    pairs, last = list[tuple[Exchange, Exchange]](), dict[str | None, Exchange]()
    for stream in streams:
        if stream.session_id in last:
            pairs.append((last[stream.session_id], stream))
        last[stream.session_id] = stream
    yield from _object(
        "resumes",
        ((f"{first.number}:{second.number}", _list(resume_lines(recording, first, second))) for first, second in pairs),
    )


def _one(text: str) -> _Parts:
    yield text.encode()


def _quoted(parts: _Parts) -> _Parts:
    yield b'"'
    yield from parts
    yield b'"'


def _list(lines: Iterable[str]) -> _Parts:
    yield b"["
    for place, line in enumerate(lines):
        yield f"{',' if place else ''}\n{line}".encode()
    yield b"]"
