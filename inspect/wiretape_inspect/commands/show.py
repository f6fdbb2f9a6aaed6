"""`wiretape show`: what happened, a line an event."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from wiretape.files import PATH
from wiretape.json_output import dump_json
from wiretape.recording import Exchange, Recording, open_recording
from wiretape_inspect import (
    event_detail,
    exchange_selection,
    state_view,
    terminal_output,
    timeline,
    timeline_follow,
    timeline_json,
)
from wiretape_inspect.view.filter_grammar import EVERYTHING, Filter, parse_filter
from wiretape_inspect.view.filter_match import compile_filter, may_match_exchange
from wiretape_inspect.view.overview import runs_and_calls
from wiretape_inspect.view.reconnection import compare_connections
from wiretape_inspect.view.state_at_event import state_at, with_names

_NEGATED = re.compile(r'-(?:\w+:|["/])')
_SHIELD = "\0"


class _WithFilter(click.Command):
    """A command whose arguments may begin with a hyphen where they are conditions of a filter: `-type:*.delta`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_SHIELD + arg if _NEGATED.match(arg) else arg for arg in args])


def _filter(_context: click.Context, _parameter: click.Parameter, words: Sequence[str]) -> Filter:
    return parse_filter(" ".join(word.removeprefix(_SHIELD) for word in words))


