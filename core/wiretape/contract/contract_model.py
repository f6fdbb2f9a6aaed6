"""The contract: operations, how facts are read, entities and rules.  Immutable, and checked when it is built."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote_plus

from wiretape.contract.contract_tables import TypeTable
from wiretape.contract.contract_traffic import ContractTraffic
from wiretape.contract.facts import Entity, EventFormat
from wiretape.contract.patterns import RequestPattern
from wiretape.observations import RequestStarted, header, is_header_name
from wiretape.rules.catalogue import Rule, catalogue_of
from wiretape.rules.engine import Engine, RuleBook
from wiretape.rules.traffic import Traffic
from wiretape.rules.vectors import Vector, vectors_of

if TYPE_CHECKING:
    from wiretape.rules.selection import Settings

_MOST_PARAMETERS = 1000


@dataclass(frozen=True, slots=True)
class CursorPlace:
    """Where requests have the cursor."""

    place: str
    """`header` or `query`."""
    name: str

    @classmethod
    def parse(cls, text: str) -> "CursorPlace":
        """Parse `header:NAME` or `query:NAME`.  Raises ValueError."""
        place, _, name = text.partition(":")
        if place not in {"header", "query"} or not is_header_name(name):
            raise ValueError(f"expected header:NAME or query:NAME, for example header:Last-Event-ID, got {text!r}")
        return cls(place, name)

    def read(self, request: RequestStarted) -> str | None:
        """Return the cursor in a request; None without any."""
        if self.place == "header":
            value = header(request.headers, self.name)
            # The characters of a header stand for bytes, and cursors are UTF-8.
            return None if not value else value.encode("latin-1", "replace").decode("utf-8", "replace")
        query = request.target.partition("?")[2].partition("#")[0]
        try:
            pairs = parse_qsl(query, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            return None
        return next((value for name, value in pairs if name == self.name and value), None)

    def remove_from(self, target: str) -> str:
        """Return a request target without the cursor."""
        path, mark, query = target.partition("#")[0].partition("?")
        if self.place == "header" or not mark:
            return target
        kept = [part for part in query.split("&") if unquote_plus(part.partition("=")[0]) != self.name]
        return f"{path}?{'&'.join(kept)}" if kept else path


@dataclass(frozen=True, slots=True)
class Operation:
    """Requests that a contract applies to."""

    name: str
    pattern: RequestPattern
    cursor: CursorPlace | None = None
    channel: str | None = None
    """The name of the segment of the path that names the channel."""
    begins_at_start: bool = True
    """Whether a stream without a cursor begins with the first event of its channel."""


@dataclass(frozen=True, eq=False)
class Contract:
    """A contract: what streams of an API have to look like."""

    name: str
    operations: tuple[Operation, ...]
    format: EventFormat
    entities: Mapping[str, Entity]
    rules: tuple[Rule, ...] = ()
    """The common rules about any event stream, those of its parent, and its own."""
    own_examples: tuple[Vector, ...] = ()
    """The examples in its files."""
    parent: "Contract | None" = None
    """The contract that it extends, if that has operations of its own."""
    title: str = ""
    source: str = ""
    """The specification that it follows."""
    silence_limits: tuple[int, ...] = ()
    """The longest silences of its rules, in nanoseconds."""
    unknown_cursor_status: int | None = field(default=None, kw_only=True)
    """The status of the response to an unknown cursor, if one of its rules says."""
    types: Mapping[str, TypeTable] = field(default_factory=dict)
    """What it says about single types of events."""
    tracked_entities: tuple[Entity, ...] = ()
    """Those that rules are about, and what these are in."""
    traffic: "Callable[[Engine, Iterable[Rule], Settings, str | None], Traffic[Any, Any]] | None" = None
    """What makes its traffic, if that is in Python."""
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
        if self.traffic is None:
            return self.own_examples
        return tuple(vector for code in self.catalogue for vector in vectors_of(code))

    def declaring(self, code: str) -> "Contract":
        """Return the contract with the examples of a rule: this one, or one that it extends."""
        parent = self.parent
        return self if parent is None or code not in parent.catalogue else parent.declaring(code)

    def examples_of(self, code: str) -> tuple[Vector, ...]:
        """Return the examples of a rule."""
        return tuple(example for example in self.examples if example.code == code)

    def find_operation(self, method: str, target: str) -> tuple[Operation | None, Mapping[str, str]]:
        """Return the first operation that a request matches, and the segments that its path names."""
        for operation in self.operations:
            if (parameters := operation.pattern.match(method, target)) is not None:
                return operation, parameters
        return None, {}

    def follow(
        self, engine: Engine, rules: Iterable[Rule], settings: "Settings", upstream: str | None
    ) -> Traffic[Any, Any]:
        """Return the traffic of one recording; the engine runs the rules on it."""
        if self.traffic is not None:
            return self.traffic(engine, rules, settings, upstream)
        return ContractTraffic(self, RuleBook(engine, rules))

    def __reduce__(self) -> Any:
        if self.rebuild is None:
            raise TypeError("A contract that was not read from a file cannot be passed to another process.")
        return self.rebuild
