"""The timeline of a recording as lines of text: exchanges, the rows of their streams, findings of the live checks."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from wiretape.content_encoding import decode_beginning
from wiretape.contract.vocabulary import Vocabulary
from wiretape.event_preview import PREVIEW, preview_of
from wiretape.labels import count_of, ended_well, ending_label
from wiretape.observations import BytesArrived, BytesLost, Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape.terminal_styles import status_style
from wiretape.units import format_duration, format_integer, format_size, format_time
from wiretape_inspect.terminal_output import Line, Part, labelled
from wiretape_inspect.view.delta_folding import stream_rows
from wiretape_inspect.view.filters import CompiledFilter, request_subject
from wiretape_inspect.view.timeline_rows import (
    GAP_NS,
    CutRow,
    DeltaRow,
    EndRow,
    EventRow,
    LostRow,
    OversizedRow,
    PauseRow,
    StreamRow,
)

_INDENT = " " * 16


def exchange_line(exchange: Exchange) -> Line:
    """The line that begins an exchange."""
    response, request = exchange.response, exchange.request
    is_stream, ending = exchange.is_stream, exchange.ending
    about = [format_size(exchange.response_bytes)]
    if exchange.ended_ns is not None:
        about.append(format_duration(exchange.ended_ns - request.time_ns))
    if exchange.lost_bytes:
        about.append(f"{format_size(exchange.lost_bytes)} not recorded")
    status = response.status if response else 0
    cursor = exchange.cursor
    return labelled(
        (f"#{exchange.number:<4} ", "head"),
        (f"{request.method} {request.target}  ", "head"),
        (f"{status or '---'}  ", status_style(status)),
        "stream · " if is_stream else "",
        (ending_label(ending, stream=is_stream), "" if ended_well(ending, stream=is_stream) else "bad"),
        f" · {' · '.join(about)}",
        (f"  at {format_time(request.time_ns)}", "dim"),
        ("" if cursor is None else f"  after {cursor}", "dim"),
    )


def column_titles() -> Line:
    """The titles of the columns of a stream's rows."""
    return Line([*_cells("event", "seq", "time", "gap", style="dim"), ("type", "dim")])


def type_style(event_type: str, vocabulary: Vocabulary, otherwise: str = "") -> str:
    """Return the style of the type of an event, which is that of failures if the contract calls it one."""
    return "bad" if event_type in vocabulary.failures else otherwise


def body_line(mark: str, preview: str) -> Line:
    """The beginning of a body of an exchange that is not a stream; `mark` tells which body."""
    return Line([(f"      {mark} ", "dim"), preview])


def finding_line(finding: Finding, location: str = "") -> Line:
    """A finding, to be printed below its row, or with its location."""
    return labelled(
        (f"{_INDENT}└ ", finding.severity),
        (f"{finding.code} {finding.severity}", finding.severity),
        f"  {finding.message}",
        (location, "dim"),
    )


def row_line(row: StreamRow, vocabulary: Vocabulary) -> Line:
    """One row of a stream."""
    match row:
        case EventRow():
            parts = _event(row, vocabulary)
        case DeltaRow():
            parts = _deltas(row)
        case PauseRow():
            parts = _pause(row)
        case EndRow():
            parts = _end(row)
        case CutRow():
            parts = _bytes(
                "cut", f"{format_size(row.end - row.start)} of an unfinished event", row.preview, row.time_ns
            )
        case OversizedRow():
            size = format_size(row.end - row.start)
            parts = _bytes("large", f"event of {size}, too large to be parsed", row.preview, row.time_ns)
        case LostRow():
            parts = _bytes("lost", f"{format_size(row.count)} not recorded", row.why, row.time_ns)
    return Line(parts)


def _columns(event: int | str, sequence: int | str, time_ns: int, gap_ns: int) -> list[Part]:
    is_gap = gap_ns >= GAP_NS
    return _cells(event, sequence, format_time(time_ns), f"+{format_time(gap_ns)}", style="dim", is_gap=is_gap)


def _cells(
    event: int | str, sequence: int | str, time: str, gap: str = "", *, style: str, is_gap: bool = False
) -> list[Part]:
    """The columns before the type; narrow terminals leave out those that a column style names."""
    gap_style = "long gap column" if is_gap else "gap column"
    return [(f"{event:>7} {sequence:>6} ", style), (f"{time:>11} ", "time column"), (f"{gap:>9}  ", gap_style)]


def _event(row: EventRow, vocabulary: Vocabulary) -> list[Part]:
    event = row.event
    mark = format_integer(event.sequence) if event.sequence is not None else "Δ" if event.kind == "delta" else "·"
    parts = _columns(event.number, mark, event.time_ns, row.gap_ns)
    parts.append((f"{event.type or '(no type)':<19}", type_style(event.type, vocabulary, event.kind)))
    if event.id is not None:
        parts += ["  ", (event.id or "(empty id)", "id")]
    for key in vocabulary.inner_keys(event.keys):
        parts += ["  ", (key, "call")]
    if event.note:
        parts.append((f"  [{event.note}]", "bad"))
    return [*parts, f"  {row.preview}"]


def _deltas(row: DeltaRow) -> list[Part]:
    about = [f"{row.count} {row.type}"]
    about += [count_of(row.characters, "char")] if row.characters else []
    about += [format_duration(row.until_ns - row.time_ns)] if row.count > 1 else []
    more = "…" if row.characters > len(row.preview) else ""
    columns = _columns(row.event, "Δ", row.time_ns, row.gap_ns)
    return [*columns, (" · ".join(about), "delta"), (f"  {row.preview}{more}", "dim")]


