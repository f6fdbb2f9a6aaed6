"""Encoded bodies are decoded incrementally and within bounds."""

import gzip
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st

from wiretape import content_encoding
from wiretape.content_encoding import ANY_RATIO, MOST_RATIO, DecodingError, decode_beginning, decoder

ENCODERS = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
TEXT = b'id: evt_1\nevent: message.delta\ndata: {"text":"a\xc3\xa4"}\n\n' * 40 + bytes(range(256))


def in_pieces(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


def decoded(encoding, data, size):
    """Decode data in pieces."""
    decoding = decoder(encoding)
    return b"".join(decoding.feed(piece) for piece in in_pieces(data, size))


@pytest.mark.parametrize("encoding", ENCODERS)
@given(body=st.binary(max_size=300) | st.just(TEXT), size=st.integers(1, 50) | st.just(10**6))
def test_any_body_is_decoded_however_it_is_split(encoding, body, size):
    assert decoded(encoding, ENCODERS[encoding](body), size) == body


@for_each("size", [1, 5, 10**6])
@for_each("encoding", ["gzip", "deflate", "zstd"])
def test_all_members_of_a_body_are_decoded(encoding, size):
    bodies = [b"one\n", b"", b"two\n" * 1000, b"three\n"]
    assert decoded(encoding, b"".join(map(ENCODERS[encoding], bodies)), size) == b"".join(bodies)


def test_raw_deflate_data_is_decoded():
    compressor = zlib.compressobj(wbits=-15)
    assert decoded("deflate", compressor.compress(TEXT) + compressor.flush(), 1) == TEXT


@for_each("encoding", [None, *ENCODERS])
def test_no_slice_is_empty(encoding):
    body = ENCODERS[encoding](TEXT) if encoding else b""
    decoding = decoder(encoding)
    assert all(part for piece in in_pieces(body, 1) or [b""] for part in decoding.slices(piece))


def test_flushed_data_is_decoded_at_once():
    """Otherwise a stream would stall."""
    gzipper, zstd, brotlier = zlib.compressobj(wbits=31), zstandard.ZstdCompressor().compressobj(), brotli.Compressor()
    flushed = {
        "gzip": lambda event: gzipper.compress(event) + gzipper.flush(zlib.Z_SYNC_FLUSH),
        "zstd": lambda event: zstd.compress(event) + zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
        "br": lambda event: brotlier.process(event) + brotlier.flush(),
    }
    for encoding, flush in flushed.items():
        decoding = decoder(encoding)
        for event in [b"data: 1\n\n", b"data: 2\n\n", b": ping\n\n"]:
            assert decoding.feed(flush(event)) == event, encoding


@for_each("name", [None, "", "identity", " Identity ", "GZIP", " gzip ", "x-gzip"])
def test_names_ignore_case_and_space_and_identity_returns_the_bytes_unchanged(name):
    data = gzip.compress(b"a")
    assert decoder(name).feed(data) == (b"a" if "gzip" in (name or "").lower() else data)


@pytest.mark.parametrize("name", ["lzma", "gzip, br", "\x1b[31m"])
def test_an_unknown_encoding_is_refused_by_name(name):
    with pytest.raises(DecodingError, match="is not known"):
        decoder(name)


@for_each("encoding", ENCODERS)
def test_bytes_in_another_encoding_are_an_error(encoding):
    decoding = decoder(encoding)
    with pytest.raises(DecodingError):
        decoding.feed(b"data: this is plain text, and long enough to be seen through\n\n" * 10)


@for_each(("encoding", "lost"), [("gzip", 0), ("deflate", 0), ("zstd", 0), ("br", 100)])
def test_bytes_before_invalid_ones_are_decoded(encoding, lost):
    """The brotli library withholds the output of the last few bytes."""
    parts = []
    with pytest.raises(DecodingError):
        parts.extend(decoder(encoding).slices(ENCODERS[encoding](TEXT) + b"\xff" * 5000))
    assert TEXT.startswith(b"".join(parts))
    assert len(b"".join(parts)) >= len(TEXT) - lost


def _bomb(encoding, size):
    """Encode `size` zeros."""
    encoder = {
        "gzip": lambda: zlib.compressobj(level=1, wbits=31),
        "br": lambda: brotli.Compressor(quality=1, lgwin=22),
        "zstd": lambda: zstandard.ZstdCompressor().compressobj(),
    }[encoding]()
    step = bytes(4 * 1024 * 1024)
    encode = encoder.process if encoding == "br" else encoder.compress
    finish = encoder.finish if encoding == "br" else encoder.flush
    return b"".join(encode(step) for _ in range(0, size, len(step))) + finish()


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_decompression_bomb_does_not_fill_the_memory(encoding):
    bomb = _bomb(encoding, 8 * ANY_RATIO)
    count = 0
    tracemalloc.start()
    try:
        with pytest.raises(DecodingError, match="more than 8 MiB and 32 times"):  # noqa: PT012 - the parts are dropped
            for part in decoder(encoding).slices(bomb):
                assert len(part) <= 64 * 1024
                count += len(part)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count <= ANY_RATIO + MOST_RATIO * len(bomb)
    assert peak < 40_000_000


@pytest.mark.parametrize("size", [1000, 10**6])
def test_the_bounds_apply_to_the_body_however_it_is_split(size, monkeypatch):
    bomb = _bomb("gzip", 8 * ANY_RATIO)
    assert _decoded_of(bomb, size) == pytest.approx(ANY_RATIO + MOST_RATIO * len(bomb), rel=0.9)
    monkeypatch.setattr(content_encoding, "MOST_DECODED", 1 << 20)
    assert 0.9 * (1 << 20) < _decoded_of(bomb, size) <= 1 << 20


def _decoded_of(body, size):
    """How many bytes of a gzip body are decoded before an error."""
    decoding, count = decoder("gzip"), 0
    with pytest.raises(DecodingError):  # noqa: PT012 - each part counts
        for piece in in_pieces(body, size):
            for part in decoding.slices(piece):
                count += len(part)
    return count


def test_a_zstd_frame_with_a_larger_window_than_http_allows_is_an_error():
    """RFC 9659 allows a window of 8 MB."""
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    with pytest.raises(DecodingError):
        decoder("zstd").feed(compressor.compress(b"a" * 1000) + compressor.flush())


def test_the_beginning_of_a_body_is_read_and_decoded_no_further_than_needed():
    """20 MB of zeros are 20 kB of gzip; one more slice than needed would already be 4 MB."""
    calls = []

    class Bomb(bytes):
        def __getitem__(self, place):
            calls.append(place)
            return bytes.__getitem__(self, place)

    def body(data):
        yield data
        raise AssertionError("read on")

    assert decode_beginning(None, body(b"x" * 5000), 400) == (b"x" * 400, "")
    bomb = Bomb(gzip.compress(b"a" * 600 + b"\n" * 20_000_000))
    assert decode_beginning("gzip", body(bomb), 400) == (b"a" * 400, "")
    assert len(calls) == 1
