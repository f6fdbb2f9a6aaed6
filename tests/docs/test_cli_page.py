"""docs/cli.md is generated from the commands; every option is also on a handwritten page."""

import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import click
from for_each import for_each

from wiretape.cli import wiretape

ROOT = Path(__file__).parents[2]
SPEC = spec_from_file_location("cli_page", ROOT / ".ci" / "cli_page.py")
cli_page = module_from_spec(SPEC)
SPEC.loader.exec_module(cli_page)

COMMANDS = dict(cli_page.commands())
PAGE = ROOT / "docs" / "cli.md"
WRITTEN = [
    path.read_text("utf-8")
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md")]
    if path != PAGE
]


def test_the_page_and_the_manual_page_are_up_to_date():
    """`make docs-cli` regenerates them."""
    assert PAGE.read_text("utf-8") == cli_page.page(), "run make docs-cli"
    assert (ROOT / "docs" / "wiretape.1").read_text("utf-8") == cli_page.manual(), "run make docs-cli"


def test_text_cannot_become_a_command_of_the_manual_page():
    assert cli_page._roff(".so /etc/passwd\n'br\n`a-b` \\n") == "\\&.so /etc/passwd\n\\&'br\na\\-b \\en"


@for_each("typed", COMMANDS)
def test_every_option_is_on_a_page_about_its_command(typed):
    program, name, *_ = typed.split()
    pages = [text for text in WRITTEN if re.search(rf"\b{program} {name}\b", text)]
    assert pages, f"no page in docs/ says anything about {typed}"
    longest = [max(option.opts, key=len) for option in cli_page.options(COMMANDS[typed])]
    missing = [one for one in longest if not any(re.search(rf"{one}(?![\w-])", text) for text in pages)]
    assert missing == [], f"no page in docs/ about {program} {name} has these options of {typed}"


@for_each("name", wiretape.commands)
def test_every_command_is_in_the_index_or_the_readme(name):
    """People look there first."""
    first = [(ROOT / page).read_text("utf-8") for page in ("README.md", "docs/README.md")]
    assert any(re.search(rf"`(?:wiretape )?{name}\b", text) for text in first)


@for_each("typed", COMMANDS)
def test_the_examples_in_the_help_are_valid_commands(typed):
    command = COMMANDS[typed]
    shown = re.findall(r"^ {4,}(wiretape .*)$", command.help or "", re.MULTILINE)
    shown += re.findall(r"Example: (wiretape [^,\n]*)", command.epilog or "")
    for example in shown:
        _, name, *words = shlex.split(example.partition(" > ")[0])
        known = {one for option in _options(name) for one in (*option.opts, "--help")}
        assert {word for word in words if re.fullmatch(r"--[a-z-]+|-[a-z]", word)} <= known, example


def _options(name: str) -> list[click.Option]:
    """Of a command, and of those within it."""
    return [one for typed, command in COMMANDS.items() if typed.split()[1] == name for one in cli_page.options(command)]


@for_each("typed", COMMANDS)
def test_every_environment_variable_is_on_a_page(typed):
    named = {option.envvar for option in cli_page.options(COMMANDS[typed]) if option.envvar}
    assert [name for name in named if not any(name in text for text in WRITTEN)] == []
