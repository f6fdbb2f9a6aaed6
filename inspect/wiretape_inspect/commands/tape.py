"""`wiretape tape`: rewrite tapes."""

from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.recording import open_recording
from wiretape.recording.formats import detect_format
from wiretape.recording.normalization import normalized_tape
from wiretape.safe_text import printable
from wiretape.units import format_size
from wiretape_inspect.atomic_output import open_output


@click.group(epilog="\b\nExample:\n    wiretape tape normalize run.tape")
def tape() -> None:
    """Rewrite tapes: recordings as text, which are kept in git."""


@tape.command()
@click.argument("file", type=PATH)
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", help="Tape to write.  [default: the tape itself]")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def normalize(file: Path, *, to: Path | None, force: bool) -> None:
    """Rewrite the tape FILE so that recording the same traffic again gives a small diff.

    Ids that the service made are numbered, times are rounded to seconds, each event is one chunk, compressed bodies
    are decoded, and conversations that overlapped are sorted. FILE can be any recording if there is an --output.

    \b
    Examples:
        wiretape tape normalize run.tape
        wiretape tape normalize run.db --output run.tape
    """
    with open_recording(file) as recording:
        data = normalized_tape(recording)
        before = file.stat()
        if to is None:
            found = detect_format(file)
            if found is None or found.name != "tape":
                raise InputError(f"{file} is not a tape: name the tape to write with --output.")
        # A tape in git may be for others as well.
        place = {"force": True, "mode": before.st_mode & 0o777} if to is None else {"force": force, "recording": file}
        with open_output(None if to == Path("-") else to or file, **place) as out:
            out.write(data)
    size = format_size(len(data))
    click.echo(f"{printable(str(to or file))}: {size}, from {format_size(before.st_size)}.", err=True)
