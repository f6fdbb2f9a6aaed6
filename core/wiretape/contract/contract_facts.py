"""The facts of a contract: its operations, and how events are read.  They are known without building its rules."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from wiretape.bounded_dict import cache_short
from wiretape.contract.contract_files import BUNDLED, CodeUse, ContractFiles, Layer, open_files, read_layers
from wiretape.contract.contract_operation import CursorPlace, Operation
from wiretape.contract.contract_tables import (
    MOST_ENTITIES,
    ErrorFormatTable,
    EventTable,
    OperationTable,
    TextTable,
    TrustedContractTable,
    TypeTable,
)
from wiretape.contract.recorded_contracts import RecordedContract, parse_contracts
from wiretape.contract.service_terms import NO_ERROR_FORMAT, ErrorFormat
from wiretape.contract.vocabulary import JoinedTextTypes, check_entity_name
from wiretape.errors import InputError
from wiretape.event_format import PLAIN, Entity, EventFormat
from wiretape.input_validation import choices_hint
from wiretape.installed_parts import CONTRACTS, find_part, load_installed, part_names
from wiretape.observations import RequestStarted
from wiretape.patterns import RequestFlag, RequestPattern, list_of

_DETECT = re.compile(r"^\s*detect\s*=", re.MULTILINE)
"""The key of a file that says that its contract is detected."""
T = TypeVar("T", bound=msgspec.Struct)
ContractSource = tuple[ContractFiles, str]
"""The files of a contract, and the name of the first."""


class ChannelInPath(Struct, frozen=True):
    """A channel that a path names."""

    name: str
    parameter: str
    """The name that operations have for it."""
    base: str
    """What precedes the path of the contract."""


@dataclass(frozen=True, eq=False)
class ContractFacts:
    """What a contract says about requests and events, apart from its rules."""

    name: str
    operations: tuple[Operation, ...]
    format: EventFormat = PLAIN
    entities: Mapping[str, Entity] = field(default_factory=dict)
    types: Mapping[str, TypeTable] = field(default_factory=dict)
    """What it says about single types of events."""
    is_detected: bool = field(default=False, kw_only=True)
    """Whether it applies to recordings of its operations without being named, if it is installed."""
    errors: ErrorFormat = NO_ERROR_FORMAT
    joined_texts: Mapping[str, TextTable] = field(default_factory=dict, kw_only=True)
    """The texts that clients join from deltas, by name."""
    names: frozenset[str] = field(default=frozenset(), kw_only=True)
    """Names of its specification: what messages quote besides these may be a recorded value."""

    def is_named_in_paths(self, entity: str) -> bool:
        """Whether the path of an operation names an entity."""
        return any(map(self.entities[entity].is_named_in, (each.pattern.parameters for each in self.operations)))

    def read_keys(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Return the keys of the entities that the segments of a path name, by the names of these."""
        found = {name: entity.find_in_path(parameters) for name, entity in self.entities.items()}
        return {name: key for name, key in found.items() if key is not None}

    def find_operation(self, method: str, target: str) -> tuple[Operation | None, Mapping[str, str]]:
        """Return the first operation that a request matches, and the segments that its path names."""
        for operation in self.operations:
            if operation.when is not None and not operation.when.is_in(target):
                continue
            if (parameters := operation.pattern.match(method, target)) is not None:
                return operation, parameters
        return None, {}

    def find_channel(self, target: str) -> ChannelInPath | None:
        """Return the channel that a path names, whether or not it is that of an operation."""
        for operation in self.operations:
            name = operation.channel
            if name is not None and (found := operation.pattern.find_parameter(name, target)) is not None:
                return ChannelInPath(found[1], name, found[0])
        return None


