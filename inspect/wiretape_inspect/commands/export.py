"""`wiretape export`: a recording in forms that other programs read."""

from collections.abc import Iterator
from pathlib import Path

import click

from wiretape.files import PATH
from wiretape.recording import Recording, open_recording
from wiretape.recording.formats import FORMATS, find_format
from wiretape_inspect import exchange_selection, exporting, terminal_output


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["sse", "events", "html", *(each.name for each in FORMATS if each.writes)]),
    required=True,
    help="sse: the exact bytes of one event stream. events: a JSON object for each event and each exchange. "
    "html: the page of `wiretape debug`, as one file. "
    + " ".join(f"{each.name}: {each.summary}." for each in FORMATS if each.writes),
)
@click.option("--exchange", "number", type=int, metavar="N", help="Only this exchange.")
@click.option("--encoded", is_flag=True, help="With sse: leave a compressed stream compressed, as it crossed the wire.")
@click.option(
    "--with-sensitive", is_flag=True, help="With har: keep the headers of keys and cookies, which hold fingerprints."
)
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", help="Write to this file, not to stdout.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def export(
    file: Path,
    *,
    kind: str,
    number: int | None,
    encoded: bool,
    with_sensitive: bool,
    to: Path | None,
    force: bool,
) -> None:
    """Write recording FILE in a form that other programs read.

    What sse writes is raw: do not let it loose on a terminal when you do not trust the recording.

    \b
    Examples:
        wiretape export run.db --format sse --exchange 2 --output run.sse
        wiretape export run.db --format html --output run.html
        wiretape export run.db --format events | jq 'select(.kind == "durable") | .data.type'
        wiretape export run.db --format tape --output run.tape
        wiretape export run.db --format har --output run.har
    """
    if encoded and kind != "sse":
        raise click.UsageError("--encoded goes with --format sse.")
    if with_sensitive and kind != "har":
        raise click.UsageError("--with-sensitive goes with --format har.")
    with open_recording(file) as recording:
        parts = _parts(recording, kind, number, encoded=encoded, sensitive=with_sensitive)
        to = None if to == Path("-") else to
        with terminal_output.opened(to, force=force, recording=file) as out:
            for part in parts:
                out.write(part)


def _parts(recording: Recording, kind: str, number: int | None, *, encoded: bool, sensitive: bool) -> Iterator[bytes]:
    if kind == "sse":
        return _stream(recording, number, encoded)
    if kind == "events":
        return _lines(recording, number)
    chosen = None if number is None else exchange_selection.exchanges(recording, number=number)
    if kind == "html":
        from wiretape_inspect.page_export import export_page  # noqa: PLC0415 - the page is not needed otherwise

        return export_page(recording, None if chosen is None else list(chosen))
    if kind == "har":
        from wiretape.recording.formats.har import write  # noqa: PLC0415 - formats are loaded when they are used

        return write(recording, chosen, sensitive=sensitive)
    return find_format(kind).writer().write(recording, chosen)


def _stream(recording: Recording, number: int | None, encoded: bool) -> Iterator[bytes]:
    exchange = exchange_selection.stream(recording, number)
    if exchange.lost_bytes:
        click.echo(f"{exchange.lost_bytes} bytes of exchange {exchange.number} were not recorded.", err=True)
    return exporting.stream_bytes(recording, exchange, encoded=encoded)


def _lines(recording: Recording, number: int | None) -> Iterator[bytes]:
    chosen = exchange_selection.exchanges(recording, number=number)
    return (f"{line}\n".encode() for line in exporting.json_lines(recording, chosen))
