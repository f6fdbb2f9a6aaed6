"""`wiretape datasette`: describe a recording to datasette, in two files.

`metadata.json` is for all versions: descriptions, table settings, and the queries for versions before 1.0.
`datasette.yaml` has the queries for 1.0 and later.
"""

import os
import shlex
import sqlite3
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import orjson
import yaml

from wiretape.contract.contract_facts import ContractChoice, ContractFacts, choose_contracts
from wiretape.errors import InputError, RecordingError
from wiretape.files import PATH
from wiretape.recording import RecordingInfo, is_sqlite_file, open_recording, schema
from wiretape.recording.contract_views import channel_names, named_views
from wiretape.recording.recording_file import lock_for_writing
from wiretape.recording.recording_reader import open_database
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import check_output, open_output

_VIEWS = "SELECT name, sql FROM sqlite_master WHERE type = 'view'"
_Columns = Mapping[str, tuple[str, ...]]
"""Tables and views by name, and their columns."""
_QUERY_KEYS = ("sql", "title", "description")
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
@click.option(
    "--update-views", is_flag=True, help="First update the views in FILE to those of this version of wiretape."
)
def datasette(file: Path, *, to: Path | None, force: bool, update_views: bool) -> None:
    """Prepare the recording FILE for datasette: labels, facets, descriptions and ready-made queries.

    The command writes NAME.metadata.json and NAME.datasette.yaml, and prints the command that opens the recording in
    datasette. FILE is not changed unless --update-views is given.

    \b
    Examples:
        wiretape datasette run.db
        datasette run.db --metadata run.metadata.json
    """
    _check_file(file)
    if update_views and (names := renew_views(file)):
        click.echo(f"{printable(str(file))} now has the views of this version of wiretape: {', '.join(names)}.")
    missing = find_outdated(file)
    columns = read_columns(file)
    with open_recording(file) as recording:
        descriptions = read_descriptions(recording.contracts.contracts)
        texts = _build_files(file.stem, recording.info, columns, missing, descriptions)
    folder = file.parent if to is None else to
    metadata, config = (folder / f"{file.stem}.{name}" for name in ("metadata.json", "datasette.yaml"))
    for path in (metadata, config):
        check_output(path, force=force, recording=file)
    for path, text in zip((metadata, config), texts, strict=True):
        with open_output(path, force=force, recording=file) as out:
            out.write(text)
    if missing:
        click.echo(
            f"{printable(str(file))} was recorded by a different version of wiretape; these views are missing or "
            f"outdated: {', '.join(missing)}. Update them with --update-views.",
            err=True,
        )
    _print_commands(file, metadata, config)


def _check_file(file: Path) -> None:
    """Refuse recordings in other formats, and names that are not UTF-8: both files contain the name of the database."""
    open_recording(file).close()
    if not is_sqlite_file(file):
        raise InputError(
            f"{printable(str(file))} is not an SQLite file, which datasette needs: "
            "convert it to a recording with `wiretape import`."
        )
    try:
        file.stem.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"The name {printable(file.name)} is not UTF-8, which datasette needs: rename the recording."
        ) from None


def _print_commands(file: Path, metadata: Path, config: Path) -> None:
    opens = ["datasette", str(file), "--metadata", str(metadata)]
    limits = [word for name, most in _LIMITS.items() for word in ("--setting", name, str(most))]
    click.echo("With datasette versions before 1.0, open the recording with:")
    click.echo(f"    {printable(shlex.join([*opens, *limits]))}")
    click.echo("With datasette 1.0 or later, use:")
    click.echo(f"    {printable(shlex.join([*opens, '--config', str(config), *limits]))}")


def read_descriptions(contracts: Sequence[ContractFacts]) -> dict[str, Any]:
    """Return the descriptions of `tables`, `columns` and `queries` of a recording with these contracts."""
    read = tomllib.loads((files(__package__) / "datasette_descriptions.toml").read_text("utf-8"))
    kinds = {kind: read.pop(kind) for kind in ("channel", "outermost", "inner")}
    channels = channel_names(contracts)
    found: dict[str, Any] = _fill(read, {"channel": channels[0]})
    for name in channels:
        found["columns"][f"{name}_id"] = f"The {name.replace('_', ' ')} that it belongs to."
    for view in named_views(contracts):
        entity = view.entity
        kind = "channel" if entity is None else "outermost" if entity.parent is None else "inner"
        names = {"channel": view.channel, "view": view.name}
        names |= {"entity": entity.name, "label": entity.label} if entity is not None else {}
        table = _fill(kinds[kind], names)
        found["queries"] += table.pop("queries", ())
        found["tables"][view.name] = table
        if entity is not None:
            found["columns"][f"{entity.name}_id"] = f"The {entity.label} that it belongs to."
            table["columns"] |= dict.fromkeys(view.counts, "How many of these are in it.")
            if kind == "inner" and entity.title is None:
                table["facets"].remove("name")
                del table["columns"]["name"]
    return found