@click.command(cls=_WithFilter)
@click.argument("file", type=PATH)
@click.argument("whole", metavar="[FILTER]...", nargs=-1, callback=_filter)
@click.option("--session", metavar="ID", help="Only the exchanges of this session.")
@click.option("--exchange", "number", type=int, metavar="N", help="Only this exchange.")
@click.option("--at", metavar="EXCHANGE:EVENT", help="Only this event, with its bytes and what a client knew: 2:57.")
@click.option("--resume", "pair", metavar="EXCHANGE:EXCHANGE", help="Two streams of a session side by side: 2:3.")
@click.option("--calls", is_flag=True, help="The runs and tool calls, a line each.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more, until the recording is closed.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
@click.option("--no-pager", is_flag=True, help="Write to the terminal, also what is longer than the screen.")
def show(
    file: Path,
    *,
    whole: Filter,
    session: str | None,
    number: int | None,
    at: str | None,
    pair: str | None,
    calls: bool,
    follow: bool,
    as_json: bool,
    no_pager: bool,
) -> None:
    """Show the timeline of recording FILE: every exchange, and every event of its streams.

    Runs of deltas are one line, keep-alives fold into the pause they fill, time without events is
    marked from one second on, and what the live checks found stands beneath its event.

    FILTER chooses what is shown: conditions on type, kind, id, rule, run, tool, session, seq, event,
    exchange, gap and text, which all have to be met; a comma and `or` stand between alternatives, and a
    hyphen before what is not to be shown. docs/filter.md has all of it.

    With --at one event is looked at closely: its fields, its data, its bytes, the chunks that they came in,
    a line for each of its neighbours, and what a client knew just after it.

    \b
    Examples:
        wiretape show run.db
        wiretape show run.db 'type:tool.* gap:>1s'
        wiretape show run.db 'rule:SEQ*' '-type:*.delta'
        wiretape show run.db --at 2:57
        wiretape show run.db --resume 2:3
        wiretape show run.db --follow
    """
    narrowed = session is not None or number is not None or bool(whole.groups)
    _check(session=session, number=number, at=at, pair=pair, narrowed=narrowed, follow=follow)
    if calls and (whole.groups or at is not None or pair is not None or follow):
        raise click.UsageError("--calls goes with --session, --exchange and --json only.")
    if follow:
        found = timeline_follow.follow(file, whole, paper=terminal_output.paper(), as_json=as_json)
        terminal_output.write_lines(found, live=True)
        return
    page = not as_json and not no_pager
    with open_recording(file) as recording:
        if at is not None:
            terminal_output.write_lines(_closely(recording, at, as_json=as_json), page=page)
        elif pair is not None:
            terminal_output.write_lines(_resumed(recording, pair, as_json=as_json), page=page)
        elif calls:
            chosen = exchange_selection.exchanges(recording, session=session, number=number)
            terminal_output.write_lines(_calls(recording, chosen, as_json=as_json), page=page)
        else:
            chosen = exchange_selection.exchanges(recording, session=session, number=number)
            terminal_output.write_lines(_or_why(lines(recording, chosen, whole, as_json=as_json), whole), page=page)


def _check(
    *, session: str | None, number: int | None, at: str | None, pair: str | None, narrowed: bool, follow: bool
) -> None:
    """Raises UsageError for options that do not go together."""
    if session is not None and number is not None:
        raise click.UsageError("Give --session or --exchange, not both.")
    if at is not None and (narrowed or pair is not None or follow):
        raise click.UsageError("--at names one place: give it without a filter, and with no option but --json.")
    if pair is not None and (narrowed or follow):
        raise click.UsageError("--resume names two streams: give it without a filter, and with no option but --json.")
    if follow and (session is not None or number is not None):
        raise click.UsageError("With --follow, choose with a filter: session:ID, or exchange:N.")


def _or_why(found: Iterable[str], whole: Filter) -> Iterator[str]:
    """The lines; where there are none, standard error says why."""
    nothing = True
    for line in found:
        nothing = False
        yield line
    if nothing:
        click.echo("The filter takes nothing of this recording." if whole.groups else "Nothing was recorded.", err=True)


def _closely(recording: Recording, at: str, *, as_json: bool) -> Iterable[str]:
    """The lines about one event."""
    number, event = event_detail.parsed(at)
    exchange = recording.exchange(number)
    around = event_detail.find(recording, exchange, event)
    findings = timeline.stored_findings(recording).get(number, ())
    state = state_at(recording, exchange, event)
    if as_json:
        return [dump_json(timeline_json.closely(recording, exchange, around, findings, state))]
    paper = terminal_output.paper()
    return [paper.line(spans) for spans in event_detail.spans(recording, exchange, around, findings, state)]


def _resumed(recording: Recording, pair: str, *, as_json: bool) -> Iterable[str]:
    """The lines of the resume view."""
    first, second = event_detail.parsed(pair, "EXCHANGE:EXCHANGE, like 2:3")
    view = compare_connections(recording, recording.exchange(first), recording.exchange(second))
    if as_json:
        return map(dump_json, timeline_json.joined(view))
    return map(terminal_output.paper().line, state_view.resume(view))


def _calls(recording: Recording, chosen: Iterator[Exchange], *, as_json: bool) -> Iterable[str]:
    """The lines about runs and tool calls; those of one session are put together over its streams."""
    found: dict[str | None, list[Exchange]] = {}
    for exchange in chosen:
        if exchange.is_stream:
            found.setdefault(exchange.session_id, []).append(exchange)
    paper = terminal_output.paper()
    for session, exchanges in found.items():
        work = runs_and_calls(recording, exchanges)
        called = with_names(recording, iter(work.calls.values()))
        if as_json:
            for name, spans in (("run", iter(work.runs.values())), ("call", called)):
                yield from (dump_json({"row": name, "session_id": session, name: span}) for span in spans)
        else:
            yield paper.line([(f"session {session if session is not None else '(none)'}", "head")])
            yield from map(paper.line, state_view.calls(work, called))


def lines(
    recording: Recording,
    chosen: Iterator[Exchange],
    whole: Filter = EVERYTHING,
    *,
    as_json: bool = False,
) -> Iterator[str]:
    """The lines of the chosen exchanges, as far as the filter takes them, on paper as standard output is."""
    findings, take = timeline.stored_findings(recording), compile_filter(whole)
    paper = terminal_output.paper()
    for exchange in chosen:
        found = findings.get(exchange.number, ())
        if not may_match_exchange(whole, exchange):
            continue
        if as_json:
            yield from map(dump_json, timeline_json.rows(recording, exchange, found, take))
        else:
            yield from map(paper.line, timeline.spans(recording, exchange, found, take))