class RequestFacts(Struct, frozen=True):
    """What a contract says about a request."""

    contract: ContractFacts
    operation: Operation
    parameters: Mapping[str, str]
    """The segments that its path names."""

    @property
    def channel(self) -> str | None:
        """The channel that the path names."""
        return None if self.operation.channel is None else self.parameters[self.operation.channel]

    @property
    def keys(self) -> dict[str, str]:
        """The keys of the entities that the path names, by the names of these."""
        return self.contract.read_keys(self.parameters)


class ContractChoice:
    """Which contract an exchange belongs to: the first with an operation for its request."""

    def __init__(self, contracts: Sequence[ContractFacts]) -> None:
        self.contracts = tuple(contracts)
        # Clients repeat requests, and the row of an exchange is written whenever it changes.
        self._find = cache_short(self._find_uncached)
        self._find_channel = cache_short(self._find_channel_uncached)

    @property
    def example_target(self) -> str:
        """The target of a GET request for a stream of the first contract that has such an operation."""
        operations = [each for contract in self.contracts for each in contract.operations]
        streams = (each for each in operations if each.pattern.method in {"GET", "*"})
        found = next(streams, None)
        return "/" if found is None else found.example or found.pattern.example().partition(" ")[2]

    def stream_target(self, channel: str) -> str:
        """Return the target of a GET request for a stream of a channel; see `example_target`."""
        target = self.example_target.partition("?")[0]
        example = self.channel_in(target)
        return target if example is None else target.replace(f"/{example}", f"/{channel}", 1)

    def find(self, method: str, target: str) -> RequestFacts | None:
        """Return what the contract of a request says about it; None if it belongs to none."""
        return self._find(method, target)

    def _find_uncached(self, method: str, target: str) -> RequestFacts | None:
        for contract in self.contracts:
            operation, parameters = contract.find_operation(method, target)
            if operation is not None:
                return RequestFacts(contract, operation, parameters)
        return None

    def find_channel(self, target: str) -> tuple[ContractFacts, ChannelInPath] | None:
        """Return the channel that a path names, whether or not it is that of an operation, and its contract."""
        return self._find_channel(target)

    def _find_channel_uncached(self, target: str) -> tuple[ContractFacts, ChannelInPath] | None:
        found = ((contract, contract.find_channel(target)) for contract in self.contracts)
        return next(((contract, channel) for contract, channel in found if channel is not None), None)

    def channel_in(self, target: str) -> str | None:
        """Return the name of the channel that a path names, whether or not it is that of an operation."""
        found = self.find_channel(target)
        return None if found is None else found[1].name

    @property
    def names(self) -> frozenset[str]:
        """The names of the specifications of the contracts."""
        return frozenset().union(*(each.names for each in self.contracts))

    def find_format(self, method: str, target: str) -> EventFormat:
        """Return the format of the events in the response to a request."""
        found = self.find(method, target)
        return PLAIN if found is None else found.contract.format

    def format_of(self, request: RequestStarted) -> EventFormat:
        """Return the format of the events in the response to a request."""
        return self.find_format(request.method, request.target)


NO_CONTRACTS = ContractChoice(())
"""No exchange belongs to a contract."""


@cache
def detected_contracts() -> ContractChoice:
    """Return the choice for traffic without a contract of its own: those that are known by their operations."""
    found = []
    for name in part_names(CONTRACTS):
        with suppress(InputError):  # a broken package
            source = find_source(name)
            # Parsing a file takes long: only the few that say so are detected.
            if isinstance(source, ContractFacts) or _DETECT.search(source[0].read(source[1])):
                facts = _build_source(source)
                if facts.is_detected:
                    found.append(facts)
    return ContractChoice(found)


def given_or_detected(contracts: Sequence[Any]) -> ContractChoice:
    """Return the choice among some contracts; without any, among those that are detected."""
    return ContractChoice(contracts) if contracts else detected_contracts()


def choose_contracts(stored: str | None, origin: str = "The recording") -> ContractChoice:
    """Return the choice among the contracts that a recording stores, or else among those that are detected.

    Contracts that cannot be used are left out: the recording can have a contract of another version, or a stranger's.
    """
    if stored is None:
        return detected_contracts()
    found = []
    try:
        recorded = parse_contracts(stored, origin)
    except InputError:
        return detected_contracts()
    for each in recorded:
        try:
            found.append(_recorded_facts(each, origin))
        except InputError:
            continue
    return ContractChoice(found)


