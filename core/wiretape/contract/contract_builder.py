"""Build a contract from its files, and check that its parts fit together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from itertools import chain
from pkgutil import resolve_name
from typing import Any

import msgspec

from wiretape.contract.contract_facts import build_facts, find_entity, find_source
from wiretape.contract.contract_files import BUNDLED, COMMON, CodeUse, ContractFiles, Layer, read_layers
from wiretape.contract.contract_model import Contract
from wiretape.contract.contract_tables import (
    MOST_RULES,
    AnyRuleTable,
    Aspect,
    CounterTable,
    ErrorAspect,
    ErrorTable,
    Example,
    ExampleTable,
    ExchangeTable,
    HeaderTable,
    JoinedTable,
    LastTable,
    LifecycleTable,
    MatchTable,
    Names,
    ResumeTable,
    SameTable,
    SilenceTable,
    TrustedContractTable,
    TrustedRuleTable,
    UniqueTable,
)
from wiretape.contract.contract_traffic import ContractTraffic
from wiretape.contract.event_primitives import (
    Facts,
    Forbid,
    KnownKeys,
    Match,
    MatchesSchema,
    OneOf,
    RequestedDeltas,
    Require,
    Same,
    Unique,
    UtcTime,
)
from wiretape.contract.facts import Fact
from wiretape.contract.framing import Framing
from wiretape.contract.http_primitives import ErrorEnvelope, HeaderValue, NoParameter, RequestBody
from wiretape.contract.json_schema import MOST_PARTS_IN_ALL, JsonSchema
from wiretape.contract.json_types import ANY_BUT_NULL, AllowedValues
from wiretape.contract.primitive import EventSelection, Primitive, RequiredFact
from wiretape.contract.python_rule import PythonRule, check_reference, import_function
from wiretape.contract.recorded_contracts import RecordedContract, parse_contracts
from wiretape.contract.service_terms import ErrorWriter, ServiceTerms, read_limits, read_scopes
from wiretape.contract.stream_primitives import (
    Counter,
    Echo,
    Ends,
    First,
    Joined,
    Last,
    Lifecycle,
    LongestSilence,
    Next,
    Reconnect,
    Resume,
)
from wiretape.errors import InputError
from wiretape.event_format import Entity
from wiretape.input_validation import choices_hint
from wiretape.installed_parts import CONTRACTS, find_part
from wiretape.observations import header, is_header_name
from wiretape.patterns import Globs, Pointer, RequestPattern, list_of
from wiretape.rules.catalogue import Check, Explanation, Rule, Scope
from wiretape.rules.exchange import SilenceLimit
from wiretape.rules.finding import Party
from wiretape.rules.vectors import Vector, default_headers, read_headers
from wiretape.rules.wording import Template, Wording

PRIMITIVES = (
    *("match", "require", "forbid", "one_of", "utc_time", "deltas", "schema", "keys", "first", "next", "last", "ends"),
    *("counter", "unique", "echo", "request_body"),
    *("lifecycle", "same", "joined", "resume", "reconnect", "silence", "error", "header", "no_parameter", "framing"),
)
"""The keys of the primitives in a rule."""
_PlacedRule = tuple[Layer, int, AnyRuleTable]
_FULL_SHARES = 10
"""Rules with a schema that may each take a second for an event; if there are more, they share that time."""
_ABOUT_CURSORS = ("resume", "reconnect")
_NOT_ABOUT_EVENTS = ("request_body", "silence", "error", "header", "no_parameter", "framing")
_TABLES: dict[str, Callable[[str], Any]] = {
    "counter": CounterTable,
    "unique": UniqueTable,
    "same": SameTable,
    "header": HeaderTable,
    "error": lambda aspect: ErrorTable(ErrorAspect(aspect)),
    "lifecycle": LifecycleTable,
}
"""The tables that short forms stand for."""


def load_contract(name: str, *, code: CodeUse = CodeUse.REFUSE) -> Contract:
    """Return the contract with a name, or in a file, whose code is used as `code` says.  Raises InputError."""
    source = find_source(name, code)
    if isinstance(source, tuple):
        return build_contract(*source, name)
    if not isinstance(source, Contract):
        raise InputError(f"The contract {name} of a package is not a Contract, but of type {type(source).__name__}.")
    return replace(source, reference=name, rebuild=(load_contract, (name,)))


def load_recorded(stored: str | None, origin: str, code: CodeUse = CodeUse.SKIP) -> tuple[Contract, ...]:
    """Return the contracts that a recording stores; messages call it `origin`.  Raises InputError.

    It may come from a stranger, so the code that its contracts name does not run by default.  A contract that is also
    installed, with the same texts, is that of its package.
    """
    return tuple(_load_recorded(each, origin, code) for each in parse_contracts(stored, origin))


def _load_recorded(recorded: RecordedContract, origin: str, code: CodeUse) -> Contract:
    name = recorded.file if recorded.file in BUNDLED else recorded.name
    if not recorded.texts:
        if name not in BUNDLED and find_part(CONTRACTS, name) is None:
            problem = f"{origin} was checked with the contract {name}, which is not installed"
            raise InputError(f"{problem}: install its package, or use --contract.")
        return load_contract(name)
    with suppress(InputError):  # a broken package
        if find_part(CONTRACTS, name) is not None and (installed := load_contract(name)).texts == recorded.texts:
            return installed
    return build_contract(ContractFiles(None, recorded.texts, code=code, origin=origin), recorded.file)


def build_contract(contract_files: ContractFiles, name: str, reference: str | None = None) -> Contract:
    """Return the contract in a file and in those that it extends; see `Contract.reference`.  Raises InputError."""
    contract = replace(_Builder(read_layers(contract_files, name)).build(), reference=reference)
    if contract.traffic is not ContractTraffic:
        # Its texts are of no use without its package.
        return replace(contract, file=name, rebuild=(load_contract, (contract.name,)))
    again = (contract_files, name, reference)
    return replace(contract, file=name, texts=dict(contract_files.texts), rebuild=(build_contract, again))


class _Builder:
    """Builds one contract from its layers."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        has_parent = any(layer.table.operations for layer in layers[:-1])
        self._parent = _Builder(layers[:-1]).build() if has_parent else None
        self._layers = layers
        self._top = layers[-1]
        self._entities: Mapping[str, Entity] = {}
        self._tracked: set[Entity | None] = set()
        self._schemas: dict[str, JsonSchema] = {}
        self._schema_parts = 0
        self._silence_limits: set[SilenceLimit] = set()
        self._unknown_cursor_status: int | None = None

    def build(self) -> Contract:
        """Return the contract."""
        facts = build_facts(self._layers)
        self._entities, self._event_format = facts.entities, facts.format
        self._has_cursors = any(operation.cursor is not None for operation in facts.operations)
        self._is_open_ended = any(operation.is_open_ended for operation in facts.operations)
        self._errors, self._types = facts.errors, facts.types
        for layer in self._layers:
            with layer.naming("event", "schemas"):
                self._schemas |= {name: self._compile(each) for name, each in layer.read_type_schemas().items()}
            for name, type_ in layer.table.types.items():
                if type_.schema is not None:
                    path = ("types", name, "schema")
                    with layer.naming(*path):
                        self._schemas[name] = self._schema(layer, type_.schema, path)
        tables = [(layer, index, table) for layer in self._layers for index, table in enumerate(layer.rules)]
        self._check_codes(tables)
        tables = self._leave_out(tables)
        self._schema_share = min(1.0, _FULL_SHARES / max(1, sum(table.schema is not None for _, _, table in tables)))
        rules = tuple(self._rule(layer, index, table) for layer, index, table in tables)
        inherited = () if self._parent is None else self._parent.catalogue
        request, traffic = facts.operations[0].pattern.example(), self._traffic()
        has_common = traffic is not ContractTraffic
        apart = [each.code for layer, _, each in tables if each.breaks is None and (has_common or layer.name != COMMON)]
        return Contract(
            facts.name,
            facts.operations,
            facts.format,
            facts.entities,
            facts.types,
            facts.errors,
            rules,
            tuple(each for where in tables if where[2].code not in inherited for each in _examples(*where, request)),
            self._parent,
            self._top.table.title,
            self._top.table.source,
            tuple(self._silence_limits),
            tuple(each for each in self._entities.values() if each in self._tracked),
            traffic=traffic,
            vector_codes=tuple(each for each in apart if each not in inherited),
            unknown_cursor_status=self._unknown_cursor_status,
            joined_texts=facts.joined_texts,
            names=facts.names,
            service=self._service_terms([operation.name for operation in facts.operations]),
            echoes=frozenset(table.code for _, _, table in tables if table.echo is not None),
            reads_requests=any(table.echo or table.request_body or table.python for _, _, table in tables),
        )

    def _service_terms(self, operations: Sequence[str]) -> ServiceTerms:
        """Return what the contract says about its service; what it does not say is as in those that it extends."""
        terms, error = ServiceTerms(), self._errors.table
        top = self._top.table
        counted = [(("limits", name, "counts"), each.counts) for name, each in top.limits.items()]
        for path, requests in (*counted, *((("scopes", name), each) for name, each in top.scopes.items())):
            for request in list_of(requests):
                with self._top.naming(*path):
                    if " " not in request and request not in operations:
                        raise ValueError(f"unknown operation {request!r}{choices_hint(request, operations)}")
                    if request not in operations:
                        RequestPattern(request)
        if error.code is not None:
            with self._top.naming("error"):
                terms = msgspec.structs.replace(terms, errors=ErrorWriter(error))
        for layer in self._layers:
            table = layer.table
            if table.workspace is not None:
                with layer.naming("workspace"):
                    terms = msgspec.structs.replace(terms, workspace=Pointer(table.workspace))
            if table.limits:
                limits, counts = read_limits(table.limits)
                terms = msgspec.structs.replace(terms, limits=limits, counts=counts)
            terms = msgspec.structs.replace(
                terms,
                keep_alive_s=table.keep_alive or terms.keep_alive_s,
                has_other_types=terms.has_other_types and table.other_types,
                scopes=read_scopes(table.scopes) or terms.scopes,
                key_rules=tuple(table.key_rules) or terms.key_rules,
                client_ids=tuple(table.client_ids) or terms.client_ids,
            )
        return terms

    def _traffic(self) -> Any:
        """Return what makes its traffic."""
        table = self._top.table
        name = table.traffic if isinstance(table, TrustedContractTable) else None
        return ContractTraffic if name is None else resolve_name(name)

    def _tracked_entity(self, name: str) -> Entity:
        entity = find_entity(self._entities, name)
        self._tracked |= {entity, entity.parent}
        return entity

    def _check_codes(self, tables: Sequence[_PlacedRule]) -> None:
        if len(tables) > MOST_RULES:
            raise self._top.source.error(("rule",), f"expected at most {MOST_RULES} rules, with those it extends")
        codes: dict[str, str] = {}
        names: dict[str, str] = {}
        for layer, index, table in tables:
            if layer.name == COMMON:
                codes[table.code], names[table.name] = "a rule about any event stream", f"the rule {table.code}"
                continue
            for key, value, taken in (("code", table.code, codes), ("name", table.name, names)):
                if value in taken:
                    problem = f"the {key} {value} is that of {taken[value]}"
                    raise layer.source.error(("rule", index, key), problem)
            codes[table.code], names[table.name] = "another rule of the contract", f"the rule {table.code}"
        for layer, index, table in tables:
            unless = table.unless if isinstance(table.unless, list) else chain(*table.unless.values())
            for key, named in (("unless", [each.partition(" ")[0] for each in unless]), ("also", table.also)):
                if unknown := [code for code in named if code not in codes]:
                    problem = f"unknown code {unknown[0]}{choices_hint(unknown[0], codes)}"
                    raise layer.source.error(("rule", index, key), problem)
            if table.code in table.unless:
                raise layer.source.error(("rule", index, "unless"), f"expected codes of other rules, got {table.code}")

    def _leave_out(self, tables: Sequence[_PlacedRule]) -> list[_PlacedRule]:
        """Return the rules without those that a layer leaves out of the ones that it inherits."""
        kept = list(tables)
        for layer in self._layers:
            inherited = {table.code for below, _, table in kept if below is not layer and below.name != COMMON}
            for index, code in enumerate(layer.table.without):
                if code not in inherited:
                    problem = f"{code} is not an inherited rule{choices_hint(code, inherited)}"
                    raise layer.source.error(("without", index), problem)
            kept = [each for each in kept if each[2].code not in layer.table.without]
        return kept

    def _rule(self, layer: Layer, index: int, table: AnyRuleTable) -> Rule:
        path = ("rule", index)
        trusted = table if isinstance(table, TrustedRuleTable) else None
        if trusted is not None and trusted.python is not None:
            # The docstring of the first function describes what breaks the rule.
            checks: tuple[Check[Any], ...] = tuple(map(resolve_name, list_of(trusted.python)))
            side, scope, wording = Party.SERVICE, checks[0].trigger.scope, None
            about = (checks[0].function.__doc__ or "").strip()
        else:
            primitive = self._chosen_primitive(layer, table, path)
            side, scope, wording = primitive.side, primitive.scope, _wording(layer, path, table, primitive)
            about, checks = primitive.describe(), primitive.checks()
        if trusted is not None and trusted.fast_path:
            checks = tuple(msgspec.structs.replace(each, fast_path=True) for each in checks)
        return Rule(
            table.code,
            table.name,
            table.severity,
            table.side or side,
            (trusted and trusted.scope) or scope,
            table.basis,
            table.clause,
            table.about or about,
            checks,
            Explanation(table.why, table.fix, *((trusted.not_exercised, trusted.notes) if trusted else ())),
            None if table.once_per is None else Scope(table.once_per),
            table.unless,
            trusted.noun if trusted else "problems",
            layer.name == COMMON,
            wording,
        )

    def _chosen_primitive(self, layer: Layer, table: AnyRuleTable, path: tuple[str | int, ...]) -> Primitive:
        """Return the only primitive of a rule.  Raises InputError."""
        given = [key for key in (*PRIMITIVES, "python") if getattr(table, key) not in (None, False)]
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise layer.source.error(path, f"expected exactly one of {', '.join(PRIMITIVES)} or python, got {got}")
        for key in ("on", "kinds", "having") if given[0] in _NOT_ABOUT_EVENTS else ():
            if getattr(table, key):
                raise layer.source.error((*path, key), f"{given[0]} is not about events, so it cannot have {key}")
        for key in ("expected", "got") if given[0] == "python" else ():
            if getattr(table, key):
                raise layer.source.error((*path, key), "the function of a rule words its problems itself")
        with layer.naming(*path, given[0]):
            return self._primitive(layer, given[0], table, (*path, given[0]))

    def _primitive(self, layer: Layer, key: str, table: AnyRuleTable, path: tuple[str | int, ...]) -> Primitive:
        """Return the primitive of a rule.  Raises ValueError and InputError."""
        if key in _ABOUT_CURSORS and layer is self._top and not self._has_cursors:
            raise ValueError("no operation has a cursor: add it to the table of an operation")
        having = tuple(self._required(table.having or [], ANY_BUT_NULL))
        on = EventSelection(Globs(table.on or "*"), frozenset(table.kinds), having)
        value: Any = getattr(table, key)
        if isinstance(value, str) and key in _TABLES:
            value = _TABLES[key](value)
        makers: dict[str, Callable[[], Primitive]] = {
            "match": lambda: self._match(on, value if isinstance(value, MatchTable) else MatchTable([value])),
            "require": lambda: Require(on, tuple(self._required(value))),
            "forbid": lambda: Forbid(on, Facts(map(self._fact, list_of(value)))),
            "one_of": lambda: OneOf(
                on,
                AllowedValues(
                    [*map(self._fact, list_of(value.fact))],
                    list(self._types) if value.values == "types" else value.values,
                ),
            ),
            "deltas": lambda: RequestedDeltas(on),
            "no_parameter": lambda: NoParameter(value),
            "utc_time": lambda: UtcTime(on, self._fact(value)),
            "schema": lambda: MatchesSchema(
                on,
                self._schemas_of_types() if value == "types" else self._schema(layer, value, path),
                self._schema_share,
            ),
            "keys": lambda: KnownKeys(on, {name: each.keys for name, each in self._schemas_of_types().items()}),
            "echo": lambda: Echo(on, self._fact(value.fact), Pointer(value.request), value.last),
            "request_body": lambda: RequestBody(self._schema(layer, value, path)),
            "first": lambda: First(on, Globs(value)),
            "next": lambda: Next(on, Globs(value.after), Globs(value.types)),
            "last": lambda: (
                Last(on, Globs(value.types), value.repeats) if isinstance(value, LastTable) else Last(on, Globs(value))
            ),
            "ends": lambda: Ends(on, Globs(value.after), value.within),
            "counter": lambda: Counter(on, self._fact(value.fact), value.by_one, value.starts_at),
            "unique": lambda: Unique(on, self._fact(value.fact), value.over),
            "same": lambda: Same(
                on,
                self._fact(value.fact),
                value.over if value.over in {"stream", "channel"} else find_entity(self._entities, value.over),
            ),
            "lifecycle": lambda: self._lifecycle(on, value),
            "joined": lambda: self._joined(on, value),
            "resume": lambda: self._resume(on, value),
            "reconnect": lambda: Reconnect(on, Globs(value)),
            "silence": lambda: self._silence(value),
            "error": lambda: ErrorEnvelope(value, self._errors),
            "header": lambda: HeaderValue(value, self._errors),
            "framing": lambda: Framing(value, frozenset(self._types)),
            "python": lambda: _python_rule(on, table.code, value, layer.files),
        }
        return makers[key]()

    def _fact(self, name: str) -> Fact:
        """Return a fact that the contract defines.  Raises ValueError."""
        if name == "sequence" and self._event_format.sequence is None:
            raise ValueError("sequence is not defined: add a pointer as sequence to the table [event]")
        if name == "text":
            self._require_text()
        return Fact(name)

    def _required(self, value: Names | Mapping[str, Any], usual: Sequence[str] = ()) -> Iterator[RequiredFact]:
        """Yield the facts that events have; `usual` are the types of those without.  Raises ValueError."""
        if not isinstance(value, dict):
            yield from (RequiredFact(self._fact(name), usual) for name in list_of(value))
            return
        for name, types in value.items():
            if isinstance(types, dict):
                yield from (RequiredFact(self._fact(each), list_of(of), Globs(name)) for each, of in types.items())
            else:
                yield RequiredFact(self._fact(name), list_of(types))

    def _match(self, on: EventSelection, table: MatchTable) -> Match:
        pairs = [(self._fact(a), None if b == "channel" else self._fact(b)) for a, b in table.facts]
        return Match(on, pairs, table.required)

    def _require_text(self) -> None:
        if not self._event_format.texts:
            raise ValueError("deltas have no text: add types and text as delta to the table [event]")

    def _joined(self, on: EventSelection, table: JoinedTable) -> Joined:
        self._require_text()
        entity = self._tracked_entity(table.entity)
        texts = table.text if isinstance(table.text, dict) else {"*": table.text}
        pointers = tuple((Globs(types), Pointer(text)) for types, text in texts.items())
        return Joined(on, entity, Globs(table.deltas), Globs(table.final), pointers)

    def _resume(self, on: EventSelection, table: bool | ResumeTable) -> Resume:
        if isinstance(table, bool):
            return Resume(on)
        if table.final is not None and self._is_open_ended:
            raise ValueError("final is for channels that end, but an operation has open_ended = true")
        self._unknown_cursor_status = table.unknown or self._unknown_cursor_status
        return Resume(on, table.unknown, Globs(table.final or ()))

    def _schema(self, layer: Layer, value: str | dict[str, Any], path: tuple[str | int, ...]) -> JsonSchema:
        """Return a schema: in the contract, in a file next to it, or a definition in that.

        Raises ValueError and InputError.
        """
        if not isinstance(value, str):
            return self._compile(value)
        file, mark, name = value.partition("#")
        document = layer.read_schema(file, *path)
        if mark:
            document = {"$defs": document.get("$defs", {}), "$ref": f"#/$defs/{name}"}
        try:
            return self._compile(document)
        except ValueError as error:
            raise ValueError(f"{value}: {error}") from None

    def _compile(self, document: Mapping[str, Any]) -> JsonSchema:
        """Return a JSON schema.  Raises ValueError if those of the contract are too large."""
        schema = JsonSchema(document)
        self._schema_parts += schema.parts
        if self._schema_parts > MOST_PARTS_IN_ALL:
            raise ValueError(f"the schemas of the contract have more than {MOST_PARTS_IN_ALL:,} parts")
        return schema

    def _schemas_of_types(self) -> dict[str, JsonSchema]:
        if not self._schemas:
            raise ValueError('no type has a schema: add one to a table [types."NAME"]')
        return self._schemas

    def _lifecycle(self, on: EventSelection, table: LifecycleTable) -> Lifecycle:
        aspects = frozenset(map(Aspect, list_of(table.aspects))) or frozenset(Aspect) - {Aspect.CLOSES}
        return Lifecycle(on, self._tracked_entity(table.entity), aspects)

    def _silence(self, value: float | SilenceTable) -> LongestSilence:
        limit = SilenceLimit(value.every, is_interval=True) if isinstance(value, SilenceTable) else SilenceLimit(value)
        self._silence_limits.add(limit)
        return LongestSilence(limit)


