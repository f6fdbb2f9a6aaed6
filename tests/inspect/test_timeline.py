"""Previews of ordinary bodies, which may be large, broken or bombs."""

import gzip

from wiretape.observations import BytesArrived, BytesLost, Side
from wiretape.recording import open_recording
from wiretape_inspect import timeline_text
from wiretape_inspect.timeline_text import _body_preview


def part(data, start=0):
    return BytesArrived(1, Side.RESPONSE, start, data, (start + len(data),), (5,))


def test_a_preview_reads_no_more_than_it_shows_and_ends_before_lost_bytes():
    def body():
        yield part(b"x" * 5000)
        raise AssertionError("read on")

    assert _body_preview(body(), None) == "x" * 399 + "…"
    lost = BytesLost(1, 6, Side.RESPONSE, 2, 3, "disk full")
    assert _body_preview([part(b"ab"), lost, part(b"cd", 5)], None) == "ab"


def test_a_preview_does_not_decode_a_whole_compression_bomb():
    """20 MB of zeros are 20 kB of gzip; one more slice than needed would already be 4 MB."""
    bomb = gzip.compress(b"a" * 600 + b"\n" * 20_000_000)
    calls = []

    class Data(bytes):
        def __getitem__(self, place):
            calls.append(place)
            return bytes.__getitem__(self, place)

    run = BytesArrived(1, Side.RESPONSE, 0, Data(bomb), (len(bomb),), (5,))
    assert _body_preview([run], "gzip").startswith("a" * 300)
    assert len(calls) == 1


def test_failures_have_the_style_of_errors(tape, message):
    types = ("tool.started", "tool.completed", "tool.failed", "run.failed", "session.error", "run.completed")
    tape.exchange(chunks=[(1, message(type_, id=f"e{n}", sequence=n)) for n, type_ in enumerate(types)])
    with open_recording(tape.close()) as recording:
        rows = timeline_text.matching_rows(recording, recording.exchange(1), (), None)
        styles = {part[0].strip(): part[1] for row in rows for part in timeline_text.row_line(row).parts if part[1:]}
    assert {type_: styles[type_] for type_ in types} == {
        type_: "bad" if type_.endswith(("failed", "error")) else "durable" for type_ in types
    }
