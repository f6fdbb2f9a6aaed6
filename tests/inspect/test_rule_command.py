"""`wiretape rule`, and the pages of docs/rules that it makes."""

import json
import re
from pathlib import Path

import click
import pytest
from for_each import for_each
from invoke import succeed
from terminal_output import on_terminal

from wiretape.checker import CATALOGUE
from wiretape.contract import load_contract
from wiretape.rules.vectors import vectors, vectors_of
from wiretape_inspect import rule_output

FOLDER = Path(__file__).parents[2] / "docs" / "rules"
NAMES = ["README.md", *(f"{code}.md" for code in CATALOGUE)]


@pytest.fixture(scope="module")
def pages():
    """Made where a test wants them, not where tests are collected."""
    return rule_output.pages()


def test_without_a_code_all_rules_are_listed(run):
    result = succeed("rule")
    assert [line.split()[0] for line in result.output.splitlines()] == list(CATALOGUE)


def test_a_rule_is_explained_with_both_examples(run):
    output = run("rule", "SEQ001").output
    for part in (
        "SEQ001 sequence-not-increasing\n",
        "severity:   error\n",
        "clause:     Durable event, sequence: ",
        "Why it matters\n",
        "When the rule is not exercised\n",
        "This breaks the rule: ",
        '    < data: {"id":"evt_0","sequence":0,',
        "  => SEQ001 error: Expected a sequence above 1, got 0.\n",
        "This satisfies the rule: ",
    ):
        assert part in output


def test_explanations_fit_the_terminal_and_json_wraps_below_itself():
    lines = on_terminal("rule", "SEQ001", columns=60, NO_COLOR="1").splitlines()
    assert max(map(len, lines)) <= 60
    at = next(index for index, line in enumerate(lines) if line.startswith("    < data: "))
    assert lines[at + 1].startswith(" " * len("    < data: ") + '"')


@pytest.mark.parametrize("arguments", [("SEQ001",), ("SEQ",), ("--all",)])
def test_colours_change_no_text(run, arguments):
    output = run("rule", *arguments, env={"FORCE_COLOR": "1"}).output
    assert "\x1b[1;31merror" in output
    assert click.unstyle(output) == run("rule", *arguments).output


@pytest.mark.parametrize("code", ["seq001", "sequence-not-increasing", " SEQ001"])
def test_a_rule_is_found_by_its_code_in_any_case_and_by_its_name(run, code):
    assert run("rule", code).output == run("rule", "SEQ001").output


def test_json_contains_the_whole_explanation(run):
    rules = json.loads(run("rule", "--all", "--format", "json").stdout)
    assert [rule["code"] for rule in rules] == list(CATALOGUE)
    one = json.loads(run("rule", "SEQ001", "--format", "json").stdout)
    assert one == rules[list(CATALOGUE).index("SEQ001")]
    assert {example["breaks"] for example in one["examples"]} == {True, False}
    assert one["examples"][0]["found"] == ["SEQ001 error: Expected a sequence above 1, got 0."]


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_examples_hold_no_control_characters(run, form):
    output = run("rule", "--all", "--format", form).stdout
    assert all(line.isprintable() for line in output.splitlines())


def test_pages_replace_older_ones_and_no_other_files(run, tmp_path, pages):
    for name in ("NOTES.md", "SEQ001.md"):
        (tmp_path / name).write_text("old")
    succeed("rule", "--all", "--format", "markdown", "--output", tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*pages, "NOTES.md"}
    assert (tmp_path / "SEQ001.md").read_text() == pages["SEQ001.md"]


def test_docs_has_a_page_for_each_rule_and_no_other():
    assert {path.name for path in FOLDER.iterdir()} == set(NAMES)


@for_each("name", NAMES)
def test_no_page_is_stale(pages, name):
    """`make docs-rules` writes them anew."""
    assert (FOLDER / name).read_text("utf-8") == pages[name]


@for_each("folder", sorted((FOLDER.parent / "contracts").iterdir()))
def test_no_page_of_a_contract_is_missing_or_stale(folder):
    """`make docs-rules` writes them anew."""
    written = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    assert written == rule_output.pages(load_contract(folder.name))
    for code in (name.removesuffix(".md") for name in written if name != "README.md"):
        assert load_contract(folder.name).catalogue[code].explanation.why, code


@for_each("code", CATALOGUE)
def test_every_built_in_rule_has_an_explanation(code):
    explanation = CATALOGUE[code].explanation
    assert explanation.why.endswith(".")
    assert explanation.fix.endswith(".")
    assert explanation.not_exercised.endswith(".")


@for_each("code", CATALOGUE)
def test_every_page_shows_traffic_that_breaks_and_satisfies_the_rule(code, pages):
    page = pages[f"{code}.md"]
    for heading in ("This breaks the rule", "This satisfies the rule"):
        examples = [vector for vector in vectors_of(code) if vector.breaks == ("breaks" in heading)]
        assert page.count(f"## {heading}\n") == 1
        assert page.count(f"- {heading}: ") == len(examples) - 1
    assert f"> {code} {CATALOGUE[code].severity}: " in page
    assert r"\n" not in page
    assert re.search(r"^\| Clause \| .*\"", page, re.MULTILINE)


def test_examples_mention_pauses_and_exchanges(pages):
    main = [vector for vector in vectors() if vector.name in {"breaks", "keeps"}]
    lost = [vector for vector in main if any(part.lost for exchange in vector.exchange for part in exchange.part)]
    two = [vector for vector in main if len(vector.exchange) > 1]
    assert "# exchange 2, " in pages[f"{two[0].code}.md"]
    assert all("bytes passed that were not recorded" in pages[f"{vector.code}.md"] for vector in lost)
