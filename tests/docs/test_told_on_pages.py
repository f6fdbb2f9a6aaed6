"""The output shown on datasette.md, filter.md, merge.md, recording.md, report.md and service.md is real."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.cli import subcommand, wiretape
from wiretape.recording.formats import FORMATS
from wiretape.rules.vectors import vectors_of

ROOT = Path(__file__).parents[2]
KEY = "headers:\n- Authorization: Bearer any-key\n"


def shown(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def say(tmp_path, monkeypatch):
    """Run a command in a folder of its own; return its stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(wiretape, words).output


def tape(name: str, *exchanges: str, head: str = "") -> None:
    Path(name).write_text("\n---\n".join([f"tape: 1\n{head}", *exchanges, ""]).removesuffix("---\n"), "utf-8")


def test_datasette_md_shows_the_printed_commands(say):
    tape("run.tape", "request: GET /a")
    say("import", "run.tape", "--output", "run.db")
    assert [say("datasette", "run.db")] == shown("datasette.md")


def test_filter_md_shows_an_error(say):
    tape("run.tape", "request: GET /a")
    assert [say("show", "run.tape", "tpe:x")] == shown("filter.md")


def test_service_md_shows_an_error(say):
    tape("run.tape", "request: GET /a")
    Path("service.toml").write_text('[[keys]]\nkey = "k"\n\nscope = ["events:read"]\n', "utf-8")
    assert [say("replay", "run.tape", "--service", "service.toml")] == shown("service.md")


def test_merge_md_shows_the_new_numbers(say):
    for name, began in (("eu.db", 0), ("us.db", 1)):
        exchanges = [f"request: GET /v1/{name}/{number}\nat: {began + 2 * number}\n{KEY}" for number in range(2)]
        tape(name, *exchanges)
    (example,) = shown("merge.md")
    assert say("merge", "eu.db", "us.db", "--output", "both.db").startswith(example)


def test_report_md_shows_a_finding(say):
    """The traffic is the vector that breaks the rule."""
    (body,) = (exchange.body for exchange in vectors_of("SEQ001")[0].exchange)
    tape("run.db", f"request: GET /v1/sessions/ses_1/events/stream\nat: 1\n{KEY}events:\n- text: {json.dumps(body)}\n")
    assert say("report", "run.db") == shown("report.md")[1]


def test_recording_md_lists_every_format():
    text = (ROOT / "docs" / "recording.md").read_text("utf-8").partition("## Other formats")[2]
    rows = re.findall(r"^\| `(\w+)`:[^|]*\| (yes)? *\| (yes)? *\| (yes)? *\|$", text, re.MULTILINE)
    told = {name: tuple(bool(cell) for cell in cells) for name, *cells in rows}
    (choice,) = [option.type for option in subcommand("export").params if "--format" in option.opts]
    there = {form.name: (form.name in choice.choices, form.reads is not None, form.opens_directly) for form in FORMATS}
    assert told == {**dict.fromkeys(choice.choices, (True, False, False)), **there}
