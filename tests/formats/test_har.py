"""`wiretape export --format har`, and HARs that other programs wrote."""

import json
import tracemalloc
from base64 import b64decode
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from wiretape.cli import wiretape
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
from wiretape_inspect import archive

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
    """Makes a recording of one exchange."""

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


def run(*args):
    return CliRunner().invoke(wiretape, [str(arg) for arg in args])


def entry(path, *options):
    """The only entry of the HAR of a recording, which is HAR 1.2."""
    result = run("export", path, "--format", "har", *options)
    assert result.exit_code == 0, result.output
    har = json.loads(result.stdout)
    SCHEMA.validate(har)
    (only,) = har["log"]["entries"]
    return only


def imported(tmp_path, har, name="in.har"):
    """What is said of a HAR, and its recording."""
    path = tmp_path / name
    path.write_bytes(har if isinstance(har, bytes) else json.dumps(har).encode())
    result = run("import", path, "-o", tmp_path / "out.db", "--force")
    assert result.exit_code == 0, result.output
    return result.stderr, open_recording(tmp_path / "out.db")


def body(recording, number=1, side=Side.RESPONSE):
    return b"".join(part.data for part in recording.body(number, side))


def times(recording, number=1):
    """Milliseconds between the request and each event."""
    began = recording.exchange(number).request.time_ns
    return [round((seen.time_ns - began) / 1e6, 3) for seen in recording.frames(number) if seen.frame.dispatched]


def har(*, text=None, messages=None, creator="WebInspector", timings=None, **response):
    """A HAR with a stream."""
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


def test_events_are_written_as_devtools_reads_them_with_their_places_beside_them(recorded):
    path = recorded(b': hi\n\nid: 1\nevent: x\ndata: {"sequence": 4}\n\n', b"data: \xc3\xa9\n\nevent: none\n\n")
    shown = entry(path)

    assert shown["_resourceType"] == "eventsource"
    assert shown["_eventSourceMessages"] == [
        {"time": 1_700_000_000.011, "eventName": "x", "eventId": "1", "data": '{"sequence": 4}'},
        {"time": 1_700_000_000.012, "eventName": "message", "eventId": "", "data": "é"},
    ]
    assert shown["_wiretape"] == [
        {"event": 1, "sequence": 4, "byteOffset": 6, "kind": "durable"},
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


def test_a_har_is_sanitised_unless_asked_otherwise(recorded):
    path = recorded(b"data: 1\n\n")
    bare, full = entry(path), entry(path, "--with-sensitive")

    assert [each["name"] for each in bare["request"]["headers"]] == ["Accept"]
    assert [each["name"] for each in bare["response"]["headers"]] == ["Content-Type"]
    assert full["request"]["headers"][0]["value"].startswith("Bearer [redacted:")
    assert len(full["response"]["headers"]) == 2
    assert run("export", path, "--format", "sse", "--with-sensitive").exit_code == 2


def test_bodies_that_are_no_text_are_base64_and_others_are_named(recorded):
    content = entry(recorded(b"\xff\x00", b"abc", kind="image/png"))["response"]["content"]

    assert (content["encoding"], b64decode(content["text"]), content["size"]) == ("base64", b"\xff\x00abc", 5)


@pytest.mark.parametrize(
    ("chunks", "headers", "said"),
    [
        ((b"no gzip",), (("Content-Encoding", "gzip"),), "cannot be decoded"),
        ((b"data: 1\n\n", 70, b"x\n\n"), (), "70 bytes of this exchange were not recorded"),
    ],
    ids=["undecodable", "lost"],
)
def test_what_is_wrong_with_a_body_stands_in_its_comment(recorded, chunks, headers, said):
    assert said in entry(recorded(*chunks, headers=headers))["response"]["content"]["comment"]


@pytest.mark.parametrize(
    ("chunks", "datas", "astray"),
    [
        ((b"data: 1\n\n", 70, b"x\n\ndata: 2\n\n"), [b"1", b"2"], False),
        ((b"data: 1\n\ndata: a", 70, b"b\n\ndata: 2\n\n"), [b"1", b"ab", b"2"], True),
    ],
    ids=["between events", "within an event"],
)
def test_a_body_is_joined_over_what_was_lost(recorded, tmp_path, chunks, datas, astray):
    """A HAR has no hole: events behind one within an event cannot be told to be those that are listed."""
    told, recording = imported(tmp_path, run("export", recorded(*chunks), "--format", "har").stdout_bytes)

    assert body(recording) == b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))
    assert recording.exchange(1).lost_bytes == 0
    assert [seen.frame.data for seen in recording.frames(1) if seen.frame.dispatched] == datas
    assert ("do not fit the body of exchange 1" in told) == astray


def test_an_ending_stands_in_the_error_and_no_answer_is_status_0(recorded):
    response = entry(recorded(status=None, ending=Ending.SERVICE_UNREACHABLE))["response"]

    assert (response["status"], response["_error"]) == (0, "service-unreachable")


def test_streams_are_written_with_flat_memory(recorded):
    """2 MB of events, twice as much in the HAR, and hardly a tenth of that is held."""
    event = b'id: 1\nevent: x\ndata: {"sequence": 1, "text": "' + b"x" * 900 + b'"}\n\n'
    path = recorded(*[event * 50] * 40)
    with open_recording(path) as recording:
        tracemalloc.start()
        size = sum(len(part) for part in archive.write(recording))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert size > 3_500_000
    assert peak < 800_000


