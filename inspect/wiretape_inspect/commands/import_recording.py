"""`wiretape import`: make a recording of a file in another format."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import click

from wiretape.checker import Settings
from wiretape.contract import Contract
from wiretape.contract.contract_facts import ContractChoice
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.errors import InputError
from wiretape.files import PATH, file_errors, is_pipe, seekable
from wiretape.recording import RecordingSource, is_sqlite_file, open_recording
from wiretape.recording.compressed_file import is_compressed
from wiretape.recording.formats import FORMATS, Format, detect_format, find_format, raw_stream
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import check_recording_output, describe_contents, write_recording
from wiretape_inspect.contract_options import allow_code_option, load_contracts

_STDIN = Path("/dev/stdin")


@click.command("import")
@click.argument("file", type=PATH)
@click.option(
    "-f",
    "--format",
    "kind",
    type=click.Choice([each.name for each in FORMATS]),
    help="Format of FILE.  [default: detected from its content]  "
    + "  ".join(f"{each.name}: {each.summary}." for each in FORMATS),
)
@click.option(
    "-o",
    "--output",
    "to",
    type=PATH,
    metavar="FILE",
    help="Recording to write.  [default: the name of FILE with .db, in the current folder]",
)
@click.option("--url", metavar="URL", help="With sse: URL of the stream.  [default: an example of the contract]")
@click.option(
    "--contract", "names", metavar="NAME_OR_FILE", multiple=True, help="Check with this contract. Repeatable."
)
@allow_code_option
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def import_(
    file: Path,
    *,
    kind: str | None,
    to: Path | None,
    url: str | None,
    names: Sequence[str],
    allow_code: bool,
    force: bool,
) -> None:
    """Convert FILE from another format to a recording. If FILE is '-', read standard input.

    Credentials are replaced with fingerprints, as in recordings made by `wiretape proxy`. The command lists what the
    format of FILE cannot store, and which values it filled in instead.

    \b
    Examples:
        wiretape import run.tape
        wiretape import run.tape --output run.db
        wiretape import devtools.har
        gunzip -c run.har.gz | wiretape import - --output run.db
        wiretape import stream.sse --url http://127.0.0.1:8000/v1/sessions/ses_1/events/stream
        wiretape import devtools.har --contract sse
    """
    file = _STDIN if file == Path("-") else file
    made = to if to is not None else _default_output(file)
    if to is not None:
        check_recording_output(made, [file], force=force)
    contracts = load_contracts(names, allow_code=allow_code)
    with _readable_again(file) as whole:
        chosen = find_format(kind) if kind is not None else _detect(whole)
        # Checked here as well: that FILE is a recording already is more important than that the default output exists.
        check_recording_output(made, [file], force=force)
        source = _read(chosen, whole, url, contracts)
        if contracts:
            metadata = replace(source.metadata, contracts=dump_contracts(contracts))
            source = replace(source, metadata=metadata, findings=None, settings=Settings().with_contracts(contracts))
        write_recording(source, made)
    for note in source.notes:
        click.echo(printable(note), err=True)
    with open_recording(made) as recording:
        click.echo(f"{printable(str(made))}: {describe_contents(recording)}, from {chosen.description}.")


def _default_output(file: Path) -> Path:
    """Return the name of the recording.  Raises click.UsageError if FILE has no name."""
    with suppress(OSError):  # reported when the file is read
        if file == _STDIN or is_pipe(file):
            raise click.UsageError("A pipe has no name: use --output to name the recording.")
    return Path(f"{file.stem}.db")


@contextmanager
def _readable_again(file: Path) -> Iterator[Path]:
    """Yield a file that can be read several times; a pipe is copied.  Raises InputError if there is nothing to read."""
    with file_errors(file), seekable(file) as whole:
        if whole.is_file() and whole.stat().st_size == 0:
            raise InputError(f"{file} is empty.")
        yield whole


def _read(chosen: Format, file: Path, url: str | None, contracts: Sequence[Contract]) -> RecordingSource:
    if chosen.name == "sse":
        return raw_stream.read(file, url, ContractChoice(contracts) if contracts else None)
    if url is not None:
        raise click.UsageError(f"--url requires the sse format, but FILE is {chosen.description}.")
    return chosen.reader().read(file)


def _detect(file: Path) -> Format:
    """Return the format of a file.  Raises InputError and OSError."""
    if is_sqlite_file(file):
        raise InputError(f"{file} is already a recording, or another database.")
    if is_compressed(file):
        raise InputError(
            f"{file} is compressed. If it is a recording, there is nothing to import; else run `zstd -d` first."
        )
    found = detect_format(file)
    if found is None:
        names = ", ".join(each.name for each in FORMATS)
        raise InputError(f"The format of {file} cannot be detected: specify it with --format ({names}).")
    return found
