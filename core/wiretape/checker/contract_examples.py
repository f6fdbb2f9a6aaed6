"""Examples of contracts: run them, and compare what the checker finds with what they are for."""

from collections.abc import Iterator
from dataclasses import dataclass

from wiretape.checker.checker import Checker
from wiretape.checker.selection import Settings
from wiretape.contract.contract_model import Contract
from wiretape.rules.catalogue import RuleSet
from wiretape.rules.finding import Finding
from wiretape.rules.vectors import Vector


@dataclass(frozen=True, slots=True)
class ExampleResult:
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
    findings = [finding for seen in example.observations(piece) for finding in checker.feed(seen)]
    return findings + checker.finish(), checker


def _find_problem(contract: Contract, example: Vector) -> str:
    findings, checker = find_in_example(contract, example)
    found = {finding.code: finding for finding in findings}
    tally = checker.tallies()[example.code]
    if example.breaks and example.code not in found:
        reasons = "".join(f"; inconclusive: {reason}" for reason in tally.reasons)
        return f"expected a finding of {example.code}, got {', '.join(found) or 'none'}{reasons}"
    allowed = {*example.also, *([example.code] if example.breaks else [])}
    if other := [finding for code, finding in found.items() if code not in allowed]:
        return f"expected no finding of {other[0].code}, got: {other[0].message}"
    if not example.breaks and not tally.held:
        reasons = "".join(f": {reason}" for reason in tally.reasons)
        return f"expected {example.code} to be exercised and to hold, but it was not{reasons}"
    return ""
