"""The two files that tell datasette about a recording.

`metadata.json` is for all versions: descriptions and what tables look like, and the queries for those before 1.0, which
take them from there.  `datasette.yaml` has the queries for 1.0 and later, which take them from nowhere else.
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
class Documents:
    """What stands in the two files, UTF-8."""

    metadata: bytes
    config: bytes


def documents(database: str, info: RecordingInfo, there: Columns, missing: tuple[str, ...] = ()) -> Documents:
    """The files for a recording that datasette calls `database`, with the tables, views and columns that are `there`.

    datasette refuses to show what is to be sorted or grouped by a column that is not there, so nothing is said about
    those; and what asks a view that is `missing`, or an old one, is left out.
    """
    words = _words()
    queries = {query["name"]: _query(query) for query in words["queries"] if not _asks(query["sql"], missing)}
    metadata = {
        "title": f"wiretape: {info.upstream}",
        "description": f"{info.started:%Y-%m-%d %H:%M:%S}Z, recorded by {info.tool}. "
        "What was said in it is somebody else's text.",
        "databases": {
            database: {
                "description": "Views (plural names) are for people, tables (singular) hold what was recorded. "
                "exchange_id stands for one request and its response.",
                "tables": {name: _table(words, name, there[name]) for name in words["tables"] if name in there},
                "queries": queries,
            }
        },
    }
    config = {"databases": {database: {"queries": queries}}}
    return Documents(
        orjson.dumps(metadata, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE),
        yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=1000).encode(),
    )


def _words() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))


def _table(words: dict[str, Any], name: str, columns: tuple[str, ...]) -> dict[str, Any]:
    said = words["tables"][name]
    meanings = words["columns"] | said.get("columns", {})
    table: dict[str, Any] = {"description": said["is"]}
    table |= {"columns": {column: meanings[column] for column in columns if column in meanings}}
    # datasette before 1.0 writes the unit behind the number, and takes others in filters: 2 s.
    if units := {column: "ms" for column in columns if column.endswith("_ms")}:
        table["units"] = units
    if facets := [column for column in said.get("facets", ()) if column in columns]:
        table["facets"] = facets
    for key, called in {"label": "label_column", "sort": "sort", "sort_desc": "sort_desc"}.items():
        if said.get(key) in columns:
            table[called] = said[key]
    return table | ({"hidden": True} if said.get("hidden") else {})


def _query(said: Mapping[str, str]) -> dict[str, str]:
    return dict(zip(_QUERY_KEYS, (said["sql"], said["title"], said["says"]), strict=True))


def _asks(sql: str, views: tuple[str, ...]) -> bool:
    return bool(set(sql.split()) & set(views))
