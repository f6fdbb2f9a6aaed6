"""Filters, numbers and times of the page equal those of the terminal."""

import json
from pathlib import Path

import pytest

from wiretape import units
from wiretape.contract import load_contract
from wiretape.contract.vocabulary import vocabulary_of
from wiretape.safe_text import printable

pytestmark = pytest.mark.asyncio(loop_scope="session")

VECTORS = json.loads(Path(__file__).parent.with_name("filters.json").read_text(encoding="utf-8"))
VOCABULARIES = {"agent-sessions": vocabulary_of(load_contract("agent-sessions")).document()}
TIMES = [0, 1, 94_999, 9_499_999, 9_500_001, 999_400_000, 999_600_000, 1_900_000_000, 59_960_000_000, 3_723_000_000_000]
SIZES = [0, 999, 1000, 12_345, 999_949, 999_951, 5_000_000, 12_000_000_000]
TEXTS = ["a\tb\nc\rd", "\x1b[31m\x00\x7f\x85", "\u202eabc\u2066", "\ud800x", "😀 ok \udc00", "\ufeff\u2028"]


async def test_filter_matches_the_same_subjects_as_in_the_terminal(javascript):
    function = """text => {
        const { vocabularies, subjects, cases } = parseJson(text);
        useVocabularies(vocabularies);
        for (const subject of subjects) {
            const keys = Object.entries(subject.keys || {});
            subject.keys = Object.fromEntries(keys.map(([name, key]) => [`${name}_id`, key]));
        }
        return cases.map(({filter}) => {
            const matches = compileFilter(parseFilter(filter));
            return subjects.map((subject, at) => at).filter((at) => !matches || matches(subjects[at]));
        });
    }"""
    found = await javascript(function, json.dumps(VECTORS | {"vocabularies": VOCABULARIES}))
    assert {case["filter"]: one for case, one in zip(VECTORS["cases"], found, strict=True)} == {
        case["filter"]: case["matches"] for case in VECTORS["cases"]
    }


async def test_invalid_filter_has_the_same_error_as_in_the_terminal(javascript):
    filters = [case["filter"] for case in VECTORS["errors"]]
    function = """({ vocabularies, all }) => {
        useVocabularies(vocabularies);
        return all.map((text) => { try { parseFilter(text); return ''; } catch (e) { return e.message; } });
    }"""
    assert await javascript(function, {"vocabularies": VOCABULARIES, "all": filters}) == [
        case["error"] for case in VECTORS["errors"]
    ]


async def test_numbers_and_times_are_formatted_as_in_the_terminal(javascript):
    found = await javascript(
        "({times, sizes}) => [times.map(formatDuration), times.map(formatTime), sizes.map(formatSize)]",
        {"times": TIMES, "sizes": SIZES},
    )
    assert found == [
        list(map(units.format_duration, TIMES)),
        list(map(units.format_time, TIMES)),
        list(map(units.format_size, SIZES)),
    ]


async def test_characters_are_escaped_as_in_the_terminal(javascript):
    # A lone surrogate cannot be passed to the browser, so both sides make the texts from code points.
    numbers = [[ord(char) for char in text] for text in TEXTS]
    found = await javascript(
        "all => all.map((codes) => printable(codes.map((code) => String.fromCodePoint(code)).join('')))", numbers
    )
    assert found == [printable(text) for text in TEXTS]


async def test_json_tree_keeps_the_text(javascript):
    texts = ['{"a": 1, "a": 2}', "12345678901234567890.50", '[[[]], {}, "A"]', "true", '"<b>"']
    trees = await javascript("all => all.map(parseJsonTree)", texts)
    assert [written(tree) for tree in trees] == ["".join(text.split()) for text in texts]


async def test_invalid_json_gives_no_tree(javascript):
    texts = ["", "{", "[1,2]]", "{'a': 1}", "[" * 1000 + "]" * 1000, "{]", '"a']
    assert await javascript("all => all.map(parseJsonTree)", texts) == [None] * len(texts)


def written(node):
    match node["kind"]:
        case "object":
            return "{" + ",".join(f"{json.dumps(key)}:{written(value)}" for key, value in node["items"]) + "}"
        case "array":
            return "[" + ",".join(map(written, node["items"])) + "]"
        case "string":
            return json.dumps(node["text"])
        case _:
            return node["text"]
