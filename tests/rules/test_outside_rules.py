"""Rules of other packages, checked together with the built-in ones."""

import re
import types

import pytest

from wiretape import check_stream
from wiretape.checker import BUILT_IN, CATALOGUE, Checker, Settings, UnknownCodeError, codes_of, selected
from wiretape.rules import (
    ERROR_RESPONSE,
    EVENT,
    HELD,
    REQUEST,
    Basis,
    Check,
    Explanation,
    Inconclusive,
    Later,
    Party,
    Problem,
    Scope,
    Severity,
    Shape,
    Verdict,
    catalogue_of,
    problem,
    quote,
    rule,
    rules_in,
)
from wiretape.rules.vectors import observations_of

CLAUSE = 'ACME handbook, part 3: "Every message names its author."'
STREAM = "GET /v1/sessions/ses_1/events/stream?event_deltas=true"
DELTA = 'event: message.delta\ndata: {"type":"message.delta","run_id":"run_1","delta":{"text":"Hi"}}\n\n'


@rule(
    "ACME001",
    "author-missing",
    on=EVENT,
    shapes=frozenset({Shape.DELTA}),
    severity=Severity.WARNING,
    clause=CLAUSE,
    explanation=Explanation(why="Readers ask who wrote it.", not_exercised="No delta arrived."),
)
def author_missing(event, _stream):
    """A delta does not name its author."""
    if "author" in event.document:
        return HELD
    return problem(f"Expected an `author` in a {quote(event.type)}, got none.")


def check(body, rules, settings=None, **exchange):
    table = {"request": STREAM, "body": body} | exchange
    checker = Checker(settings, rules=rules)
    findings = [found for each in observations_of({"exchange": [table]}) for found in checker.feed(each)]
    return findings + checker.finish(), checker


def test_a_rule_of_another_package_is_checked_with_the_built_in_ones():
    findings, checker = check(DELTA.replace("event: message.delta\n", ""), [*BUILT_IN, author_missing])
    assert [(f.code, f.severity, f.side, f.event) for f in findings] == [
        ("ACME001", Severity.WARNING, Party.SERVICE, 1),
        ("SSE006", Severity.ERROR, Party.SERVICE, 1),
    ]
    assert findings[0].message == "Expected an `author` in a `message.delta`, got none."
    assert checker.verdicts()["ACME001"] is Verdict.FAIL
    assert list(checker.catalogue) == sorted([*CATALOGUE, "ACME001"])


def test_other_checkers_of_the_process_do_not_know_the_rule():
    check(DELTA, [*BUILT_IN, author_missing])
    findings, checker = check(DELTA, BUILT_IN)
    assert findings == []
    assert "ACME001" not in checker.verdicts()
    assert "ACME001" not in CATALOGUE


def test_a_checker_can_run_a_few_rules_only():
    findings, checker = check(DELTA, [author_missing])
    assert [f.code for f in findings] == ["ACME001"]
    assert list(checker.verdicts()) == ["ACME001"]


def test_a_rule_holds_and_is_not_exercised():
    assert check(DELTA.replace('"run_id"', '"author":"me","run_id"'), [author_missing])[1].verdicts() == {
        "ACME001": Verdict.PASS
    }
    assert check("", [author_missing])[1].verdicts() == {"ACME001": Verdict.NOT_EXERCISED}


def test_a_rule_does_not_run_on_streams_of_other_apis():
    _, checker = check(DELTA, [*BUILT_IN, author_missing], request="GET /feed")
    assert checker.verdicts()["ACME001"] is Verdict.NOT_EXERCISED


def test_the_catalogue_is_read_only():
    with pytest.raises(TypeError, match="does not support item assignment"):
        CATALOGUE["ACME001"] = author_missing
    with pytest.raises(AttributeError):
        author_missing.severity = Severity.ERROR


def test_settings_apply_to_a_rule_of_another_package():
    rules = [*BUILT_IN, author_missing]
    (finding,), _ = check(DELTA, rules, Settings(severities={"ACME001": Severity.NOTE, "SEQ001": Severity.ERROR}))
    assert finding.severity is Severity.NOTE
    findings, checker = check(DELTA, rules, Settings(off=frozenset({"ACME001"})))
    assert findings == []
    assert checker.verdicts()["ACME001"] is Verdict.NOT_EXERCISED


