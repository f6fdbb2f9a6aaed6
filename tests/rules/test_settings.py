"""What a project sets about the rules."""

from wiretape.rules import Checker, Settings, Severity, Verdict
from wiretape.rules.vectors import vectors_of


def judged(code, settings=None):
    (vector,) = [vector for vector in vectors_of(code) if vector.name == "breaks"]
    checker = Checker(settings)
    findings = [finding for seen in vector.observations() for finding in checker.feed(seen)] + checker.finish()
    return [(finding.code, finding.severity) for finding in findings], checker.verdicts()


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
