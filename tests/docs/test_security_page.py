"""SECURITY.md: every guarantee names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [row for row in re.findall(r"^\|(.+)\|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE) if "`tests/" in row]


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_of_a_guarantee_exist(row):
    """A test that is renamed is renamed there, too."""
    for path, name in re.findall(r"`(tests/[\w/.]+)::(\w+)`", row):
        assert re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name}"


def test_every_guarantee_has_a_test():
    """In each table with tests, each row has one."""
    page = (ROOT / "SECURITY.md").read_text()
    tables = page.split("| Guarantee | Test |\n|---|---|\n")[1:]
    rows = [row for table in tables for row in table.partition("\n\n")[0].splitlines()]
    assert len(rows) == len(ROWS)
