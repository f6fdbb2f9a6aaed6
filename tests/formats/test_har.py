"""`wiretape export --format har`, and importing the HAR files of other programs."""

import json
import tracemalloc
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from invoke import refusal, succeed
from jsonschema import Draft202012Validator

from wiretape.errors import InputError
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer, open_recording
from wiretape.recording.formats import find_format
from wiretape.recording.formats.har_writer import write as write_har

HERE = Path(__file__).parent
SCHEMA = Draft202012Validator(json.loads((HERE / "har12.schema.json").read_bytes()))
KEYS = (("Authorization", "Bearer abcdefghijkl"), ("Cookie", "a=b"), ("Accept", "*/*"))
MESSAGES = [
    {"time": 1_700_000_001, "eventName": "a", "eventId": "1", "data": "one"},
    {"time": 1_700_000_002.5, "eventName": "message", "eventId": "1", "data": "two\nlines"},
    {"time": 1_700_000_003, "eventName": "b", "eventId": "2", "data": ""},
]


@pytest.fixture
def recorded(tmp_path):
    """Return a function that makes a recording of one exchange."""

    def record(*chunks, kind="text/event-stream", headers=(), ending=Ending.COMPLETE, status=200):
        writer = Writer.create(tmp_path / "run.db", upstream="http://a.test", started_unix_ns=1_700_000_000_000_000_000)
        writer.feed([RequestStarted(1, 1000, "", "POST", "http", "a.test", "/s?b=%20c", "HTTP/1.1", KEYS)])
        writer.feed([BytesArrived(1, Side.REQUEST, 0, b"{}", (2,), (2000,)), RequestEnded(1, 5_000_000)])
        if status:
            head = (("Content-Type", kind), ("Set-Cookie", "c=d"), *headers)
            writer.feed([ResponseStarted(1, 7_000_000, status, "", "HTTP/1.1", head)])
        at, now = 0, 10_000_000
        for chunk in chunks:
            now += 1_000_000
            if isinstance(chunk, int):
                writer.feed([BytesLost(1, now, Side.RESPONSE, at, chunk, "disk full")])
                at += chunk
            else:
                writer.feed([BytesArrived(1, Side.RESPONSE, at, chunk, (at + len(chunk),), (now,))])
                at += len(chunk)
            writer.commit()
        writer.feed([ExchangeEnded(1, now + 2_000_000, ending, "")])
        writer.close(now + 3_000_000)
        return tmp_path / "run.db"

    return record


def entry(path, *options):
    """Return the only entry of the HAR file of a recording, which must be valid HAR 1.2."""
    har = json.loads(succeed("export", path, "--format", "har", *options).stdout)
    SCHEMA.validate(har)
    (only,) = har["log"]["entries"]
    return only


def body(recording, number=1, side=Side.RESPONSE):
    return b"".join(part.data for part in recording.body(number, side))


def times(recording, number=1):
    """Return the milliseconds between the request and each event."""
    began = recording.exchange(number).request.time_ns
    return [round((seen.time_ns - began) / 1e6, 3) for seen in recording.frames(number) if seen.frame.is_dispatched]


def har(*, text=None, messages=None, creator="WebInspector", timings=None, **response):
    """Return a HAR document with a stream."""
    content = {"size": 10, "mimeType": "text/event-stream", **({} if text is None else {"text": text})}
    stream = {
        "startedDateTime": "2023-11-14T22:13:20.000Z",
        "time": 3000,
        "request": {"method": "GET", "url": "https://a.test/s", "httpVersion": "h2", "headers": []},
        "response": {"status": 200, "statusText": "", "httpVersion": "h2", "headers": [], "content": content}
        | response,
        "timings": timings or {"blocked": 100, "dns": -1, "send": 0, "wait": 400, "receive": 2500},
        **({} if messages is None else {"_eventSourceMessages": messages}),
    }
    return {"log": {"version": "1.2", "creator": {"name": creator, "version": "1"}, "entries": [stream]}}


