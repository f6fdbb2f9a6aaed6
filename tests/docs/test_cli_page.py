"""docs/cli.md is made from the commands, and what they can do stands in a page that somebody wrote, too."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

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


def test_the_page_is_not_stale():
    """`make docs-cli` writes it anew."""
    assert PAGE.read_text("utf-8") == cli_page.page(), "run make docs-cli"


@pytest.mark.parametrize("typed", COMMANDS)
def test_every_option_of_a_command_stands_on_a_page_about_it(typed):
    program, name, *_ = typed.split()
    pages = [text for text in WRITTEN if re.search(rf"\b{program} {name}\b", text)]
    assert pages, f"no page in docs/ says anything about {typed}"
    longest = [max(option.opts, key=len) for option in cli_page.options(COMMANDS[typed])]
    missing = [one for one in longest if not any(re.search(rf"{one}(?![\w-])", text) for text in pages)]
    assert missing == [], f"no page in docs/ about {program} {name} has these options of {typed}"
