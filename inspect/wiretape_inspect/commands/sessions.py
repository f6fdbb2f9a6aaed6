"""`wiretape sessions`: which sessions a recording holds."""

from pathlib import Path

import click

from wiretape.files import PATH
from wiretape.json_output import dump_json
from wiretape.recording import open_recording
from wiretape_inspect import sessions_table, summary, terminal_output, timeline


@click.command()
@click.argument("file", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
def sessions(file: Path, as_json: bool) -> None:
    """List the sessions in recording FILE, and how their streams went.

    Events are counted as they crossed the wire: one that was replayed after a reconnect counts twice.

    \b
    Example:
        wiretape sessions run.db
    """
    with open_recording(file) as recording:
        whole = summary.summarise(recording, timeline.stored_findings(recording))
        if as_json:
            terminal_output.write_lines([dump_json(summary.as_json(whole), indent=True)])
        else:
            terminal_output.write_lines(sessions_table.sessions(whole, terminal_output.paper()))