def test_a_rule_of_another_package_can_be_selected_by_its_family():
    catalogue = catalogue_of([*BUILT_IN, author_missing])
    assert codes_of("acme", catalogue) == {"ACME001"}
    assert selected(["ACME", "SEQ001"], [], catalogue) == {"ACME001", "SEQ001"}
    assert selected([], ["ALL"], catalogue) == frozenset()
    with pytest.raises(UnknownCodeError, match=re.escape("did you mean ACME001?")):
        codes_of("ACEM01", catalogue)
    with pytest.raises(UnknownCodeError):
        codes_of("ACME")


def test_a_rule_brings_its_explanation():
    assert author_missing.about == "A delta does not name its author."
    assert author_missing.explanation.why == "Readers ask who wrote it."
    assert CATALOGUE["SEQ001"].explanation.why


def test_the_rules_of_a_module_are_found():
    module = types.ModuleType("acme_rules")
    module.author_missing, module.other = author_missing, 5
    assert rules_in(module) == [author_missing]


def test_the_function_of_a_rule_can_be_called():
    assert author_missing.check(types.SimpleNamespace(document={"author": "me"}), None) is HELD


def test_a_rule_sees_events_of_its_own_types_and_shapes():
    seen = []

    @rule("ACME002", "custom-type", on=EVENT, types=frozenset({"acme.priced"}), clause=CLAUSE)
    def custom_type(event, stream):
        """Never broken."""
        seen.append((event.number, event.type, stream.session.id))
        return HELD

    body = f'{DELTA}event: acme.priced\ndata: {{"type":"acme.priced"}}\n\n{DELTA}'
    _, checker = check(body, [custom_type])
    assert seen == [(2, "acme.priced", "ses_1")]
    assert checker.tallies()["ACME002"].held == 1


def test_a_rule_can_remember_something_about_a_session():
    @rule("ACME003", "greeting-repeated", on=EVENT, scope=Scope.SESSION, basis=Basis.INFERRED, clause=CLAUSE)
    def greeting_repeated(event, stream):
        """The same text arrives twice in a row."""
        text, last = event.data, stream.session.memory.get("ACME003")
        stream.session.memory["ACME003"] = text
        if last is None:
            return None
        return problem("Expected another text, got the same.") if text == last else HELD

    rules = [*BUILT_IN, greeting_repeated]
    assert [f.code for f in check(DELTA * 3, rules)[0]] == ["ACME003"] * 2
    assert check(DELTA, rules)[0] == []


def test_a_rule_can_run_on_several_triggers_and_wait():
    def refused(body, exchange):
        return problem(f"Expected no refusal of exchange {exchange.number}, got {body.code}.")

    @rule("ACME004", "slow", on=REQUEST, side=Party.CLIENT, clause=CLAUSE, also=[Check(ERROR_RESPONSE, refused)])
    def slow(exchange):
        """A request waits for nothing."""
        due_ns = exchange.request.time_ns
        return Later(due_ns, lambda now_ns: problem(f"Expected no wait, got {now_ns - due_ns} ns."))

    body = '{"error":{"code":"invalid_request","message":"No.","request_id":"req_1"}}'
    findings, _ = check(body, [slow], status=400)
    assert [f.message for f in findings] == [
        "Expected no wait, got 1000000 ns.",
        "Expected no refusal of exchange 1, got invalid_request.",
    ]


def test_two_rules_cannot_have_one_code():
    @rule("SSE001", "other-name", on=EVENT, clause=CLAUSE)
    def same_code(_event, _stream):
        """Has the code of a built-in rule."""

    with pytest.raises(ValueError, match="Two rules have the code SSE001"):
        Checker(rules=[*BUILT_IN, same_code])


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        ("acme001", "a-name", "Invalid code 'acme001': expected a family and three digits, for example ACME001."),
        ("ACME1", "a-name", "Invalid code 'ACME1'"),
        ("ACME001", "A Name", "Invalid name 'A Name': expected kebab-case, for example id-disagrees."),
    ],
)
def test_codes_and_names_have_a_form(code, name, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        rule(code, name, on=EVENT, clause=CLAUSE)


def test_a_rule_needs_a_docstring():
    with pytest.raises(ValueError, match="Rule ACME006 has no docstring"):

        @rule("ACME006", "no-docstring", on=EVENT, clause=CLAUSE)
        def no_docstring(_event, _stream):
            return None


# What a rule declares about its findings.


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
