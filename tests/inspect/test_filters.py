"""The filter grammar, in the cases that the terminal and the page share: which subjects a filter matches."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st

from wiretape.contract import load_contract
from wiretape.contract.vocabulary import vocabulary_of
from wiretape.errors import InputError
from wiretape_inspect.view.filters import (
    KINDS,
    Subject,
    Text,
    compile_filter,
    compile_pattern,
    filter_fields,
    parse_filter,
)

VOCABULARIES = (vocabulary_of(load_contract("agent-sessions")),)
VECTORS = json.loads(Path(__file__).with_name("filters.json").read_text(encoding="utf-8"))


@for_each("case", VECTORS["cases"], ids=lambda case: case["filter"])
def test_filter_matches_these_subjects(case):
    matches = compile_filter(parse_filter(case["filter"], VOCABULARIES))
    found = [at for at, fields in enumerate(VECTORS["subjects"]) if matches is None or matches(subject(fields))]
    assert found == case["matches"]


def subject(fields):
    fields = {**fields, "kinds": tuple(fields["kinds"]), "codes": tuple(fields.get("codes", ()))}
    texts = tuple(fields.pop("texts", ()))
    return Subject(**{"channel": None, **fields}, texts=lambda: texts)


@for_each("case", VECTORS["errors"], ids=lambda case: case["filter"])
def test_invalid_filter_is_reported_with_its_position(case):
    with pytest.raises(InputError) as raised:
        parse_filter(case["filter"], VOCABULARIES)
    assert str(raised.value) == case["error"]


def test_control_characters_in_an_error_are_escaped():
    with pytest.raises(InputError) as raised:
        parse_filter("\x1b[2J:1", VOCABULARIES)
    assert r"unknown field `\x1b[2J`" in str(raised.value)


@given(st.text(st.sampled_from('abortypeseq:*.,"/\\- 0123>=.s()'), max_size=30))
def test_any_text_parses_or_gives_one_sentence(text):
    with suppress(InputError):
        parse_filter(text, VOCABULARIES)
        return
    with pytest.raises(InputError, match=r"^Invalid filter at character \d+: .*[.?]$"):
        parse_filter(text, VOCABULARIES)


@given(st.text(st.sampled_from("ab*?"), max_size=8), st.text(st.sampled_from("ab"), max_size=10))
def test_pattern_matches_like_the_plain_regular_expression(pattern, text):
    plain = "".join({"*": ".*", "?": "."}.get(char, char) for char in pattern)
    assert bool(compile_pattern(Text(pattern)).fullmatch(text)) is bool(re.fullmatch(plain, text))


def test_pattern_with_many_stars_is_fast():
    assert not compile_pattern(Text("*a" * 30 + "b")).fullmatch("a" * 20_000)


def test_shared_cases_cover_every_field_and_kind():
    filters = [case["filter"] for case in VECTORS["cases"]]
    for word in (*(f"{field}:" for field in filter_fields(VOCABULARIES) if field != "text"), *KINDS):
        assert any(word in filter_ for filter_ in filters), word