def test_events_are_written_in_the_form_of_devtools_with_their_offsets(recorded):
    path = recorded(b': hi\n\nid: 1\nevent: x\ndata: {"sequence": 4}\n\n', b"data: \xc3\xa9\n\nevent: none\n\n")
    shown = entry(path)

    assert shown["_resourceType"] == "eventsource"
    assert shown["_eventSourceMessages"] == [
        {"time": 1_700_000_000.011, "eventName": "x", "eventId": "1", "data": '{"sequence": 4}'},
        {"time": 1_700_000_000.012, "eventName": "message", "eventId": "", "data": "é"},
    ]
    assert shown["_wiretape"] == [
        {"event": 1, "sequence": None, "byteOffset": 6, "kind": "durable"},
        {"event": 2, "sequence": None, "byteOffset": 44, "kind": "ephemeral"},
    ]
    assert shown["response"]["content"]["text"].startswith(": hi\n\nid: 1")
    assert {name: shown["timings"][name] for name in ("send", "wait", "receive")} == {
        "send": 4.999,
        "wait": 2.0,
        "receive": 7.0,
    }
    assert shown["request"]["queryString"] == [{"name": "b", "value": " c"}]
    assert shown["request"]["postData"]["text"] == "{}"


def test_a_har_file_is_sanitised_by_default(recorded):
    path = recorded(b"data: 1\n\n")
    bare, full = entry(path), entry(path, "--with-sensitive")

    assert [each["name"] for each in bare["request"]["headers"]] == ["Accept"]
    assert [each["name"] for each in bare["response"]["headers"]] == ["Content-Type"]
    assert full["request"]["headers"][0]["value"].startswith("Bearer [redacted:")
    assert len(full["response"]["headers"]) == 2


def test_a_binary_body_is_written_as_base64(recorded):
    content = entry(recorded(b"\xff\x00", b"abc", kind="image/png"))["response"]["content"]

    assert (content["encoding"], b64decode(content["text"]), content["size"]) == ("base64", b"\xff\x00abc", 5)


@pytest.mark.parametrize(
    ("chunks", "headers", "comment"),
    [
        ((b"no gzip",), (("Content-Encoding", "gzip"),), "cannot be decoded"),
        ((b"data: 1\n\n", 70, b"x\n\n"), (), "70 bytes of this exchange were not recorded"),
    ],
    ids=["undecodable", "lost"],
)
def test_a_comment_explains_why_a_body_is_incomplete(recorded, chunks, headers, comment):
    assert comment in entry(recorded(*chunks, headers=headers))["response"]["content"]["comment"]


@pytest.mark.parametrize(
    ("chunks", "datas", "mismatch"),
    [
        ((b"data: 1\n\n", 70, b"x\n\ndata: 2\n\n"), [b"1", b"2"], False),
        ((b"data: 1\n\ndata: a", 70, b"b\n\ndata: 2\n\n"), [b"1", b"ab", b"2"], True),
    ],
    ids=["between events", "within an event"],
)
def test_a_body_is_joined_across_lost_bytes(recorded, imported, chunks, datas, mismatch):
    """A HAR file cannot mark lost bytes: if they cut an event, the events after it no longer match the listed ones."""
    notes, recording = imported(succeed("export", recorded(*chunks), "--format", "har").stdout_bytes)

    assert body(recording) == b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))
    assert recording.exchange(1).lost_bytes == 0
    assert [seen.frame.data for seen in recording.frames(1) if seen.frame.is_dispatched] == datas
    assert ("The listed events differ from the body of exchange 1" in notes) == mismatch


def test_an_exchange_without_a_response_has_status_0_and_its_ending_as_error(recorded):
    response = entry(recorded(status=None, ending=Ending.SERVICE_UNREACHABLE))["response"]

    assert (response["status"], response["_error"]) == (0, "service-unreachable")


def test_writing_a_stream_needs_little_memory(recorded):
    """The file of 2 MB of events is twice as large, and less than a quarter of it is held at any time."""
    event = b'id: 1\nevent: x\ndata: {"sequence": 1, "text": "' + b"x" * 900 + b'"}\n\n'
    path = recorded(*[event * 50] * 40)
    with open_recording(path) as recording:
        tracemalloc.start()
        size = sum(len(part) for part in write_har(recording))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert size > 3_500_000
    assert peak < 800_000


