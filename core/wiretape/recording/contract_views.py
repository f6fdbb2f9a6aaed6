"""SQL of the views of a recording, in which channels and entities have the names that its contracts give them.

Contracts can come from strangers: names and types are quoted.
"""

from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from string import Template
from typing import NamedTuple

import orjson

from wiretape.contract.contract_facts import ContractFacts
from wiretape.contract.vocabulary import CHANNEL, vocabulary_of
from wiretape.event_format import Entity
from wiretape.patterns import Globs, Pointer

_ENTITY_VIEWS = "-- Views of channels and entities"
_LONGEST = 50_000
"""Longest statement: SQLite refuses longer ones in recordings, see `schema`."""
_COUNTS = frozenset({"events", "pieces", "connections"})
"""Columns of the view of an outermost entity that are not about the entities in it."""


class NamedView(NamedTuple):
    """The view of a channel, or of an entity."""

    name: str
    channel: str
    """The name of the channel."""
    entity: Entity | None = None
    counts: tuple[str, ...] = ()
    """The columns that count entities in it."""


def channel_names(contracts: Sequence[ContractFacts]) -> list[str]:
    """Return the names of the channels of some contracts."""
    return list(dict.fromkeys(vocabulary_of(each).channel for each in contracts)) or [CHANNEL]


def named_views(contracts: Sequence[ContractFacts]) -> list[NamedView]:
    """Return the views of the channels, then those of the entities."""
    taken = {"events", "exchanges", "gaps", "resumes", "chunks"}

    def name_view(name: str, owner: str) -> str:
        plural = f"{name}s" if f"{name}s" not in taken else f"{name}s_of_{owner}"
        taken.add(plural)
        return plural

    views = [NamedView(name_view(name, "channels"), name) for name in channel_names(contracts)]
    for contract in contracts:
        channel = vocabulary_of(contract).channel
        for entity in contract.entities.values():
            plurals = [f"{each.name}s" for each in contract.entities.values() if each.parent is entity]
            counts = tuple(each for each in plurals if each not in _COUNTS) if entity.parent is None else ()
            views.append(NamedView(name_view(entity.name, contract.name), channel, entity, counts))
    return views


def view_statements(contracts: Sequence[ContractFacts]) -> list[str]:
    """Return the statements that create the views of a recording with these contracts."""
    views = _Views(contracts)
    names = {
        "channels": views.channels("x"),
        "channel_names": "".join(f"e.{name}, " for name in views.channel_columns),
        "resume_channels": views.channels("r"),
        "keys": views.keys("k.text", every=True),
        "request_keys": views.keys("x.keys", every=False),
        "is_cursor": views.is_cursor,
    }
    statements: list[str] = []
    # What the contracts name is not in the template yet, so no semicolon of theirs ends a statement.
    for template in files(__package__).joinpath("views.sql").read_text("utf-8").split(";\n"):
        if template.strip() == _ENTITY_VIEWS:
            statements += views.entity_views()
        elif template.strip():
            statements.append(Template(template.strip()).substitute(names))
    return [each for each in statements if len(each) <= _LONGEST]


