"""The document in the page, and the page around it: written in parts, so that memory stays flat."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from wiretape.recording import Exchange, Recording
from wiretape_inspect import jsonlines, timeline
from wiretape_inspect.debugging.documents import recording_document, resume_lines, row_lines
from wiretape_inspect.embedding import states
from wiretape_inspect.embedding.details import blocks
from wiretape_inspect.embedding.packing import packed
from wiretape_inspect.exporting import bodies
from wiretape_inspect.page import assembled
from wiretape_inspect.view.overview import overview

_Parts = Iterator[bytes]


def page_with(recording: Recording, exchanges: Sequence[Exchange] | None = None, start: str = "") -> Iterator[bytes]:
    """The page with a recording in it, or some exchanges of one; `start` is what follows # where nothing does."""
    page = assembled()
    yield page.before.encode()
    yield b'<script type="application/json" id="data">'
    for part in document(recording, exchanges, start):
        # In JSON it stands in strings only; in a page it could end the script.
        yield part.replace(b"<", b"\\u003c")
    yield b"</script>"
    yield page.after.encode()


def document(recording: Recording, exchanges: Sequence[Exchange] | None, start: str) -> _Parts:
    """The document, in parts."""
    chosen = list(recording.exchanges()) if exchanges is None else list(exchanges)
    streams = [exchange for exchange in chosen if exchange.is_stream]
    told = {**recording_document(recording, chosen), "live": False, "replay": None, "place": None}
    yield f'{{"format":1,"start":{jsonlines.dump(start)},"recording":{jsonlines.dump(told)}'.encode()
    found = timeline.stored_findings(recording)
    yield from _member("rows", chosen, lambda each: _list(row_lines(recording, each, found.get(each.number, ()))))
    others = [exchange for exchange in chosen if not exchange.is_stream]
    yield from _member("bodies", others, lambda each: _one(jsonlines.dump(bodies(recording, each))))
    yield from _member("overviews", streams, lambda each: _one(jsonlines.dump(overview(recording, each))))
    yield from _resumes(recording, streams)
    yield from _member("details", streams, lambda each: _list(blocks(recording, each, found.get(each.number, ()))))
    yield from _member("states", streams, lambda each: _quoted(packed(states.parts(recording, each))))
    yield b"}"


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
