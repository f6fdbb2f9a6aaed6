"""Pairs of streams as data, and their differences."""

import tomllib
from pathlib import Path

import pytest
from event_tables import event_chunk

from wiretape_inspect.diff.diff_model import KINDS

CASES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text("utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_exactly_the_differences_are_reported(run, new_builder, case):
    files = []
    for events in (case["a"], case["b"]):
        builder = new_builder()
        builder.exchange(map(event_chunk, events))
        files.append(builder.close())
    result = run("diff", *files, *case.get("options", ()))
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[3:-1] == case["expected"]
    equal = "No difference (compared: 1 pair of exchanges, "
    assert lines[-1].startswith(str(found(case["expected"])) if case["expected"] else equal)
    assert result.exit_code == bool(case["expected"])


def found(expected):
    """The number of differences in these lines."""
    return sum(line.split()[0] in KINDS for line in expected)
