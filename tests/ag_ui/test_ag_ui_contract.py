"""The contract ag-ui: its examples, streams of other projects, and streams that follow the specification."""

import json
import tomllib
from pathlib import Path

from contract_findings import assert_examples_hold, find_codes
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st
from stream_text import events

from wiretape.contract import load_contract
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.recording import RecordingMetadata, RecordingSource, build_recording, open_recording
from wiretape.traffic_builder import TrafficBuilder
from wiretape_inspect.view.accumulated_state import state_at

STREAMS = tomllib.loads((Path(__file__).parent / "data" / "streams.toml").read_text("utf-8"))
CONTRACT = load_contract("ag-ui")
HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream"}
INPUT = {"threadId": "t1", "runId": "r1", "messages": []}
BEGIN, FINISH = ({"type": f"RUN_{name}", "threadId": "t1", "runId": "r1"} for name in ("STARTED", "FINISHED"))
FAMILIES = {
    "TEXT_MESSAGE": ("messageId", "CONTENT"),
    "TOOL_CALL": ("toolCallId", "ARGS"),
    "REASONING_MESSAGE": ("messageId", "CONTENT"),
}

OPENING = {
    "TEXT_MESSAGE": {"role": "user"},
    "TOOL_CALL": {"toolCallName": "search"},
    "REASONING_MESSAGE": {"role": "reasoning"},
}


def find_in_answer(body: bytes, size: int = 1 << 20) -> list[str]:
    """Return the codes of the findings in a stream that answers a request for the run r1."""
    traffic = TrafficBuilder()
    exchange = traffic.request("POST", "/agent", headers=HEADERS, body=json.dumps(INPUT).encode())
    stream = exchange.respond_stream()
    for at in range(0, len(body), size):
        stream.send(body[at : at + size])
    stream.end()
    return find_codes(CONTRACT, traffic)


def test_every_example_does_what_it_says_in_pieces_of_any_size():
    assert_examples_hold(CONTRACT)


@for_each("name", STREAMS)
def test_a_stream_of_another_project_breaks_the_rules_that_it_breaks(name):
    body = events(STREAMS[name]["events"])
    assert find_in_answer(body) == STREAMS[name]["codes"]
    assert find_in_answer(body, 7) == STREAMS[name]["codes"]


@st.composite
def runs(draw):
    """Draw the events of a run that follows the specification: items that interleave, in both forms."""
    opened, drawn = {}, [BEGIN]
    for number in range(draw(st.integers(0, 25))):
        what = draw(st.sampled_from([*FAMILIES, "STEP", "CUSTOM", *opened]))
        if what in FAMILIES and draw(st.booleans()):
            key, more = FAMILIES[what]
            fields = {key: f"id {number}"} | ({} if what == "REASONING_MESSAGE" else OPENING[what])
            drawn += [{"type": f"{what}_CHUNK", "delta": "a"} | fields, {"type": f"{what}_CHUNK", "delta": "b"}]
        elif what in FAMILIES:
            key, more = FAMILIES[what]
            extra = (
                {"toolCallName": "search"}
                if what == "TOOL_CALL"
                else {"role": "reasoning" if what[0] == "R" else "user"}
            )
            drawn.append({"type": f"{what}_START", key: f"id {number}"} | extra)
            opened[f"id {number}"] = {"type": f"{what}_{more}", key: f"id {number}", "delta": "c"}
        elif what == "STEP":
            drawn.append({"type": "STEP_STARTED", "stepName": f"step {number}"})
            opened[f"step {number}"] = None
        elif what == "CUSTOM":
            drawn.append({"type": "CUSTOM", "name": "example.a", "value": None})
        elif opened[what] is not None and draw(st.booleans()):
            drawn.append(opened[what])
        else:
            drawn.append(ending(what, opened.pop(what)))
    return [*drawn, *(ending(what, opened[what]) for what in opened), FINISH]


def ending(name, more):
    """Return the event that closes a step, or an item with these contents."""
    if more is None:
        return {"type": "STEP_FINISHED", "stepName": name}
    family, key = more["type"].rpartition("_")[0], "toolCallId" if "toolCallId" in more else "messageId"
    return {"type": f"{family}_END", key: name}


def body_of(drawn):
    return b"".join(b"data: %s\n\n" % json.dumps(each).encode() for each in drawn)


@given(runs())
def test_a_run_that_follows_the_specification_has_no_finding(drawn):
    assert find_in_answer(body_of(drawn)) == []


@given(runs(), st.data())
def test_a_run_that_lacks_its_boundaries_or_an_end_has_a_finding(drawn, data):
    ends = [at for at, each in enumerate(drawn) if each["type"].endswith(("_END", "STARTED", "FINISHED"))]
    at = data.draw(st.sampled_from(ends))
    assert find_in_answer(body_of(drawn[:at] + drawn[at + 1 :])) != []


def test_a_call_has_the_text_of_its_own_arguments_if_several_are_open(tmp_path):
    events_of_calls = [BEGIN]
    events_of_calls += [{"type": "TOOL_CALL_START", "toolCallId": key, "toolCallName": "search"} for key in "abc"]
    order = "abbacab"
    events_of_calls += [{"type": "TOOL_CALL_ARGS", "toolCallId": key, "delta": key} for key in order[:4]]
    events_of_calls += [{"type": "TOOL_CALL_END", "toolCallId": "c"}]
    events_of_calls += [{"type": "TOOL_CALL_ARGS", "toolCallId": key, "delta": key} for key in order[5:]]
    traffic = TrafficBuilder()
    traffic.request("POST", "/agent").respond_stream().send(body_of(events_of_calls)).end()
    metadata = RecordingMetadata("", 0, contracts=dump_contracts([CONTRACT]))
    build_recording(RecordingSource(metadata, iter(traffic.observations())), tmp_path / "run.db")
    with open_recording(tmp_path / "run.db") as recording:
        shown = [state_at(recording, recording.exchange(1), at).texts["arguments"].text for at in range(1, 12)]
    assert shown == ["", "", "", "", "a", "b", "bb", "aa", "aa", "aaa", "bbb"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    max_leaves=4,
)
IDS = ["messageId", "toolCallId", "toolCallName", "runId", "threadId", "subagentRunId", "stepName", "outcome", "input"]
FIELDS = st.dictionaries(st.sampled_from(IDS), VALUES)


@given(st.lists(st.tuples(st.sampled_from(sorted(CONTRACT.types)), FIELDS), max_size=12))
def test_no_value_of_a_field_ends_the_checks(drawn):
    find_in_answer(body_of([fields | {"type": type_} for type_, fields in drawn]))
