"""The timeline of a recording: its exchanges, the rows of their streams, and the findings of the live checks."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from wiretape.content_encoding import DecodingError, decoder
from wiretape.event_facts import PREVIEW, preview_of
from wiretape.observations import BytesArrived, BytesLost, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect.styled_line import Line
from wiretape_inspect.timeline_text import body_line, column_titles, exchange_line, finding_lines, row_line
from wiretape_inspect.view.filter_match import Match, request_subject
from wiretape_inspect.view.stream_fold import stream_rows
from wiretape_inspect.view.timeline_rows import DeltaRow, StreamRow

_SLICE = 4096
"""Encoded bytes decoded at once for a preview: a small body may decode to a thousand times its size."""


def stored_findings(recording: Recording) -> dict[int, list[Finding]]:
    """Return the findings of the live checks by exchange.  Raises RecordingError if the file is damaged."""
    found: dict[int, list[Finding]] = {}
    for finding in recording.findings():
        found.setdefault(finding.exchange, []).append(finding)
    return found


def rows(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: Match | None = None
) -> Iterator[StreamRow]:
    """Yield the rows of a stream that match `take`, reading no further than needed."""
    return stream_rows(exchange, recording.body(exchange.number, Side.RESPONSE), findings, take)


def matching_rows(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: Match | None
) -> Iterator[StreamRow] | None:
    """Return the matching rows of an exchange; None if nothing of the exchange matches.

    An exchange that is not a stream has no rows, but may match.
    """
    if not exchange.is_stream:
        bodies = previews(recording, exchange).values() if take else ()
        return iter(()) if take is None or take(request_subject(exchange, bodies, findings)) else None
    found = rows(recording, exchange, findings, take)
    if take is None:
        return found
    first = next(found, None)
    return None if first is None else chain([first], found)


def exchange_lines(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: Match | None = None
) -> Iterator[Line]:
    """Yield the lines of one exchange; none if nothing of it matches."""
    shown = matching_rows(recording, exchange, findings, take)
    if shown is None:
        return
    yield from _head_lines(recording, exchange)
    for row in shown:
        yield from row_lines(row)
    if not exchange.is_stream:
        yield from finding_lines(findings)


def _head_lines(recording: Recording, exchange: Exchange) -> Iterator[Line]:
    """Yield the line of an exchange and those of its bodies."""
    yield exchange_line(exchange)
    bodies = previews(recording, exchange)
    if bodies["request_preview"]:
        yield body_line("→", bodies["request_preview"])
    if exchange.is_stream:
        yield column_titles()
        return
    if bodies["response_preview"]:
        yield body_line("←", bodies["response_preview"])
    if exchange.detail:
        yield body_line("!", exchange.detail)


def row_lines(row: StreamRow) -> Iterator[Line]:
    """Yield the line of a row and those of its findings."""
    yield row_line(row)
    yield from () if isinstance(row, DeltaRow) else finding_lines(row.findings)


def previews(recording: Recording, exchange: Exchange) -> dict[str, str]:
    """Return the beginnings of the bodies, decoded; a stream has no preview of its response."""
    request, response = "", ""
    if exchange.request_bytes:
        encoding = header(exchange.request.headers, "content-encoding")
        request = _body_preview(recording.body(exchange.number, Side.REQUEST), encoding)
    if exchange.response_bytes and not exchange.is_stream:
        response = _body_preview(recording.body(exchange.number, Side.RESPONSE), exchange.content_encoding)
    return {"request_preview": request, "response_preview": response}


def _body_preview(body: Iterable[BytesArrived | BytesLost], encoding: str | None) -> str:
    data = b""
    try:
        decoding = decoder(encoding)
        for part in body:
            if isinstance(part, BytesLost):
                break
            for at in range(0, len(part.data), _SLICE):
                data += decoding.feed(part.data[at : at + _SLICE])
                if len(data) > 4 * PREVIEW:
                    return preview_of(data)
    except DecodingError as error:
        return f"(cannot be decoded: {error})"
    return preview_of(data)
