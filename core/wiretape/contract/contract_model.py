"""The contract: operations, how facts are read, entities and rules.  Immutable, and checked when it is built."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wiretape.contract.contract_facts import ContractFacts
from wiretape.contract.service_terms import ServiceTerms
from wiretape.event_format import Entity
from wiretape.rules.catalogue import Rule, catalogue_of
from wiretape.rules.engine import Engine
from wiretape.rules.exchange import SilenceLimit
from wiretape.rules.traffic import Traffic, TrafficSettings
from wiretape.rules.vectors import Vector, vectors_of


@dataclass(frozen=True, eq=False)
class Contract(ContractFacts):
    """A contract: what streams of an API have to look like."""

    rules: tuple[Rule, ...] = ()
    """The common rules about any event stream, those of its parent, and its own."""
    own_examples: tuple[Vector, ...] = ()
    """The examples in its files."""
    parent: "Contract | None" = None
    """The contract that it extends, if that has operations of its own."""
    title: str = ""
    source: str = ""
    """The specification that it follows."""
    silence_limits: tuple[SilenceLimit, ...] = ()
    """The longest silences of its rules."""
    vector_codes: tuple[str, ...] = field(default=(), kw_only=True)
    """The codes of its rules whose examples have files of their own."""
    unknown_cursor_status: int | None = field(default=None, kw_only=True)
    """The status of the response to an unknown cursor, if one of its rules says."""
    service: ServiceTerms = field(default=ServiceTerms(), kw_only=True)
    """What it says about the service apart from streams."""
    reads_requests: bool = field(default=False, kw_only=True)
    """Whether its rules read the bodies of requests."""
    echoes: frozenset[str] = field(default=frozenset(), kw_only=True)
    """The codes of rules that compare events with their request: those of a replay are for another one."""
    tracked_entities: tuple[Entity, ...] = ()
    """Those that rules are about, and what these are in."""
    traffic: "Callable[[Contract, Engine, Iterable[Rule], TrafficSettings, str | None], Traffic[Any, Any]]" = field(
        kw_only=True
    )
    """What makes its traffic."""
    reference: str | None = field(default=None, kw_only=True)
    """The name or the file that `load_contract` found it by; None if it comes with a recording."""
    file: str = ""
    """The name of its file in `texts`."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The texts of its files by name, without those that come with wiretape; empty if it was made in Python."""
    rebuild: tuple[Callable[..., "Contract"], tuple[Any, ...]] | None = None
    """What builds it again in another process."""

    @cached_property
    def catalogue(self) -> Mapping[str, Rule]:
        """Its rules by code."""
        return catalogue_of(self.rules)

    @cached_property
    def examples(self) -> tuple[Vector, ...]:
        """The traffic that breaks or keeps its own rules, without those of its parent."""
        return (*self.own_examples, *(vector for code in self.vector_codes for vector in vectors_of(code)))

    def declaring(self, code: str) -> "Contract":
        """Return the contract with the examples of a rule: this one, or one that it extends."""
        parent = self.parent
        return self if parent is None or code not in parent.catalogue else parent.declaring(code)

    def examples_of(self, code: str) -> tuple[Vector, ...]:
        """Return the examples of a rule."""
        return tuple(example for example in self.examples if example.code == code)

    def follow(
        self, engine: Engine, rules: Iterable[Rule], settings: TrafficSettings, upstream: str | None
    ) -> Traffic[Any, Any]:
        """Return the traffic of one recording; the engine runs the rules on it."""
        return self.traffic(self, engine, rules, settings, upstream)

    def __reduce__(self) -> Any:
        if self.rebuild is None:
            raise TypeError("A contract that was not read from a file cannot be passed to another process.")
        return self.rebuild