def _wording(layer: Layer, path: tuple[str | int, ...], table: AnyRuleTable, primitive: Primitive) -> Wording | None:
    """Return the words that a rule has for its problems; None for those of the primitive."""
    templates: list[list[Template]] = []
    for key in ("expected", "got"):
        with layer.naming(*path, key):
            templates.append([Template(text, primitive.reader_of) for text in list_of(getattr(table, key))])
    return Wording(*templates) if any(templates) else None


def _python_rule(on: EventSelection, code: str, reference: str, contract_files: ContractFiles) -> PythonRule:
    """Return a rule in Python, if its code may run or be skipped.  Raises ValueError."""
    check_reference(reference)
    if contract_files.code is CodeUse.REFUSE:
        raise ValueError("the Python code that a contract file names runs only with --allow-code")
    runs = contract_files.code is CodeUse.RUN
    return PythonRule(on, code, reference, import_function(reference, contract_files.folder) if runs else None)


def _examples(layer: Layer, index: int, table: AnyRuleTable, request: str) -> Iterator[Vector]:
    for name, example in (("breaks", table.breaks), ("keeps", table.keeps)):
        if example is not None:
            with layer.naming("rule", index, name):
                yield _make_example(table, name, example, request, layer.table.example)


def _make_example(table: AnyRuleTable, name: str, example: Example, request: str, usual: ExampleTable) -> Vector:
    """Return an example of a rule; its exchanges have this request, or the usual parts of one, if they name none.

    Raises ValueError.
    """
    exchanges = [ExchangeTable(body=example)] if isinstance(example, str) else example
    for each in exchanges:
        each.headers = usual.headers if each.headers is None else each.headers
        each.request_body = each.request_body or usual.request_body
    traffic = [_exchange(each, each.request or request) for each in exchanges]
    named = {"code": table.code, "name": name, "also": table.also, "shows": ""}
    return msgspec.convert(named | {"exchange": traffic}, Vector)


def _exchange(table: ExchangeTable, request: str) -> dict[str, Any]:
    """Return an exchange as `wiretape.rules.vectors` describes it."""
    if table.status not in list(HTTPStatus):
        raise ValueError(f"expected a registered status, got {table.status}")
    method, _, target = request.partition(" ")
    if not method.isalpha() or not target.startswith("/"):
        raise ValueError(f"expected a request such as GET /tickets/1, got {request!r}")
    for line in [*(table.headers or ()), *(table.response_headers or ())]:
        if not is_header_name(line.partition(":")[0]) or not line.isprintable() or ":" not in line:
            raise ValueError(f"expected a header such as Last-Event-ID: 7, got {line!r}")
    exchange: dict[str, Any] = msgspec.to_builtins(table)
    given = table.response_headers
    if given is not None and header(read_headers(given), "content-type") is None:
        exchange["response_headers"] = [*default_headers(table.status), *given]
    return exchange | {"request": request, "headers": table.headers or []}
