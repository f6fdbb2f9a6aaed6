"""Compare a contract with new recordings: what they contradict, and what they add."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from msgspec import to_builtins
from tomlkit.items import InlineTable

from wiretape.checker import Checker, Settings
from wiretape.checker.contract_examples import check_examples, find_in_example
from wiretape.contract import CodeUse
from wiretape.contract.contract_builder import PRIMITIVES, build_contract
from wiretape.contract.contract_files import ContractFiles, read_layers
from wiretape.contract.contract_model import Contract
from wiretape.errors import InputError
from wiretape.labels import count_of
from wiretape.rules.finding import Finding
from wiretape.toml_files import parse_toml
from wiretape_inspect.learning.draft_text import inline, operation_tables, rule_tables, type_tables
from wiretape_inspect.learning.example_search import ExampleSearch
from wiretape_inspect.learning.learner import Learned, Learner, set_codes
from wiretape_inspect.learning.path_templates import unique_name
from wiretape_inspect.learning.rule_drafts import RuleDraft, subject_of
from wiretape_inspect.learning.value_shape import ValueShape


@dataclass(slots=True)
class Contradiction:
    """The findings of one rule."""

    first: Finding
    file: str
    """The recording with the first one."""
    findings: int = 0


@dataclass(slots=True)
class ContractUpdate:
    """What new recordings say about a contract."""

    contradictions: dict[str, Contradiction] = field(default_factory=dict)
    """By the code of the rule."""
    additions: list[str] = field(default_factory=list)
    """What is new, each in a few words."""
    text: str = ""
    """The contract with the additions."""
    refuted: list[str] = field(default_factory=list)
    """Rules that hold in the recordings, but not in an example of the contract, each in a few words."""


class ContractUpdater:
    """Compares one contract with recordings."""

    def __init__(self, path: Path, text: str, contract: Contract, learner: Learner, least: int) -> None:
        self._path = path
        self._text = text
        self._contract = contract
        self._learner = learner
        self._least = least
        self._document = parse_toml(text, str(path))

    def compare(self, code: CodeUse) -> ContractUpdate:
        """Return what the recordings contradict, and what they add.  Raises InputError."""
        update = ContractUpdate(self._contradictions())
        type_place = str(self._contract.format.type or "event")
        learned = self._learner.learn(self._learner.operations(), type_place, self._contract.name)
        operations = self._new_operations(learned)
        update.additions += [f"operation {each['request']}" for each in operations.values()]
        types = {name: table for name, table in learned.draft.types.items() if name not in self._contract.types}
        update.additions += [f"type {name} ({count_of(learned.survey.types[name].events, 'event')})" for name in types]
        edited = self._add_keys(learned, update)
        rules = self._new_rules(learned)
        taken = {rule.name for rule in self._contract.rules}
        for rule in rules:
            rule.name = unique_name(rule.name, taken, "-")
            taken.add(rule.name)
        set_codes(rules, *self._next_code())
        self._check_additions({"operations": operations, "types": types})
        head = "\n".join([edited.rstrip("\n") + "\n", *operation_tables(operations), *type_tables(types)])
        contract = self._build("\n".join([head, *rule_tables(rules, all_rules=True)]), code)
        rules, _ = self._learner.keep_true(rules, contract)
        refuted = _find_refuted(contract, rules)
        update.refuted += [f"rule {rule.name}: {refuted[rule.code]}" for rule in rules if rule.code in refuted]
        rules = [rule for rule in rules if not rule.is_weak and rule.code not in refuted]
        set_codes(rules, *self._next_code())
        contract = self._build("\n".join([head, *rule_tables(rules, all_rules=True)]), code)
        ExampleSearch(contract, rules).run(learned.samples)
        rules = [rule for rule in rules if rule.breaks is not None]
        # The contract may add to what the request of an example has.
        results = check_examples(self._build("\n".join([head, *rule_tables(rules)]), code))
        failed = {each.example.code for each in results if each.problem}
        rules = [rule for rule in rules if rule.code not in failed]
        update.additions += [f"rule {rule.name} ({rule.primitive}): {rule.observed}" for rule in rules]
        update.text = "\n".join([head, *rule_tables(rules)]) if update.additions else self._text
        self._build(update.text, code)
        return update

    def _check_additions(self, additions: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise InputError if tables cannot be added to the file."""
        for key, added in additions.items():
            if added and isinstance(tomlkit.parse(self._text).get(key), InlineTable):
                problem = f"{self._path} has {key} between braces, where no table can be added"
                raise InputError(f'{problem}: write a table [{key}."NAME"] for each.')

    def _contradictions(self) -> dict[str, Contradiction]:
        found: dict[str, Contradiction] = {}
        for recording in self._learner.recordings:
            for finding in Checker(Settings(contracts=(self._contract,))).check(recording.observations()):
                if not self._contract.catalogue[finding.code].everywhere:
                    known = found.setdefault(finding.code, Contradiction(finding, str(recording.path)))
                    known.findings += 1
        return dict(sorted(found.items()))

    def _build(self, text: str, code: CodeUse) -> Contract:
        files = ContractFiles(self._path.parent, {self._path.name: text}, code=code)
        return build_contract(files, self._path.name)

    def _new_operations(self, learned: Learned) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, table in learned.draft.operations.items():
            method, _, path = table["request"].partition(" ")
            example = path.replace("{", "").replace("}", "")
            if table.get("stream", True) and self._contract.find_operation(method, example)[0] is None:
                known = [*(each.name for each in self._contract.operations), *found]
                found[unique_name(name, known, "-")] = table
        return found

    def _add_keys(self, learned: Learned, update: ContractUpdate) -> str:
        """Add new keys to the schemas in the file, and return its text."""
        edited, expected = tomlkit.parse(self._text), parse_toml(self._text, str(self._path))
        has_changed = False
        for name, table in self._document.get("types", {}).items():
            survey = learned.survey.types.get(name)
            for path, key, shape in [] if survey is None else survey.shape.new_keys(table.get("schema")):
                update.additions.append(f"field {path}/{key} of type {name} ({_types_of(shape)})")
                for document, value in (
                    (edited, inline(shape.schema(self._least))),
                    (expected, shape.schema(self._least)),
                ):
                    place: Any = document["types"][name]["schema"]
                    for step in path.split("/")[1:]:
                        place = place["properties"][step]
                    place["properties"][key] = value
                has_changed = True
        text = tomlkit.dumps(edited) if has_changed else self._text
        if has_changed and parse_toml(text, str(self._path)) != expected:
            raise InputError(f"{self._path} cannot be edited: write its schemas as tables with a header of their own.")
        return text

    def _new_rules(self, learned: Learned) -> list[RuleDraft]:
        """Return the rules that the contract does not have, about facts and entities that it has."""
        layers = read_layers(ContractFiles(self._path.parent, code=CodeUse.SKIP), self._path.name)
        given = [(key, getattr(rule, key)) for layer in layers for rule in layer.rules for key in PRIMITIVES]
        known = [(key, subject_of(key, to_builtins(value))) for key, value in given if value not in (None, False, True)]
        names = self._entity_names(learned.draft.entities)
        found = []
        for rule in learned.draft.rules:
            if isinstance(rule.value, dict) and "entity" in rule.value:
                if rule.value["entity"] not in names:
                    continue
                rule.value = {**rule.value, "entity": names[rule.value["entity"]]}
            if not rule.is_weak and self._can_say(rule, learned) and (rule.primitive, rule.subject) not in known:
                found.append(rule)
        return found

    def _can_say(self, rule: RuleDraft, learned: Learned) -> bool:
        """Whether a rule reads facts where the contract has them."""
        facts, place = self._contract.format, learned.draft.event
        if rule.primitive == "counter" and rule.value["fact"] == "sequence":
            return str(facts.sequence) == str(place["sequence"])
        if rule.primitive == "match" and "channel" in rule.value:
            return any(operation.channel for operation in self._contract.operations)
        if rule.primitive == "joined":
            return facts.describe(rule.value["deltas"]).text is not None
        return True

    def _entity_names(self, entities: Mapping[str, dict[str, Any]]) -> dict[str, str]:
        """Return the names that the entities of the contract have among those that were learned."""
        names = {}
        for name, table in entities.items():
            opens: Sequence[str] = [table["opens"]] if isinstance(table["opens"], str) else table["opens"]
            for entity in self._contract.entities.values():
                if all(entity.opens.matches(each) for each in opens):
                    names[name] = entity.name
        return names

    def _next_code(self) -> tuple[str, int]:
        codes = [rule["code"] for rule in self._document.get("rule", [])] or ["LRN000"]
        family = codes[0].rstrip("0123456789")
        return family, 1 + max(int(code[-3:]) for code in codes if code.rstrip("0123456789") == family)


def _find_refuted(contract: Contract, rules: Sequence[RuleDraft]) -> dict[str, str]:
    """Return the codes of the rules with a finding in the examples of others, each with one of these."""
    codes = {rule.code for rule in rules}
    found: dict[str, str] = {}
    for example in contract.examples:
        for finding in find_in_example(contract, example)[0] if example.code not in codes else ():
            if finding.code in codes:
                found.setdefault(finding.code, f"{example.name} of {example.code} has a finding")
    return found


def _types_of(shape: ValueShape) -> str:
    return f"{' or '.join(sorted(shape.types))}, {count_of(shape.count, 'time')}"
