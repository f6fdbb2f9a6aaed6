"""`wiretape sessions`: the sessions of a recording."""

from pathlib import Path

import click

from wiretape.files import PATH
from wiretape.json_codec import dump_json
from wiretape.recording import open_recording
from wiretape_inspect.sessions_table import summarise, summary_document, summary_lines
from wiretape_inspect.terminal_output import find_terminal, write_lines
from wiretape_inspect.timeline import stored_findings


@click.command()
@click.argument("file", type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
def sessions(file: Path, as_json: bool) -> None:
    """List the sessions of recording FILE, with their streams, events, endings and findings.

    An event that was replayed after a reconnect counts twice.

    \b
    Example:
        wiretape sessions run.db
    """
    with open_recording(file) as recording:
        summary = summarise(recording, stored_findings(recording))
        if as_json:
            write_lines([dump_json(summary_document(summary), indent=True)])
        else:
            write_lines(summary_lines(summary, find_terminal()))
