"""The contracts of a replay or a stand-in: each request belongs to the first one that has an operation for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from wiretape.bounded_dict import cache_short
from wiretape.contract.contract_facts import ContractChoice, ContractFacts
from wiretape.contract.contract_model import Contract
from wiretape.contract.contract_operation import Operation
from wiretape.contract.service_terms import ErrorWriter, Limit
from wiretape.event_format import Entity
from wiretape.input_validation import choices_hint
from wiretape.safe_text import printable
from wiretape_replay.channel.stream_facts import RequestHead, StreamFacts, StreamOpening
from wiretape_replay.http_server.http_messages import RequestPattern


@dataclass(frozen=True, slots=True)
class DescribedRequest:
    """What the contracts say about a request."""

    facts: StreamFacts
    """Those of the contract that it belongs to."""
    operation: Operation | None
    parameters: Mapping[str, str]
    """The parts of its path that the contract names, decoded."""
    channel: str | None
    """The channel that its path names."""
    base: str
    """The base path before the path of the contract."""

    @property
    def operation_name(self) -> str | None:
        """The name of its operation."""
        return None if self.operation is None else self.operation.name

    @property
    def keys(self) -> Mapping[str, str]:
        """The keys of entities in its path, by the names of the entities."""
        return self.facts.contract.read_keys(self.parameters)


class ReplayedContracts:
    """The contracts of a replay or a stand-in."""

    def __init__(self, contracts: Sequence[Contract], *, is_chosen: bool = True) -> None:
        """At least one; `is_chosen` says whether somebody named them, or only the requests suggest them."""
        self.contracts = tuple(contracts)
        self.checked = self.contracts if is_chosen else ()
        """Those whose rules check the traffic; the built-in rules if empty."""
        self._choice = ContractChoice(contracts)
        self._facts: dict[ContractFacts, StreamFacts] = {each: StreamFacts(each) for each in contracts}
        self.main = self._facts[contracts[0]]
        """What applies where no request decides."""
        self._describe = cache_short(self._describe_request)

    @cached_property
    def names(self) -> str:
        """What messages call them."""
        names = " and ".join(each.name for each in self.contracts)
        return f"the contract {names}" if len(self.contracts) == 1 else f"the contracts {names}"

    @cached_property
    def operations(self) -> Mapping[str, Operation]:
        """The operations by their names."""
        return {operation.name: operation for each in reversed(self.contracts) for operation in each.operations}

    @cached_property
    def limits(self) -> Mapping[str, Limit]:
        """The published limits."""
        return {name: limit for each in reversed(self.contracts) for name, limit in each.service.limits.items()}

    @cached_property
    def counts(self) -> Mapping[str, str]:
        """Requests, and the limit that they count towards."""
        return {request: name for each in self.contracts for request, name in each.service.counts.items()}

    @cached_property
    def scopes(self) -> Mapping[str, str]:
        """Requests, and the scope that they need."""
        return {request: name for each in self.contracts for request, name in each.service.scopes.items()}

    @cached_property
    def types(self) -> Sequence[str]:
        """The types of events that they name."""
        return list(dict.fromkeys(name for each in self.contracts for name in each.types))

    @property
    def has_other_types(self) -> bool:
        """Whether there may be events of other types."""
        return any(each.service.has_other_types for each in self.contracts)

    @property
    def errors(self) -> Iterator[ErrorWriter]:
        """How their errors are written, for those that say so."""
        return (facts.errors for facts in self._facts.values() if facts.errors is not None)

    def is_optional_delta(self, type_: str) -> bool:
        """Whether events of a type are deltas that streams have only on request."""
        return any(
            facts.has_optional_deltas and facts.contract.format.deltas.matches(type_) for facts in self._facts.values()
        )

    def may_be_stream(self, pattern: RequestPattern) -> bool:
        """Whether a request that matches a pattern may open a stream."""
        streams = (operation for each in self.contracts for operation in each.operations if operation.is_stream)
        return any(pattern.overlaps(operation.name, operation.pattern.text) for operation in streams)

    def describe(self, method: str, target: str) -> DescribedRequest:
        """Return what the contracts say about a request."""
        return self._describe(method, target)

    def of(self, request: RequestHead) -> StreamFacts:
        """Return the facts of the contract that a request belongs to."""
        return self._describe(request.method, request.target).facts

    def read_opening(self, request: RequestHead) -> StreamOpening | None:
        """Return what a request asks for; None if it cannot open a stream."""
        return self.of(request).read_opening(request)

    def find_channel(self, target: str) -> str | None:
        """Return the channel that a path names."""
        return self._choice.channel_in(target)

    @cached_property
    def entities(self) -> Mapping[str, Entity]:
        """The entities by their names."""
        return {name: entity for each in reversed(self.contracts) for name, entity in each.entities.items()}

    def describe_unknown_entity(self, name: str) -> str:
        """Return what is wrong with the name of an entity; empty if one has it."""
        if name in self.entities:
            return ""
        hint = choices_hint(name, self.entities) if self.entities else f": {self.names} has no entities"
        return f"unknown entity {printable(name)!r}{hint}".removesuffix(".")

    @cached_property
    def rule_codes(self) -> Sequence[str]:
        """The codes of their rules."""
        return list(dict.fromkeys(code for each in self.contracts for code in each.catalogue))

    @property
    def key_rules(self) -> tuple[str, ...]:
        """The beginnings of the codes of rules that apply only where requests need a key."""
        return tuple(prefix for each in self.contracts for prefix in each.service.key_rules)

    @property
    def client_ids(self) -> Iterator[str]:
        """The JSON paths of what clients make up in the bodies of requests."""
        return (path for each in self.contracts for path in each.service.client_ids)

    def comparable_target(self, request: RequestHead) -> str:
        """Return the target of a request, without the cursor of a stream."""
        opening = self.read_opening(request)
        return request.target if opening is None else opening.target

    def _describe_request(self, method: str, target: str) -> DescribedRequest:
        if (found := self._choice.find(method, target)) is not None:
            beside = found.contract.find_channel(target) if found.channel is None else None
            channel, base = found.channel if beside is None else beside.name, found.operation.pattern.base_of(target)
            return DescribedRequest(self._facts[found.contract], found.operation, found.parameters, channel, base)
        if (named := self._choice.find_channel(target)) is not None:
            contract, of_path = named
            parameters = {of_path.parameter: of_path.name}
            return DescribedRequest(self._facts[contract], None, parameters, of_path.name, of_path.base)
        return DescribedRequest(self.main, None, {}, None, "")


def channel_not_found(noun: str, name: str) -> str:
    """The message about a channel that does not exist."""
    return f"There is no {noun} {name}."
