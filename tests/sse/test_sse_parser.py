"""The parser as an object: closing, memory, work, and what it takes."""

import tracemalloc

import pytest

from wiretape import sse
from wiretape.sse import FrameKind, Parser


def kinds(frames):
    return [frame.kind for frame in frames]


def test_after_close_feeding_fails_and_closing_again_returns_nothing():
    stream = Parser()
    stream.feed(b"data: a")
    assert kinds(stream.close()) == [FrameKind.TAIL]
    assert stream.close() == []
    with pytest.raises(ValueError, match="closed"):
        stream.feed(b"b")


def test_a_limit_below_one_byte_is_refused():
    with pytest.raises(ValueError, match="at least one byte"):
        Parser(limit=0)


def test_the_last_event_id_is_known_before_during_and_after():
    stream = Parser(last_event_id=b"0")
    assert stream.last_event_id == b"0"
    stream.feed(b"id: 1\ndata: a\n\nid: 2\n")
    assert stream.last_event_id == b"1"
    stream.close()
    assert stream.last_event_id == b"1"


def test_of_repeated_fields_the_last_name_and_id_count_and_all_data():
    (frame,) = Parser().feed(b"event: a\nid: 1\ndata: x\nevent: b\nid: 2\nid: 3\0\ndata: y\n\n")
    assert (frame.event, frame.id, frame.data) == ("b", "2", b"x\ny")


def test_a_last_cr_completes_a_block_and_its_id_when_the_stream_is_closed():
    stream = Parser()
    assert stream.feed(b"id: 1\n\r") == []
    assert kinds(stream.close()) == [FrameKind.MESSAGE]
    assert stream.last_event_id == b"1"


def test_feeding_nothing_changes_nothing():
    stream = Parser()
    assert stream.feed(b"") == []
    assert stream.feed(b"data: a\n\r") == []
    assert stream.feed(b"") == []
    assert kinds(stream.feed(b"x")) == [FrameKind.MESSAGE]


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_what_is_fed_may_be_changed_afterwards(kind):
    """Frames hold bytes of their own."""
    buffer = bytearray(b"data: a\n\ndata: b")
    stream = Parser()
    frames = stream.feed(kind(buffer))
    buffer[:] = b"x" * len(buffer)
    frames += stream.close()
    assert [frame.raw for frame in frames] == [b"data: a\n\n", b"data: b"]
    assert all(type(frame.raw) is bytes for frame in frames)


def test_an_endless_block_is_buffered_only_up_to_the_limit():
    stream = Parser(limit=100_000)
    chunk = b"data: " + b"x" * 9_993 + b"\n"
    tracemalloc.start()
    try:
        given = sum(len(frame.raw) for _ in range(500) for frame in stream.feed(chunk))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    given += sum(len(frame.raw) for frame in stream.close())
    assert given == 500 * len(chunk)
    assert peak < 1_000_000


class Counted:
    """A pattern that counts the bytes it is let search."""

    def __init__(self, pattern):
        self.pattern = pattern
        self.searched = 0

    def search(self, data, begin):
        found = self.pattern.search(data, begin)
        self.searched += (found.end() if found else len(data)) - begin
        return found


_LONG = 6_000
_HARD = {
    "one long line": b"data: " + b"x" * _LONG,
    "one long block": b"data: x\n" * (_LONG // 8),
    "one long CR LF block": b"data: x\r\n" * (_LONG // 9),
    "one long CR block": b"data: x\r" * (_LONG // 8),
    "one long comment": b":" + b"x" * _LONG,
    "comments": b": ping\n" * (_LONG // 7),
    "blank lines": b"\n" * _LONG,
    "blank CR lines": b"\r" * _LONG,
    "short CR blocks": b"data: x\r\r" * (_LONG // 9),
    "short LF blocks": b"data: x\n\n" * (_LONG // 9),
    "LF left over again and again": b"a\r\r\n" * (_LONG // 4),
}


@pytest.mark.parametrize("stream", _HARD.values(), ids=_HARD.keys())
@pytest.mark.parametrize("size", [1, 7, _LONG * 2])
@pytest.mark.parametrize("options", [{}, {"limit": 100}, {"midstream": True}], ids=str)
def test_parsing_takes_linear_time(stream, size, options, monkeypatch):
    """Counted are the bytes searched, and those copied to cut frames out of them."""
    patterns = ["_BOM_END", "_LINE_END", "_LINE_END_AFTER_CR", "_BLANK_LINE", "_BLANK_LINE_AFTER_LF"]
    counted = [Counted(getattr(sse, name)) for name in patterns]
    for name, pattern in zip(patterns, counted, strict=True):
        monkeypatch.setattr(sse, name, pattern)
    copied = 0

    class Watched(Parser):
        def _cut(self, data):
            nonlocal copied
            copied += len(data)
            return super()._cut(data)

    watched = Watched(**options)
    for at in range(0, len(stream), size):
        watched.feed(stream[at : at + size])
    watched.close()
    assert sum(pattern.searched for pattern in counted) <= 6 * len(stream)
    assert copied <= 6 * len(stream)


def test_an_event_has_up_to_16_mib_by_default():
    head = b"data: " + b"x" * (16 * 1024 * 1024 - 8)
    assert kinds(Parser().feed(head + b"\n\n")) == [FrameKind.MESSAGE]
    assert kinds(Parser().feed(head + b"x\n\n"))[:1] == [FrameKind.OVERSIZED]


def test_usual_events_take_the_fast_path(monkeypatch):
    """Neither the general search for fields nor that for the end of a frame is needed."""
    monkeypatch.setattr(sse, "_FIELD", None)
    monkeypatch.setattr(Parser, "_finish", None)
    assert kinds(Parser().feed(b"id: 1\nevent: a\ndata: b\n\n" * 3)) == [FrameKind.MESSAGE] * 3
