"""The filter grammar: what is written, what it means, what is wrong with it."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.errors import InputError
from wiretape_inspect.view.conditions import FIELDS, GLOBS, KINDS, NUMBERS, Filter, Regex, Term, Text, document
from wiretape_inspect.view.filters import parse
from wiretape_inspect.view.matching import Subject, taker
from wiretape_inspect.view.patterns import glob, regex_fault
from wiretape_inspect.view.ranges import Range

VECTORS = json.loads(Path(__file__).with_name("filters.json").read_text(encoding="utf-8"))

WORDS = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"], exclude_characters='",'), min_size=1).filter(
    lambda word: not any(char.isspace() for char in word)
)
LITERALS = st.builds(Text, st.text(st.characters(exclude_categories=["Cs"])), st.just(True))
REGEXES = st.sampled_from([r"a+", r"[/]x", r"\d{2}", r"a\\/b", r"^a.*b$", "(?:a|b)c", "é"]).map(Regex)
GLOBBED = st.builds(Text, WORDS) | LITERALS
SEARCHED = st.builds(Text, WORDS.filter(lambda word: word[0] != "/")) | LITERALS | REGEXES


def ranges(low, high):
    numbers = st.integers(low, high)
    both = st.tuples(numbers, numbers).map(lambda pair: Range(min(pair), max(pair)))
    return both | numbers.map(lambda number: Range(low=number)) | numbers.map(lambda number: Range(high=number))


VALUES = {
    **dict.fromkeys(GLOBS, GLOBBED),
    "kind": st.sampled_from(KINDS).map(Text),
    "text": SEARCHED,
    **dict.fromkeys(NUMBERS, ranges(-5, 10**20)),
    "gap": ranges(0, 10**15),
}
TERMS = st.sampled_from(FIELDS).flatmap(
    lambda field: st.builds(
        Term, st.just(field), st.lists(VALUES[field], min_size=1, max_size=3).map(tuple), st.booleans()
    )
)
FILTERS = st.lists(st.lists(TERMS, min_size=1, max_size=3).map(tuple), max_size=3).map(tuple).map(Filter)


@settings(max_examples=50)
@given(FILTERS)
def test_what_is_printed_says_the_same(whole):
    assert parse(str(whole)) == whole


@settings(max_examples=50)
@given(st.text(st.sampled_from('abortypeseq:*.,"/\\- 0123>=.s()'), max_size=30))
def test_whatever_is_written_is_read_or_told_in_one_sentence(written):
    whole, said = read(written)
    if whole is None:
        assert re.fullmatch(r"Filter, at character \d+: .*[.?]", said)
    else:
        assert parse(str(whole)) == whole


def read(written):
    """The filter, or what is said to be wrong with it."""
    try:
        return parse(written), ""
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["filter"])
def test_a_filter_takes_what_it_says(case):
    take = taker(parse(case["filter"]))
    taken = [at for at, said in enumerate(VECTORS["subjects"]) if take is None or take(subject(said))]
    assert taken == case["takes"]


def subject(said):
    said = {**said, "kinds": tuple(said["kinds"]), "codes": tuple(said.get("codes", ()))}
    texts = tuple(said.pop("texts", ()))
    return Subject(**{"session": None, **said}, texts=lambda: texts)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("tpe:x", "at character 1: there is no field `tpe`; did you mean `type`?"),
        ("type:a  sq:1", "at character 9: there is no field `sq`; did you mean `seq`?"),
        ("zzzzzz:1", "there are type, kind,"),
        ("kind:dleta", "at character 6: there is no kind `dleta`; did you mean `delta`?"),
        ("kind:*", "there are message, durable,"),
        ("type:", "at character 6: a value of `type` is missing here."),
        ("type:a,", "at character 8: a value of `type` is missing here."),
        ("seq:4o", "at character 5: '4o' is no value of `seq`: write a number, a range like 40..60, or >40."),
        ("seq:9..3", "it ends before it begins"),
        ("seq:..", "write a number before or after the two dots"),
        ("gap:>1", "write a time with its unit"),
        ("gap:<0s", "no time is shorter than none"),
        ('"open', "at character 1: the quotation mark is not closed."),
        (r'"\x"', "at character 2: after a backslash only"),
        ("/open", "at character 1: the / at the end of the regular expression is missing."),
        ("/(/", "at character 1: the regular expression cannot be read:"),
        ("//", "the regular expression is empty"),
        ("/(a+)+/", "at character 1: the regular expression repeats what repeats"),
        ('"a"b', 'at character 4: a space is missing after "a".'),
        ("or a", "at character 1: `or` stands between two conditions."),
        ("a or", "at character 5: a condition is missing after `or`."),
        ("a or or b", "`or` stands between"),
        ("- a", "at character 1: a condition is missing after `-`."),
        ("\x1b[2J:1", "there is no field `\\x1b[2J`"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(written, said):
    with pytest.raises(InputError) as told:
        parse(written)
    assert said in str(told.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a|aa)+",
        "(?:a*b*)*",
        "((ab)*)*",
        "(a{2,}){3}",
        "([)]+)*",
        r"(a)\1",
        "(?P<x>a)(?P=x)",
        "(a)(?(1)b|c)",
        "(?x)a",
        "(?#()a",
        "a*b*c*d*",
        "x" * 201,
    ],
)
def test_patterns_that_could_take_forever_are_refused(pattern):
    assert regex_fault(pattern)


@pytest.mark.parametrize(
    "pattern", ["a+b*", "(ab)+", "(a|b)", "(a|b)?", "[(a+)]+", r"\(a+\)+", "(?:ab){2,3}", "^x.*y$", r"\d+ms", "a+?"]
)
def test_ordinary_patterns_are_taken(pattern):
    assert regex_fault(pattern) is None


@settings(max_examples=50)
@given(st.text(st.sampled_from("ab*?"), max_size=8), st.text(st.sampled_from("ab"), max_size=10))
def test_a_glob_is_like_the_plain_expression(pattern, text):
    plain = "".join({"*": ".*", "?": "."}.get(char, char) for char in pattern)
    assert bool(glob(pattern).fullmatch(text)) is bool(re.fullmatch(plain, text))


def test_a_glob_with_many_stars_is_quick():
    assert not glob("*a" * 30 + "b").fullmatch("a" * 20_000)


def test_the_document_says_all_of_it():
    assert document(parse('type:tool.* -gap:>1s or "a b"')) == {
        "text": 'type:tool.* -gap:>=1000000001ns or "a b"',
        "groups": [
            [
                {"field": "type", "negated": False, "values": [{"text": "tool.*", "literal": False}]},
                {"field": "gap", "negated": True, "values": [{"low": 1_000_000_001, "high": None}]},
            ],
            [{"field": "text", "negated": False, "values": [{"text": "a b", "literal": True}]}],
        ],
    }
