"""From the observed bytes of a response to its frames: their times and numbers, decoded, across gaps."""

import gzip
import itertools
import zlib

import brotli
import pytest
import zstandard
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st
from tables import read_tables

from wiretape.content_encoding import ANY_RATIO, MOST_RATIO
from wiretape.frame_reader import FrameReader, StreamReaders
from wiretape.observations import BytesArrived, BytesLost, Ending, ExchangeEnded, ResponseStarted, Side
from wiretape.sse import FrameKind

VECTORS = read_tables(__file__)["vector"]


def read_frames(encoding, body):
    return FrameReader(encoding).read(body)


def arrived(*chunks, start=0):
    """One run of `(time_ns, bytes)` chunks."""
    ends = list(itertools.accumulate((len(data) for _, data in chunks), initial=start))[1:]
    data = b"".join(data for _, data in chunks)
    return BytesArrived(1, Side.RESPONSE, start, data, ends, [time_ns for time_ns, _ in chunks])


def lost(start, count, time_ns=99):
    return BytesLost(1, time_ns, Side.RESPONSE, start, count, "the disk was full")


def runs(*groups):
    """Runs one after the other, each of `(time_ns, bytes)` chunks."""
    start = 0
    for group in groups:
        run = arrived(*group, start=start)
        start = run.end
        yield run


def rows(seen):
    return [(found.frame.kind.value, found.frame.raw, found.time_ns, getattr(found, "number", None)) for found in seen]


def observed(body):
    """Yield a run for each chunk of a vector, and its losses."""
    start = 0
    for time_ns, each in body:
        yield lost(start, each, time_ns) if isinstance(each, int) else arrived((time_ns, each.encode()), start=start)
        start += each if isinstance(each, int) else len(each)


@for_each("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_body_is_read_as_frames(vector):
    seen = list(read_frames(None, observed(vector["body"])))
    expected = [(kind, raw.encode(), time_ns, number or None) for kind, raw, time_ns, number in vector["frames"]]
    assert rows(seen) == expected
    if "starts" in vector:
        assert [found.frame.start for found in seen] == vector["starts"]
    if "last_event_id" in vector:
        assert {found.frame.last_event_id for found in seen} == {vector["last_event_id"].encode()}
    if all(isinstance(each, str) for _, each in vector["body"]):
        whole = arrived(*((time_ns, each.encode()) for time_ns, each in vector["body"]))
        assert rows(read_frames(None, [whole])) == expected


def test_frames_are_returned_as_soon_as_they_are_complete():
    reader = FrameReader()
    first, second = runs([(10, b"data: a\n")], [(20, b"\n")])
    assert reader.feed(first) == []
    assert rows(reader.feed(second)) == [("message", b"data: a\n\n", 20, 1)]
    assert reader.events == 1
    assert reader.close() == []


@given(
    st.lists(st.sampled_from([b"data: a", b"id: 1", b":", b"\n", b"\r", b"\r\n", b"\n\n", b"", b"x"]), max_size=30),
    st.lists(st.integers(0, 30), max_size=6),
    st.sampled_from([None, "gzip", "br", "zstd"]),
)
def test_the_grouping_of_chunks_into_runs_has_no_meaning(pieces, cuts, encoding):
    chunks = [(10 * number, piece) for number, piece in enumerate(encoded(encoding, pieces), 1)]
    bounds = sorted({0, len(chunks), *(cut for cut in cuts if cut < len(chunks))})
    groups = [chunks[begin:end] for begin, end in itertools.pairwise(bounds)]
    assert rows(read_frames(encoding, runs(*groups))) == rows(read_frames(encoding, runs(chunks)))


def encoded(encoding, pieces):
    """Each piece, encoded and flushed so that its receiver can decode it at once."""
    if encoding == "gzip":
        compressor = zlib.compressobj(wbits=31)
        return [compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    if encoding == "br":
        compressor = brotli.Compressor()
        return [compressor.process(piece) + compressor.flush() for piece in pieces]
    if encoding == "zstd":
        compressor = zstandard.ZstdCompressor().compressobj()
        return [compressor.compress(piece) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for piece in pieces]
    return pieces


EVENTS = [b"id: 1\ndata: a\n\n", b": ping\r\n\r\n", b"data: b\nda", b"ta: c\n\n", b"id: 2\n"]
EXPECTED = [
    ("message", b"id: 1\ndata: a\n\n", 10, 1),
    ("comment", b": ping\r\n", 20, None),
    ("blank", b"\r\n", 20, None),
    ("message", b"data: b\ndata: c\n\n", 40, 2),
    ("tail", b"id: 2\n", 50, None),
]


@for_each("encoding", [None, "gzip", "br", "zstd"])
def test_an_encoded_stream_gives_the_frames_of_the_plain_one(encoding):
    chunks = [(10 * number, piece) for number, piece in enumerate(encoded(encoding, EVENTS), 1)]
    assert rows(read_frames(encoding, runs(*([chunk] for chunk in chunks)))) == EXPECTED
    starts = [found.frame.start for found in read_frames(encoding, [arrived(*chunks)])]
    assert starts == [0, 15, 23, 25, 42]


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress), ("deflate", zlib.compress)],
)
def test_each_event_may_be_a_separate_gzip_member(encoding, encode):
    chunks = [(10 * number, encode(piece)) for number, piece in enumerate(EVENTS, 1)]
    assert rows(read_frames(encoding, [arrived(*chunks)])) == EXPECTED


