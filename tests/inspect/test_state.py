"""What a client knew at an event."""

import gzip
import json

import pytest
from event_tables import event_chunk
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape_inspect.view import accumulated_state
from wiretape_inspect.view.accumulated_state import JoinedText, state_at

TABLES = read_tables(__file__)


@pytest.fixture
def stream():
    """A run with reasoning, two tool calls and a message."""
    return [event_chunk(event) for event in TABLES["events"]]


def test_the_state_follows_the_events(run, builder):
    builder.exchange(map(event_chunk, TABLES["events"]))
    path = builder.close()
    for expected in TABLES["states"]:
        state = json.loads(run("show", path, "--at", f"1:{expected['event']}", "--json").output)["state"]
        state["calls"] = [call["id"] for call in state["entities"]["tool_call"]]
        state |= {name: [text["text"], text["final"]] for name, text in state["texts"].items()}
        assert {name: state[name] for name in expected if name != "event"} | {"event": expected["event"]} == expected
    (call,), (run_,) = state["entities"]["tool_call"], state["entities"]["run"]
    assert (call["name"], call["within"], call["began"]["event"], call["outcome"]) == ("g({})", "r1", 6, "")
    assert (run_["id"], run_["outcome"], run_["ended"]["event"]) == ("r1", "run.completed", 12)


def test_a_tool_call_has_the_name_of_its_first_event_which_is_not_read_before_the_current_texts(builder, message):
    starts = [message("tool.started", content={"tool_call_id": "t1", "name": name, "input": 1}) for name in "fg"]
    builder.exchange([starts[0], message("run.started", run_id="r1"), starts[1]])
    with open_recording(builder.close()) as recording:
        assert [call.name for call in state_at(recording, recording.exchange(1), 3).entities["tool_call"]] == ["f(1)"]


def test_a_resumed_connection_knows_earlier_connections(builder, message, stream):
    builder.exchange(stream[:8], ending=Ending.SERVICE_RESET)
    builder.exchange(
        [message("run.started", id="e5", sequence=5, run_id="r9")], target="/v1/sessions/other/events/stream"
    )
    repeated = stream[6]
    builder.exchange([repeated, stream[9]], request_headers=(("Last-Event-ID", "e5"),))
    builder.exchange(stream[11:12], request_headers=(("last-event-id", "e6"),))
    with open_recording(builder.close()) as recording:
        state = state_at(recording, recording.exchange(4), 1)
        assert state.connections == (1, 3, 4)
        assert [call.id for call in state.entities["tool_call"]] == ["t2"]
        assert [run.id for run in state.entities["run"]] == ["r1"]
        assert state.texts["text"] == JoinedText("It is!", 6, final=True)
        assert state.last_sequence == 7


def test_before_any_id_the_cursor_is_the_one_that_was_sent(builder, message):
    builder.exchange([message("message.started")], request_headers=(("Last-Event-ID", "\xc3\xa9"),))
    builder.exchange([b"data: 1\n\n", b"id: a\ndata:\n\n", b"id:\ndata:\n\n"])
    with open_recording(builder.close()) as recording:
        assert state_at(recording, recording.exchange(1), 1).cursor == "é"
        cursors = [state_at(recording, recording.exchange(2), event).cursor for event in (1, 2, 3)]
        assert cursors == [None, "a", None]


def test_a_long_text_keeps_its_end(builder, message, monkeypatch):
    monkeypatch.setattr(accumulated_state, "MAX_TEXT", 10)
    builder.exchange([message("message.delta", delta={"text": f"{number:04}"}) for number in range(8)])
    with open_recording(builder.close()) as recording:
        assert state_at(recording, recording.exchange(1), 8).texts["text"] == JoinedText("0500060007", 32)


KINDS = (
    "message.delta message.started message.completed reasoning.delta reasoning.message "
    "run.started run.completed tool.started tool.completed intermediate.delta"
)


@given(kinds=st.lists(st.sampled_from(KINDS.split()), min_size=1, max_size=12), data=st.data())
def test_the_index_only_saves_time(new_builder, message, kinds, data):
    """A body that is encoded has no index; the states are the same."""
    events = [event(message, kind, number) for number, kind in enumerate(kinds, 1)]
    until = data.draw(st.integers(1, len(kinds)))
    builder = new_builder()
    builder.exchange([b"".join(events)])
    with open_recording(builder.close()) as recording:
        found = state_at(recording, recording.exchange(1), until)
    builder = new_builder()
    encoded = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    builder.exchange([gzip.compress(b"".join(events))], headers=encoded)
    with open_recording(builder.close()) as recording:
        assert state_at(recording, recording.exchange(1), until) == found


def event(message, kind, number):
    fields = {"run_id": "r1", "delta": {"text": f"<{number}>"}} if kind.endswith(".delta") else {}
    if kind.startswith("run."):
        fields = {"run_id": f"r{number % 2}"}
    if kind.startswith("tool."):
        fields = {"content": {"tool_call_id": f"t{number % 2}", "name": "f", "input": number}}
    if kind in {"message.completed", "reasoning.message"}:
        fields = {"content": [{"type": "text", "text": f"({number})"}]}
    return message(kind, **({} if kind.endswith(".delta") else {"id": f"e{number}", "sequence": number}), **fields)


@pytest.mark.parametrize(
    ("ending", "wait_ms", "unread"),
    [(Ending.SERVICE_CLOSED, 900, True), (Ending.SERVICE_CLOSED, 1100, False), (Ending.COMPLETE, 1, False)],
)
def test_an_event_that_the_client_may_not_have_read_is_marked(run, builder, message, ending, wait_ms, unread):
    first = message("run.started", id="e1", sequence=1, run_id="r1")
    last = message("run.completed", id="e2", sequence=2, run_id="r1")
    number = builder.exchange([first, (5000, last)], ending=None)
    builder.after(wait_ms)
    builder.extend(number, [], ending)
    path = builder.close()
    mark = "if it has read this event: the connection ended within a second"
    assert [mark in run("show", path, "--at", at).output for at in ("1:1", "1:2")] == [False, unread]
    assert json.loads(run("show", path, "--at", "1:2", "--json").output)["may_be_unread"] is unread
