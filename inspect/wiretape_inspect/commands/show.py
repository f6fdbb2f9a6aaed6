"""`wiretape show`: the timeline of a recording."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import click

from wiretape.contract.vocabulary import Vocabulary
from wiretape.event_format import Entity
from wiretape.files import PATH
from wiretape.json_codec import dump_json
from wiretape.labels import count_of
from wiretape.recording import Exchange, Recording, open_recording
from wiretape.safe_text import printable
from wiretape.units import format_delay, format_duration, format_integer, format_time
from wiretape_inspect.diff.reconnection import (
    ConnectionEvent,
    CursorComparison,
    Reconnection,
    Status,
    compare_connections,
)
from wiretape_inspect.event_detail import detail_lines, find_event, parse_location
from wiretape_inspect.exchange_selection import select_exchanges
from wiretape_inspect.terminal_output import Line, labelled, wrapped, write_lines
from wiretape_inspect.timeline_follow import follow_recording
from wiretape_inspect.timeline_json import detail_document, exchange_json_lines, reconnection_json_lines
from wiretape_inspect.timeline_text import exchange_lines, stored_findings, type_style
from wiretape_inspect.view.accumulated_state import EntitySpans, Span, entity_spans, with_names
from wiretape_inspect.view.filters import EVERYTHING, Filter, compile_filter, may_match_exchange, parse_filter

_NEGATED = re.compile(r'-(?:\w+:|["/])')
_NOT_AN_OPTION = "\0"
_MAX_COLUMN = 40
_KNOWN = 3
"""Events before the cursor that a comparison shows."""
_STYLES: dict[Status, str] = {
    "known": "dim",
    "same": "good",
    "moved": "bad",
    "delayed": "gap",
    "changed": "bad",
    "repeated": "gap",
    "lost": "bad",
    "pending": "dim",
    "cut": "gap",
    "new": "",
}


_EXCLUDED = {
    "--channel": ("--exchange", "--at", "--resume"),
    "--exchange": ("--at", "--resume"),
    "--at": ("--resume", "--entities", "--follow", "a filter"),
    "--resume": ("--entities", "--headers", "--follow", "a filter"),
    "--entities": ("--headers", "--follow", "a filter"),
    "--headers": ("--follow",),
}
"""What cannot be combined with an option."""


class _FilterCommand(click.Command):
    """A command that takes arguments like `-type:*.delta` as conditions of a filter, not as options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_NOT_AN_OPTION + arg if _NEGATED.match(arg) else arg for arg in args])


def _join_filter(_context: click.Context, _parameter: click.Parameter, conditions: Sequence[str]) -> str:
    return " ".join(condition.removeprefix(_NOT_AN_OPTION) for condition in conditions)


def _refuse_filter(_context: click.Context, _parameter: click.Parameter, conditions: str | None) -> None:
    if conditions is not None:
        raise click.UsageError(f"The filter is an argument: `wiretape show FILE {shlex.quote(conditions)}`.")


