"""`wiretape recover`: save whatever can be read from a damaged recording."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import click

from wiretape.errors import InputError, RecordingError
from wiretape.files import PATH, read_error
from wiretape.labels import count_of
from wiretape.recording import RecordingSource, lock_for_writing
from wiretape.recording.compressed_file import decompressed_parts, is_compressed
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import check_recording_output, describe_contents, print_sentences, write_recording
from wiretape_inspect.recovered_rows import RecoveredRows, open_damaged, read_rows


@click.command()
@click.argument("file", type=PATH)
@click.option("-o", "--output", "to", type=PATH, metavar="FILE", required=True, help="Recording to write.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def recover(file: Path, *, to: Path, force: bool) -> None:
    """Copy everything that is still readable in the damaged recording FILE to a new recording.

    FILE is not changed. Its rows are copied as far as SQLite can read them, so recovery works even if FILE is
    truncated, lacks its journal, or contains corrupt data or foreign tables. The command lists what is missing; in the
    new recording, REC001 findings mark where bytes were lost. The rules are run again on the new recording.

    \b
    Example:
        wiretape recover run.db --output saved.db
    """
    check_recording_output(to, [file], force=force)
    summary: list[str] = []
    damaged_tables: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="wiretape-") as folder,
        closing(_open_copy(file, Path(folder))) as damaged,
        closing(sqlite3.connect(Path(folder, "rows.db"), isolation_level=None)) as connection,
    ):
        rows = RecoveredRows(connection)
        rows.add(read_rows(damaged, damaged_tables))
        metadata = rows.repair()
        if metadata is None:
            raise RecordingError(f"{file} contains no readable exchanges.")
        source = RecordingSource(metadata, rows.observations())
        write_recording(source, to, lambda written: summary.append(f"{describe_contents(written)}."))
    click.echo(f"{printable(str(to))}: {summary[0]}")
    missing = rows.missing
    missing += [f"SQLite could not read all rows of the table {table}." for table in damaged_tables]
    if rows.unused_rows:
        missing.append(f"Ignored {count_of(rows.unused_rows, 'damaged row')}.")
    print_sentences(missing, "more line", indent="  ")


def _open_copy(path: Path, folder: Path) -> sqlite3.Connection:
    """Copy a file, and the journal beside it, into a folder, and open the copy.  Raises InputError."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file.")
    copy, journal = folder / "copy.db", Path(f"{path}-wal")
    with ExitStack() as opened:
        try:
            if os.access(path, os.W_OK):
                opened.callback(os.close, lock_for_writing(path))
            if is_compressed(path):
                _decompress(path, copy)
            else:
                shutil.copyfile(path, copy)
            if journal.is_file():
                shutil.copyfile(journal, f"{copy}-wal")
            return open_damaged(copy)
        except OSError as error:
            raise InputError(read_error(path, error)) from None
        except sqlite3.DatabaseError as error:
            raise RecordingError(f"{path} contains no readable exchanges: {error}.") from None


def _decompress(path: Path, copy: Path) -> None:
    """Copy everything before the damage in a compressed recording.  Raises OSError."""
    with copy.open("wb") as file, suppress(RecordingError):
        file.writelines(decompressed_parts(path))
