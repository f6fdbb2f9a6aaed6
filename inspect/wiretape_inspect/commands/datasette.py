"""`wiretape datasette`: what datasette needs to know about a recording."""

import shlex
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.recording import is_sqlite_file, open_recording, sql_views
from wiretape.safe_text import printable
from wiretape_inspect import terminal_output
from wiretape_inspect.datasette import documents

_LIMITS = {"sql_time_limit_ms": 10_000, "facet_time_limit_ms": 2_000}
"""How long a query and the counts beside it may take: views over 200,000 events take longer than datasette waits."""


@click.command()
@click.argument("file", type=PATH)
@click.option(
    "-o",
    "--output",
    "to",
    type=PATH,
    metavar="FOLDER",
    help="Write the two files to this folder.  [default: where FILE is]",
)
@click.option("--force", is_flag=True, help="Replace the two files if they exist.")
@click.option("--update-views", is_flag=True, help="First put today's views into FILE. Nothing else in it is changed.")
def datasette(file: Path, *, to: Path | None, force: bool, update_views: bool) -> None:
    """Tell datasette what stands in recording FILE: labels, facets, descriptions and ready-made queries.

    Writes NAME.metadata.json and NAME.datasette.yaml, and says with which command datasette opens the recording.
    FILE is not changed, unless --update-views says so.

    \b
    Examples:
        wiretape datasette run.db
        datasette run.db --metadata run.metadata.json
    """
    _must_be_sqlite(file)
    _must_have_a_name(file)
    if update_views:
        _update(file)
    missing = sql_views.find_outdated(file)
    there = sql_views.read_columns(file)
    with open_recording(file) as recording:
        made = documents(file.stem, recording.info, there, missing)
    folder = file.parent if to is None else to
    metadata, config = (folder / f"{file.stem}.{name}" for name in ("metadata.json", "datasette.yaml"))
    for path in (metadata, config):
        terminal_output.check(path, force=force, recording=file)
    for path, text in ((metadata, made.metadata), (config, made.config)):
        with terminal_output.opened(path, force=force, recording=file) as out:
            out.write(text)
    if missing:
        click.echo(_without(file, missing), err=True)
    _say(file, metadata, config)


def _must_be_sqlite(file: Path) -> None:
    """Recordings of other forms can be opened by wiretape, and by datasette not."""
    open_recording(file).close()
    if not is_sqlite_file(file):
        raise InputError(
            f"{printable(str(file))} is no SQLite file, and datasette opens no other: "
            "`wiretape import` makes a recording of it."
        )


def _must_have_a_name(file: Path) -> None:
    """Both files name the database as datasette does, after the recording, and hold nothing but UTF-8."""
    try:
        file.stem.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"The name {printable(file.name)} is no UTF-8, and datasette takes no other: give the recording another."
        ) from None


def _update(file: Path) -> None:
    if names := sql_views.update_views(file):
        click.echo(f"{printable(str(file))} has now the views of this version: {', '.join(names)}.")


def _without(file: Path, missing: tuple[str, ...]) -> str:
    return (
        f"{printable(str(file))} was made by another version and lacks what these views have today: "
        f"{', '.join(missing)}. --update-views puts them into it."
    )


def _say(file: Path, metadata: Path, config: Path) -> None:
    opens = ["datasette", str(file), "--metadata", str(metadata)]
    limits = [word for name, most in _LIMITS.items() for word in ("--setting", name, str(most))]
    click.echo("datasette before 1.0 opens the recording with")
    click.echo(f"    {printable(shlex.join([*opens, *limits]))}")
    click.echo("and 1.0 and later with")
    click.echo(f"    {printable(shlex.join([*opens, '--config', str(config), *limits]))}")
