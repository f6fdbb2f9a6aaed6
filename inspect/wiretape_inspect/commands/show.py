"""`wiretape show`: what happened, a line an event."""

from collections.abc import Iterator
from pathlib import Path

import click

from wiretape.recording import Exchange, Recording, open_recording
from wiretape_inspect import choosing, jsonlines, output, place, timeline


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--session", metavar="ID", help="Only the exchanges of this session.")
@click.option("--exchange", "number", type=int, metavar="N", help="Only this exchange.")
@click.option("--at", "at", metavar="EXCHANGE:EVENT", help="Only this event, with all its bytes: 2:57.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
def show(file: Path, *, session: str | None, number: int | None, at: str | None, as_json: bool) -> None:
    """Show the timeline of recording FILE: every exchange, and every event of its streams.

    Runs of deltas are one line, keep-alives fold into the pause they fill, time without events is
    marked from one second on, and what the live checks found stands beneath its event.

    With --at one event is looked at closely: its fields, its bytes as text and in hexadecimal, the chunks
    that they came in, and a line for each of its neighbours.

    \b
    Examples:
        wiretape show run.db
        wiretape show run.db --exchange 2
        wiretape show run.db --at 2:57
    """
    if session is not None and number is not None:
        raise click.UsageError("Give --session or --exchange, not both.")
    if at is not None and (session is not None or number is not None or as_json):
        raise click.UsageError("--at names one place: give it without --session, --exchange and --json.")
    with open_recording(file) as recording:
        if at is not None:
            output.write_lines(_closely(recording, at), page=True)
            return
        chosen = choosing.exchanges(recording, session=session, number=number)
        output.write_lines(lines(recording, chosen, as_json=as_json), page=not as_json)


def _closely(recording: Recording, at: str) -> list[str]:
    """The lines about one event."""
    number, event = place.parsed(at)
    exchange = recording.exchange(number)
    around = place.find(recording, exchange, event)
    findings = timeline.stored_findings(recording).get(number, ())
    paper = output.paper()
    return [paper.line(spans) for spans in place.spans(recording, exchange, around, findings)]


def lines(recording: Recording, chosen: Iterator[Exchange], *, as_json: bool = False) -> Iterator[str]:
    """The lines of the chosen exchanges, on paper as standard output is."""
    findings = timeline.stored_findings(recording)
    paper = output.paper()
    for exchange in chosen:
        found = findings.get(exchange.number, ())
        if as_json:
            yield from map(jsonlines.dump, jsonlines.rows(recording, exchange, found))
        else:
            yield from map(paper.line, timeline.spans(recording, exchange, found))
