"""Rows as lines of text.  Pure: what is recorded is escaped here, in one place, for every line."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from wiretape.observations import header
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape.safe_text import printable
from wiretape_inspect.humanize import amount, count, digits, duration, ending_label, moment
from wiretape_inspect.spans import Span, cut, wrapped
from wiretape_inspect.view.timeline_rows import (
    CutRow,
    DeltaRow,
    EndRow,
    EventRow,
    LostRow,
    OversizedRow,
    PauseRow,
    StreamRow,
)

STYLES: dict[str, dict[str, Any]] = {
    "": {},
    "head": {"bold": True},
    "finding": {},
    "dim": {"dim": True},
    "id": {"dim": True},
    "call": {"fg": "cyan"},
    "durable": {"fg": "green"},
    "delta": {"fg": "cyan"},
    "ephemeral": {},
    "gap": {"fg": "yellow"},
    "bad": {"fg": "red"},
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "note": {"fg": "blue"},
    "key": {"bold": True},
    "string": {"fg": "green"},
    "number": {"fg": "magenta"},
}
_INDENT = " " * 16
NARROW = 40
"""Columns that a terminal is taken to have at least."""
_WIDE = 160
"""Columns from which on there is room for ids of any length."""
_IDS = {"id", "call"}
_BEGIN, _END = 7, 6
"""Characters that are left of an id where there is no room for it."""


@dataclass(frozen=True, slots=True)
class Paper:
    """What lines are written on."""

    colour: bool = False
    width: int | None = None
    """Columns of the terminal; None where lines may be as long as they are."""

    def line(self, spans: Sequence[Span]) -> str:
        """One line, cut to the width, every control character in it escaped.

        Heads and findings are never cut, since what they say is worth a second line: it begins beneath the second span.
        """
        safe = [(printable(text), style) for text, style in spans]
        if self.width is None:
            return self._styled(safe)
        if spans[0][1] == "head" or any(style == "finding" for _, style in spans):
            return self.whole(spans)
        width = max(self.width, NARROW)
        return self._styled(cut([_brief(span) for span in safe] if width < _WIDE else safe, width))

    def whole(self, spans: Sequence[Span]) -> str:
        """The same in as many lines as it takes, broken between words and going on beneath the second span."""
        safe = [(printable(text), style) for text, style in spans]
        if self.width is None:
            return self._styled(safe)
        return "\n".join(map(self._styled, wrapped(safe, max(self.width, NARROW))))

    def uncut(self, spans: Sequence[Span]) -> str:
        """The same in one line, however long it is: a command, to be copied."""
        return self._styled([(printable(text), style) for text, style in spans])

    def _styled(self, spans: Iterable[Span]) -> str:
        parts = (
            click.style(text, **STYLES[style]) if self.colour and style and text else text for text, style in spans
        )
        return "".join(parts).rstrip()


PLAIN = Paper()
"""No colours, and lines as long as they are."""


def _brief(span: Span) -> Span:
    """An id by its beginning and its end, which tell it from others: `evt_400…7783e9`."""
    text, style = span
    room = _BEGIN + 1 + _END
    if style not in _IDS or len(text) <= room:
        return span
    # In a column, where it is padded, all of the others are as long.
    said = text.rstrip(" ")
    return (f"{said[:_BEGIN]}…{said[-_END:]}" if len(said) > room else said.ljust(room)), style


def head(exchange: Exchange) -> list[Span]:
    """The line that an exchange begins with."""
    response, request = exchange.response, exchange.request
    size = f"{amount(exchange.response_bytes)}"
    about = ["stream"] if exchange.is_stream else []
    about += [ending_label(exchange.ending, stream=exchange.is_stream), size]
    if exchange.ended_ns is not None:
        about.append(duration(exchange.ended_ns - request.time_ns))
    if exchange.lost_bytes:
        about.append(f"{amount(exchange.lost_bytes)} not recorded")
    status = response.status if response else 0
    spans = [
        (f"#{exchange.number:<4} ", "head"),
        (f"{request.method} {request.target}  ", "head"),
        (f"{status or '---'}  ", "bad" if not 0 < status < 400 else "durable"),
        (" · ".join(about), ""),
        (f"  at {moment(request.time_ns)}", "dim"),
    ]
    cursor = header(request.headers, "last-event-id")
    return spans if cursor is None else [*spans, (f"  after {cursor}", "dim")]


def columns() -> list[Span]:
    """What stands in the columns of a stream's rows."""
    return [(f"{'event':>7} {'seq':>6} {'time':>11} {'gap':>9}  type", "dim")]


