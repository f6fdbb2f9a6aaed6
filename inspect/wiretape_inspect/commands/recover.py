"""`wiretape recover`: save whatever can be read from a damaged recording."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click

from wiretape.errors import InputError, RecordingError
from wiretape.files import PATH, read_error
from wiretape.labels import count_of
from wiretape.recording import RecordingSource, lock_for_writing
from wiretape.recording.compressed_file import decompressed_parts, is_compressed
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import check_recording_output, describe_contents, print_sentences, write_recording
from wiretape_inspect.recover.recovered_rows import RecoveredRows
from wiretape_inspect.recover.sqlite_pages import SqlitePages


@click.command()
@click.argument("file", type=PATH)
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", required=True, help="Recording to write.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def recover(file: Path, *, to: Path, force: bool) -> None:
    """Copy everything that is still readable in the damaged recording FILE to a new recording.

    FILE is not changed. It is read page by page, ignoring its schema, so recovery works even if FILE is truncated,
    lacks its journal, or contains corrupt data or foreign tables. The command lists what is missing; in the new
    recording, REC001 findings mark where bytes were lost. The rules are run again on the new recording.

    \b
    Example:
        wiretape recover run.db --output saved.db
    """
    check_recording_output(to, [file], force=force)
    summary: list[str] = []
    with (
        _open_damaged(file) as pages,
        tempfile.TemporaryDirectory(prefix="wiretape-") as folder,
        closing(sqlite3.connect(Path(folder, "rows.db"), isolation_level=None)) as connection,
    ):
        rows = RecoveredRows(connection)
        rows.add(pages.rows())
        metadata = rows.repair()
        if metadata is None:
            raise RecordingError(f"{file} contains no readable exchanges.")
        source = RecordingSource(metadata, rows.observations())
        write_recording(source, to, lambda written: summary.append(describe_contents(written)))
    click.echo(f"{printable(str(to))}: {summary[0]}")
    missing = rows.missing
    if unused := pages.damaged_rows + rows.unused_rows:
        missing.append(f"Ignored {count_of(unused, 'damaged row')}.")
    print_sentences(missing, "more line", indent="  ")


@contextmanager
def _open_damaged(path: Path) -> Iterator[SqlitePages]:
    """Open a file and the journal beside it.  Raises InputError."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file.")
    with ExitStack() as opened:
        try:
            if os.access(path, os.W_OK):
                opened.callback(os.close, lock_for_writing(path))
            file = opened.enter_context(_decompressed(path) if is_compressed(path) else path.open("rb"))
            journal = Path(f"{path}-wal")
            yield SqlitePages(file, opened.enter_context(journal.open("rb")) if journal.is_file() else None)
        except OSError as error:
            raise InputError(read_error(path, error)) from None


def _decompressed(path: Path) -> BinaryIO:
    """Return a temporary file with everything before the damage in a compressed recording.  Raises OSError."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    with suppress(RecordingError):
        file.writelines(decompressed_parts(path))
    file.seek(0)
    return file
