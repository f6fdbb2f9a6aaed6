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
    said = dict(event)
    if "raw" in said:
        return (1, said["raw"].encode())
    wait, kind = said.pop("wait", 1), said["type"]
    lines = [f"event: {kind}", *([f"id: {said['id']}"] if "id" in said else []), f"data: {json.dumps(said)}"]
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
    assert lines[3:-1] == case["told"]
    equal = "No difference (compared: 1 pair of exchanges, "
    assert lines[-1].startswith(str(found(case["told"])) if case["told"] else equal)
    assert result.exit_code == bool(case["told"])


def found(told):
    """The number of differences in these lines."""
    return sum(line.split()[0] in KINDS for line in told)
