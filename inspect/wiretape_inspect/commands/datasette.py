"""`wiretape datasette`: describe a recording to datasette."""

import shlex
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.recording import is_sqlite_file, open_recording, sql_views
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import check_output, open_output
from wiretape_inspect.datasette.datasette_metadata import build_files

_LIMITS = {"sql_time_limit_ms": 10_000, "facet_time_limit_ms": 2_000}
"""Time limits for queries and facets: views over 200,000 events need more than datasette's defaults."""


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "-o",
    "--output",
    "to",
    type=PATH,
    metavar="FOLDER",
    help="Folder for the two files.  [default: the folder of FILE]",
)
@click.option("--force", is_flag=True, help="Replace the two files if they exist.")
@click.option("--update-views", is_flag=True, help="First update the views in FILE to this version.")
def datasette(file: Path, *, to: Path | None, force: bool, update_views: bool) -> None:
    """Prepare recording FILE for datasette: labels, facets, descriptions and ready-made queries.

    Writes NAME.metadata.json and NAME.datasette.yaml, and prints the command that opens the recording in datasette.
    FILE is not changed unless --update-views is given.

    \b
    Examples:
        wiretape datasette run.db
        datasette run.db --metadata run.metadata.json
    """
    _check_is_sqlite(file)
    _check_name(file)
    if update_views:
        _update_views(file)
    missing = sql_views.find_outdated(file)
    columns = sql_views.read_columns(file)
    with open_recording(file) as recording:
        built = build_files(file.stem, recording.info, columns, missing)
    folder = file.parent if to is None else to
    metadata, config = (folder / f"{file.stem}.{name}" for name in ("metadata.json", "datasette.yaml"))
    for path in (metadata, config):
        check_output(path, force=force, recording=file)
    for path, text in ((metadata, built.metadata), (config, built.config)):
        with open_output(path, force=force, recording=file) as out:
            out.write(text)
    if missing:
        click.echo(_outdated_warning(file, missing), err=True)
    _print_commands(file, metadata, config)


def _check_is_sqlite(file: Path) -> None:
    """Refuse recordings in other formats, which wiretape can open and datasette cannot."""
    open_recording(file).close()
    if not is_sqlite_file(file):
        raise InputError(
            f"{printable(str(file))} is not a SQLite file, which datasette needs: "
            "convert it to a recording with `wiretape import`."
        )


def _check_name(file: Path) -> None:
    """Refuse names that are not UTF-8: both files contain the name of the database, which is that of the recording."""
    try:
        file.stem.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"The name {printable(file.name)} is not UTF-8, which datasette needs: rename the recording."
        ) from None


def _update_views(file: Path) -> None:
    if names := sql_views.update_views(file):
        click.echo(f"{printable(str(file))} now has the views of this version: {', '.join(names)}.")


def _outdated_warning(file: Path, missing: tuple[str, ...]) -> str:
    return (
        f"{printable(str(file))} was recorded by another version; these views are missing or outdated: "
        f"{', '.join(missing)}. Add them with --update-views."
    )


def _print_commands(file: Path, metadata: Path, config: Path) -> None:
    opens = ["datasette", str(file), "--metadata", str(metadata)]
    limits = [word for name, most in _LIMITS.items() for word in ("--setting", name, str(most))]
    click.echo("Open the recording in datasette before 1.0 with")
    click.echo(f"    {printable(shlex.join([*opens, *limits]))}")
    click.echo("and in 1.0 and later with")
    click.echo(f"    {printable(shlex.join([*opens, '--config', str(config), *limits]))}")