class _Views:
    def __init__(self, contracts: Sequence[ContractFacts]) -> None:
        self._contracts = contracts
        self._by_channel: dict[str, list[ContractFacts]] = {}
        """The contracts by the names of their channels."""
        for each in contracts:
            self._by_channel.setdefault(vocabulary_of(each).channel, []).append(each)
        if not contracts:
            self._by_channel[CHANNEL] = []

    @property
    def channel_columns(self) -> list[str]:
        """The columns with channels."""
        return [_identifier(f"{name}_id") for name in self._by_channel]

    def channels(self, table: str) -> str:
        """Return the columns with the channel of a row of a table, which has its `contract` and its `channel`."""
        columns = (
            self._of(contracts, f"{table}.channel", table) + f" AS {_identifier(f'{name}_id')}"
            for name, contracts in self._by_channel.items()
        )
        return "".join(f"{column}, " for column in columns)

    def keys(self, stored: str, *, every: bool) -> str:
        """Return the columns with keys of entities, `every` one, or those that paths of requests name."""
        names = {
            name: None
            for contract in self._contracts
            for name in contract.entities
            if every or contract.is_named_in_paths(name)
        }
        return "".join(f"json_extract({stored}, '$.{name}') AS {_identifier(f'{name}_id')}, " for name in names)

    def _of(self, contracts: Sequence[ContractFacts], value: str, table: str) -> str:
        """Return a value in rows of exchanges of some contracts."""
        if len(contracts) == len(self._contracts):
            return value
        names = ", ".join(_literal(each.name) for each in contracts)
        return f"CASE WHEN {table}.contract IN ({names}) THEN {value} END"

    @property
    def is_cursor(self) -> str:
        """The condition for an event `f` after which a client resumes with the cursor of the request `c`."""
        by_sequence = [each for each in self._contracts if each.format.cursor is not None]
        if not by_sequence:
            return "f.sse_id = c.cursor"
        sequence = "CAST(f.sequence AS TEXT) = c.cursor"
        if len(by_sequence) == len(self._contracts):
            return sequence
        names = ", ".join(_literal(each.name) for each in by_sequence)
        return f"iif(c.contract IN ({names}), {sequence}, f.sse_id = c.cursor)"

    def entity_views(self) -> Iterator[str]:
        """Yield the statements for the views of channels, then for those of entities."""
        owners = {entity: contract for contract in self._contracts for entity in contract.entities.values()}
        for view in named_views(self._contracts):
            if view.entity is None:
                yield self._channel_view(view, self._by_channel[view.channel])
            else:
                yield self._entity_view(view, view.entity, owners[view.entity])

    def _channel_view(self, view: NamedView, contracts: Sequence[ContractFacts]) -> str:
        column = _identifier(f"{view.channel}_id")
        streams = {each.name for contract in contracts for each in contract.operations if each.cursor is not None}
        return f"""CREATE VIEW {_identifier(view.name)} AS
  SELECT {column}, min(time) AS time, max(at_ms + coalesce(duration_ms, 0)) - min(at_ms) AS duration_ms,
    count(*) AS exchanges, count(*) FILTER (WHERE operation IN ({", ".join(map(_literal, sorted(streams)))}))
      AS streams, sum(events) AS events, sum(response_bytes) AS response_bytes, sum(findings) AS findings
  FROM exchanges WHERE {column} IS NOT NULL GROUP BY {column}"""  # noqa: S608 - quoted

    def _entity_view(self, view: NamedView, entity: Entity, contract: ContractFacts) -> str:
        channel, key = _identifier(f"{view.channel}_id"), _identifier(f"{entity.name}_id")
        opens, closes = _matches(entity.opens), _matches(entity.closes)
        durable = "sse_id" if contract.format.cursor is None else "sequence"
        of_contract = ""
        if len(self._contracts) > 1:
            name = _literal(contract.name)
            of_contract = f" AND exchange_id IN (SELECT id FROM exchange WHERE contract = {name})"  # noqa: S608 - quoted
        parents = [_identifier(f"{each.name}_id") for each in _parents(entity)]
        aggregates = [f"max({each}) AS {each}" for each in parents]
        if entity.parent is None:
            columns = ["outcome", "ended_ms - started_ms AS duration_ms", "events", "pieces"]
            columns += [*map(_identifier, view.counts), "connections", "started_ms", "ended_ms"]
            aggregates += [f"count(*) FILTER (WHERE {durable} IS NULL) AS pieces"]
            aggregates += [
                f"count(DISTINCT {_identifier(f'{name[:-1]}_id')}) AS {_identifier(name)}" for name in view.counts
            ]
            aggregates += ["count(DISTINCT exchange_id) AS connections"]
        else:
            title = [] if entity.title is None else [f"{_extract(entity.title)} AS name"]
            columns = [*title, "outcome", "ended_ms - started_ms AS duration_ms", "started_ms", "ended_ms", "events"]
            aggregates += [f"max(data) FILTER (WHERE {opens}) AS started"] if title else []
        return f"""CREATE VIEW {_identifier(view.name)} AS
  SELECT {", ".join(["time", channel, *parents, key, *columns])}
  FROM (
    SELECT {channel}, {key}, min(time) AS time,
      min(at_ms) FILTER (WHERE {opens}) AS started_ms,
      min(at_ms) FILTER (WHERE {closes}) AS ended_ms,
      max(type) FILTER (WHERE {closes}) AS outcome,
      count(DISTINCT {durable}) AS events, {", ".join(aggregates)}
    FROM events e WHERE {key} IS NOT NULL{of_contract}
    GROUP BY {channel}, iif({channel} IS NULL, exchange_id, NULL), {key})"""  # noqa: S608 - quoted


def _parents(entity: Entity) -> list[Entity]:
    """Return the entities that an entity is in, the outermost first."""
    found: list[Entity] = []
    parent = entity.parent
    while parent is not None and parent not in found:
        found.insert(0, parent)
        parent = parent.parent
    return found


def _matches(types: Globs) -> str:
    """Return the condition that the type of an event `e` matches."""
    exact = ", ".join(_literal(each) for each in types.patterns if "*" not in each)
    patterns = sql_globs(types.patterns)
    conditions = [f"e.type IN ({exact})"] if exact else []
    if patterns:
        listed = _literal(orjson.dumps(patterns).decode())
        conditions.append(f"EXISTS (SELECT 1 FROM json_each({listed}) g WHERE e.type GLOB g.value)")  # noqa: S608 - quoted
    return " OR ".join(conditions) or "0"


def sql_globs(patterns: Iterable[str]) -> list[str]:
    """Return the patterns with an asterisk as SQLite writes them: only the asterisk has a meaning."""
    return [each.replace("[", "[[]").replace("?", "[?]") for each in patterns if "*" in each]


def _extract(pointer: Pointer) -> str:
    steps = "".join(f'."{step}"' for step in pointer.text.split("/")[1:])
    return f"iif(json_valid(started), json_extract(started, {_literal(f'${steps}')}), NULL)"


def _identifier(name: str) -> str:
    quoted = name.replace('"', '""')
    return f'"{quoted}"'


def _literal(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'"
