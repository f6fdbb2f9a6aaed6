"""`wiretape show`: what happened, a line an event."""

from collections.abc import Iterator
from pathlib import Path

import click

from wiretape.recording import Exchange, Recording, open_recording
from wiretape_inspect import choosing, jsonlines, output, timeline


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--session", metavar="ID", help="Only the exchanges of this session.")
@click.option("--exchange", "number", type=int, metavar="N", help="Only this exchange.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object a line.")
def show(file: Path, session: str | None, number: int | None, as_json: bool) -> None:
    """Show the timeline of recording FILE: every exchange, and every event of its streams.

    Runs of deltas are one line, keep-alives fold into the pause they fill, time without events is
    marked from one second on, and what the live checks found stands beneath its event.

    \b
    Examples:
        wiretape show run.db
        wiretape show run.db --exchange 2
    """
    if session is not None and number is not None:
        raise click.UsageError("Give --session or --exchange, not both.")
    with open_recording(file) as recording:
        chosen = choosing.exchanges(recording, session=session, number=number)
        output.write_lines(lines(recording, chosen, as_json=as_json), page=not as_json)


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
