"""`wiretape export`: write a recording in another format."""

from collections.abc import Iterator
from pathlib import Path

import click

from wiretape.files import PATH
from wiretape.labels import count_of
from wiretape.recording import Recording, open_recording
from wiretape.recording.formats import FORMATS, find_format
from wiretape_inspect import event_export
from wiretape_inspect.atomic_output import open_output
from wiretape_inspect.exchange_selection import select_stream

_SUMMARIES = {
    **{each.name: each.summary for each in FORMATS if each.writes},
    "events": "one JSON object per exchange and per event, for jq and other programs",
    "html": "the page of `wiretape debug` as one file",
}


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice(list(_SUMMARIES)),
    required=True,
    help="Output format.  " + "  ".join(f"{name}: {summary}." for name, summary in _SUMMARIES.items()),
)
@click.option("--exchange", "number", type=int, metavar="N", help="Export only this exchange.")
@click.option("--encoded", is_flag=True, help="With sse: do not decompress the stream.")
@click.option(
    "--with-sensitive",
    is_flag=True,
    help="With har: keep the headers that carry keys and cookies; they contain only fingerprints.",
)
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", help="Write to this file instead of stdout.")
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
    """Write the recording FILE in another format.

    The sse output is raw: do not print it to a terminal if you do not trust the recording.

    \b
    Examples:
        wiretape export run.db --format sse --exchange 2 --output run.sse
        wiretape export run.db --format html --output run.html
        wiretape export run.db --format events | jq 'select(.kind == "durable") | .data.type'
        wiretape export run.db --format tape --output run.tape
        wiretape export run.db --format har --output run.har
    """
    if encoded and kind != "sse":
        raise click.UsageError("--encoded requires --format sse.")
    if with_sensitive and kind != "har":
        raise click.UsageError("--with-sensitive requires --format har.")
    with open_recording(file) as recording:
        parts = _parts(recording, kind, number, encoded=encoded, sensitive=with_sensitive)
        to = None if to == Path("-") else to
        with open_output(to, force=force, recording=file) as out:
            for part in parts:
                out.write(part)


def _parts(recording: Recording, kind: str, number: int | None, *, encoded: bool, sensitive: bool) -> Iterator[bytes]:
    if kind == "sse":
        return _stream(recording, number, encoded=encoded)
    chosen = None if number is None else [recording.exchange(number)]
    if kind == "events":
        lines = event_export.event_lines(recording, recording.exchanges() if chosen is None else chosen)
        return (f"{line}\n".encode() for line in lines)
    if kind == "html":
        from wiretape_inspect.page_export import export_page  # noqa: PLC0415 - loaded only when it is used
        from wiretape_inspect.report.evidence_json import evidence_document, locate_one  # noqa: PLC0415 - the same

        found = recording.findings(number)
        findings = [evidence_document(recording, locate_one(recording, finding)) for finding in found]
        return export_page(recording, chosen, findings=findings)
    if kind == "har":
        from wiretape.recording.formats.har import write  # noqa: PLC0415 - loaded only when it is used

        return write(recording, chosen, sensitive=sensitive)
    return find_format(kind).writer().write(recording, chosen)


def _stream(recording: Recording, number: int | None, *, encoded: bool) -> Iterator[bytes]:
    from wiretape.recording.formats.raw_stream import write_stream  # noqa: PLC0415 - loaded only when it is used

    exchange = select_stream(recording, number)
    if exchange.lost_bytes:
        lost = f"{count_of(exchange.lost_bytes, 'byte')} of exchange {exchange.number}"
        click.echo(f"{lost} {'was' if exchange.lost_bytes == 1 else 'were'} not recorded.", err=True)
    return write_stream(recording, exchange, encoded=encoded)
