"""What a project sets about the rules, and what a rule declares about its findings."""

from wiretape import check, check_stream
from wiretape.rules import (
    BUILT_IN,
    EVENT,
    Inconclusive,
    Problem,
    Scope,
    Settings,
    Severity,
    Verdict,
    problem,
    rule,
)
from wiretape.rules.vectors import vectors_of


def judged(code, settings=None):
    (vector,) = [vector for vector in vectors_of(code) if vector.name == "breaks"]
    result = check(vector.observations(), settings=settings)
    return [(finding.code, finding.severity) for finding in result.findings], result.verdicts


def test_the_severity_of_a_rule_can_be_set():
    findings, verdicts = judged("SEQ001", Settings(severities={"SEQ001": Severity.NOTE}))
    assert findings == [("SEQ001", Severity.NOTE)]
    assert verdicts["SEQ001"] is Verdict.FAIL


def test_other_rules_keep_their_severity():
    assert judged("SEQ001", Settings(severities={"SEQ002": Severity.NOTE}))[0] == [("SEQ001", Severity.ERROR)]


def test_a_rule_that_is_off_does_not_run():
    findings, verdicts = judged("SEQ001", Settings(off=frozenset({"SEQ001"})))
    assert findings == []
    assert verdicts["SEQ001"] is Verdict.NOT_EXERCISED


PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def test_a_rule_that_is_off_still_explains_what_other_rules_do_not_report():
    assert [f.code for f in check_stream(PING).findings] == ["KAL002"]
    result = check_stream(PING, settings=Settings(off=frozenset({"KAL002"})))
    assert (result.findings, result.verdicts["KAL002"]) == ((), Verdict.NOT_EXERCISED)


def messages(function, stream=2 * PING, **declared):
    """What a rule with this function reports about a stream, beside the built-in rules."""
    acme = rule("ACME001", "acme", on=EVENT, clause='ACME: "No."', **declared)(function)
    result = check_stream(stream, rules=[*BUILT_IN, acme])
    return [f.message for f in result.findings if f.code == "ACME001"], result.verdicts["ACME001"]


def many(event, _stream):
    """Always broken, in 22 ways, one of which is about the event."""
    return [Problem(f"{number}", subject=number) for number in [event.number, *range(10, 31)]]


def unclear(_event, _stream):
    """Never decided."""
    return Inconclusive("it is")


def odd(event, _stream):
    """Broken by an event with an odd number."""
    return problem("odd") if event.number % 2 else None


def test_a_rule_reports_each_subject_once_for_each_session():
    numbers = [str(number) for number in range(10, 31)]
    assert messages(many) == (["1", *numbers, "2", *numbers], Verdict.FAIL)
    assert messages(many, once_per=Scope.SESSION)[0] == ["1", *numbers, "2"]
    assert messages(many, once_per=Scope.STREAM)[0] == ["1", *numbers, "2"]


def test_a_problem_that_another_rule_reports_does_not_count_as_reported():
    stream = PING + b": not about a ping\ndata: {}\n\n"
    assert messages(many, stream, once_per=Scope.SESSION, unless=["KAL002"])[0][:2] == ["2", "10"]


def test_a_rule_reports_the_first_of_very_many_problems():
    more = "Expected no more problems, got 2 more things like these."
    first = [*map(str, range(10, 29)), more]
    assert messages(many, noun="things")[0] == ["1", *first, "2", *first]


def test_a_rule_reports_nothing_that_another_rule_reports():
    assert messages(many, unless=["KAL002", "SSE001"]) == ([], Verdict.NOT_EXERCISED)
    assert len(messages(many, unless=["SSE001"])[0]) == 44
    assert "10" not in messages(many, unless={10: ["KAL002"], 11: ["SSE001"]})[0]
    assert messages(unclear, unless=["KAL002"])[1] is Verdict.NOT_EXERCISED
    assert messages(unclear, unless={10: ["KAL002"]})[1] is Verdict.INCONCLUSIVE
    assert messages(odd, unless=["SSE001"]) == (["odd"], Verdict.FAIL)
