"""What a client knows, runs and tool calls, and reconnections, as lines of text."""

from collections.abc import Iterable, Iterator

from wiretape.contract import FAILURE_TYPES
from wiretape.labels import count_of
from wiretape.units import format_delay, format_duration, format_integer, format_time
from wiretape_inspect.diff.reconnection import ConnectionEvent, IdComparison, Reconnection, Status
from wiretape_inspect.styled_line import Line, labelled, wrapped
from wiretape_inspect.view.client_state_at_event import JoinedText, State
from wiretape_inspect.view.runs_and_calls import RunsAndCalls, Span

_UNREAD = "if it has read this event: the connection ended within a second"
_MAX_TEXT = 400
"""Characters of a text that are shown: the last ones."""
_MAX_SPANS = 10
_MAX_COLUMN = 40
_STYLES: dict[Status, str] = {
    "known": "dim",
    "same": "durable",
    "moved": "bad",
    "delayed": "gap",
    "changed": "bad",
    "repeated": "gap",
    "lost": "bad",
    "pending": "dim",
    "new": "",
}


def label_line(label: str, text: str) -> Line:
    """A line with a label in the first column."""
    return labelled((f"{label:>8}  ", "dim"), text)


def state_lines(state: State, *, may_be_unread: bool) -> Iterator[Line]:
    """Yield the lines of what a client knows after an event, which it may not have read."""
    yield label_line("session", state.session)
    for run in state.runs[-_MAX_SPANS:]:
        yield label_line("run", f"{run.id}  {_outcome(run)}")
    for call in state.open_calls[:_MAX_SPANS]:
        yield label_line("tool", f"{call.id}  {_outcome(call)}  {call.name}".rstrip())
    if len(state.open_calls) > _MAX_SPANS:
        yield label_line("tool", f"… and {len(state.open_calls) - _MAX_SPANS} more open tool calls")
    yield from _text_lines("text", state.text)
    yield from _text_lines("reason", state.reasoning)
    sequence = "" if state.last_sequence is None else f", after sequence {format_integer(state.last_sequence)}"
    cursor = f"Last-Event-ID: {state.cursor}" if state.cursor else "no Last-Event-ID"
    yield label_line("resume", f"{cursor}{sequence}")
    if may_be_unread:
        yield label_line("", _UNREAD)
    if len(state.connections) > 1:
        yield label_line("from", f"exchanges {', '.join(map(str, state.connections))}")


def _outcome(span: Span) -> str:
    began, ended = span.began, span.ended
    if ended is not None:
        return f"{span.outcome} at {ended.exchange}:{ended.event}"
    since = f"since {began.exchange}:{began.event}, {format_time(began.time_ns)}" if began else "start not recorded"
    return f"open, {since}"


def _text_lines(label: str, text: JoinedText) -> Iterator[Line]:
    if text.characters:
        ellipsis = "…" if text.characters > _MAX_TEXT else ""
        progress = "final" if text.final else "so far"
        yield label_line(label, f"{count_of(text.characters, 'char')} {progress}: {ellipsis}{text.text[-_MAX_TEXT:]}")


def activity_lines(activity: RunsAndCalls, named_calls: Iterable[Span]) -> Iterator[Line]:
    """Yield the lines of runs, then of tool calls; `named_calls` are those of `activity` with their tool names."""
    width = _column_width([*activity.runs, *activity.calls])
    for run in activity.runs.values():
        yield _span_line("run", run, width)
    for call in named_calls:
        yield _span_line("tool", call, width)
    if not activity.runs and not activity.calls:
        yield wrapped("no runs and no tool calls")


def _span_line(label: str, span: Span, width: int) -> Line:
    began, ended = span.began, span.ended
    length = format_duration(ended.time_ns - began.time_ns) if began and ended else ""
    style = "gap" if span.is_open else "bad" if span.outcome in FAILURE_TYPES else "durable"
    locations = "-".join(f"{at.exchange}:{at.event}" if at else "?" for at in (began, ended))
    return Line(
        [
            (f"{label:>8}  ", "dim"),
            (f"{span.id:<{width}}", "call" if label == "tool" else "id"),
            "  ",
            (f"{locations:<15} {length:>9}  ", "dim"),
            (f"{'open' if span.is_open else span.outcome:<14}  ", style),
            f"{count_of(span.events, 'event')}  {span.name}",
        ]
    )


def reconnection_lines(view: Reconnection) -> Iterator[Line]:
    """Yield two connections side by side: a line for each id that was not known, then the count of each status."""
    resumed = "resumed without Last-Event-ID" if view.cursor is None else f"resumed after {view.cursor}"
    unknown = "" if view.cursor is None or view.cursor_known else f", which was not on #{view.first}"
    yield labelled((f"#{view.first} then #{view.second}  ", "head"), f"{resumed}{unknown}")
    shown = [row for row in view.rows if row.status != "known"]
    first = _column_width([f"#{view.first}", *(_event(row.first) for row in shown)])
    second = _column_width([f"#{view.second}", *(_event(row.second) for row in shown)])
    yield Line([(f"{'':8}  {f'#{view.first}':<{first}}  {f'#{view.second}':<{second}}  id", "dim")])
    for row in shown:
        yield _id_line(row, first, second)
    for low, high in view.missing:
        gap = format_integer(low) if low == high else f"{format_integer(low)} to {format_integer(high)}"
        yield labelled((f"{'missing':>8}  ", "bad"), f"sequence {gap}: on neither connection")
    counts = [f"{view.count(status):,} {status}" for status in _STYLES if view.count(status)]
    yield wrapped(" · ".join(counts) or "no events with an id")


def _id_line(row: IdComparison, first: int, second: int) -> Line:
    style = _STYLES[row.status]
    preview = next(event.preview for event in (row.second, row.first) if event is not None)
    return Line(
        [
            (f"{row.status:>8}  ", style),
            (f"{_event(row.first):<{first}}  {_event(row.second):<{second}}  ", style),
            (row.id, "id"),
            ("" if row.later_ns is None else f"  {format_delay(row.later_ns)}", style),
            "  ",
            (preview, "dim"),
        ]
    )


def _event(event: ConnectionEvent | None) -> str:
    if event is None:
        return "-"
    sequence = "" if event.sequence is None else f" seq {format_integer(event.sequence)}"
    return f"{event.event}{sequence} {event.type}"


def _column_width(cells: Iterable[str]) -> int:
    return min(max(map(len, cells), default=0), _MAX_COLUMN)
