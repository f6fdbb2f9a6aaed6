"""The read endpoints of the debugger's API: query parameters, and what each endpoint returns.

An endpoint is a function of the recording; its keyword parameters are the query parameters of the request.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, signature
from itertools import islice
from typing import TYPE_CHECKING, Any

from wiretape.errors import InputError
from wiretape.json_codec import dump_json
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import shorten
from wiretape_inspect import event_detail, timeline_json
from wiretape_inspect.event_export import bodies, event_as_test
from wiretape_inspect.exchange_selection import select_exchanges
from wiretape_inspect.recording_export import export_parts
from wiretape_inspect.report.evidence import evidence_document
from wiretape_inspect.report.finding_location import locate_one
from wiretape_inspect.timeline_text import matching_rows, stored_findings
from wiretape_inspect.view.accumulated_state import longest_silence, overview
from wiretape_inspect.view.filters import compile_filter, parse_filter
from wiretape_inspect.view.timeline_rows import DeltaRow, EventRow

if TYPE_CHECKING:
    from aiohttp import web

_MOST_FINDINGS = 200
"""Findings of one event, or of an exchange as a whole, that are returned with their evidence."""
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


class NotFoundError(InputError):
    """The exchange, event or path of a request does not exist."""


def _rows(recording: Recording, *, exchange: int, filter_: str = "", most: int | None = None) -> Iterator[str]:
    found = find_exchange(recording, exchange)
    matches = compile_filter(parse_filter(filter_, recording.vocabularies))
    return islice(
        timeline_json.exchange_json_lines(recording, found, list(recording.findings(found.number)), matches), most
    )


def _event(recording: Recording, *, exchange: int, event: int) -> dict[str, Any]:
    stream = _find_stream(recording, exchange)
    with _not_found():
        around = event_detail.find_event(recording, stream, event)
    document = timeline_json.detail_document(recording, stream, around)
    del document["base64"]
    return document | timeline_json.content(around.row.event.raw, parse=False)


def _findings(recording: Recording, *, exchange: int, event: int | None = None) -> list[dict[str, Any]]:
    found = [each for each in recording.findings(find_exchange(recording, exchange).number) if each.event == event]
    return [evidence_document(recording, locate_one(recording, each)) for each in found[:_MOST_FINDINGS]]


def _test(recording: Recording, *, exchange: int, event: int) -> dict[str, str]:
    return {"code": event_as_test(recording, _find_stream(recording, exchange), event)}


def _cut(recording: Recording, *, exchange: int, start: int, event: int) -> dict[str, Any]:
    stream = _find_stream(recording, exchange)
    with _not_found():
        seen = event_detail.find_cut_event(recording, stream, start, event)
    return timeline_json.cut_event_document(recording, stream, seen) | timeline_json.content(
        seen.frame.raw, parse=False
    )


def _matches(recording: Recording, *, filter_: str) -> Iterator[str]:
    take = compile_filter(parse_filter(filter_, recording.vocabularies))
    findings = stored_findings(recording)
    for exchange in select_exchanges(recording):
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


def export(recording: Recording, *, format_: str, exchange: int | None = None) -> Iterator[bytes]:
    """Return the file that `wiretape export` writes."""
    return export_parts(recording, format_, exchange)


def parse_query(request: "web.Request", endpoint: Callable[..., Any]) -> dict[str, Any]:
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


def error_document(message: str) -> dict[str, Any]:
    """Return the JSON of an error, the same in all responses."""
    return {"error": {"message": message}}
