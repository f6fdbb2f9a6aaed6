"""Exported pages contain what the server would return."""

import gzip
import json
import re
from base64 import b64decode, b64encode
from urllib.parse import parse_qsl

import pytest
from findings import finding
from hypothesis import given, settings
from hypothesis import strategies as st
from invoke import succeed

from wiretape.json_codec import dump_json
from wiretape.observations import Ending
from wiretape.recording import open_recording
from wiretape_inspect.debugger.api_endpoints import DOCUMENTS, LINES
from wiretape_inspect.page_export import PageContent, document_parts, export_page

_DATA = re.compile(rb'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def embedded(path, **how):
    """Return the document that a page contains."""
    with open_recording(path) as recording:
        page = b"".join(export_page(recording, **how))
    (data,) = _DATA.findall(page)
    return json.loads(data)


def unpacked(text):
    return json.loads(gzip.decompress(b64decode(text)))


def rows_of(document, number):
    return document["answers"][f"/api/rows?exchange={number}"]


def items_of(blocks):
    """Yield the items of blocks, each with the number of its event, and whether it is the first of a block."""
    for block in blocks:
        items = unpacked(block["gzip"])
        assert len(items) == block["last"] - block["first"] + 1
        for event, item in enumerate(items, block["first"]):
            yield event, item, event == block["first"]


def details_of(document, number):
    return {event: item for event, item, _ in items_of(document["events"][str(number)])}


def states_of(document, number):
    """Yield the states after the events of a stream, as the page makes them from the changes."""
    state = None
    for event, change, is_first in items_of(document["states"][str(number)]):
        state = changed(None if is_first else state, change)
        yield event, state


def changed(before, change):
    if isinstance(change, list):
        if len(change) == 1:
            return change[0]
        units = before.encode("utf-16-le", "surrogatepass")
        return units[2 * change[0] :].decode("utf-16-le", "surrogatepass") + change[1]
    if isinstance(before, list):
        length = change.pop("length")
        return [
            changed(before[at] if at < len(before) else None, change[str(at)]) if str(at) in change else before[at]
            for at in range(length)
        ]
    return before | {name: changed(before[name], each) for name, each in change.items()}


def assert_page_equals_recording(path):
    """The page contains the answers of the API."""
    document = embedded(path)
    with open_recording(path) as recording:
        for where, answer in document["answers"].items():
            name, _, query = where.removeprefix("/api/").partition("?")
            query = {key: int(value) for key, value in parse_qsl(query)}
            if name in LINES:
                assert answer == [json.loads(line) for line in LINES[name](recording, **query)], where
            elif name != "recording":
                assert answer == json.loads(dump_json(DOCUMENTS[name](recording, **query))), where
        for exchange in recording.exchanges():
            if not exchange.is_stream:
                continue
            held, states = details_of(document, exchange.number), dict(states_of(document, exchange.number))
            events = [event.number for event in recording.events(exchange.number)]
            assert list(held) == list(states) == events
            for event in events:
                expected = DOCUMENTS["event"](recording, exchange=exchange.number, event=event)
                assert held[event] | {"state": states[event]} == json.loads(dump_json(expected))


def test_page_contains_overviews_and_comparisons(session):
    document = embedded(session)
    answers = document["answers"]
    recording = answers["/api/recording"]
    assert document["format"] == 1
    assert [head["exchange"] for head in recording["exchanges"]] == [1, 2, 3, 4]
    assert (recording["live"], recording["replay"], recording["position"]) == (False, None, None)
    assert [path for path in answers if "exchange=" not in path] == [
        "/api/recording",
        "/api/longest-silence",
        "/api/resume?first=2&second=3",
    ]
    assert [path for path in answers if "rows" in path] == [f"/api/rows?exchange={number}" for number in (1, 2, 3, 4)]
    assert [path for path in answers if "overview" in path] == [f"/api/overview?exchange={each}" for each in (2, 3)]
    assert list(document["events"]) == list(document["states"]) == ["2", "3"]
    assert answers["/api/resume?first=2&second=3"][0]["row"] == "reconnection"


_TYPES = (
    "run.started message.started message.delta reasoning.delta reasoning.message "
    "message.completed tool.started tool.completed run.completed session.status_idle odd"
)
TYPES = st.sampled_from(_TYPES.split())
TEXTS = st.text(alphabet="ab\U0001f600é<", max_size=4)
EVENTS = st.lists(
    st.tuples(TYPES, TEXTS, st.sampled_from(["r1", "r2", None]), st.sampled_from(["t1", "t2"]), st.booleans()),
    max_size=25,
)


@settings(max_examples=15)
@given(first=EVENTS, second=EVENTS, resumes=st.booleans())
def test_states_in_the_page_equal_those_of_the_recording(new_builder, message, first, second, resumes):
    builder, number = new_builder(), 0
    for events, cursor in ((first, None), (second, "e2" if resumes else None)):
        chunks = []
        for kind, text, run, call, durable in events:
            number += 1
            fields = {"run_id": run, "delta": {"text": text}} if run else {"delta": {"text": text}}
            if kind.startswith("tool"):
                fields["content"] = {"tool_call_id": call, "name": text, "input": {}}
            elif kind in {"message.completed", "reasoning.message"}:
                fields["content"] = [{"type": "text", "text": text}]
            marks = {"id": f"e{number}", "sequence": number} if durable and "delta" not in kind else {}
            chunks.append((1, message(kind, **marks, **fields)))
        builder.exchange(chunks, request_headers=(("Last-Event-ID", cursor),) if cursor else ())
    assert_page_equals_recording(builder.close())


def test_recorded_text_cannot_end_the_script_element(builder, message, run, tmp_path):
    evil = "</script><!--<script>alert(1)</script>"
    builder.exchange(
        [message("message.completed", id=evil, text=evil), b"data: \xff</script>\n\n"],
        target=f"/v1/sessions/s1/events/stream?{evil}",
        detail=evil,
        ending=Ending.SERVICE_RESET,
    )
    builder.find(finding(1, message=evil))
    path = builder.close()
    with open_recording(path) as recording:
        page = b"".join(export_page(recording))
    assert page.count(b"</script>") == 2, "the data, and the page's own script"
    assert b"<!--" not in _DATA.search(page)[1]
    assert details_of(embedded(path), 1)[2]["base64"] == b64encode(b"data: \xff</script>\n\n").decode()
    assert embedded(path)["answers"]["/api/recording"]["findings"][0]["message"] == evil
    succeed("export", path, "--format", "html", "-o", tmp_path / "run.html")
    written = (tmp_path / "run.html").read_bytes()
    assert written.count(b"</script>") == 2
    assert b"<!--" not in _DATA.search(written)[1]


def test_long_stream_is_split_into_blocks(builder, message):
    large = message("message.completed", id="large", text="x" * 3_000_000)
    small = [message("message.completed", id=f"e{number}", sequence=number) for number in range(300)]
    builder.exchange([large, *(data for data in small)])
    document = embedded(builder.close())
    assert [(block["first"], block["last"]) for block in document["events"]["1"]] == [(1, 1), (2, 257), (258, 301)]


def test_page_of_events_near_findings_has_a_block_for_each_place(builder, message):
    builder.exchange([message("run.started", id=f"e{number}", sequence=number) for number in range(1, 11)])
    with open_recording(builder.close()) as recording:
        near = PageContent(recording, [recording.exchange(1)], {1: [finding(2), finding(8)]}, radius=1)
        document = json.loads(b"".join(document_parts(near)))
    for blocks in (document["events"]["1"], document["states"]["1"]):
        assert [(block["first"], block["last"]) for block in blocks] == [(1, 3), (7, 9)]
    assert [event for event, item in details_of(document, 1).items() if item["event"] == event] == [1, 2, 3, 7, 8, 9]
    assert [state["cursor"] for _, state in states_of(document, 1)] == ["e1", "e2", "e3", "e7", "e8", "e9"]
    assert [row.get("first") for row in rows_of(document, 1) if row["row"] == "omitted"] == [4, 10]


def test_events_have_their_chunks_wherever_these_split_them(builder, message):
    data = message("run.started", id="e1") + message("run.completed", id="e2") + b": keep\r\n\r\n" + message("odd")
    builder.exchange([data[at : at + 7] for at in range(0, len(data), 7)])
    assert_page_equals_recording(builder.close())


def test_page_contains_the_bytes_of_unfinished_messages(builder, message):
    one, two = message("run.started", id="e1"), message("run.completed", id="e2")
    number = builder.exchange([one + b"event: ha", b"lf", 9, b"x\n\n" + two + b"data: \xff"])
    compressed = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    builder.exchange([gzip.compress(one + b"id: e2\nda")], headers=compressed)
    path = builder.close()
    document = embedded(path)
    cuts = [(where, cut) for where, cut in document["answers"].items() if where.startswith("/api/cut")]
    first, second = ([cut for where, cut in cuts if f"exchange={each}&" in where] for each in (number, number + 1))
    rows = [row for row in rows_of(document, number) if row["row"] == "cut"]
    assert_page_equals_recording(path)
    assert [(cut["start"], cut["end"]) for cut in first] == [(row["start"], row["end"]) for row in rows]
    assert (first[0]["text"], len(first[0]["chunks"])) == ("event: half", 2)
    assert b64decode(first[-1]["base64"]) == b"data: \xff"
    assert (second[0]["text"], second[0]["chunks"]) == ("id: e2\nda", None)


def test_page_contains_compressed_streams_decoded(builder, message):
    whole = gzip.compress(message("run.started", id="e1", run_id="r1") + message("run.completed", id="e2", run_id="r1"))
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    builder.exchange([whole[:30], whole[30:]], headers=headers)
    builder.exchange([whole[:30], b"nonsense"], headers=headers)
    assert_page_equals_recording(builder.close())


@pytest.mark.parametrize("kept", [[2], [1, 3]])
def test_page_contains_only_the_chosen_exchanges(session, run, tmp_path, kept):
    with open_recording(session) as recording:
        document = embedded(session, exchanges=[recording.exchange(number) for number in kept])
    assert [head["exchange"] for head in document["answers"]["/api/recording"]["exchanges"]] == kept
    paths = [path for path in document["answers"] if path.startswith("/api/rows")]
    assert paths == [f"/api/rows?exchange={number}" for number in kept]