@pytest.mark.parametrize(("encoding", "encode"), [("gzip", gzip.compress), ("br", brotli.compress)])
def test_an_encoded_body_may_arrive_byte_by_byte(encoding, encode):
    body = encode(b"".join(EVENTS))
    chunks = [(number, body[number : number + 1]) for number in range(len(body))]
    found = rows(read_frames(encoding, runs(*([chunk] for chunk in chunks))))
    assert [(kind, raw, event) for kind, raw, _, event in found] == [(row[0], row[1], row[3]) for row in EXPECTED]


def test_the_time_of_a_frame_is_not_that_of_a_later_chunk_that_decodes_to_nothing():
    """A gzip trailer, for instance."""
    compressor = zlib.compressobj(wbits=31)
    flushed = compressor.compress(b"data: a\n\ndata: b") + compressor.flush(zlib.Z_SYNC_FLUSH)
    seen = rows(read_frames("gzip", runs([(10, flushed)], [(20, compressor.flush())])))
    assert seen == [("message", b"data: a\n\n", 10, 1), ("tail", b"data: b", 10, None)]


def test_an_undecodable_body_has_the_frames_before_the_error_and_a_reason():
    reader = FrameReader("gzip")
    good = gzip.compress(b"data: a\n\ndata: b")
    assert rows(reader.feed(arrived((10, good + b"rubbish and more rubbish")))) == [("message", b"data: a\n\n", 10, 1)]
    assert reader.undecodable
    assert reader.feed(arrived((20, gzip.compress(b"data: c\n\n")), start=len(good) + 24)) == []
    assert rows(reader.close()) == [("tail", b"data: b", 10, None)]


@pytest.mark.parametrize(("encoding", "reason"), [("gzip", ""), ("lzma", "'lzma'")])
def test_what_follows_an_error_is_not_decoded_and_the_first_reason_stays(encoding, reason):
    reader = FrameReader(encoding)
    run = arrived((10, b"rubbish, and no gzip member"), (20, gzip.compress(b"data: a\n\n")))
    assert reader.feed(run) == []
    assert (why := reader.undecodable)
    assert reason in why
    assert reader.skip(lost(run.end, 5)) == []
    assert reader.undecodable == why
    assert reader.close() == []


def test_a_body_that_decodes_to_too_many_bytes_is_undecodable():
    compressor = brotli.Compressor(quality=1)
    bomb = b"".join(compressor.process(bytes(2**22)) for _ in range(40)) + compressor.finish()
    reader = FrameReader("br")
    assert all(found.frame.kind is FrameKind.OVERSIZED for found in reader.feed(arrived((10, bomb))))
    assert "more than" in reader.undecodable


@pytest.mark.parametrize("frame", [b"a\n\n", b":\n", b"data: 1\n\n"])
def test_small_frames_of_an_encoded_body_count_as_100_bytes(frame):
    """Each takes as much in the index, so a few bytes could become a large file."""
    bomb = gzip.compress(frame * 200_000, 9)
    reader = FrameReader("gzip")
    seen = reader.feed(arrived((10, bomb)))
    most = (ANY_RATIO + MOST_RATIO * len(bomb)) // 100
    assert most <= len(seen) < most + 64 * 1024
    assert (reader.undecodable_ns, reader.feed(arrived((20, b"x"), start=len(bomb)))) == (10, [])


def test_a_gap_in_an_encoded_body_makes_the_rest_undecodable():
    chunks = [(10 * number, piece) for number, piece in enumerate(encoded("gzip", EVENTS), 1)]
    reader = FrameReader("gzip")
    first = arrived(*chunks[:3])
    assert rows(reader.feed(first)) == EXPECTED[:3]
    assert rows(reader.skip(lost(first.end, 7))) == [("tail", b"data: b\nda", 30, None)]
    assert reader.undecodable == "7 bytes of the encoded body were not recorded"
    assert reader.feed(arrived(*chunks[3:], start=first.end + 7)) == []
    assert reader.close() == []
    assert reader.undecodable == "7 bytes of the encoded body were not recorded"


def answered(exchange, content_type):
    return ResponseStarted(exchange, 5, 200, "OK", "HTTP/1.1", (("Content-Type", content_type),))


def test_the_streams_of_many_exchanges_are_read_separately():
    readers = StreamReaders()
    seen = [
        answered(1, "text/event-stream"),
        answered(2, "application/json"),
        BytesArrived(1, Side.REQUEST, 0, b"data: a\n\n", (9,), (10,)),
        BytesArrived(2, Side.RESPONSE, 0, b"data: b\n\n", (9,), (20,)),
        BytesArrived(1, Side.RESPONSE, 0, b"data: c\n\nda", (11,), (30,)),
        lost(11, 4, 40),
        ExchangeEnded(1, 50, Ending.COMPLETE),
        BytesArrived(1, Side.RESPONSE, 15, b"data: d\n\n", (24,), (60,)),
    ]
    reads = [readers.read(observation) for observation in seen]
    assert [read.observation for read in reads] == seen
    assert [rows(read.frames) for read in reads if read.frames] == [
        [("message", b"data: c\n\n", 30, 1)],
        [("tail", b"da", 30, None)],
    ]
    assert not any(read.undecodable for read in reads)
