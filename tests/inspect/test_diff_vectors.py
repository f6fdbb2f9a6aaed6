"""Pairs of streams as data, and their differences."""

import json
import tomllib
from pathlib import Path

import pytest

from wiretape_inspect.diff.diff_model import KINDS

CASES = tomllib.loads(Path(__file__).with_name("differences.toml").read_text("utf-8"))["case"]


def chunk(event, message):
    """The delay after the previous event, and the bytes."""
    if isinstance(event, str):
        return (1, message("message.delta", run_id="r1", delta={"text": event}))
    fields = dict(event)
    if "raw" in fields:
        return (1, fields["raw"].encode())
    wait, kind = fields.pop("wait", 1), fields["type"]
    lines = [f"event: {kind}", *([f"id: {fields['id']}"] if "id" in fields else []), f"data: {json.dumps(fields)}"]
    return (wait, ("\n".join(lines) + "\n\n").encode())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_exactly_the_differences_are_reported(run, new_tape, message, case):
    files = []
    for events in (case["a"], case["b"]):
        tape = new_tape()
        tape.exchange(chunks=[chunk(event, message) for event in events])
        files.append(tape.close())
    result = run("diff", *files, *case.get("options", ()))
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[3:-1] == case["expected"]
    equal = "No difference (compared: 1 pair of exchanges, "
    assert lines[-1].startswith(str(found(case["expected"])) if case["expected"] else equal)
    assert result.exit_code == bool(case["expected"])


def found(expected):
    """The number of differences in these lines."""
    return sum(line.split()[0] in KINDS for line in expected)
