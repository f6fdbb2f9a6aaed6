"""What the page asks of the recording, one function for each address."""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from aiohttp import web

from wiretape.recording import Recording
from wiretape_inspect import jsonlines, place, timeline
from wiretape_inspect.debugging import answers, asked, documents
from wiretape_inspect.debugging.reading import Reader
from wiretape_inspect.exporting import bodies
from wiretape_inspect.view.filter_grammar import parse_filter
from wiretape_inspect.view.filter_match import compile_filter
from wiretape_inspect.view.overview import overview

Answer = Callable[[web.Request, Reader], Awaitable[web.StreamResponse]]


async def document(reader: Reader, make: Callable[[Recording], Any]) -> web.StreamResponse:
    """What `make` makes, which is also written in the reader's thread."""
    return answers.document(await reader.do(lambda recording: jsonlines.dump(make(recording)).encode()))


async def _rows(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange", "filter"))
    number, matches = asked.number(request, "exchange"), compile_filter(parse_filter(request.query.get("filter", "")))

    def made(recording: Recording) -> Iterator[str]:
        exchange = asked.exchange(recording, number)
        return documents.row_lines(recording, exchange, timeline.findings_about(recording, exchange), matches)

    return await answers.lines(request, reader, made)


async def _events(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange", "first", "last"))
    number, first, last = (asked.number(request, name) for name in ("exchange", "first", "last"))
    return await answers.lines(
        request,
        reader,
        lambda recording: documents.event_lines(recording, asked.stream(recording, number), first, last),
    )


async def _bodies(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange",))
    number = asked.number(request, "exchange")
    return await document(reader, lambda recording: bodies(recording, asked.exchange(recording, number)))


async def _overview(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange",))
    number = asked.number(request, "exchange")
    return await document(reader, lambda recording: overview(recording, asked.stream(recording, number)))


async def _event(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange", "event"))
    number, event = asked.number(request, "exchange"), asked.number(request, "event")

    def made(recording: Recording) -> dict[str, Any]:
        stream = asked.stream(recording, number)
        with asked.to_be_there():
            around = place.find(recording, stream, event)
        return documents.event_document(recording, stream, around)

    return await document(reader, made)


async def _cut(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("exchange", "start", "event"))
    number, start, event = (asked.number(request, name) for name in ("exchange", "start", "event"))

    def made(recording: Recording) -> dict[str, Any]:
        stream = asked.stream(recording, number)
        with asked.to_be_there():
            seen = place.find_cut(recording, stream, start, event)
        return jsonlines.cut(recording, stream, seen) | {"base64": b64encode(seen.frame.raw).decode()}

    return await document(reader, made)


async def _resume(request: web.Request, reader: Reader) -> web.StreamResponse:
    asked.only(request, ("first", "second"))
    first, second = asked.number(request, "first"), asked.number(request, "second")
    return await answers.lines(
        request,
        reader,
        lambda recording: documents.resume_lines(
            recording, asked.exchange(recording, first), asked.exchange(recording, second)
        ),
    )


ANSWERS: Mapping[str, Answer] = {
    "rows": _rows,
    "events": _events,
    "bodies": _bodies,
    "overview": _overview,
    "event": _event,
    "cut": _cut,
    "resume": _resume,
}
