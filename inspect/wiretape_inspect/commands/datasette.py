"""`wiretape datasette`: describe a recording to datasette, in two files.

`metadata.json` is for all versions: descriptions, table settings, and the queries for versions before 1.0.
`datasette.yaml` has the queries for 1.0 and later.
"""

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import orjson
import yaml

from wiretape.contract.contract_facts import ContractFacts
from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.recording import RecordingInfo, is_sqlite_file, open_recording, sql_views
from wiretape.recording.contract_views import channel_names, named_views
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import check_output, open_output

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
    if update_views and (names := sql_views.update_views(file)):
        click.echo(f"{printable(str(file))} now has the views of this version of wiretape: {', '.join(names)}.")
    missing = sql_views.find_outdated(file)
    columns = sql_views.read_columns(file)
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
            f"{printable(str(file))} is not a SQLite file, which datasette needs: "
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
