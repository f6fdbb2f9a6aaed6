"""The read endpoints of the debugger's API: query parameters, what each endpoint returns, and the responses.

An endpoint is a function of the recording; its keyword parameters are the query parameters of the request.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

from aiohttp import web

from wiretape.errors import InputError
from wiretape.json_codec import dump_json
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import shorten
from wiretape_inspect import event_detail, timeline_json
from wiretape_inspect.debugger.recording_thread import RecordingThread
from wiretape_inspect.event_export import bodies, event_as_test
from wiretape_inspect.report.evidence_json import evidence_document, locate_one
from wiretape_inspect.timeline_text import matching_rows, stored_findings
from wiretape_inspect.view.filter_grammar import parse_filter
from wiretape_inspect.view.filter_match import compile_filter
from wiretape_inspect.view.overview import longest_silence, overview
from wiretape_inspect.view.timeline_rows import DeltaRow, EventRow

_MOST_FINDINGS = 200
"""Findings of one event, or of an exchange as a whole, that are returned with their evidence."""
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class NotFoundError(InputError):
    """The exchange, event or path of a request does not exist."""


def _rows(recording: Recording, *, exchange: int, filter_: str = "") -> Iterator[str]:
    found = find_exchange(recording, exchange)
    matches = compile_filter(parse_filter(filter_))
    return timeline_json.exchange_json_lines(recording, found, list(recording.findings(found.number)), matches)


def _event(recording: Recording, *, exchange: int, event: int) -> dict[str, Any]:
    stream = _find_stream(recording, exchange)
    with _not_found():
        around = event_detail.find_event(recording, stream, event)
    return timeline_json.detail_document(recording, stream, around)


def _findings(recording: Recording, *, exchange: int, event: int | None = None) -> list[dict[str, Any]]:
    found = [each for each in recording.findings(find_exchange(recording, exchange).number) if each.event == event]
    return [evidence_document(recording, locate_one(recording, each)) for each in found[:_MOST_FINDINGS]]


def _test(recording: Recording, *, exchange: int, event: int) -> dict[str, str]:
    return {"code": event_as_test(recording, _find_stream(recording, exchange), event)}


def _cut(recording: Recording, *, exchange: int, start: int, event: int) -> dict[str, Any]:
    stream = _find_stream(recording, exchange)
    with _not_found():
        seen = event_detail.find_cut_event(recording, stream, start, event)
    return timeline_json.cut_event_document(recording, stream, seen) | {"base64": b64encode(seen.frame.raw).decode()}


def _matches(recording: Recording, *, filter_: str) -> Iterator[str]:
    take = compile_filter(parse_filter(filter_))
    findings = stored_findings(recording)
    for exchange in recording.exchanges():
        rows = matching_rows(recording, exchange, findings.get(exchange.number, ()), take)
        if rows is not None:
            events = sum(row.count if isinstance(row, DeltaRow) else isinstance(row, EventRow) for row in rows)
            yield dump_json({"exchange": exchange.number, "matches": events or 1})


LINES: Mapping[str, Callable[..., Iterator[str]]] = {
    "rows": _rows,
    "matches": _matches,
    "events": lambda recording, *, exchange, first, last: timeline_json.event_lines(
        recording, _find_stream(recording, exchange), first, last
    ),
    "resume": lambda recording, *, first, second: timeline_json.reconnection_json_lines(
        recording, find_exchange(recording, first), find_exchange(recording, second)
    ),
}
"""The endpoints that return JSON lines."""
DOCUMENTS: Mapping[str, Callable[..., Any]] = {
    "bodies": lambda recording, *, exchange: bodies(recording, find_exchange(recording, exchange)),
    "overview": lambda recording, *, exchange: overview(recording, _find_stream(recording, exchange)),
    "longest-silence": lambda recording: longest_silence(recording, recording.exchanges()),
    "event": _event,
    "findings": _findings,
    "test": _test,
    "cut": _cut,
}
"""The endpoints that return one JSON document."""


def parse_query(request: web.Request, endpoint: Callable[..., Any]) -> dict[str, Any]:
    """Read the keyword parameters of an endpoint from the query.  Raises InputError."""
    values: dict[str, Any] = {}
    parameters = [each for each in signature(endpoint).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
    expected = {each.name.rstrip("_"): each for each in parameters}
    for name in request.query:
        if name not in expected:
            raise InputError(f"Unknown parameter {shorten(name, 60)}: expected {', '.join(expected) or 'none'}.")
        if len(request.query.getall(name)) > 1:
            raise InputError(f"Repeated parameter {name}: specify it only once.")
    for name, each in expected.items():
        text = request.query.get(name)
        if text is not None:
            values[each.name] = text if each.annotation in {str, str | None} else _parse_number(name, text)
        elif each.default is Parameter.empty:
            raise InputError(f"Missing parameter {name}.")
    return values


def _parse_number(name: str, text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise InputError(f"Invalid {name} '{shorten(text, 60)}': expected a whole number of at most 18 digits.")
    return int(text)


def find_exchange(recording: Recording, number: int) -> Exchange:
    """Return an exchange.  Raises NotFoundError."""
    with _not_found():
        return recording.exchange(number)


def _find_stream(recording: Recording, number: int) -> Exchange:
    found = find_exchange(recording, number)
    if not found.is_stream:
        raise NotFoundError(f"Exchange {number} is not an event stream.")
    return found


@contextmanager
def _not_found() -> Iterator[None]:
    """Raise NotFoundError for the InputError of a lookup."""
    try:
        yield
    except InputError as error:
        raise NotFoundError(error.message) from None


async def document_response(
    endpoint: Callable[..., Any], request: web.Request, thread: RecordingThread
) -> web.Response:
    """Respond with what an endpoint returns; it is also encoded in the thread."""
    query = parse_query(request, endpoint)
    return json_response(await thread.run(lambda recording: dump_json(endpoint(recording, **query))))


async def lines_response(
    endpoint: Callable[..., Iterator[str]], request: web.Request, thread: RecordingThread
) -> web.StreamResponse:
    """Respond with the lines of an endpoint, each sent soon after it is made.

    An error before the first line is raised; a later error becomes the last line.
    """
    query = parse_query(request, endpoint)
    parts = thread.lines(lambda recording: endpoint(recording, **query))
    first = await anext(parts, b"")
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    await response.write(first)
    try:
        async for data in parts:
            await response.write(data)
    except InputError as error:
        await response.write(f"{dump_json(error_document(str(error)))}\n".encode())
    await response.write_eof()
    return response


def error_response(status: int, message: str) -> web.Response:
    """Respond with an error."""
    return json_response(dump_json(error_document(message)), status)


def error_document(message: str) -> dict[str, Any]:
    """Return the JSON of an error, the same in all responses."""
    return {"error": {"message": message}}


def json_response(text: str, status: int = 200) -> web.Response:
    """Respond with JSON."""
    return web.Response(body=text.encode(), status=status, content_type="application/json")
