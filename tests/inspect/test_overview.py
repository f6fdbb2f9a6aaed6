"""A stream at a glance, and the list of runs and tool calls."""

import json

import pytest

from wiretape.json_codec import dump_json
from wiretape.recording import open_recording
from wiretape_inspect.view.accumulated_state import MAX_SPANS, overview

S = 1_000_000_000


def tool(message, kind, number, call="t1"):
    content = {"tool_call_id": call, "name": "f", "input": 1} if kind == "tool.started" else {"tool_call_id": call}
    return message(kind, id=f"e{number}", sequence=number, run_id="r1", content=content)


@pytest.fixture
def calls(builder, recordings):
    builder.record(recordings["calls"])
    return builder.close()


def test_a_stream_at_a_glance(calls):
    with open_recording(calls) as recording:
        seen = overview(recording, recording.exchange(1))
    assert [(silence.event, silence.until_ns - silence.since_ns) for silence in seen.silences] == [(3, 20 * S)]
    assert [(call.id, call.name, call.is_open) for call in seen.entities["tool_call"].spans] == [
        ("t1", "f(1)", True),
        ("t2", "f(1)", True),
    ]
    assert [(run.id, run.events, run.is_open) for run in seen.entities["run"].spans] == [("r1", 3, True)]
    assert json.loads(dump_json(seen))["silences"][0][2] == 3


def test_a_stream_without_messages_has_no_silences(builder):
    builder.exchange(ending=None)
    with open_recording(builder.close()) as recording:
        seen = overview(recording, recording.exchange(1))
    assert (seen.silences, seen.began_ns) == ((), seen.ended_ns)


def test_the_command_puts_calls_together_over_streams(run, calls):
    """The second stream repeats the start of a call, which counts once."""
    lines = run("show", calls, "--entities").output.splitlines()
    assert lines[0] == "session s1"
    assert lines[1].split() == ["run", "r1", "1:1-2:3", "22.0", "s", "run.failed", "5", "events"]
    assert lines[2].split() == ["tool", "t1", "1:2-2:2", "22.0", "s", "tool.failed", "2", "events", "f(1)"]
    assert lines[3].split() == ["tool", "t2", "1:3-?", "open", "1", "event", "f(1)"]
    rows = [json.loads(line) for line in run("show", calls, "--entities", "--json").output.splitlines()]
    assert [(row["row"], row[row["row"]]["id"]) for row in rows] == [
        ("run", "r1"),
        ("tool_call", "t1"),
        ("tool_call", "t2"),
    ]
    assert rows[2]["tool_call"]["ended"] is None


def test_only_failed_and_the_longest_of_many_calls_are_listed(builder, message):
    chunks = [(9000, tool(message, "tool.started", 1, "late"))]
    for number in range(2, 2 * MAX_SPANS + 2, 2):
        call = f"t{number}"
        chunks.append((1, tool(message, "tool.started", number, call)))
        outcome = "tool.failed" if number == 2 else "tool.completed"
        chunks.append((number, tool(message, outcome, number + 1, call)))
    builder.exchange(chunks)
    with open_recording(builder.close()) as recording:
        seen = overview(recording, recording.exchange(1))
    calls = seen.entities["tool_call"]
    assert (calls.count, calls.open_count, len(calls.spans)) == (MAX_SPANS + 1, 1, MAX_SPANS)
    # The shortest call failed; the next one is left out.
    assert [call.id for call in calls.spans[:3]] == ["late", "t2", "t6"]
