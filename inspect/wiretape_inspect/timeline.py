"""What a recording tells, as lines, one exchange after the other.  Reads as little ahead as it can."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from wiretape.content_encoding import DecodingError, decoder
from wiretape.event_facts import PREVIEW, preview_of
from wiretape.observations import BytesArrived, BytesLost, Side, header
from wiretape.recording import Exchange, Recording, TailPosition
from wiretape.rules import Finding
from wiretape_inspect import timeline_text
from wiretape_inspect.spans import Span
from wiretape_inspect.view.filter_match import Match, request_subject
from wiretape_inspect.view.stream_fold import stream_rows
from wiretape_inspect.view.timeline_rows import DeltaRow, StreamRow

_SLICE = 4096
"""Encoded bytes decoded at once for a preview: a small body may decode to a thousand times its size."""


def stored_findings(recording: Recording) -> dict[int, list[Finding]]:
    """What the live checks found, by exchange.  Raises RecordingError where the file holds what is no finding."""
    found: dict[int, list[Finding]] = {}
    for finding in recording.findings():
        found.setdefault(finding.exchange, []).append(finding)
    return found


def findings_about(recording: Recording, exchange: Exchange, until: TailPosition | None = None) -> list[Finding]:
    """What the live checks found about an exchange, or had stored `until` then."""
    return list(recording.findings(exchange.number, until=until))


def findings_between(recording: Recording, after: TailPosition, until: TailPosition) -> Iterator[Finding]:
    """What the live checks stored after `after`, up to `until`."""
    return recording.findings(after=after, until=until)


def rows(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: Match | None = None
) -> Iterator[StreamRow]:
    """The rows of a stream exchange that `take` takes, read as they are taken."""
    return stream_rows(exchange, recording.body(exchange.number, Side.RESPONSE), findings, take)


def taken(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: Match | None
) -> Iterator[StreamRow] | None:
    """The rows of an exchange to be shown, of which one that is no stream has none; None: not even its head."""
    if not exchange.is_stream:
        said = previews(recording, exchange).values() if take else ()
        return iter(()) if take is None or take(request_subject(exchange, said, findings)) else None
    found = rows(recording, exchange, findings, take)
    if take is None:
        return found
    first = next(found, None)
    return None if first is None else chain([first], found)


def spans(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: Match | None = None
) -> Iterator[list[Span]]:
    """The lines of one exchange: nothing where `take` takes nothing of it."""
    shown = taken(recording, exchange, findings, take)
    if shown is None:
        return
    yield from beginning(recording, exchange)
    for row in shown:
        yield from row_spans(row)
    if not exchange.is_stream:
        yield from timeline_text.findings(findings)


def beginning(recording: Recording, exchange: Exchange) -> Iterator[list[Span]]:
    """The head of an exchange, and what of its bodies stands beneath it."""
    yield timeline_text.head(exchange)
    bodies = previews(recording, exchange)
    if bodies["request_preview"]:
        yield timeline_text.body("→", bodies["request_preview"])
    if exchange.is_stream:
        yield timeline_text.columns()
        return
    if bodies["response_preview"]:
        yield timeline_text.body("←", bodies["response_preview"])
    if exchange.detail:
        yield timeline_text.body("!", exchange.detail)


def row_spans(row: StreamRow) -> Iterator[list[Span]]:
    """The line of a row, and those of its findings."""
    yield timeline_text.stream(row)
    yield from timeline_text.findings(row_findings(row))


def row_findings(row: StreamRow) -> Sequence[Finding]:
    """The findings that stand beside a row; a run of deltas has none."""
    return () if isinstance(row, DeltaRow) else row.findings


def previews(recording: Recording, exchange: Exchange) -> dict[str, str]:
    """How the bodies begin, decoded; the response's only where it is no stream, which has rows instead."""
    asked, answered = "", ""
    if exchange.request_bytes:
        encoding = header(exchange.request.headers, "content-encoding")
        asked = begin(recording.body(exchange.number, Side.REQUEST), encoding)
    if exchange.response_bytes and not exchange.is_stream:
        answered = begin(recording.body(exchange.number, Side.RESPONSE), exchange.content_encoding)
    return {"request_preview": asked, "response_preview": answered}


def begin(body: Iterable[BytesArrived | BytesLost], encoding: str | None) -> str:
    """The first characters of a body; what is no UTF-8 as U+FFFD."""
    found = b""
    try:
        decoding = decoder(encoding)
        for part in body:
            if isinstance(part, BytesLost):
                break
            for at in range(0, len(part.data), _SLICE):
                found += decoding.feed(part.data[at : at + _SLICE])
                if len(found) > 4 * PREVIEW:
                    return preview_of(found)
    except DecodingError as error:
        return f"(cannot be decoded: {error})"
    return preview_of(found)
