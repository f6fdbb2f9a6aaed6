"""Import flow files of mitmproxy and raw event streams."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.observations import Ending, Side
from wiretape.recording import open_recording

# It makes its filters when it is first imported, in a way of which a library that it uses warns.
with warnings.catch_warnings(action="ignore"):
    import mitmproxy.io  # noqa: F401

WRITTEN = Path(__file__).parent / "written"
STREAM = b"".join(b'event: e.%d\nid: %d\ndata: {"n": %d}\n\n' % (n, n, n) for n in (1, 2, 3))
WITHOUT = """
import sys
sys.modules["mitmproxy"] = None
sys.meta_path.insert(0, type("Gone", (), {"find_spec": staticmethod(lambda name, *_: refuse(name))}))
def refuse(name):
    if name.partition(".")[0] == "mitmproxy":
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
from wiretape.cli import main
main(sys.argv[1:])
"""


def imported(tmp_path, path, *options):
    result = CliRunner().invoke(wiretape, ["import", str(path), "-o", str(tmp_path / "out.db"), *options])
    assert result.exit_code == 0, result.output
    return result.stderr, open_recording(tmp_path / "out.db")


def refused(tmp_path, path, *options):
    """Return the error message of an import."""
    result = CliRunner().invoke(wiretape, ["import", str(path), "-o", str(tmp_path / "out.db"), *options])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out.db").exists()
    return result.stderr


def body(recording, number=1, side=Side.RESPONSE):
    return b"".join(part.data for part in recording.body(number, side))


@pytest.mark.parametrize("version", [11, 12])
def test_a_flow_file_is_imported(tmp_path, version):
    notes, recording = imported(tmp_path, WRITTEN / f"mitmproxy-{version}.flows")
    stream, post = recording.exchanges()

    assert body(recording) == STREAM
    assert (stream.operation, stream.session_id, stream.ending) == ("stream", "s1", Ending.COMPLETE)
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
def test_a_streamed_body_is_missing_and_reported(tmp_path, version):
    notes, recording = imported(tmp_path, WRITTEN / f"mitmproxy-{version}-streamed.flows")

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

    message = refused(tmp_path, path, "--format", "flows")
    assert "x.flows is " in message
    assert message.endswith(".\n")
    assert not message.endswith("..\n")


@pytest.mark.parametrize("at", range(40, 2100, 97))
def test_a_flipped_byte_is_imported_or_reported(tmp_path, at):
    data = bytearray((WRITTEN / "mitmproxy-12.flows").read_bytes())
    data[at] ^= 0xAA
    path = tmp_path / "x.flows"
    path.write_bytes(data)
    result = CliRunner().invoke(wiretape, ["import", str(path), "--format", "flows", "-o", str(tmp_path / "out.db")])

    assert result.exit_code in {0, 2}, result.exception


def test_an_import_without_mitmproxy_names_the_extra_to_install(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT, "import", WRITTEN / "mitmproxy-12.flows", "-o", tmp_path / "out.db"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, result.stderr) == (
        2,
        (
            "Error: Reading flow files needs mitmproxy, which is not installed: "
            "run pip install 'mitmproxy>=11.0.2,<13'\n"
        ),
    )


def test_a_raw_stream_is_imported_as_one_exchange_with_a_made_up_url(tmp_path):
    path = tmp_path / "x.sse"
    path.write_bytes(STREAM + b"data: cut")
    notes, recording = imported(tmp_path, path)

    assert body(recording) == STREAM + b"data: cut"
    assert (recording.exchange(1).session_id, recording.exchange(1).ending) == ("imported", Ending.OPEN)
    assert recording.info.upstream == ""
    assert "are made up" in notes


def test_url_sets_the_url_of_a_raw_stream(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbf\n: hello\n\n")
    url = "https://a.test:9/v1/sessions/s%202/events/stream"
    _, recording = imported(tmp_path, path, "--url", url)

    request = recording.exchange(1).request
    assert (request.scheme, request.authority, request.target) == (
        "https",
        "a.test:9",
        "/v1/sessions/s%202/events/stream",
    )
    assert recording.exchange(1).session_id == "s 2"


@pytest.mark.parametrize("url", ["a.test/x", "ftp://a/x", "http://", "http://[x/", "http://é/"])
def test_an_invalid_url_is_refused(tmp_path, url):
    path = tmp_path / "x.sse"
    path.write_bytes(STREAM)

    assert f"Invalid URL {url}: expected the URL of a stream" in refused(tmp_path, path, "--url", url)


def test_url_requires_the_format_sse(tmp_path):
    result = CliRunner().invoke(wiretape, ["import", str(WRITTEN / "devtools.har"), "--url", "http://a/"])

    assert "--url requires the sse format, but FILE is a HAR file." in result.stderr
    assert result.exit_code == 2
