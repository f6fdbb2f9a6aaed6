"""The public API of the library: `import wiretape`."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import wiretape

STREAM = "/v1/sessions/ses_1/events/stream"
BASE = {
    "workspace_id": "ws_1",
    "session_id": "ses_1",
    "run_id": "run_1",
    "created_at": "2025-01-01T00:00:00Z",
    "content": {},
    "data": {},
}


def durable(number, type_="run.started", **members):
    return {"id": f"evt_{number}", "sequence": number, "type": type_, **BASE, **members}


@pytest.fixture
def traffic():
    """A session with one stream of two events, the second with a sequence that is too low."""
    traffic = wiretape.TrafficBuilder()
    traffic.request("POST", "/v1/sessions", body=b"{}").respond(201, json={"id": "ses_1"})
    stream = traffic.request("GET", STREAM).respond_stream()
    stream.event("run.started", durable(1), id="evt_1")
    stream.event("run.completed", {**durable(0, "run.completed"), "id": "evt_2"}, id="evt_2")
    stream.end(wiretape.Ending.SERVICE_CLOSED)
    return traffic


def test_every_public_name_can_be_imported_and_is_known_to_type_checkers():
    tree = ast.parse(Path(wiretape.__file__).read_text("utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {alias.asname for node in block.body for alias in node.names}
    assert typed | {"__version__"} == set(wiretape.__all__)
    for name in wiretape.__all__:
        assert getattr(wiretape, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        wiretape.nonsense  # noqa: B018 - looking it up is the test


def test_importing_the_library_loads_neither_click_nor_sqlite():
    code = "import sys, wiretape; print(sorted({'click', 'sqlite_utils', 'aiohttp', 'mitmproxy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_observations_are_checked(traffic):
    result = wiretape.check(traffic.observations())
    assert [(finding.code, finding.exchange, finding.event) for finding in result.findings] == [("SEQ001", 2, 2)]
    assert result.verdicts["SEQ001"] is wiretape.Verdict.FAIL
    assert (result.exchanges, result.events, result.is_conforming) == (2, 2, False)


def test_a_creation_alone_is_the_services_as_observations_and_as_a_recording(tmp_path):
    traffic = wiretape.TrafficBuilder()
    traffic.request("POST", "/api/v1/sessions").respond(500, body=b"<html>")
    traffic.request("POST", "/v1/messages").respond(500, body=b"<html>")
    for source in (traffic.observations(), traffic.write(tmp_path / "run.db")):
        assert [(finding.code, finding.exchange) for finding in wiretape.check(source).findings] == [("ERR001", 1)]


def test_a_recording_gives_exchanges_events_and_findings(traffic, tmp_path):
    path = traffic.write(tmp_path / "run.db")
    with wiretape.open_recording(path) as recording:
        assert [exchange.request.method for exchange in recording.exchanges()] == ["POST", "GET"]
        events = list(recording.events())
        assert list(recording.events(2)) == events
        assert [finding.code for finding in recording.findings()] == ["SEQ001"]
    assert [(event.exchange, event.number, event.type, event.sequence, event.id) for event in events] == [
        (2, 1, "run.started", 1, "evt_1"),
        (2, 2, "run.completed", 0, "evt_2"),
    ]
    assert (events[0].kind, events[0].json["session_id"]) == ("durable", "ses_1")
    assert events[0].raw.startswith(b"event: run.started\nid: evt_1\ndata: {")
    assert events[1].frame.start == len(events[0].raw)
    assert events[0].keys == {"run": "run_1"}
    assert wiretape.check(path) == wiretape.check(traffic.observations())


def test_data_that_is_not_json_has_no_fields():
    (frame,) = wiretape.Parser().feed(b"event: odd\ndata: [1\n\n")
    event = wiretape.Event(3, frame, 5, 1)
    assert (event.json, event.type, event.sequence, event.keys, event.kind) == (None, "odd", None, {}, "ephemeral")


def test_the_bytes_of_a_stream_are_checked():
    body = b'event: run.started\nid: evt_1\ndata: {"id": "evt_9"}\n\n'
    codes = {finding.code for finding in wiretape.check_stream(body).findings}
    assert "DUR003" in codes
    assert wiretape.check_stream(b"").is_conforming


def test_an_unreadable_file_raises_an_error_that_is_not_from_click(tmp_path):
    with pytest.raises(wiretape.InputError, match="no-such-file") as caught:
        wiretape.check(tmp_path / "no-such-file.db")
    assert not any(base.__module__.startswith("click") for base in type(caught.value).__mro__)