def body(arrow: str, preview: str) -> list[Span]:
    """The beginning of an ordinary body; `arrow` tells which of the two."""
    return [(f"      {arrow} ", "dim"), (preview, "")]


def finding(found: Finding) -> list[Span]:
    """A finding, to stand beneath its row."""
    style = found.severity if found.severity in STYLES else "bad"
    return [(f"{_INDENT}└ ", style), (f"{found.code} {found.severity}", style), (f"  {found.message}", "finding")]


def stream(row: StreamRow) -> list[Span]:
    """One row of a stream."""
    match row:
        case EventRow():
            spans = _event(row)
        case DeltaRow():
            spans = _delta(row)
        case PauseRow():
            spans = _pause(row)
        case EndRow():
            spans = _end(row)
        case CutRow():
            spans = _odd("cut", f"{amount(row.end - row.start)} of an unfinished event", row.preview, row.time_ns)
        case OversizedRow():
            size = amount(row.end - row.start)
            spans = _odd("large", f"event of {size}, too large to be parsed", row.preview, row.time_ns)
        case LostRow():
            spans = _odd("lost", f"{amount(row.count)} not recorded", row.why, row.time_ns)
    return spans


def findings(found: Sequence[Finding]) -> Iterator[list[Span]]:
    """A line for each finding."""
    return map(finding, found)


def _columns(event: int | str, sequence: int | str, time_ns: int, gap_ns: int) -> list[Span]:
    gap = f"+{moment(gap_ns)}"
    return [
        (f"{event:>7} {sequence:>6} {moment(time_ns):>11} ", "dim"),
        (f"{gap:>9}  ", "gap" if gap_ns >= 1_000_000_000 else "dim"),
    ]


def _event(row: EventRow) -> list[Span]:
    mark = digits(row.sequence) if row.sequence is not None else "Δ" if row.kind == "delta" else "·"
    spans = _columns(row.event, mark, row.time_ns, row.gap_ns)
    spans.append((f"{row.type or '(no type)':<19}", row.kind))
    if row.id is not None:
        spans += [("  ", ""), (row.id or "(empty id)", "id")]
    if row.tool_call_id is not None:
        spans += [("  ", ""), (row.tool_call_id, "call")]
    if row.note:
        spans.append((f"  [{row.note}]", "bad"))
    return [*spans, (f"  {row.preview}", "")]


def _delta(row: DeltaRow) -> list[Span]:
    parts = [f"{row.count} {row.type}"]
    parts += [count(row.characters, "char")] if row.characters else []
    parts += [duration(row.until_ns - row.time_ns)] if row.count > 1 else []
    more = "…" if row.characters > len(row.preview) else ""
    columns = _columns(row.event, "Δ", row.time_ns, row.gap_ns)
    return [*columns, (" · ".join(parts), "delta"), (f"  {row.preview}{more}", "dim")]


def _pause(row: PauseRow) -> list[Span]:
    parts = [duration(row.until_ns - row.time_ns)] if row.is_gap else []
    if row.keep_alives:
        parts.append(count(row.keep_alives, "keep-alive"))
    spans = [(_INDENT, ""), (f"╌╌ {' · '.join(parts)} ╌╌", "gap" if row.is_gap else "dim")]
    return [*spans, (f"  : {row.comment}", "dim")] if row.comment else spans


def _odd(mark: str, words: str, preview: str, time_ns: int) -> list[Span]:
    return [(f"{mark:>7} {'':>6} {moment(time_ns):>11} {'':>9}  ", "bad"), (words, "bad"), (f"  {preview}", "dim")]


def _end(row: EndRow) -> list[Span]:
    when = moment(row.time_ns) if row.time_ns is not None else ""
    held = [count(row.durable, "durable event"), count(row.deltas, "delta")]
    held += [f"{row.ephemeral:,} other"] if row.ephemeral else []
    held += [count(row.keep_alives, "keep-alive")] if row.keep_alives else []
    spans = [
        (f"{'end':>7} {'':>6} {when:>11} ", "dim"),
        (f"+{moment(row.gap_ns)}".rjust(9) + "  ", "dim"),
        (row.ending_label, "head"),
        (f" · {' · '.join(held)}", ""),
    ]
    if row.undecodable:
        spans.append((f" · cannot be decoded: {row.undecodable}", "bad"))
    return [*spans, (f"  {row.detail}", "dim")] if row.detail else spans