def test_a_stream_has_the_bytes_of_the_text_and_the_times_of_the_listed_events(imported):
    text = ": hi\n\nevent: a\nid: 1\ndata: one\n\n: ping\n\ndata: two\ndata: lines\n\nevent: b\r\nid: 2\r\ndata\r\n\r\n"
    notes, recording = imported(har(text=text, messages=MESSAGES))

    assert body(recording) == text.encode()
    assert times(recording) == [1000, 2500, 3000]
    assert "built from" not in notes
    assert recording.exchange(1).request.http_version == "HTTP/2.0"


def test_a_stream_without_text_is_built_from_the_listed_events(imported):
    """DevTools repeats the last id for events without an id, so a repeated id is not written again."""
    notes, recording = imported(har(messages=MESSAGES))

    assert body(recording) == b"event: a\nid: 1\ndata: one\n\ndata: two\ndata: lines\n\nevent: b\nid: 2\ndata: \n\n"
    assert times(recording) == [1000, 2500, 3000]
    assert recording.exchange(1).ending is Ending.OPEN
    assert "The bytes of exchange 1 were built from the listed events" in notes


def test_a_text_that_differs_from_the_listed_events_is_used_without_their_times(imported):
    text = "event: a\nid: 1\ndata: one\n\ndata: other\n\n"
    notes, recording = imported(har(text=text, messages=MESSAGES))

    assert body(recording) == text.encode()
    assert "The listed events differ from the body of exchange 1" in notes


@pytest.mark.parametrize(
    ("creator", "messages", "expected"),
    [
        ("WebInspector", [{"time": 1, "eventName": "message", "eventId": "", "data": "é…"}], "é…"),
        ("WebInspector", [{"time": 1, "eventName": "message", "eventId": "", "data": "Ã©â€¦"}], "Ã©â€¦"),
        ("Playwright", None, "é…"),
        ("Firefox", None, "Ã©â€¦"),
        ("wiretape", None, "Ã©â€¦"),
    ],
)
def test_utf_8_that_chromium_decoded_as_windows_1252_is_restored(imported, creator, messages, expected):
    _, recording = imported(har(text="data: Ã©â€¦\n\n", messages=messages, creator=creator))

    assert body(recording) == f"data: {expected}\n\n".encode()


def test_a_decoded_body_has_no_content_encoding(imported):
    headers = [{"name": "Content-Encoding", "value": "br"}, {"name": "X", "value": "1\n2"}, {"name": ":s", "value": ""}]
    notes, recording = imported(har(text="data: 1\n\n", headers=headers))

    assert recording.exchange(1).response.headers == (("X", "1"), ("X", "2"), ("Content-Type", "text/event-stream"))
    assert "The body of exchange 1 was compressed" in notes
    assert "No request has a key" in notes


def test_skipped_entries_are_counted(imported):
    document = har(text="data: 1\n\n")
    (first,) = document["log"]["entries"]
    document["log"]["entries"] += [
        {**first, "request": {"url": "data:text/plain,x"}},
        {**first, "_resourceType": "websocket"},
    ]
    notes, recording = imported(b"\xef\xbb\xbf" + json.dumps(document).encode())

    assert "Skipped 2 entries that are not HTTP requests." in notes
    assert len(list(recording.exchanges())) == 1


DATA = [data for number in range(1, 6) for data in (f'{{"n": {number}}}', "delta é")] + ["x"]