def find_source(name: str, code: CodeUse = CodeUse.REFUSE) -> ContractSource | ContractFacts:
    """Return the files of the contract with a name, or one that a package makes in Python.  Raises InputError."""
    if name not in BUNDLED and (entry := find_part(CONTRACTS, name)) is not None:
        found: Path | ContractFacts = load_installed(entry, ContractFacts)
        return open_files(str(found), CodeUse.RUN, is_installed=True) if isinstance(found, Path) else found
    return open_files(name, code)


def load_facts(name: str) -> ContractFacts:
    """Return the facts of the contract with a name.  Raises InputError."""
    return _build_source(find_source(name))


def _build_source(source: ContractSource | ContractFacts) -> ContractFacts:
    return source if isinstance(source, ContractFacts) else build_facts(read_layers(*source))


def _recorded_facts(recorded: RecordedContract, origin: str) -> ContractFacts:
    if not recorded.texts:
        return load_facts(recorded.file if recorded.file in BUNDLED else recorded.name)
    return build_facts(
        read_layers(ContractFiles(None, recorded.texts, code=CodeUse.SKIP, origin=origin), recorded.file)
    )


def build_facts(layers: Sequence[Layer]) -> ContractFacts:
    """Return the facts in the file of a contract, and in those that it extends.  Raises InputError."""
    top = layers[-1]
    operations: tuple[Operation, ...] = ()
    types: dict[str, TypeTable] = {}
    declared: dict[str, Layer] = {}
    entities: dict[str, Entity] = {}
    texts: dict[str, TextTable] = {}
    event, error = EventTable(), ErrorFormatTable()
    for layer in layers:
        given = layer.table.operations.items()
        operations = tuple(_operation(layer, name, operation) for name, operation in given) or operations
        event, error = _merge(event, layer.table.event), _merge(error, layer.table.error)
        for name, entity in layer.table.entity.items():
            declared[name] = layer
            with layer.naming("entity", name):
                check_entity_name(name)
                check_entity_name(entity.short or name)
                entities[name] = Entity(name, **msgspec.structs.asdict(entity))
        for name, type_ in layer.types:
            types[name] = _merge(types.get(name, TypeTable()), type_)
        for name, text in layer.table.text.items():
            with layer.naming("text", name):
                JoinedTextTypes(name, text)
                if text.entity is not None:
                    find_entity(entities, text.entity)
            texts[name] = text
    if len(entities) > MOST_ENTITIES:
        raise top.source.error(("entity",), f"expected at most {MOST_ENTITIES} entities, with those it extends")
    if not operations:
        raise top.source.error((), "operations is missing: add a table [operations.NAME] with a request")
    for name, each in entities.items():
        with declared[name].naming("entity", name, "within"):
            _set_parent(each, entities)
    with top.naming("event"):
        durable = {name: type_.durable for name, type_ in types.items() if type_.durable is not None}
        event_format = _event_format(event, durable, tuple(entities.values()), _event_class(top))
    with top.naming("error"):
        errors = ErrorFormat(error)
    joined = [rule.joined for layer in layers for rule in layer.rules if rule.joined is not None]
    for rule in joined if not texts else ():
        begins = list(entities[rule.entity].opens.patterns) if rule.entity in entities else None
        whole = rule.text if isinstance(rule.text, str) else None
        texts[rule.entity] = TextTable(rule.deltas, rule.final, whole, begins)
    return ContractFacts(
        top.table.contract,
        operations,
        event_format,
        entities,
        types,
        errors,
        joined_texts=texts,
        names=frozenset(_names(layers)),
        is_detected=top.table.detect,
    )