@click.command(cls=_FilterCommand)
@click.argument("file", type=PATH)
@click.argument("filter_", metavar="[FILTER]...", nargs=-1, callback=_join_filter)
@click.option("--channel", metavar="ID", help="Show only the exchanges of this channel, such as a session.")
@click.option("--exchange", "number", type=int, metavar="N", help="Show only this exchange.")
@click.option("--at", metavar="EXCHANGE:EVENT", help="Show one event in detail, for example 2:57.")
@click.option(
    "--resume", "pair", metavar="EXCHANGE:EXCHANGE", help="Show two streams of a channel side by side, for example 2:3."
)
@click.option("--entities", is_flag=True, help="Show entities such as runs and tool calls, one per line.")
@click.option("--headers", is_flag=True, help="Also show the connection, the protocol and all headers.")
@click.option("--follow", "-f", is_flag=True, help="Keep showing new rows until the recording is closed.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
@click.option("--no-pager", is_flag=True, help="Do not use a pager, even if the output is long.")
@click.option("--filter", hidden=True, expose_value=False, callback=_refuse_filter)
def show(
    file: Path,
    *,
    filter_: str,
    channel: str | None,
    number: int | None,
    at: str | None,
    pair: str | None,
    entities: bool,
    headers: bool,
    follow: bool,
    as_json: bool,
    no_pager: bool,
) -> None:
    """Show the timeline of the recording FILE: every exchange and every event.

    Consecutive deltas are folded into one line, each gap shows the number of keep-alives in it, gaps of a second or
    more are marked, and findings of the live checks appear below their events.

    FILTER selects what is shown. It consists of one or more conditions, all of which must match; a condition tests
    type, kind, id, rule, method, seq, event, exchange, status, gap, text, or a channel or entity of the contract,
    such as session, run or tool. Separate alternatives with a comma or `or`, and put a hyphen before a condition to
    exclude what it matches. See docs/filter.md for the full syntax.

    --at shows one event in detail: its fields, data and bytes, the chunks it arrived in, the neighboring
    events, and what a client knew after receiving it.

    \b
    Examples:
        wiretape show run.db
        wiretape show run.db 'type:tool.* gap:>1s'
        wiretape show run.db 'rule:SEQ*' '-type:*.delta'
        wiretape show run.db --at 2:57
        wiretape show run.db --exchange 2 --headers
        wiretape show run.db --resume 2:3
        wiretape show run.db --follow
    """
    given: dict[str, object] = {"--channel": channel, "--exchange": number, "--at": at, "--resume": pair}
    given |= {"--entities": entities or None, "--headers": headers or None, "--follow": follow or None}
    given["a filter"] = filter_.strip() or None
    _check_options([name for name, value in given.items() if value is not None])
    if follow:
        write_lines(follow_recording(file, filter_, as_json=as_json), live=True)
        return
    with open_recording(file) as recording:
        lines: Iterable[Line | str]
        if at is not None:
            lines = _event_lines(recording, at, as_json=as_json, with_headers=headers)
        elif pair is not None:
            lines = _reconnection_lines(recording, pair, as_json=as_json)
        else:
            parsed = parse_filter(filter_, recording.vocabularies)
            selected = select_exchanges(recording, channel=channel, number=number)
            if entities:
                lines = _entity_lines(recording, selected, as_json=as_json)
            else:
                shown = timeline_lines(recording, selected, parsed, as_json=as_json, with_headers=headers)
                lines = _or_explain(shown, parsed)
        write_lines(lines, page=not as_json and not no_pager)


def _check_options(given: Sequence[str]) -> None:
    """Raise UsageError if options cannot be combined."""
    for one, other in combinations(given, 2):
        if other in _EXCLUDED.get(one, ()):
            raise click.UsageError(f"{one} and {other} cannot be combined.")
    if "--follow" in given and {"--channel", "--exchange"}.intersection(given):
        raise click.UsageError("With --follow, use a filter instead, such as session:ID or exchange:N.")


def _or_explain(lines: Iterable[Line | str], filter_: Filter) -> Iterator[Line | str]:
    """Yield the lines; if there are none, print the reason to standard error."""
    is_empty = True
    for line in lines:
        is_empty = False
        yield line
    if is_empty:
        click.echo("No rows match the filter." if filter_.groups else "The recording is empty.", err=True)


def _event_lines(recording: Recording, location: str, *, as_json: bool, with_headers: bool) -> Iterable[Line | str]:
    number, event = parse_location(location)
    exchange = recording.exchange(number)
    context = find_event(recording, exchange, event)
    if as_json:
        return [dump_json(detail_document(recording, exchange, context))]
    return detail_lines(recording, exchange, context, with_headers=with_headers)


def _reconnection_lines(recording: Recording, pair: str, *, as_json: bool) -> Iterable[Line | str]:
    numbers = parse_location(pair, "EXCHANGE:EXCHANGE, for example 2:3")
    first, second = map(recording.exchange, numbers)
    if as_json:
        return reconnection_json_lines(recording, first, second)
    return _comparison_lines(compare_connections(recording, first, second), second.vocabulary)


def _entity_lines(recording: Recording, selected: Iterator[Exchange], *, as_json: bool) -> Iterable[Line | str]:
    """Yield the lines about entities; those of a channel span all its streams."""
    streams: dict[tuple[str, str | int], list[Exchange]] = {}
    for exchange in selected:
        if exchange.is_stream:
            contract = exchange.vocabulary.contract
            # Keys of entities are those of a channel, or of a stream that names none.
            owner = exchange.number if exchange.channel is None else exchange.channel
            streams.setdefault((contract, owner), []).append(exchange)
    for exchanges in streams.values():
        vocabulary, channel = exchanges[0].vocabulary, exchanges[0].channel
        found = entity_spans(recording, exchanges, vocabulary)
        if as_json:
            for entity in vocabulary.entities.values():
                spans = with_names(recording, found.spans[entity.name].values(), entity)
                about = {"row": entity.name, f"{vocabulary.channel}_id": channel}
                yield from (dump_json({**about, entity.name: span}) for span in spans)
        else:
            name = f"(none), exchange {exchanges[0].number}" if channel is None else channel
            yield wrapped((f"{vocabulary.channel} {name}", "head"))
            yield from _span_lines(recording, found)


def timeline_lines(
    recording: Recording,
    selected: Iterator[Exchange],
    filter_: Filter = EVERYTHING,
    *,
    as_json: bool = False,
    with_headers: bool = False,
) -> Iterator[Line | str]:
    """Yield the lines of the selected exchanges that match the filter; JSON always has the headers."""
    findings, take = stored_findings(recording), compile_filter(filter_)
    make_lines = exchange_json_lines if as_json else partial(exchange_lines, with_headers=with_headers)
    if recording.info.contracts is not None and not as_json:
        yield labelled(("contract ", "dim"), printable(", ".join(recording.info.contract_names)))
    for exchange in selected:
        if may_match_exchange(filter_, exchange):
            yield from make_lines(recording, exchange, findings.get(exchange.number, ()), take)


def _span_lines(recording: Recording, found: EntitySpans) -> Iterator[Line]:
    """Yield the lines of the entities, one kind after another."""
    entities = found.vocabulary.entities.values()
    width = _column_width([key for entity in entities for key in found.spans[entity.name]])
    for entity in entities:
        for span in with_names(recording, found.spans[entity.name].values(), entity):
            yield _span_line(entity, span, width, found.vocabulary)
    if not any(found.spans.values()):
        yield wrapped(" and ".join(f"no {entity.label}s" for entity in entities) or "the contract has no entities")


def _span_line(entity: Entity, span: Span, width: int, vocabulary: Vocabulary) -> Line:
    began, ended = span.began, span.ended
    length = format_duration(ended.time_ns - began.time_ns) if began and ended else ""
    style = "gap" if span.is_open else type_style(span.outcome, vocabulary, "good")
    locations = "-".join(f"{at.exchange}:{at.event}" if at else "?" for at in (began, ended))
    return Line(
        [
            (f"{entity.short:>8}  ", "dim"),
            (f"{span.id:<{width}}", "id" if entity.within is None else "call"),
            "  ",
            (f"{locations:<15} {length:>9}  ", "dim"),
            (f"{'open' if span.is_open else span.outcome:<14}  ", style),
            f"{count_of(span.events, 'event')}  {span.name}",
        ]
    )


def _comparison_lines(view: Reconnection, vocabulary: Vocabulary) -> Iterator[Line]:
    """Yield two connections side by side: a line for each cursor that was not known, then the count of each status."""
    resumed = "resumed without a cursor" if view.cursor is None else f"resumed after {view.cursor}"
    unknown = "" if view.cursor is None or view.cursor_known else f", which was not on #{view.first}"
    yield labelled((f"#{view.first} then #{view.second}  ", "head"), f"{resumed}{unknown}")
    known = [row for row in view.rows if row.status == "known"]
    shown = [*known[-_KNOWN:], *(row for row in view.rows if row.status != "known")]
    breaks_at = sum(row.first is not None and row.first.event is not None for row in shown)
    first = _column_width([f"#{view.first}", *(_event(row.first) for row in shown)])
    second = _column_width([f"#{view.second}", *(_event(row.second) for row in shown)])
    yield Line([(f"{'':8}  {f'#{view.first}':<{first}}  {f'#{view.second}':<{second}}  cursor", "dim")])
    for at, row in enumerate(shown):
        if at == breaks_at:
            yield _break_line(view)
        yield _cursor_line(row, (first, second), vocabulary)
    if breaks_at == len(shown):
        yield _break_line(view)
    for low, high in view.missing:
        gap = format_integer(low) if low == high else f"{format_integer(low)} to {format_integer(high)}"
        yield labelled((f"{'missing':>8}  ", "bad"), f"sequence {gap}: on neither connection")
    counts = [f"{view.count(status):,} {status}" for status in _STYLES if view.count(status)]
    yield wrapped(" · ".join(counts) or "no events with a cursor")


def _break_line(view: Reconnection) -> Line:
    """The line where the first connection ended."""
    time = "" if view.ended_ns is None else f" at {format_time(view.ended_ns)}"
    return labelled((f"{'':8}  ╌╌ #{view.first}: {view.ending}{time} ╌╌", "gap"))


def _cursor_line(row: CursorComparison, widths: tuple[int, int], vocabulary: Vocabulary) -> Line:
    style = _STYLES[row.status]
    cells = zip((row.first, row.second), widths, strict=True)
    preview = next(event.preview for event in (row.second, row.first) if event is not None)
    return Line(
        [
            (f"{row.status:>8}  ", style),
            *(
                (f"{_event(one):<{width}}  ", type_style(one.type if one else "", vocabulary, style))
                for one, width in cells
            ),
            (row.cursor, "id"),
            ("" if row.later_ns is None else f"  {format_delay(row.later_ns)}", style),
            "  ",
            (preview, "dim"),
        ]
    )


def _event(event: ConnectionEvent | None) -> str:
    if event is None:
        return ""
    if event.event is None:
        return f"cut off {event.type}"
    sequence = "" if event.sequence is None else f" seq {format_integer(event.sequence)}"
    return f"{event.event}{sequence} {event.type}"


def _column_width(cells: Iterable[str]) -> int:
    return min(max(map(len, cells), default=0), _MAX_COLUMN)
