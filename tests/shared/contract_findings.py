"""What the rules of a contract find in traffic, and whether its examples do what they are for."""

from wiretape.checker import Checker, Settings
from wiretape.checker.contract_examples import check_examples, find_in_example


def find_codes(contract, traffic):
    """Return the codes of the findings in traffic, each once."""
    checker = Checker(Settings(contracts=(contract,)))
    found = [each for seen in traffic.observations() for each in checker.feed(seen)] + checker.finish()
    return sorted({each.code for each in found})


def assert_examples_hold(contract):
    """Each example of a contract does what it is for, whole and in pieces of one byte."""
    assert [result.problem for result in check_examples(contract) if result.problem] == []
    for example in contract.examples:
        whole, _ = find_in_example(contract, example)
        in_bytes, _ = find_in_example(contract, example, 1)
        assert [(each.code, each.message) for each in in_bytes] == [(each.code, each.message) for each in whole]