def _fill(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with names in place of what is in braces."""
    if isinstance(value, dict):
        return {key: _fill(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, names) for each in value]
    for name, text in names.items() if isinstance(value, str) else ():
        value = value.replace(f"{{{name}}}", text)
    return value


def _build_files(
    database: str, info: RecordingInfo, columns: _Columns, missing: tuple[str, ...], descriptions: dict[str, Any]
) -> tuple[bytes, bytes]:
    """Return both files (UTF-8) for a recording that datasette calls `database` and that has these `columns`.

    datasette fails on sort and facet columns that do not exist, so these are left out, and so are queries that use a
    view that is `missing` or outdated.
    """
    queries = {
        query["name"]: {key: query[key] for key in _QUERY_KEYS}
        for query in descriptions["queries"]
        if not set(query["sql"].split()) & set(missing)
    }
    metadata = {
        "title": f"wiretape: {info.upstream or database}",
        "description": f"{info.started:%Y-%m-%d %H:%M:%S}Z, recorded by {info.tool}. It contains untrusted text.",
        "databases": {
            database: {
                "description": "Views (plural names) are for people; tables (singular names) contain the recorded "
                "data. exchange_id identifies one request and its response.",
                "tables": {
                    name: _table(descriptions, name, columns[name])
                    for name in descriptions["tables"]
                    if name in columns
                },
                "queries": queries,
            }
        },
    }
    config = {"databases": {database: {"queries": queries}}}
    return (
        orjson.dumps(metadata, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
        yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=1000).encode(),
    )


def _table(descriptions: dict[str, Any], name: str, columns: tuple[str, ...]) -> dict[str, Any]:
    entry = descriptions["tables"][name]
    meanings = descriptions["columns"] | entry.get("columns", {})
    table: dict[str, Any] = {"description": entry["description"]}
    table |= {"columns": {column: meanings[column] for column in columns if column in meanings}}
    # datasette before 1.0 shows the unit after the number, and accepts others in filters: 2 s.
    if units := {column: "ms" for column in columns if column.endswith("_ms")}:
        table["units"] = units
    if facets := [column for column in entry.get("facets", ()) if column in columns]:
        table["facets"] = facets
    for key, setting in {"label": "label_column", "sort": "sort", "sort_desc": "sort_desc"}.items():
        if entry.get(key) in columns:
            table[setting] = entry[key]
    return table | ({"hidden": True} if entry.get("hidden") else {})


def read_columns(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the tables and views of a recording, and their columns.  Raises RecordingError."""
    with _connected(path) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY rowid")
        found = ((name, _columns_of(connection, name)) for (name,) in names.fetchall())
        return {name: columns for name, columns in found if columns}


def find_outdated(path: Path) -> tuple[str, ...]:
    """Return the views that a recording lacks, or has from another version.  Raises RecordingError."""
    with _connected(path) as connection:
        present, own = _views(connection), _own_views(connection)
    return tuple(name for name, sql in own.items() if present.get(name) != sql)


def renew_views(path: Path) -> tuple[str, ...]:
    """Replace the outdated views of a recording by those of this version.  Returns their names.

    Changes nothing else.  Raises RecordingError, also if the file is being recorded to.
    """
    names = find_outdated(path)
    if names:
        with _connected(path, "rw") as connection:
            descriptor = lock_for_writing(path)
            try:
                schema.create_views(connection, _contracts(connection))
            finally:
                os.close(descriptor)
    return names


@contextmanager
def _connected(path: Path, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    """Connect to a recording.  Only its schema is queried, never a view, so none of its own SQL runs."""
    open_database(path).close()
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    try:
        # Not protected: SQLite cannot list the columns of a view with JSON then.
        with closing(sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)) as connection:
            yield connection
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordingError(f"{path} cannot be {'read' if mode == 'ro' else 'changed'}: {reason}.") from None


def _views(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute(_VIEWS).fetchall())


def _columns_of(connection: sqlite3.Connection, name: str) -> tuple[str, ...]:
    """Return no columns for a view of a table that does not exist, so that the other views can be listed."""
    try:
        return tuple(column for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (name,)))
    except sqlite3.OperationalError:
        return ()


def _contracts(connection: sqlite3.Connection) -> ContractChoice:
    (stored,) = connection.execute("SELECT contracts FROM recording").fetchone()
    return choose_contracts(stored)


def _own_views(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the views that this version gives to a recording with the same contracts."""
    with schema.empty_recording() as own:
        own.isolation_level = None
        schema.create_views(own, _contracts(connection))
        return _views(own)
