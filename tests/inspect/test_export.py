"""`wiretape export`."""

import gzip
import json
from random import Random

import pytest
from wiretape_process import run_wiretape

STREAM = b"\xef\xbb\xbfdata: \xff\r\n\r\n: ping\r\n\r\nevent: x\rdata: {}\r\rdata: cut \x1b[2J\x00"
GZIP = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))


def lines(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_sse_is_decoded_unless_encoded_is_given(builder, run):
    encoded = gzip.compress(STREAM)
    builder.exchange([encoded[:20], encoded[20:]], headers=GZIP)
    path = builder.close()

    assert run("export", path, "--format", "sse").stdout_bytes == STREAM
    assert run("export", path, "--format", "sse", "--encoded").stdout_bytes == encoded


def test_undecodable_stream_is_refused_in_one_sentence_and_exported_encoded(builder, run):
    builder.exchange([b"no gzip at all"], headers=GZIP)
    path = builder.close()
    result = run("export", path, "--format", "sse")

    assert result.exit_code == 2
    assert "use --encoded to export it as it is" in result.stderr
    assert run("export", path, "--format", "sse", "--encoded").stdout_bytes == b"no gzip at all"


@pytest.mark.parametrize(
    ("kinds", "options", "error"),
    [
        ("sssssss", (), "Choose a stream with --exchange; the event streams are exchanges 1, 2, 3, 4, 5 and 2 more."),
        ("xs", ("--exchange", 1), "Exchange 1 is not an event stream; the only event stream is exchange 2."),
        ("x", (), "The recording has no event streams."),
    ],
)
def test_a_stream_must_be_selected(builder, run, tmp_path, kinds, options, error):
    for number, kind in enumerate(kinds):
        builder.exchange([b"data: %d\n\n" % number], **({} if kind == "s" else {"headers": ()}))
    path, to = builder.close(), tmp_path / "out.sse"
    result = run("export", path, "--format", "sse", "--output", to, *options)

    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"Error: {error}\n")
    assert not to.exists()
    if "s" in kinds:
        number = kinds.rindex("s") + 1
        assert run("export", path, "--format", "sse", "--exchange", number).output == f"data: {number - 1}\n\n"


def test_lost_bytes_are_reported_on_stderr(builder, run):
    builder.exchange([b"data: 1\n\n", 70, b"x\n\n"])
    result = run("export", builder.close(), "--format", "sse")

    assert (result.exit_code, result.stdout) == (0, "data: 1\n\nx\n\n")
    assert "70 bytes of exchange 1 were not recorded" in result.stderr


def test_events_have_a_line_for_each_exchange_and_event(run, session):
    found = lines(run("export", session, "--format", "events"))

    assert [line["kind"] for line in found if line["exchange"] == 3] == ["exchange", "durable"]
    assert [line["kind"] for line in found].count("delta") == 37
    event = found[-2]
    assert {name: event[name] for name in ("exchange", "event", "id", "name", "sequence", "start", "end")} == {
        "exchange": 3,
        "event": 1,
        "id": "e4",
        "name": "run.completed",
        "sequence": 4,
        "start": 0,
        "end": 104,
    }
    assert event["data"] == {"type": "run.completed", "id": "e4", "sequence": 4, "run_id": "r1"}
    assert event["time"].endswith("Z")
    assert found[0]["request_body"] == {"data": {"agent": "a"}}
    assert found[0]["response_body"]["data"]["error"]["code"] == "SESSION_BUSY"


def test_events_of_one_exchange_contain_only_that_exchange(run, session):
    assert {line["exchange"] for line in lines(run("export", session, "--format", "events", "--exchange", 2))} == {2}


def test_events_contain_json_unchanged(builder, run):
    """Numbers beyond a float, repeated keys, spacing and white space between the lines of data all stay JSON."""
    builder.exchange([b'data: {"n": 123456789012345678901234567890,\r\ndata:  "n": 1.10}\r\n\r\n'])
    text = run("export", builder.close(), "--format", "events").output.splitlines()[1]

    assert '"data":{"n": 123456789012345678901234567890,  "n": 1.10}}' in text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"plain", {"text": "plain"}),
        (b"\xff\x00", {"base64": "/wA="}),
        (b'"\xc2\x9b"', {"data": "\x9b"}),
        (b"[" * 2000 + b"]" * 2000, {"text": "[" * 2000 + "]" * 2000}),
        (b'"\\ud800"', {"data": "\ud800"}),
    ],
    ids=["text", "no UTF-8", "C1", "deep", "surrogate"],
)
def test_events_contain_other_data_as_text_or_base64(builder, run, data, expected):
    builder.exchange([b"data: " + data + b"\n\n"])
    event = lines(run("export", builder.close(), "--format", "events"))[1]

    assert {name: event.get(name) for name in expected} == expected
    assert len({"data", "text", "base64"} & event.keys()) == 1


def test_events_distinguish_comments_from_cut_events(builder, run):
    builder.exchange([STREAM])
    found = lines(run("export", builder.close(), "--format", "events"))

    assert [(line["kind"], line["event"]) for line in found[1:]] == [
        ("ephemeral", 1),
        ("comment", None),
        ("ephemeral", 2),
        ("tail", None),
    ]
    assert found[-1]["text"] == "data: cut \x1b[2J\x00"


def test_events_report_where_a_stream_cannot_be_decoded(builder, run):
    builder.exchange([b"no gzip"], headers=GZIP)

    assert lines(run("export", builder.close(), "--format", "events"))[1]["kind"] == "undecodable"


def test_events_contain_ordinary_bodies_decoded_if_possible(builder, run):
    encoding = ("content-encoding", "gzip")
    builder.exchange([gzip.compress(b'{"a": 1}')], target="/a", headers=(encoding,))
    builder.exchange([b"broken"], target="/b", headers=(encoding,))
    builder.exchange([gzip.compress(Random(1).randbytes(1_700_000) * 10, 1)], target="/c", headers=(encoding,))
    bodies = [line["response_body"] for line in lines(run("export", builder.close(), "--format", "events"))]

    assert bodies[0] == {"data": {"a": 1}}
    assert bodies[1] == {"text": "broken", "encoded": True}
    assert list(bodies[2]) == ["omitted"]


def test_a_full_disk_is_reported_in_one_sentence(builder):
    builder.exchange([b"data: 1\n\n" * 10_000])
    path = builder.close()
    for arguments in (["export", path, "--format", "sse"], ["show", path]):
        with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
            done = run_wiretape(*arguments, stdout=full)

        assert done.returncode == 2
        assert done.stderr == "Error: Cannot write to standard output: No space left on device.\n"
