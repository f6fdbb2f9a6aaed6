"""State and resume view as lines of text.  Pure."""

from collections.abc import Iterable, Iterator

from wiretape_inspect.humanize import count, digits, duration, moment
from wiretape_inspect.spans import Span
from wiretape_inspect.view.reconnection import ConnectionEvent, IdComparison, Reconnection, Status
from wiretape_inspect.view.runs_and_calls import RunsAndCalls
from wiretape_inspect.view.runs_and_calls import Span as Stretch
from wiretape_inspect.view.state_at_event import JoinedText, State

_TEXT = 400
"""Characters of a text that are shown: its last ones."""
_CALLS = 10
_ROOM = 40
_STYLES: dict[Status, str] = {
    "known": "dim",
    "same": "durable",
    "changed": "bad",
    "repeated": "gap",
    "lost": "bad",
    "pending": "dim",
    "new": "",
}


def fact(name: str, value: str) -> list[Span]:
    """A line that is never cut: what it is about, and what there is to say."""
    return [(f"{name:>8}  ", "dim"), (value, "finding")]


def state(known: State) -> Iterator[list[Span]]:
    """What a client knew at an event."""
    yield fact("session", known.session)
    for run in known.runs[-_CALLS:]:
        yield fact("run", f"{run.id}  {_stretch(run)}")
    for call in known.open_calls[:_CALLS]:
        yield fact("tool", f"{call.id}  {_stretch(call)}  {call.name}".rstrip())
    if len(known.open_calls) > _CALLS:
        yield fact("tool", f"… and {len(known.open_calls) - _CALLS} more are open")
    yield from _spoken("said", known.text)
    yield from _spoken("reason", known.reasoning)
    cursor = known.cursor
    sequence = "" if known.last_sequence is None else f", after sequence {digits(known.last_sequence)}"
    yield fact("resume", f"Last-Event-ID: {cursor}{sequence}" if cursor else f"no Last-Event-ID{sequence}")
    if len(known.connections) > 1:
        yield fact("known", f"from exchanges {', '.join(map(str, known.connections))}")


def _room(cells: Iterable[str]) -> int:
    """How many columns these are given, one beneath the other."""
    return min(max(map(len, cells), default=0), _ROOM)


def _stretch(stretch: Stretch) -> str:
    began, ended = stretch.began, stretch.ended
    since = f"since {began.exchange}:{began.event}, {moment(began.time_ns)}" if began else "its start was not seen"
    return f"open, {since}" if ended is None else f"{stretch.outcome} at {ended.exchange}:{ended.event}"


def calls(work: RunsAndCalls, named: Iterable[Stretch]) -> Iterator[list[Span]]:
    """Runs, then tool calls: `named` are those of `work`, with what they call."""
    wide = _room([*work.runs, *work.calls])
    for run in work.runs.values():
        yield _line("run", run, wide)
    for call in named:
        yield _line("tool", call, wide)
    if not work.runs and not work.calls:
        yield [("no runs and no tool calls", "finding")]


def _line(name: str, stretch: Stretch, wide: int) -> list[Span]:
    began, ended = stretch.began, stretch.ended
    lasted = duration(ended.time_ns - began.time_ns) if began and ended else ""
    style = "gap" if stretch.is_open else "bad" if stretch.outcome.endswith("failed") else "durable"
    places = "-".join(f"{at.exchange}:{at.event}" if at else "?" for at in (began, ended))
    outcome = "open" if stretch.is_open else stretch.outcome
    return [
        (f"{name:>8}  ", "dim"),
        (f"{stretch.id:<{wide}}", "call" if name == "tool" else "id"),
        ("  ", ""),
        (f"{places:<15} {lasted:>9}  ", "dim"),
        (f"{outcome:<14}  ", style),
        (f"{count(stretch.events, 'event')}  {stretch.name}", ""),
    ]


def _spoken(name: str, spoken: JoinedText) -> Iterator[list[Span]]:
    if spoken.characters:
        more = "…" if spoken.characters > _TEXT else ""
        how = "final" if spoken.final else "so far"
        yield fact(name, f"{count(spoken.characters, 'char')} {how}: {more}{spoken.text[-_TEXT:]}")


def resume(view: Reconnection) -> Iterator[list[Span]]:
    """Two connections side by side: what was not known already, an id a line, then how many there are of each kind."""
    yield [(f"#{view.first} then #{view.second}  ", "head"), (_after(view), "")]
    shown = [row for row in view.rows if row.status != "known"]
    first = _room([f"#{view.first}", *(_here(row.first) for row in shown)])
    second = _room([f"#{view.second}", *(_here(row.second) for row in shown)])
    yield [(f"{'':8}  {f'#{view.first}':<{first}}  {f'#{view.second}':<{second}}  id", "dim")]
    for row in shown:
        yield _joined(row, first, second)
    for low, high in view.missing:
        span = digits(low) if low == high else f"{digits(low)} to {digits(high)}"
        yield [(f"{'missing':>8}  ", "bad"), (f"sequence {span}: on neither connection", "finding")]
    statuses = list(_STYLES)
    held = [f"{view.count(status):,} {status}" for status in statuses if view.count(status)]
    yield [("", "finding"), (" · ".join(held) or "no events with an id", "finding")]


def _after(view: Reconnection) -> str:
    if view.cursor is None:
        return "resumed without Last-Event-ID"
    return f"resumed after {view.cursor}" + ("" if view.cursor_known else f", which was not on #{view.first}")


def _joined(row: IdComparison, first: int, second: int) -> list[Span]:
    style = _STYLES[row.status]
    preview = next(here.preview for here in (row.second, row.first) if here is not None)
    return [
        (f"{row.status:>8}  ", style),
        (f"{_here(row.first):<{first}}  {_here(row.second):<{second}}  ", style),
        (row.id, "id"),
        ("  ", ""),
        (preview, "dim"),
    ]


def _here(here: ConnectionEvent | None) -> str:
    if here is None:
        return "-"
    sequence = "" if here.sequence is None else f" seq {digits(here.sequence)}"
    return f"{here.event}{sequence} {here.type}"
