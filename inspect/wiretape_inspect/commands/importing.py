"""`wiretape import`: a recording made of what another program wrote."""

from collections.abc import Iterator
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.recording import Recording, open_recording
from wiretape.recording.formats import FORMATS, Format, Incoming, format_of, named, sse
from wiretape.recording.formats.sse import ADDRESS
from wiretape.recording.schema import begins_like_sqlite
from wiretape.text import printable
from wiretape.words import counted
from wiretape_inspect import placing

_READABLE = [each for each in FORMATS if each.reads is not None]


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice([each.name for each in _READABLE]),
    help="What FILE is.  [default: what it looks like]  "
    + " ".join(f"{each.name}: {each.title}." for each in _READABLE),
)
@click.option(
    "-o",
    "--output",
    "to",
    type=click.Path(path_type=Path),
    metavar="F",
    help="The recording.  [default: FILE's name with .db, here]",
)
@click.option(
    "--url",
    metavar="URL",
    help=f"With sse, which says nothing of it: where the stream came from.  [default: {ADDRESS}]",
)
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def import_(file: Path, *, kind: str | None, to: Path | None, url: str | None, force: bool) -> None:
    """Make a recording of FILE, which another program wrote.

    What FILE is, is told by what it holds. Credentials in it are replaced by fingerprints, as when a proxy records.
    What its format could not hold, and what was made up for that, is said.

    \b
    Examples:
        wiretape import run.tape
        wiretape import run.jsonl --output run.db
        wiretape import devtools.har
        wiretape import stream.sse --url http://127.0.0.1:8000/v1/sessions/ses_1/events/stream
    """
    chosen = named(kind) if kind is not None else _guessed(file)
    to = to if to is not None else Path(f"{file.stem}.db")
    placing.check(to, [file], force=force)
    incoming = _incoming(chosen, file, url)
    placing.place(incoming, to)
    for sentence in incoming.left_out:
        click.echo(printable(sentence), err=True)
    with open_recording(to) as recording:
        click.echo(f"{printable(str(to))}: {', '.join(_told(recording))}, from {chosen.name}.")


def _incoming(chosen: Format, file: Path, url: str | None) -> Incoming:
    if url is None:
        return chosen.reader().read(file)
    if chosen.name != "sse":
        raise click.UsageError(f"--url goes with sse, and this is {chosen.name}.")
    return sse.read(file, url)


def _guessed(file: Path) -> Format:
    try:
        if begins_like_sqlite(file):
            raise InputError(f"{printable(str(file))} is a recording already, or another database.")
        found = format_of(file)
    except OSError as error:
        raise InputError(f"{printable(str(file))} cannot be read: {error.strerror}.") from None
    if found is None:
        names = ", ".join(each.name for each in _READABLE)
        raise InputError(
            f"{printable(str(file))} looks like nothing that can be imported ({names}); --format says what it is."
        )
    return found


def _told(recording: Recording) -> Iterator[str]:
    """What there is in a recording."""
    exchanges = streams = 0
    for exchange in recording.exchanges():
        exchanges += 1
        streams += exchange.is_stream
    yield counted(exchanges, "exchange")
    yield counted(streams, "stream")
    yield counted(sum(1 for _ in recording.findings()), "finding")
