"""Examples of contracts: run them, and compare what the checker finds with what they are for."""

from collections.abc import Iterator

from msgspec import Struct

from wiretape.checker.checker import Checker
from wiretape.checker.selection import Settings
from wiretape.contract.contract_facts import ContractChoice
from wiretape.contract.contract_model import Contract
from wiretape.event import Event
from wiretape.frame_reader import StreamReaders
from wiretape.observations import RequestStarted
from wiretape.patterns import Globs, list_of
from wiretape.rules.catalogue import RuleSet
from wiretape.rules.finding import Finding
from wiretape.rules.vectors import Vector
from wiretape.safe_text import shorten

_LIVES = ("opens", "continues", "closes")
_TEXTS = ("deltas", "final", "begins")


class ExampleResult(Struct, frozen=True):
    """What the checker finds in an example."""

    example: Vector
    problem: str
    """Why the example does not do what it is for; empty if it does."""


def check_examples(contract: Contract) -> Iterator[ExampleResult]:
    """Run every example of a contract, and yield the results in the order of the rules."""
    for example in contract.examples:
        yield ExampleResult(example, _find_problem(contract, example))


def find_in_example(
    contract: RuleSet | None, example: Vector, piece: int | None = None
) -> tuple[list[Finding], Checker]:
    """Return the findings in an example, and the checker; with `piece`, bodies arrive in pieces of that many bytes.

    The contract is None for the built-in rules.
    """
    checker = Checker(Settings(contracts=() if contract is None else (contract,)))
    return list(checker.check(example.observations(piece))), checker


def find_unused_types(contract: Contract) -> dict[str, str]:
    """Return the types of events that a contract names and none of its examples has, each with a key that names it.

    They may be misspelt.  Types that it inherits are left out.
    """
    readers = StreamReaders(ContractChoice([contract]).format_of)
    examples = (seen for example in contract.examples for seen in example.observations())
    used = {each.type for seen in examples for each in readers.read(seen).frames if isinstance(each, Event)}
    inherited = {} if contract.parent is None else _named_types(contract.parent)
    named = _named_types(contract).items()
    return {types: key for types, key in named if types not in inherited and not any(map(Globs(types).matches, used))}


def _named_types(contract: Contract) -> dict[str, str]:
    """Return the types that entities and deltas have, and durable ones, each with the first key that names it."""
    facts = contract.format
    keys = [(f"entity.{each.name}.{key}", getattr(each, key)) for each in contract.entities.values() for key in _LIVES]
    keys += [("event.durable", facts.durable), ("event.delta", facts.deltas)]
    keys += [("event.delta.text", types) for types, _ in facts.texts]
    texts = [
        (f"text.{name}.{key}", getattr(each, key)) for name, each in contract.joined_texts.items() for key in _TEXTS
    ]
    found: dict[str, str] = {}
    for key, types in [*((key, types.patterns) for key, types in keys if types), *texts]:
        for each in list_of(types):
            found.setdefault(each, key)
    return found


def _describe_unmatched(contract: Contract, example: Vector) -> str:
    """Return what to add about the first request of an example that the contract has no operation for."""
    for seen in example.observations():
        if isinstance(seen, RequestStarted) and contract.find_operation(seen.method, seen.target)[0] is None:
            return f"; no operation matches {shorten(f'{seen.method} {seen.target}')}"
    return ""


def _find_problem(contract: Contract, example: Vector) -> str:
    findings, checker = find_in_example(contract, example)
    found = {finding.code: finding for finding in findings}
    tally = checker.tallies()[example.code]
    if example.breaks and example.code not in found:
        reasons = "".join(f"; inconclusive: {reason}" for reason in tally.reasons)
        unmatched = _describe_unmatched(contract, example)
        return f"expected a finding of {example.code}, got {', '.join(found) or 'none'}{reasons}{unmatched}"
    allowed = {*example.also, *([example.code] if example.breaks else [])}
    if other := [finding for code, finding in found.items() if code not in allowed]:
        return f"expected no finding of {other[0].code}, got: {other[0].message}"
    if not example.breaks and not tally.held:
        reasons = "".join(f": {reason}" for reason in tally.reasons)
        return f"expected {example.code} to be exercised and to hold, but it was not{reasons}"
    return ""
