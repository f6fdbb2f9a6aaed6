"""The contracts for the Responses API: their examples, streams of other projects, and what their clients do."""

import json
import tomllib
from pathlib import Path

import httpx
import pytest
from contract_findings import assert_examples_hold, find_codes
from for_each import for_each
from invoke import succeed
from running import PATIENCE_S, Running

from wiretape.contract import load_contract
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.observations import Ending
from wiretape.recording.recording_builder import RecordingMetadata, RecordingSource, build_recording
from wiretape.traffic_builder import TrafficBuilder
from wiretape_contracts.open_responses.demo_server import SNAPSHOT

STREAMS = tomllib.loads((Path(__file__).parent / "data" / "streams.toml").read_text("utf-8"))
NAMES = ("openai", "open-responses")


def body_of(lines, *, has_event_lines=True):
    """Yield the frames of a stream."""
    for number, line in enumerate(lines.strip().splitlines()):
        name, _, data = line.partition(" {")
        if not data or line.startswith("{"):
            yield f"data: {line}\n\n"
            continue
        type_ = name if name == "error" else f"response.{name}"
        event = {"type": type_, "sequence_number": number} | json.loads("{" + data)
        event = {key: value for key, value in event.items() if value is not None}
        if "response" in event:
            event["response"] = SNAPSHOT | event["response"]
        event_line = f"event: {type_}\n" if has_event_lines else ""
        yield f"{event_line}data: {json.dumps(event)}\n\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_example_does_what_it_says_in_pieces_of_any_size(name):
    assert_examples_hold(load_contract(name))


@for_each("name", STREAMS)
def test_a_stream_of_another_project_breaks_the_rules_that_it_breaks(name):
    stream = STREAMS[name]
    frames = "".join(body_of(stream["events"], has_event_lines=stream.get("has-event-lines", True))).encode()
    traffic = TrafficBuilder()
    traffic.request("POST", "/v1/responses").respond_stream().send(frames).end()
    openai, open_responses = (find_codes(load_contract(name), traffic) for name in NAMES)
    assert openai == stream["codes"]
    own = [code for code in openai if not code.startswith("OAI")]
    assert open_responses == sorted([*own, *stream.get("only-open", [])])


@pytest.fixture
def recording(tmp_path):
    """A response whose client was gone before its last line."""
    frames = list(body_of(STREAMS["reasoning-summary-and-text"]["events"]))[:-1]
    traffic = TrafficBuilder()
    stream = traffic.request("POST", "/v1/responses", body=b"{}").respond_stream().send("".join(frames).encode())
    stream.end(Ending.CLIENT_CLOSED)
    metadata = RecordingMetadata("http://service.test", 0, contracts=dump_contracts((load_contract("openai"),)))
    build_recording(RecordingSource(metadata, iter(traffic.observations())), tmp_path / "run.db")
    return tmp_path / "run.db"


def test_a_replay_ends_after_the_last_event_although_the_client_was_gone(recording):
    replay = Running("replay", recording, "--speed", "max", begin="Replaying ")
    headers = {"Authorization": "Bearer k"}
    response = httpx.post(f"{replay.url}/v1/responses", json={}, headers=headers, timeout=PATIENCE_S)
    resumed = httpx.get(f"{replay.url}/v1/responses/r?stream=true&starting_after=14", headers=headers)
    replay.stop()
    assert response.text.count("event: ") == 17
    assert [line for line in resumed.text.splitlines() if line.startswith("event")] == [
        "event: response.output_item.done",
        "event: response.completed",
    ]


def test_show_has_the_text_of_each_part_and_what_each_item_is(recording):
    spans = [json.loads(line) for line in succeed("show", recording, "--entities", "--json").output.splitlines()]
    names = [(span["row"], span[span["row"]]["id"], span[span["row"]]["name"]) for span in spans]
    assert names == [
        ("item", "0", "reasoning"),
        ("item", "1", "message"),
        ("part", "1/0", "It is fine."),
        ("summary", "0/0", "Hm, Rome."),
    ]


def test_deltas_are_folded_although_they_have_numbers(recording):
    rows = [json.loads(line) for line in succeed("show", recording, "--json", "type:*.delta").output.splitlines()]
    runs = {row["preview"]: row["count"] for row in rows if row["row"] == "deltas"}
    assert runs == {"Hm, Rome.": 2, "It is fine.": 2}
