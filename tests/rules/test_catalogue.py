"""The catalogue of rules (`docs/rules` has its facts), and the choice of some by the beginnings of their codes."""

import re

import pytest
from for_each import for_each
from tables import read_tables

from wiretape.checker import CATALOGUE, UnknownCodeError, codes_of, selected
from wiretape.rules.vectors import vectors_of
from wiretape_contracts.agent_sessions import CLAUSES

TABLES = read_tables(__file__)


@for_each("code", CATALOGUE)
def test_every_rule_quotes_its_clause_and_describes_what_breaks_it(code):
    row = CATALOGUE[code]
    assert re.search(r'"[^"]+"', row.clause)
    assert row.about.endswith(".")


@for_each("code", CATALOGUE)
def test_every_rule_has_a_vector_that_breaks_it_and_one_that_keeps_it(code):
    names = {vector.name for vector in vectors_of(code)}
    assert {"breaks", "keeps"} <= names


def test_every_rule_names_a_clause():
    """Of the specification, of the standard for event streams, or about the recording itself."""
    known = CLAUSES | {"WHATWG", "About the recording"}
    assert {rule.code for rule in CATALOGUE.values() if rule.clause.partition(": ")[0] not in known} == set()


SEQUENCE = frozenset(code for code in CATALOGUE if code.startswith("SEQ"))


@for_each("prefix", ["SEQ", "seq", " SEQ ", "SE"])
def test_a_prefix_selects_the_codes_that_begin_with_it(prefix):
    assert codes_of(prefix) >= SEQUENCE
    assert all(code.startswith(prefix.strip().upper()) for code in codes_of(prefix))


def test_all_selects_every_rule():
    assert codes_of("ALL") == codes_of("all") == CATALOGUE.keys()


@for_each(("prefix", "hint"), TABLES["unknown-prefixes"])
def test_an_unknown_prefix_is_reported_with_the_closest_code(prefix, hint):
    with pytest.raises(UnknownCodeError, match="Unknown rule code") as caught:
        codes_of(prefix)
    assert hint in str(caught.value)


@for_each(
    ("select", "ignore", "expected"),
    [
        ((), (), frozenset(CATALOGUE)),
        (("SEQ",), (), SEQUENCE),
        ((), ("SEQ",), frozenset(CATALOGUE) - SEQUENCE),
        (("SEQ",), ("SEQ001",), SEQUENCE - {"SEQ001"}),
        (("SEQ001",), ("SEQ",), {"SEQ001"}),
        (("SEQ",), ("SEQ",), frozenset()),
        (("SEQ",), ("ALL",), SEQUENCE),
    ],
)
def test_the_longer_prefix_wins(select, ignore, expected):
    assert selected(select, ignore) == expected