@pytest.mark.parametrize(
    ("file", "number", "data"),
    [
        ("devtools.har", 1, DATA),
        ("devtools.har", 2, DATA),
        ("devtools.har", 3, DATA),
        ("devtools-sanitized.har", 1, [""] * 11),
        ("devtools-sanitized.har", 2, DATA),
        ("playwright.har", 3, DATA),
        ("mitmproxy-11.har", 1, ['{"n": 1}', '{"n": 2}', '{"n": 3}']),
        ("mitmproxy-12.har", 1, ['{"n": 1}', '{"n": 2}', '{"n": 3}']),
    ],
)
def test_files_of_other_programs_are_imported_with_all_events(imported, file, number, data):
    _, recording = imported((HERE / "written" / file).read_bytes())

    frames = [seen.frame for seen in recording.frames(number) if seen.frame.is_dispatched]
    assert [frame.data.decode() for frame in frames] == data
    assert [frame.id for frame in frames if frame.id] == [
        str(n) for n in range(1, len(data) // 2 + 1)
    ] or "mitm" in file
    assert times(recording, number) == sorted(times(recording, number))


def entry_of(url, status=200):
    entry = {"startedDateTime": "2026-11-21", "request": {"url": url}, "response": {"status": status}}
    return json.dumps(entry).encode()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"log": {', "is not a HAR file: it is not JSON, or it is truncated."),
        (b'{"log": {"entries": ' + b"[" * 100_000, "cannot be read as HAR: it is nested too deeply"),
        (b'{"log": {"entries": []}}', "contains no HTTP requests."),
        (b'{"log": {"entries": 3}}', "log.entries: expected a list, got 3."),
        (b'{"log": {"entries": [3]}}', "log.entries[0]: expected a table, got 3."),
        (b'{"log": {"entries": [{}]}}', "log.entries[0]: request is missing."),
        (b'{"log": {"entries": [%s]}}' % entry_of("http://[x/"), "log.entries[0].request.url: not a URL."),
        (
            b'{"log": {"entries": [%s]}}' % entry_of("http://x/", 1000),
            "log.entries[0].response.status: expected at most 999, got 1000.",
        ),
        (
            b'{"log": {"entries": [%s]}}' % entry_of("http://x/").replace(b"2026", b"20x6"),
            "startedDateTime: expected a time such as 2026-11-21T12:00:00.000Z, got '20x6-11-21'.",
        ),
    ],
)
def test_an_invalid_file_is_reported_in_one_sentence(tmp_path, text, problem):
    path = tmp_path / "x.har"
    path.write_bytes(text)
    assert problem in refusal("import", path, "-o", tmp_path / "out.db")
    assert not (tmp_path / "out.db").exists()


WRONG_VALUES = [None, 3, -1, 1e300, 2**70, True, "", "x\ud800\n\x1b", "\u2028", [], [3], {}, {"text": []}, [[]], [{}]]


def key_paths(value, at=()):
    """Return the key path of every value in a document."""
    yield at
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from key_paths(value[key], (*at, key))


@pytest.mark.parametrize("wrong", WRONG_VALUES, ids=repr)
def test_a_wrong_value_anywhere_is_ignored_or_refused(tmp_path, wrong):
    headers = [{"name": "a", "value": "b"}]
    whole = har(text="data: 1\n\n", messages=MESSAGES[:1], headers=headers, _error="x")
    whole["log"]["entries"][0]["request"] |= {"postData": {"params": [{"name": "a", "value": "b"}]}}
    outcomes = {}
    for path_to_value in list(key_paths(whole))[1:]:
        document = json.loads(json.dumps(whole))
        inner = document
        for step in path_to_value[:-1]:
            inner = inner[step]
        inner[path_to_value[-1]] = wrong
        path = tmp_path / "x.har"
        path.write_text(json.dumps(document))
        try:
            seen = list(find_format("har").reader().read(path).observations)
        except InputError:
            seen = []
        for each in seen:
            # Lone surrogates and long integers can be stored neither as JSON nor in SQLite.
            orjson.dumps(replace(each, data="") if isinstance(each, BytesArrived) else each)
        outcomes[path_to_value] = bool(seen)
    entry = ("log", "entries", 0)
    assert outcomes[*entry, "response", "_error"]
    assert not outcomes[*entry, "request", "url"]
    # An absent value and null are the same.
    assert wrong is not None or sum(outcomes.values()) > len(outcomes) * 2 / 3
