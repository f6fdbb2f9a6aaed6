"""Import flow files of mitmproxy and raw event streams."""

from pathlib import Path

import pytest
from invoke import invoke, refusal

from wiretape.observations import Ending, Side

WRITTEN = Path(__file__).parent / "written"
STREAM = b"".join(b'event: e.%d\nid: %d\ndata: {"n": %d}\n\n' % (n, n, n) for n in (1, 2, 3))


def body(recording, number=1, side=Side.RESPONSE):
    return b"".join(part.data for part in recording.body(number, side))


@pytest.mark.parametrize("version", [11, 12])
def test_a_flow_file_is_imported(imported, version):
    notes, recording = imported(WRITTEN / f"mitmproxy-{version}.flows")
    stream, post = recording.exchanges()

    assert body(recording) == STREAM
    assert (stream.operation, stream.channel, stream.ending) == ("stream", "s1", Ending.COMPLETE)
    assert ("Last-Event-Id", "e0") in stream.request.headers
    assert not any("abcdefghijkl" in value for _, value in stream.request.headers)
    assert (post.request.target, body(recording, 2, Side.REQUEST), body(recording, 2)) == (
        "/v1/runs",
        b'{"a": 1}',
        b'{"ok": true}',
    )
    assert stream.request.time_ns < stream.response.time_ns < stream.ended_ns < post.request.time_ns
    assert "The events of exchange 1 have no times" in notes


@pytest.mark.parametrize("version", [11, 12])
def test_a_streamed_body_is_missing_and_reported(imported, version):
    notes, recording = imported(WRITTEN / f"mitmproxy-{version}-streamed.flows")

    assert (body(recording), recording.exchange(1).is_stream) == (b"", True)
    assert "The body of exchange 1 is not in the file: mitmproxy streamed it" in notes


def with_invalid_error(data):
    """Replace the error of a flow by a string."""
    assert b"5:error;0:~" in data
    return data.replace(b"5:error;0:~", b"5:error;0:;")


@pytest.mark.parametrize(
    "change",
    [lambda data: data[:-900], lambda data: data.replace(b"path", b"p\xffth"), bytes.upper, with_invalid_error],
)
def test_a_damaged_flow_file_is_reported_in_one_sentence(tmp_path, change):
    path = tmp_path / "x.flows"
    path.write_bytes(change((WRITTEN / "mitmproxy-12.flows").read_bytes()))

    message = refusal("import", path, "-o", tmp_path / "out.db", "--format", "flows")
    assert "x.flows is " in message
    assert message.endswith(".")
    assert not message.endswith("..")
    assert not (tmp_path / "out.db").exists()


@pytest.mark.parametrize("at", range(40, 2100, 97))
def test_a_flipped_byte_is_imported_or_reported(tmp_path, at):
    data = bytearray((WRITTEN / "mitmproxy-12.flows").read_bytes())
    data[at] ^= 0xAA
    path = tmp_path / "x.flows"
    path.write_bytes(data)
    result = invoke("import", path, "--format", "flows", "-o", tmp_path / "out.db")

    assert result.exit_code in {0, 2}, result.exception


def test_a_raw_stream_is_imported_as_one_exchange_with_a_made_up_url(tmp_path, imported):
    path = tmp_path / "x.sse"
    path.write_bytes(STREAM + b"data: cut")
    notes, recording = imported(path)

    assert body(recording) == STREAM + b"data: cut"
    assert (recording.exchange(1).channel, recording.exchange(1).ending) == ("imported", Ending.OPEN)
    assert recording.info.upstream == ""
    assert "are made up" in notes


def test_url_sets_the_url_of_a_raw_stream(tmp_path, imported):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbf\n: hello\n\n")
    url = "https://a.test:9/v1/sessions/s%202/events/stream"
    _, recording = imported(path, "--url", url)

    request = recording.exchange(1).request
    assert f"{request.scheme}://{request.authority}{request.target}" == url
    assert recording.exchange(1).channel == "s 2"
