"""`wiretape export`: write a recording in another format."""

import sys
from functools import partial
from pathlib import Path
from select import select

import click

from wiretape.files import PATH
from wiretape.labels import count_of
from wiretape.recording import Exchange, open_recording
from wiretape_inspect.atomic_output import open_output
from wiretape_inspect.exchange_selection import select_stream
from wiretape_inspect.recording_export import SUMMARIES, export_parts


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice(list(SUMMARIES)),
    required=True,
    help="Output format.  " + "  ".join(f"{name}: {summary}." for name, summary in SUMMARIES.items()),
)
@click.option("--exchange", "number", type=int, metavar="N", help="Export only this exchange.")
@click.option("--encoded", is_flag=True, help="With sse: do not decompress the stream.")
@click.option(
    "--with-sensitive",
    is_flag=True,
    help="With har: keep the headers that carry keys and cookies; they contain only fingerprints.",
)
@click.option("--endpoint", metavar="URL", help="With otlp: send the spans to this OTLP/HTTP endpoint.")
@click.option("--with-parent", is_flag=True, hidden=True, help="Follow the recording until standard input closes.")
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", help="Write to this file instead of standard output.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def export(
    file: Path,
    *,
    kind: str,
    number: int | None,
    encoded: bool,
    with_sensitive: bool,
    endpoint: str | None,
    with_parent: bool,
    to: Path | None,
    force: bool,
) -> None:
    """Write the recording FILE in another format.

    The output of --format sse is raw: do not print it to a terminal if you do not trust the recording.

    \b
    Examples:
        wiretape export run.db --format sse --exchange 2 --output run.sse
        wiretape export run.db --format html --output run.html
        wiretape export run.db --format events | jq 'select(.kind == "durable") | .data.type'
        wiretape export run.db --format tape --output run.tape
        wiretape export run.db --format har --output run.har
        wiretape export run.db --format otlp --endpoint http://127.0.0.1:4318
    """
    if encoded and kind != "sse":
        raise click.UsageError("--encoded requires --format sse.")
    if with_sensitive and kind != "har":
        raise click.UsageError("--with-sensitive requires --format har.")
    if endpoint is not None:
        if kind != "otlp" or to is not None:
            raise click.UsageError("--endpoint requires --format otlp, and cannot be combined with --output.")
        _send(file, endpoint, number, with_parent=with_parent)
        return
    with open_recording(file) as recording:
        parts = export_parts(recording, kind, number, encoded=encoded, sensitive=with_sensitive)
        if kind == "sse":
            _report_loss(select_stream(recording, number))
        to = None if to == Path("-") else to
        with open_output(to, force=force, recording=file) as out:
            for part in parts:
                out.write(part)


def _send(file: Path, endpoint: str, number: int | None, *, with_parent: bool) -> None:
    """Send a recording to an OTLP endpoint; follow it if another command started this one."""
    from wiretape_inspect.otlp_export import Exporter  # noqa: PLC0415 - loaded only when it is used

    exporter = Exporter(endpoint)
    if with_parent:
        exporter.follow(file, _stdin_closes_within, partial(click.echo, err=True))
        return
    with open_recording(file) as recording:
        sent = exporter.send(recording, recording.exchanges() if number is None else [recording.exchange(number)])
    click.echo(f"Sent {count_of(sent, 'span')} to {exporter.url}.", err=True)


def _stdin_closes_within(seconds: float) -> bool:
    return bool(select([sys.stdin], [], [], seconds)[0])


def _report_loss(exchange: Exchange) -> None:
    if exchange.lost_bytes:
        lost = f"{count_of(exchange.lost_bytes, 'byte')} of exchange {exchange.number}"
        click.echo(f"{lost} {'was' if exchange.lost_bytes == 1 else 'were'} not recorded.", err=True)