def _pause(row: PauseRow) -> list[Part]:
    about = [format_duration(row.until_ns - row.time_ns)] if row.is_gap else []
    if row.keep_alives:
        about.append(count_of(row.keep_alives, "keep-alive"))
    parts: list[Part] = [_INDENT, (f"╌╌ {' · '.join(about)} ╌╌", "gap" if row.is_gap else "dim")]
    return [*parts, (f"  : {row.comment}", "dim")] if row.comment else parts


def _bytes(mark: str, about: str, preview: str, time_ns: int) -> list[Part]:
    return [*_cells(mark, "", format_time(time_ns), style="bad"), (about, "bad"), (f"  {preview}", "dim")]


def _end(row: EndRow) -> list[Part]:
    time = format_time(row.time_ns) if row.time_ns is not None else ""
    counts = [count_of(row.durable, "durable event"), count_of(row.deltas, "delta")]
    counts += [f"{row.ephemeral:,} other"] if row.ephemeral else []
    counts += [count_of(row.keep_alives, "keep-alive")] if row.keep_alives else []
    parts: list[Part] = [
        *_cells("end", "", time, f"+{format_time(row.gap_ns)}", style="dim"),
        (row.ending_label, "head" if ended_well(row.ending, stream=True) else "bad"),
        f" · {' · '.join(counts)}",
    ]
    if row.undecodable:
        parts.append((f" · cannot be decoded: {row.undecodable}", "bad"))
    return [*parts, (f"  {row.detail}", "dim")] if row.detail else parts


def stored_findings(recording: Recording) -> dict[int, list[Finding]]:
    """Return the findings of the live checks by exchange.  Raises RecordingError if the file is damaged."""
    found: dict[int, list[Finding]] = {}
    for finding in recording.findings():
        found.setdefault(finding.exchange, []).append(finding)
    return found


def matching_rows(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: CompiledFilter | None
) -> Iterator[StreamRow] | None:
    """Return the matching rows of an exchange; None if nothing of the exchange matches.

    An exchange that is not a stream has no rows, but may match.
    """
    if not exchange.is_stream:
        bodies = previews(recording, exchange).values() if take else ()
        return iter(()) if take is None or take(request_subject(exchange, bodies, findings)) else None
    found = stream_rows(exchange, recording.body(exchange.number, Side.RESPONSE), findings, take)
    if take is None:
        return found
    first = next(found, None)
    return None if first is None else chain([first], found)


def header_lines(exchange: Exchange) -> Iterator[Line]:
    """Yield the connection, the protocols, and the headers of the request and of the response."""
    request, response = exchange.request, exchange.response
    answered = f", response {response.http_version}" if response else ""
    connection = f"{request.client or 'unknown client'} to {request.scheme}://{request.authority}"
    yield labelled(("      ", "dim"), (f"{connection}, request {request.http_version}{answered}", "dim"))
    for mark, headers in (("→", request.headers), ("←", response.headers if response else ())):
        for name, value in headers:
            yield labelled((f"      {mark} ", "dim"), (f"{name}: ", "key"), value)


def exchange_lines(
    recording: Recording,
    exchange: Exchange,
    findings: Sequence[Finding],
    take: CompiledFilter | None = None,
    *,
    with_headers: bool = False,
) -> Iterator[Line]:
    """Yield the lines of one exchange; none if nothing of it matches."""
    shown = matching_rows(recording, exchange, findings, take)
    if shown is None:
        return
    yield exchange_line(exchange)
    if with_headers:
        yield from header_lines(exchange)
    yield from _body_lines(recording, exchange)
    vocabulary = exchange.vocabulary
    for row in shown:
        yield from row_lines(row, vocabulary)
    if not exchange.is_stream:
        yield from map(finding_line, findings)


def _body_lines(recording: Recording, exchange: Exchange) -> Iterator[Line]:
    """Yield the lines of the bodies of an exchange, or the titles of its events."""
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


def row_lines(row: StreamRow, vocabulary: Vocabulary) -> Iterator[Line]:
    """Yield the line of a row and those of its findings."""
    yield row_line(row, vocabulary)
    yield from () if isinstance(row, DeltaRow) else map(finding_line, row.findings)


def previews(recording: Recording, exchange: Exchange) -> dict[str, str]:
    """Return the beginnings of the bodies, decoded; a stream has no preview of its response."""
    shown = {"request": "", "response": ""}
    for side, size in ((Side.REQUEST, exchange.request_bytes), (Side.RESPONSE, exchange.response_bytes)):
        if size and not (side is Side.RESPONSE and exchange.is_stream):
            shown[side] = _body_preview(recording.body(exchange.number, side), exchange.encoding_of(side))
    return {f"{side}_preview": text for side, text in shown.items()}


def _body_preview(body: Iterable[BytesArrived | BytesLost], encoding: str | None) -> str:
    # A character takes up to four bytes, and one more shows that the preview is cut.
    data, problem = decode_beginning(encoding, bytes_before_loss(body), 4 * (PREVIEW + 1))
    return f"(cannot be decoded: {problem})" if problem else preview_of(data)


def bytes_before_loss(body: Iterable[BytesArrived | BytesLost]) -> Iterator[bytes]:
    """Yield the bytes of a body up to the first lost ones."""
    for part in body:
        if isinstance(part, BytesLost):
            return
        yield part.data
