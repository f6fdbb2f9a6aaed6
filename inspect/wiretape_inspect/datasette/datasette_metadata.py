"""The two files that describe a recording to datasette.

`metadata.json` is for all versions: descriptions, table settings, and the queries for versions before 1.0.
`datasette.yaml` has the queries for 1.0 and later.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import orjson
import yaml

from wiretape.recording import RecordingInfo

Columns = Mapping[str, tuple[str, ...]]
"""Tables and views by name, and their columns."""
_QUERY_KEYS = ("sql", "title", "description")


@dataclass(frozen=True, slots=True)
class DatasetteFiles:
    """The contents of the two files, UTF-8."""

    metadata: bytes
    config: bytes


def build_files(database: str, info: RecordingInfo, columns: Columns, missing: tuple[str, ...] = ()) -> DatasetteFiles:
    """Build the files for a recording that datasette calls `database`, with the tables, views and `columns` it has.

    datasette fails on sort and facet columns that do not exist, so these are left out, and so are queries that use a
    view that is `missing` or outdated.
    """
    descriptions = _load_descriptions()
    queries = {query["name"]: _query(query) for query in descriptions["queries"] if not _uses(query["sql"], missing)}
    metadata = {
        "title": f"wiretape: {info.upstream}",
        "description": f"{info.started:%Y-%m-%d %H:%M:%S}Z, recorded by {info.tool}. It contains untrusted text.",
        "databases": {
            database: {
                "description": "Views (plural names) are for people, tables (singular names) hold the recorded data. "
                "exchange_id identifies one request and its response.",
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
    return DatasetteFiles(
        orjson.dumps(metadata, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
        yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=1000).encode(),
    )


def _load_descriptions() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("descriptions.toml").read_text(encoding="utf-8"))


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


def _query(entry: Mapping[str, str]) -> dict[str, str]:
    return dict(zip(_QUERY_KEYS, (entry["sql"], entry["title"], entry["description"]), strict=True))


def _uses(sql: str, views: tuple[str, ...]) -> bool:
    return bool(set(sql.split()) & set(views))