def _names(layers: Sequence[Layer]) -> Iterator[str]:
    """Yield the names of types, codes, fields and headers in a contract."""
    for layer in layers:
        table = layer.table
        yield from [*table.names, *(name for name, _ in layer.types), *(table.error.codes or ())]
        for entity in table.entity.values():
            yield from chain(*map(list_of, (entity.opens, entity.closes, entity.continues)))
        pointers = [*(list_of(entity.key) for entity in table.entity.values()), list_of(table.event.sequence)]
        for pointer in chain(*pointers, list_of(table.error.code), list_of(table.error.object)):
            yield from pointer.split("/")[1:]
        for type_ in table.types.values():
            if isinstance(type_.schema, dict):
                yield from type_.schema.get("properties", ())


def _set_parent(entity: Entity, entities: Mapping[str, Entity]) -> None:
    """Set the entity that an entity is in.  Raises ValueError."""
    if entity.within is None:
        return
    outer = entity.parent = find_entity(entities, entity.within, of=entity.name)
    while outer.parent is not None and outer is not entity:
        outer = outer.parent
    if outer is entity:
        raise ValueError(f"{entity.name} is inside itself, through {entity.within}")


def find_entity(entities: Mapping[str, Entity], name: str, *, of: str = "") -> Entity:
    """Return an entity; it is not the one with the name `of`.  Raises ValueError."""
    known = [each for each in entities if each != of]
    if name not in known:
        hint = choices_hint(name, known) if known else "; add a table [entity.NAME]"
        raise ValueError(f"unknown entity {name!r}{hint}")
    return entities[name]


def _event_class(layer: Layer) -> type | None:
    """Return the class of the events, if that is in Python."""
    table = layer.table
    name = table.events if isinstance(table, TrustedContractTable) else None
    found: type | None = None if name is None else resolve_name(name)
    return found


def _event_format(
    table: EventTable, durable_types: Mapping[str, bool], entities: Sequence[Entity], event_class: type | None
) -> EventFormat:
    deltas = table.delta
    texts = (deltas and deltas.text) or {}
    return EventFormat(
        type=table.type,
        cursor=table.cursor,
        sequence=table.sequence,
        channel=table.channel,
        durable=table.durable,
        deltas=deltas.types if deltas is not None else (),
        texts={"*": texts} if isinstance(texts, str) else texts,
        durable_types=durable_types,
        entities=entities,
        envelope=table.envelope,
        event_class=event_class,
    )


def _operation(layer: Layer, name: str, table: OperationTable) -> Operation:
    path = ("operations", name)
    with layer.naming(*path, "request"):
        pattern = RequestPattern(table.request)
    with layer.naming(*path, "when"):
        when = None if table.when is None else RequestFlag(table.when)
    with layer.naming(*path, "cursor"):
        cursor = None if table.cursor is None else CursorPlace.parse(table.cursor)
    with layer.naming(*path, "channel"):
        channel = None if table.channel is None else table.channel.strip("{}")
        if channel is not None and (channel not in pattern.parameters or table.channel != f"{{{channel}}}"):
            raise ValueError(f"expected a name in braces from the path, such as {{ticket}}, got {table.channel!r}")
    with layer.naming(*path, "deltas"):
        deltas = None if table.deltas is None else RequestFlag(table.deltas)
    begins = table.begins or ("now" if pattern.method in {"GET", "*"} else "start")
    with layer.naming(*path, "example"):
        if table.example is not None and pattern.match(pattern.method.replace("*", "GET"), table.example) is None:
            raise ValueError(f"expected a target that matches {table.request}, got {table.example!r}")
    settings = (deltas, table.stream, table.open_ended, table.example or "")
    return Operation(name, pattern, when, cursor, channel, begins == "start", *settings)


def _merge(below: T, above: T) -> T:
    """Return the keys of both; those of `above` win."""
    given = {key: value for key, value in msgspec.structs.asdict(above).items() if value is not None}
    return msgspec.structs.replace(below, **given)