def test_the_text_gives_the_bytes_and_the_list_the_times(tmp_path):
    text = ": hi\n\nevent: a\nid: 1\ndata: one\n\n: ping\n\ndata: two\ndata: lines\n\nevent: b\r\nid: 2\r\ndata\r\n\r\n"
    said, recording = imported(tmp_path, har(text=text, messages=MESSAGES))

    assert body(recording) == text.encode()
    assert times(recording) == [1000, 2500, 3000]
    assert "put together" not in said
    assert recording.exchange(1).request.http_version == "HTTP/2.0"


def test_without_a_text_the_bytes_are_put_together_from_the_events(tmp_path):
    """An id that is repeated is that of an event before: DevTools names the last one each time."""
    said, recording = imported(tmp_path, har(messages=MESSAGES))

    assert body(recording) == b"event: a\nid: 1\ndata: one\n\ndata: two\ndata: lines\n\nevent: b\nid: 2\ndata: \n\n"
    assert times(recording) == [1000, 2500, 3000]
    assert recording.exchange(1).ending is Ending.OPEN
    assert "The bytes of exchange 1 were put together from the events" in said


def test_a_text_that_the_events_do_not_fit_is_taken_without_their_times(tmp_path):
    text = "event: a\nid: 1\ndata: one\n\ndata: other\n\n"
    said, recording = imported(tmp_path, har(text=text, messages=MESSAGES))

    assert body(recording) == text.encode()
    assert "do not fit the body of exchange 1" in said


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
def test_what_chromium_read_as_windows_1252_is_utf_8_again(tmp_path, creator, messages, expected):
    _, recording = imported(tmp_path, har(text="data: Ã©â€¦\n\n", messages=messages, creator=creator))

    assert body(recording) == f"data: {expected}\n\n".encode()


def test_a_body_that_is_decoded_comes_without_its_encoding(tmp_path):
    headers = [{"name": "Content-Encoding", "value": "br"}, {"name": "X", "value": "1\n2"}, {"name": ":s", "value": ""}]
    said, recording = imported(tmp_path, har(text="data: 1\n\n", headers=headers))

    assert recording.exchange(1).response.headers == (("X", "1"), ("X", "2"), ("Content-Type", "text/event-stream"))
    assert "compressed on the wire" in said
    assert "No request carries a key" in said


def test_entries_that_are_no_exchanges_are_counted(tmp_path):
    document = har(text="data: 1\n\n")
    (first,) = document["log"]["entries"]
    document["log"]["entries"] += [
        {**first, "request": {"url": "data:text/plain,x"}},
        {**first, "_resourceType": "websocket"},
    ]
    said, recording = imported(tmp_path, b"\xef\xbb\xbf" + json.dumps(document).encode())

    assert "2 entries are no HTTP request, and left out." in said
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
def test_files_of_other_programs_come_in_with_all_events(tmp_path, file, number, data):
    _, recording = imported(tmp_path, (HERE / "written" / file).read_bytes())

    frames = [seen.frame for seen in recording.frames(number) if seen.frame.dispatched]
    assert [frame.data.decode() for frame in frames] == data
    assert [frame.id for frame in frames if frame.id] == [
        str(n) for n in range(1, len(data) // 2 + 1)
    ] or "mitm" in file
    moments = times(recording, number)
    assert moments == sorted(moments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"log": {', "is no JSON, or not all of it is there"),
        (b'{"log": {"entries": ' + b"[" * 100_000, "nested too deep"),
        (b'{"log": {"entries": []}}', "holds no HTTP request"),
        (b'{"log": {"entries": 3}}', "log.entries: it has to be a list of objects"),
        (b'{"log": {"entries": [3]}}', "log.entries: it has to be a list of objects"),
        (b'{"log": {"entries": [{}]}}', "log.entries[0].request: it is missing"),
        (b'{"log": {"entries": [{"request": {"url": "http://[x/"}}]}}', "request.url: it is no URL"),
        (
            b'{"log":{"entries":[{"startedDateTime":"2026-11-21","request":{"url":"http://x/"},"response":{"status":1000}}]}}',
            "response.status: it has to be 999 at most",
        ),
        (b'{"log": {"entries": [{"request": {"url": "http://x/"}}]}}', "startedDateTime: it has to be a time"),
    ],
)
def test_rubbish_is_one_sentence(tmp_path, text, said):
    path = tmp_path / "x.har"
    path.write_bytes(text)
    result = run("import", path, "-o", tmp_path / "out.db")

    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    assert said in result.output
    assert not (tmp_path / "out.db").exists()


WRONG = [None, 3, -1, 1e300, 2**70, True, "", "x\ud800\n\x1b", "\u2028", [], [3], {}, {"text": []}, [[]], [{}]]


def places(value, at=()):
    """Everything that stands in a document."""
    yield at
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*at, key))


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_wrong_types_everywhere_are_taken_or_refused_and_nothing_else(tmp_path, wrong):
    headers = [{"name": "a", "value": "b"}]
    whole = har(text="data: 1\n\n", messages=MESSAGES[:1], headers=headers, _error="x")
    whole["log"]["entries"][0]["request"] |= {"postData": {"params": [{"name": "a", "value": "b"}]}}
    for place in list(places(whole))[1:]:
        document = json.loads(json.dumps(whole))
        inner = document
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = wrong
        path = tmp_path / "x.har"
        path.write_text(json.dumps(document))
        with suppress(InputError):
            for seen in find_format("har").reader().read(path).observations:
                # What cannot be JSON cannot be stored either: halves of surrogate pairs, integers of any length.
                orjson.dumps(replace(seen, data="") if isinstance(seen, BytesArrived) else seen)
