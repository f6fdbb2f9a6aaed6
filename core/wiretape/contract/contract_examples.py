"""Examples of contracts: make them of tables, run them, and compare what the checker finds with what they are for."""

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from wiretape.contract.contract_model import Contract
from wiretape.contract.contract_tables import Example, ExchangeTable, RuleTable
from wiretape.observations import header, is_header_name
from wiretape.rules.checker import Checker
from wiretape.rules.finding import Finding
from wiretape.rules.selection import Settings
from wiretape.rules.vectors import Vector, default_headers, read_headers


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """What the checker finds in an example."""

    example: Vector
    problem: str
    """Why the example does not do what it is for; empty if it does."""


def make_example(table: RuleTable, name: str, example: Example, request: str) -> Vector:
    """Return an example of a rule; its exchanges have this request if they name none.  Raises ValueError."""
    exchanges = [ExchangeTable(body=example)] if isinstance(example, str) else example
    traffic = [_exchange(each, each.request or request) for each in exchanges]
    named = {"code": table.code, "name": name, "also": table.also, "shows": "An example of the contract."}
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


def check_examples(contract: Contract) -> Iterator[ExampleResult]:
    """Run every example of a contract, and yield the results in the order of the rules."""
    for example in contract.examples:
        yield ExampleResult(example, _find_problem(contract, example))


def find_in_example(contract: Contract, example: Vector, piece: int | None = None) -> tuple[list[Finding], Checker]:
    """Return the findings in an example, and the checker; with `piece`, bodies arrive in pieces of that many bytes."""
    checker = Checker(Settings(contract=contract))
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
