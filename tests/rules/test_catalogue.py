"""The catalogue of rules."""

import re

import pytest

from wiretape.rules import CATALOGUE, Severity
from wiretape.rules.catalogue import HELD, MESSAGE, rule
from wiretape.rules.vectors import vectors_of

ROWS = """
DUR001 id-without-sequence      stated   error   service message
DUR002 sequence-without-id      stated   error   service message
DUR003 id-disagrees             stated   error   service message
DUR004 delta-with-id            stated   error   service message
DUR005 delta-with-sequence      stated   error   service message
DUR006 stored-event-without-id  stated   error   service message
DUR007 unrequested-delta        stated   error   service stream
ERR001 not-an-envelope          stated   error   service exchange
ERR002 envelope-field-malformed stated   error   service exchange
ERR003 unknown-error-code       stated   error   service exchange
ERR004 status-disagrees         stated   error   service exchange
SEQ001 sequence-not-increasing  stated   error   service stream
SEQ002 sequence-reused          inferred error   service session
SEQ003 id-reused                inferred error   service stream
SEQ004 sequence-gap             inferred note    service stream
SEQ005 created-at-going-back    inferred note    service stream
SSE001 invalid-utf8             stated   error   service message
SSE002 message-cut-off          inferred warning service stream
SSE003 unknown-field            stated   note    service message
SSE004 nul-in-id                stated   error   service message
SSE005 repeated-field           stated   warning service message
SSE006 missing-event-line       stated   error   service message
SSE007 wrong-content-type       stated   error   service exchange
SSE008 message-without-data     inferred note    service message
SSE009 compressed-stream        inferred note    service exchange
SSE010 unusable-retry           inferred warning service message
SSE011 id-unfit-for-header      inferred warning service message
"""


def test_rows_are_never_changed():
    """A code once published keeps its name and meaning; what is new is added here."""
    found = [(r.code, r.name, r.basis, r.severity, r.side, r.scope) for r in CATALOGUE.values()]
    assert found == [tuple(line.split()) for line in ROWS.strip().splitlines()]


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_rule_has_a_quoted_clause_and_says_what_breaks_it(code):
    row = CATALOGUE[code]
    assert re.search(r'"[^"]+"', row.clause)
    assert row.about.endswith(".")


@pytest.mark.parametrize("code", CATALOGUE)
def test_every_rule_has_a_vector_that_breaks_it_and_one_that_keeps_it(code):
    names = {vector.name for vector in vectors_of(code)}
    assert {"breaks", "keeps"} <= names


def test_a_code_cannot_be_registered_twice():
    with pytest.raises(ValueError, match="SSE001"):

        @rule("SSE001", "again", at=MESSAGE, clause="", severity=Severity.NOTE)
        def again(_message, _stream):
            """It is there already."""
            return HELD
