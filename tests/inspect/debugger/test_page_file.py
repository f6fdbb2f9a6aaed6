"""Exported pages contain what the server would return."""

import gzip
import json
import re
from base64 import b64decode, b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.json_codec import dump_json
from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import open_recording
from wiretape.rules import Finding, Party, Severity
from wiretape_inspect import event_detail, timeline_json, timeline_text
from wiretape_inspect.page_export import export_page
from wiretape_inspect.view.client_state_at_event import MAX_TEXT

_DATA = re.compile(rb'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def embedded(path, **how):
    """Return the document that a page contains."""
    with open_recording(path) as recording:
        page = b"".join(export_page(recording, **how))
    (data,) = _DATA.findall(page)
    return json.loads(data)


def unpacked(text):
    return json.loads(gzip.decompress(b64decode(text)))


def details_of(document, number):
    return {
        event: detail
        for block in document["details"][str(number)]
        for event, detail in zip(range(block["first"], block["last"] + 1), unpacked(block["gzip"]), strict=True)
    }


def state_in(states, event):
    """Return the state after an event, as the page computes it from the steps."""
    now, runs, calls = {"text": None, "reasoning": None}, {}, {}
    for at, changes in states["steps"]:
        if at > event:
            break
        for spans, name in ((runs, "runs"), (calls, "calls")):
            for span in changes.pop(name, ()):
                spans[span["id"]] = spans.get(span["id"], {}) | span
        now |= changes
    for name in ("text", "reasoning"):
        index, units, characters, final = now[name] or (None, 0, 0, False)
        text = "" if index is None else states["texts"][index].encode("utf-16-le", "surrogatepass")[: 2 * units]
        whole = text.decode("utf-16-le", "surrogatepass") if text else ""
        now[name] = {"text": whole[-MAX_TEXT:], "characters": characters, "final": final}
    opened = [call for call in calls.values() if call["ended"] is None]
    return (
        {"exchange": states["exchange"], "event": event, "connections": states["connections"]}
        | now
        | {
            "runs": list(runs.values()),
            "open_calls": opened,
        }
    )


def assert_page_equals_recording(path):
    """The page contains the rows, events and states of the recording."""
    document = embedded(path)
    with open_recording(path) as recording:
        findings = timeline_text.stored_findings(recording)
        for exchange in recording.exchanges():
            found = findings.get(exchange.number, ())
            expected = timeline_json.exchange_json_lines(recording, exchange, found)
            assert document["rows"][str(exchange.number)] == [json.loads(line) for line in expected]
            if not exchange.is_stream:
                continue
            held = details_of(document, exchange.number)
            events = [seen.event for seen in recording.frames(exchange.number) if seen.event is not None]
            assert list(held) == events
            for event in events:
                context = event_detail.find_event(recording, exchange, event)
                expected = timeline_json.detail_document(recording, exchange, context)
                encoded = json.loads(dump_json(expected))
                inside = held[event]
                if "text" in inside:
                    inside["base64"] = b64encode(inside.pop("text").encode()).decode()
                states = unpacked(document["states"][str(exchange.number)])
                assert inside | {"state": state_in(states, event) | {"time_ns": inside["time_ns"]}} == encoded


def test_page_contains_what_the_server_returns(session):
    assert_page_equals_recording(session)


def test_page_contains_overviews_and_comparisons(session):
    document = embedded(session)

    assert document["format"] == 1
    assert [head["exchange"] for head in document["recording"]["exchanges"]] == [1, 2, 3, 4]
    assert (document["recording"]["live"], document["recording"]["replay"], document["recording"]["position"]) == (
        False,
        None,
        None,
    )
    assert list(document["rows"]) == ["1", "2", "3", "4"]
    assert list(document["overviews"]) == list(document["details"]) == list(document["states"]) == ["2", "3"]
    assert list(document["resumes"]) == ["2:3"]
    assert document["resumes"]["2:3"][0]["row"] == "reconnection"


TYPES = st.sampled_from(
    [
        "run.started",
        "message.started",
        "message.delta",
        "reasoning.delta",
        "reasoning.message",
        "message.completed",
        "tool.started",
        "tool.completed",
        "run.completed",
        "session.status_idle",
        "odd",
    ]
)
TEXTS = st.text(alphabet="ab\U0001f600é<", max_size=4)
EVENTS = st.lists(
    st.tuples(TYPES, TEXTS, st.sampled_from(["r1", "r2", None]), st.sampled_from(["t1", "t2"]), st.booleans()),
    max_size=25,
)


@settings(max_examples=15)
@given(first=EVENTS, second=EVENTS, resumes=st.booleans())
def test_states_in_the_page_equal_those_of_the_recording(new_tape, message, first, second, resumes):
    tape, number = new_tape(), 0
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
        tape.exchange(chunks=chunks, request_headers=(("Last-Event-ID", cursor),) if cursor else ())
    assert_page_equals_recording(tape.close())


def test_recorded_text_cannot_end_the_script_element(tape, message, run, tmp_path):
    evil = "</script><!--<script>alert(1)</script>"
    tape.exchange(
        f"/v1/sessions/s1/events/stream?{evil}",
        [(1, message("message.completed", id=evil, text=evil)), (1, b"data: \xff</script>\n\n")],
        detail=evil,
        ending=Ending.SERVICE_RESET,
    )
    tape.find(Finding("SEQ001", Severity.ERROR, Party.SERVICE, 1, 1, 1, None, 5, evil))
    path = tape.close()
    with open_recording(path) as recording:
        page = b"".join(export_page(recording))

    assert page.count(b"</script>") == 3, "the contract, the data, and the page's own script"
    assert b"<!--" not in _DATA.search(page)[1]
    assert details_of(embedded(path), 1)[2]["base64"] == b64encode(b"data: \xff</script>\n\n").decode()
    assert embedded(path)["recording"]["findings"][0]["message"] == evil
    assert run("export", path, "--format", "html", "-o", tmp_path / "run.html").exit_code == 0
    written = (tmp_path / "run.html").read_bytes()
    assert written.count(b"</script>") == 3
    assert b"<!--" not in _DATA.search(written)[1]


def test_long_stream_is_split_into_blocks(tape, message):
    large = message("message.completed", id="large", text="x" * 3_000_000)
    small = [message("message.completed", id=f"e{number}", sequence=number) for number in range(300)]
    tape.exchange(chunks=[(1, large), *((1, data) for data in small)])
    document = embedded(tape.close())

    assert [(block["first"], block["last"]) for block in document["details"]["1"]] == [(1, 1), (2, 257), (258, 301)]


def test_events_have_their_chunks_wherever_these_split_them(tape, message):
    data = message("run.started", id="e1") + message("run.completed", id="e2") + b": keep\r\n\r\n" + message("odd")
    tape.exchange(chunks=[(1, data[at : at + 7]) for at in range(0, len(data), 7)])

    assert_page_equals_recording(tape.close())


def test_page_contains_the_bytes_of_unfinished_messages(tape, message):
    one, two = message("run.started", id="e1"), message("run.completed", id="e2")
    number = tape.exchange(
        chunks=[
            (1, one + b"event: ha"),
            (1, b"lf"),
            BytesLost(0, 0, Side.RESPONSE, 0, 9, "why"),
            (1, b"x\n\n" + two + b"data: \xff"),
        ]
    )
    compressed = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    tape.exchange(chunks=[(1, gzip.compress(one + b"id: e2\nda"))], headers=compressed)
    path = tape.close()
    first, second = embedded(path)["cuts"].values()
    rows = [row for row in embedded(path)["rows"][str(number)] if row["row"] == "cut"]

    assert [(cut["start"], cut["end"]) for cut in first] == [(row["start"], row["end"]) for row in rows]
    assert (first[0]["text"], len(first[0]["chunks"])) == ("event: half", 2)
    assert b64decode(first[-1]["base64"]) == b"data: \xff"
    assert (second[0]["text"], second[0]["chunks"]) == ("id: e2\nda", None)


def test_page_contains_compressed_streams_decoded(tape, message):
    whole = gzip.compress(message("run.started", id="e1", run_id="r1") + message("run.completed", id="e2", run_id="r1"))
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    tape.exchange(chunks=[(1, whole[:30]), (1, whole[30:])], headers=headers)
    tape.exchange(chunks=[(1, whole[:30]), (1, b"nonsense")], headers=headers)

    assert_page_equals_recording(tape.close())


@pytest.mark.parametrize("kept", [[2], [1, 3]])
def test_page_contains_only_the_chosen_exchanges(session, run, tmp_path, kept):
    with open_recording(session) as recording:
        document = embedded(session, exchanges=[recording.exchange(number) for number in kept])

    assert [head["exchange"] for head in document["recording"]["exchanges"]] == kept
    assert list(document["rows"]) == [str(number) for number in kept]
