"""Every vector gives what its name says, whatever pieces its bytes arrive in."""

import tomllib
from functools import cache

import pytest
from for_each import for_each

from wiretape import check
from wiretape.checker import CATALOGUE
from wiretape.rules import Verdict
from wiretape.rules.vectors import observations_of, vectors

TWO_DEFECTS = {"RES004-breaks-after-repetition", "REC003-breaks", "REC003-keeps"}
"""The vectors whose traffic is about two defects; a compressed stream is one of its own."""


@cache
def judged(vector, piece=None):
    """What is found in a vector, and the verdicts; each is judged once, however many tests ask."""
    result = check(vector.observations(piece))
    return result.findings, result.verdicts


def own(vector, findings):
    """The findings, but for those that the vector says come also; they must."""
    others = [finding.code for finding in findings if finding.code in vector.also]
    assert others == [code for code in vector.also if code in CATALOGUE]
    return [finding for finding in findings if finding.code not in vector.also]


def named(vector):
    return f"{vector.code}-{vector.name}"


@for_each("vector", [v for v in vectors() if v.breaks], ids=named)
def test_a_breaking_vector_has_one_finding_with_its_code(vector):
    findings, verdicts = judged(vector)
    row = CATALOGUE[vector.code]
    assert [(f.code, f.severity, f.side) for f in own(vector, findings)] == [
        (row.code, vector.severity or row.severity, row.side)
    ]
    assert verdicts[vector.code] is Verdict.FAIL


@for_each("vector", [v for v in vectors() if not v.breaks], ids=named)
def test_a_keeping_vector_exercises_the_rule_without_findings(vector):
    findings, verdicts = judged(vector)
    assert own(vector, findings) == []
    assert verdicts[vector.code] is Verdict.PASS


@pytest.mark.parametrize("piece", [1, 7])
@for_each("vector", vectors(), ids=named)
def test_pieces_make_no_difference(vector, piece):
    whole, verdicts = judged(vector)
    in_pieces, verdicts_in_pieces = judged(vector, piece)

    def places(findings):
        return [(f.code, f.exchange, f.event, f.sequence, f.byte_offset, f.message) for f in findings]

    assert places(whole) == places(in_pieces)
    assert verdicts == verdicts_in_pieces


def test_every_vector_is_of_a_rule_and_named_for_what_it_does():
    for vector in vectors():
        assert vector.code in CATALOGUE
        assert vector.name.split("-")[0] in {"breaks", "keeps"}
        assert vector.shows.endswith(".")
        assert not vector.also or vector.code.startswith("AUTH") or named(vector) in TWO_DEFECTS


def test_times_in_a_vector_strictly_increase():
    for vector in vectors():
        times = [seen.time_ns for seen in vector.observations(1)]
        assert times == sorted(set(times))


def test_an_unknown_key_in_a_vector_is_refused():
    with pytest.raises(ValueError, match="statsu"):
        observations_of({"exchange": [{"request": "GET /", "statsu": 404}]})


def test_exchanges_of_a_vector_may_overlap_lose_bytes_and_stay_open():
    document = tomllib.loads("""
        [[exchange]]
        request = "GET /a"
        at = 1
        ending = "open"
        part = [{ text = "a" }, { lost = 5, after = 2 }, { text = "b" }]

        [[exchange]]
        request = "GET /b"
        at = 2
        status = 0
        ending = "service-unreachable"
        """)
    observations = observations_of(document)
    seen = [(type(o).__name__, o.exchange) for o in observations]
    assert seen == [
        ("RequestStarted", 1),
        ("RequestEnded", 1),
        ("ResponseStarted", 1),
        ("BytesArrived", 1),
        ("RequestStarted", 2),
        ("RequestEnded", 2),
        ("ExchangeEnded", 2),
        ("BytesLost", 1),
        ("BytesArrived", 1),
    ]
    assert [o.start for o in observations if hasattr(o, "start")] == [0, 1, 6]
