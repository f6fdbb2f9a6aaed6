"""The contentview `SSE`, which mitmweb and the mitmproxy console use for event streams."""

import gzip
import zlib

import brotli
import pytest
from late_import import LateModule

contentviews = LateModule("mitmproxy.contentviews")
flows = LateModule("mitmproxy.test.tflow")
display = LateModule("wiretape_proxy.flow_display")

ESCAPE = chr(0x1B)
RIGHT_TO_LEFT = chr(0x202E)
HEADING = "  event     seq  type"


def event(number: int, text: str = "word") -> bytes:
    return f'id: e{number}\ndata: {{"type": "a", "sequence": {number}, "text": "{text}"}}\n\n'.encode()


def make_flow(body: bytes, encoding: str = "", **metadata: object):
    flow = flows.tflow(resp=True)
    flow.request.path = "/v1/sessions/s1/events/stream"
    flow.response.headers["content-type"] = "text/event-stream"
    if encoding:
        flow.response.headers["content-encoding"] = encoding
    flow.response.raw_content = body
    flow.metadata |= metadata
    return flow


def render(body: bytes, encoding: str = "", **metadata: object) -> list[str]:
    flow = make_flow(body, encoding, **metadata)
    return list(display.render_stream(body, flow, flow.response))


def test_each_event_is_one_line_with_number_sequence_type_id_and_data():
    ignored = b": one\n\n: two\n\nevent: ping\ndata: x\n\nevent: empty\n\n"
    lines = render(event(7) + ignored + b"data: cut")

    assert lines == [
        f"3 events, {len(event(7)) + len(ignored) + 9} bytes",
        HEADING,
        f"{1:>7}  {7:>6}  {'a':<22}  e7  " + '{"type": "a", "sequence": 7, "text": "word"}',
        f"{'':17}╌╌ 2 comments ╌╌  : two",
        f"{2:>7}  {'·':>6}  {'ping':<22}  x",
        f"{3:>7}  {'·':>6}  {'empty':<22}  no data line, so clients ignore it",
        f"{'…':>7}  9 bytes of an unfinished event",
    ]


def test_a_long_stream_shows_its_last_events_with_their_numbers():
    lines = render(b"".join(map(event, range(1, 601))), wiretape_recording="a run.db", wiretape_exchange=3)

    assert lines[0].endswith(" bytes; show all with: wiretape show 'a run.db' --exchange 3")
    assert [line.split()[:2] for line in lines[2:]] == [[str(number)] * 2 for number in range(401, 601)]


@pytest.mark.parametrize("start", [0, 1_000_000])
def test_without_the_beginning_of_a_stream_events_have_no_numbers(start):
    body = b"".join(event(number, "x" * 1000) for number in range(1, 301))
    lines = render(body, wiretape_start=start)

    assert lines[0] == f"The last events of {start + len(body):,} bytes"
    assert 100 < len(lines) < 202
    assert all(line.startswith("       ") for line in lines[2:])
    assert lines[-1].split()[0] == "300"


def compress(parts: list[bytes], encoding: str) -> bytes:
    if encoding == "br":
        packer = brotli.Compressor()
        return b"".join(packer.process(part) + packer.flush() for part in parts)
    packer = zlib.compressobj(wbits=31)
    return b"".join(packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in parts)


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_an_encoded_stream_is_decoded_before_it_is_complete(encoding):
    lines = render(compress([event(1), event(2), b"data: cut"], encoding), encoding)

    assert lines[0] == f"2 events, {2 * len(event(1)) + 9} bytes"
    assert lines[-1] == "      …  9 bytes of an unfinished event"


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(gzip.compress(b"data: " + b"x" * 5_000_000 + b"\n\n"), "gzip"), (b"not gzip", "gzip"), (b"... ---", "morse")],
    ids=["bomb", "not gzip", "unknown"],
)
def test_bytes_that_cannot_be_decoded_or_decode_to_too_much_are_reported(body, encoding):
    assert render(body, encoding)[-1].startswith("Not decoded further: ")


def test_recorded_text_is_escaped_and_shortened():
    hostile = f"<script>{ESCAPE}[31m{RIGHT_TO_LEFT}"
    body = f"id: {hostile}\nevent: {hostile}\ndata: {hostile}\n\n: {hostile}\n\n".encode()
    body += b"data: \xff\xfe\n\n" + b"data: " + b"x" * 60_000 + b"\n\n"
    body += b'data: {"type": "a\\nb", "sequence": ' + b"9" * 4000 + b"}\n\n"
    lines = render(body)

    assert lines[2].count(r"<script>\x1b[31m\u202e") == 3
    assert lines[3].endswith(r"╌╌ 1 comment ╌╌  : <script>\x1b[31m\u202e")
    assert not set("".join(lines)) & {ESCAPE, RIGHT_TO_LEFT, "\r", "\n", "\t"}
    assert max(map(len, lines)) < 500
    assert len(lines) == 7


def test_mitmproxy_chooses_the_view_for_event_streams_only():
    """mitmproxy 11 passes the content type, 12 an object with it."""
    view = display.EventStreamView()
    assert view.render_priority(b"data", content_type="text/event-stream") > 1
    assert view.render_priority(b"data", content_type="application/json") < 0
    assert view.render_priority(b"", content_type="text/event-stream") < 0


def test_the_view_implements_the_interface_of_the_installed_mitmproxy():
    display.install()
    display.install()  # a script is loaded again when its file changes
    flow = make_flow(event(1))

    if hasattr(contentviews, "Contentview"):  # mitmproxy 12
        metadata = contentviews.Metadata(flow=flow, http_message=flow.response, content_type="text/event-stream")
        lines = display.EventStreamView().prettify(event(1), metadata).split("\n")
    else:
        name, styled, _ = contentviews.get_message_content_view("auto", flow.response, flow)
        assert display.NAME in name
        lines = ["".join(part for _, part in line) for line in styled]
    assert lines[:2] == [f"1 event, {len(event(1))} bytes", HEADING]
