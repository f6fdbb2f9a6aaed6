"""`wiretape import`: a recording made of what another program wrote."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.files import PATH, is_pipe, read_error, seekable
from wiretape.labels import count_of
from wiretape.recording import Recording, RecordingSource, is_sqlite_file, open_recording
from wiretape.recording.formats import FORMATS, Format, detect_format, find_format, sse
from wiretape.recording.formats.sse import ADDRESS
from wiretape.safe_text import printable
from wiretape_inspect import atomic_output

_STDIN = Path("/dev/stdin")
_READABLE = [each for each in FORMATS if each.reads is not None]


@click.command("import")
@click.argument("file", type=PATH)
@click.option(
    "--format",
    "kind",
    type=click.Choice([each.name for each in _READABLE]),
    help="What FILE is.  [default: what it looks like]  "
    + " ".join(f"{each.name}: {each.summary}." for each in _READABLE),
)
@click.option(
    "-o",
    "--output",
    "to",
    type=PATH,
    metavar="FILE",
    help="The recording.  [default: the name of what is imported, with .db, here]",
)
@click.option(
    "--url",
    metavar="URL",
    help=f"With sse, which says nothing of it: where the stream came from.  [default: {ADDRESS}]",
)
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def import_(file: Path, *, kind: str | None, to: Path | None, url: str | None, force: bool) -> None:
    """Make a recording of FILE, which another program wrote; - is standard input.

    What FILE is, is told by what it holds. Credentials in it are replaced by fingerprints, as when a proxy records.
    What its format could not hold, and what was made up for that, is said.

    \b
    Examples:
        wiretape import run.tape
        wiretape import run.jsonl --output run.db
        wiretape import devtools.har
        gunzip -c run.har.gz | wiretape import - --output run.db
        wiretape import stream.sse --url http://127.0.0.1:8000/v1/sessions/ses_1/events/stream
    """
    file = _STDIN if file == Path("-") else file
    made = to if to is not None else _beside(file)
    if to is not None:
        atomic_output.check(made, [file], force=force)
    with _whole(file) as whole:
        chosen = find_format(kind) if kind is not None else _guessed(whole)
        # Of a recording, that it is one is said first, not that what it would be called is taken.
        atomic_output.check(made, [file], force=force)
        incoming = _incoming(chosen, whole, url)
        atomic_output.place(incoming, made)
    for sentence in incoming.notes:
        click.echo(printable(sentence), err=True)
    with open_recording(made) as recording:
        click.echo(f"{printable(str(made))}: {', '.join(_told(recording))}, from {chosen.description}.")


def _beside(file: Path) -> Path:
    """What the recording is called where nobody says.  Raises click.UsageError for what has no name of its own."""
    with suppress(OSError):  # who reads it will say what is wrong with it
        if file == _STDIN or is_pipe(file):
            raise click.UsageError("What comes through a pipe has no name: give --output one for the recording.")
    return Path(f"{file.stem}.db")


@contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """All of the file, also of a pipe.  Raises InputError where there is nothing to be read."""
    try:
        with seekable(file) as whole:
            if whole.is_file() and whole.stat().st_size == 0:
                raise InputError(f"{file} is empty.")
            yield whole
    except OSError as error:
        raise InputError(read_error(file, error)) from None


def _incoming(chosen: Format, file: Path, url: str | None) -> RecordingSource:
    if url is None:
        return chosen.reader().read(file)
    if chosen.name != "sse":
        raise click.UsageError(f"--url goes with sse, and this is {chosen.description}.")
    return sse.read(file, url)


def _guessed(file: Path) -> Format:
    """What a file is.  Raises InputError and OSError."""
    if is_sqlite_file(file):
        raise InputError(f"{file} is a recording already, or another database.")
    found = detect_format(file)
    if found is None:
        names = ", ".join(each.name for each in _READABLE)
        raise InputError(f"{file} looks like nothing that can be imported ({names}); --format says what it is.")
    return found


def _told(recording: Recording) -> Iterator[str]:
    """What there is in a recording."""
    exchanges = streams = 0
    for exchange in recording.exchanges():
        exchanges += 1
        streams += exchange.is_stream
    yield count_of(exchanges, "exchange")
    yield count_of(streams, "stream")
    yield count_of(sum(1 for _ in recording.findings()), "finding")
