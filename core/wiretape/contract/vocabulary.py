"""The vocabulary of a contract: names of its channel and its entities, and types of events that people look for."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wiretape.contract.contract_tables import TextTable
from wiretape.event_format import Entity
from wiretape.http_headers import LAST_EVENT_ID
from wiretape.patterns import Globs, Pointer

if TYPE_CHECKING:
    from wiretape.contract.contract_facts import ContractFacts

CHANNEL = "channel"
"""The name of a channel that a contract does not name."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_ID = re.compile(r"_?id|Id")
_OWN_NAMES = frozenset(
    {
        *("type", "kind", "id", "rule", "method", "seq", "event", "exchange", "status", "gap", "text"),
        *("sse", "last_event", "finding", CHANNEL),
    }
)
"""Names of filter fields and columns that every recording has."""


def check_entity_name(name: str) -> None:
    """Raise ValueError for a name that cannot be that of a column or a filter field."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"expected a name of at most 40 lowercase letters, digits and underscores, got {name!r}")
    if name in _OWN_NAMES:
        raise ValueError(f"{name!r} means something else in filters and views: choose another name")


class JoinedTextTypes:
    """A text that clients join: the types of its deltas, of the event with all of it, and of those that begin it."""

    def __init__(self, name: str, table: TextTable) -> None:
        """Raises ValueError."""
        self.name = name
        self.deltas, self.final, self.begins = Globs(table.deltas), Globs(table.final or ()), Globs(table.begins or ())
        self._pointer = None if table.text is None else Pointer(table.text)
        self.entity = table.entity
        """The name of the entity that has such a text each; None if a stream has one at a time."""

    def is_replaced_by(self, type_: str) -> bool:
        """Whether events of a type have the whole text, or begin a new one."""
        return self.final.matches(type_) or self.begins.matches(type_)

    def read_final(self, json: Any) -> str:
        """Return the whole text in its final event: a string, or the `text` of each object in a list, joined."""
        value = None if self._pointer is None else self._pointer.read(json)
        if not isinstance(value, list):
            return value if isinstance(value, str) else ""
        texts = (block.get("text") for block in value if isinstance(block, dict))
        return "".join(text for text in texts if isinstance(text, str))


class Vocabulary:
    """The names and types of one contract."""

    def __init__(self, contract: "ContractFacts") -> None:
        self.contract = contract.name
        self.entities: Mapping[str, Entity] = contract.entities
        self._columns = [(name, f"{name}_id") for name in self.entities]
        self.channel = self._channel_of(contract)
        """The name of its channel."""
        places = ((each.cursor.place, each.cursor.name) for each in contract.operations if each.cursor is not None)
        self.cursor_place, self.cursor_name = next(places, ("header", LAST_EVENT_ID))
        """Where requests have the cursor, and the name that it has there."""
        types = contract.types.items()
        self.failures = frozenset(name for name, table in types if table.failure)
        """The types of events that report a failure."""
        self.idle = frozenset(name for name, table in types if table.idle)
        """The types of events after which nothing is open."""
        self.deltas = contract.format.deltas
        self._delta_texts = contract.format.texts
        texts: Mapping[str, TextTable] = contract.joined_texts
        if not texts and contract.format.texts:
            texts = {"text": TextTable(list(self.deltas.patterns))}
        self.texts = tuple(JoinedTextTypes(name, table) for name, table in texts.items())

    def _channel_of(self, contract: "ContractFacts") -> str:
        segments = [each.channel for each in contract.operations if each.channel is not None]
        pointer = contract.format.channel
        steps = segments[:1] if segments or pointer is None else pointer.text.split("/")[::-1]
        names = (_ID.sub("", step) if _ID.search(step) else step for step in steps)
        name = next(filter(None, names), CHANNEL)
        is_free = _NAME.fullmatch(name) is not None and name not in {*self.entities, *_OWN_NAMES}
        return name if is_free else CHANNEL

    @property
    def fields(self) -> tuple[str, ...]:
        """The names by which filters test its entities and its channel."""
        return (*(each.short for each in self.entities.values()), self.channel)

    def columns(self, keys: Mapping[str, str], *channel: str | None) -> dict[str, str | None]:
        """Return the keys of entities, and of the channel if it is given, by the names of their columns."""
        found = {column: keys.get(name) for name, column in self._columns}
        return {f"{self.channel}_id": channel[0], **found} if channel else found

    def inner_keys(self, keys: Mapping[str, str]) -> Iterator[str]:
        """Yield the keys of entities that are in another one."""
        for name, entity in self.entities.items():
            if entity.within is not None and (key := keys.get(name)) is not None:
                yield key

    def document(self) -> dict[str, Any]:
        """Return what the page needs, as plain data for JSON."""
        return {
            "channel": self.channel,
            "cursor": {"place": self.cursor_place, "name": self.cursor_name},
            "entities": [
                {"name": each.name, "short": each.short, "within": each.within}
                | {"opens": each.opens.patterns, "closes": each.closes.patterns}
                for each in self.entities.values()
            ],
            "failures": sorted(self.failures),
            "has_idle": bool(self.idle),
            "deltas": [
                {"types": self.deltas.patterns if types.patterns == ("*",) else types.patterns, "text": str(pointer)}
                for types, pointer in self._delta_texts
            ],
            "texts": [{"name": each.name, "deltas": each.deltas.patterns} for each in self.texts],
        }


@lru_cache(maxsize=16)
def vocabulary_of(contract: "ContractFacts") -> Vocabulary:
    """Return the vocabulary of a contract."""
    return Vocabulary(contract)


def all_fields(vocabularies: Iterable[Vocabulary]) -> tuple[str, ...]:
    """Return the names by which filters test entities and channels of some contracts, each once."""
    return tuple(dict.fromkeys(name for each in vocabularies for name in each.fields))
