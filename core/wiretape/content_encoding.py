"""Decode Content-Encoding incrementally; bodies are stored encoded.

Encoded bodies are untrusted: a few bytes can decode to gigabytes.  So they are decoded in slices whose output fits
into memory, and only up to the limits below.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator

import brotli
import zstandard

MOST_DECODED = 256 * 1024 * 1024
"""Decoded bytes of one body."""
MOST_RATIO = 32
"""Decoded bytes for each encoded one.  Streams that are flushed after each event reach 12."""
ANY_RATIO = 8 * 1024 * 1024
"""This many bytes are decoded at any ratio."""

_SLICE = 64 * 1024

# RFC 9659 allows a zstd window of 8 MB in HTTP; browsers refuse more.
_ZSTD_WINDOW = 8 * 1024 * 1024


_Decode = Callable[[bytes], Iterator[bytes]]
"""Yields what bytes decode to, in parts that fit into memory."""


class DecodingError(Exception):
    """The bytes do not match their Content-Encoding."""


class Decoder:
    """Decodes bytes as early as the format allows.  Unusable after a DecodingError."""

    def __init__(self, decode: _Decode) -> None:
        self._decode = decode
        self._left = MOST_DECODED
        """Bytes that may still be decoded ..."""
        self._allowed = ANY_RATIO
        """... and with the input so far."""

    def feed(self, data: bytes) -> bytes:
        """Return the decoded bytes that `data` completes.  Raises DecodingError."""
        return b"".join(self.slices(data))

    def slices(self, data: bytes) -> Iterator[bytes]:
        """Yield them in non-empty parts of up to 64 KiB; parts before a DecodingError are valid."""
        self._allowed += MOST_RATIO * len(data)
        try:
            for part in self._decode(data):
                for begin in range(0, len(part), _SLICE):
                    piece = part[begin : begin + _SLICE]
                    self.spend(len(piece))
                    yield piece
        except (zlib.error, zstandard.ZstdError, brotli.error) as error:
            raise DecodingError(str(error)) from error

    def spend(self, size: int) -> None:
        """Count decoded bytes, or what is as much work.  Raises DecodingError beyond the limits."""
        self._left -= size
        self._allowed -= size
        if self._left < 0:
            raise DecodingError(f"it decodes to more than {MOST_DECODED >> 20} MiB")
        if self._allowed < 0:
            raise DecodingError(f"it decodes to more than {ANY_RATIO >> 20} MiB and {MOST_RATIO} times its size")


class Identity(Decoder):
    """No encoding."""

    def __init__(self) -> None:
        super().__init__(lambda data: iter((data,)))

    def feed(self, data: bytes) -> bytes:
        """Return `data` itself, whatever its size."""
        return data

    def slices(self, data: bytes) -> Iterator[bytes]:
        """Yield `data` itself, whatever its size."""
        if data:
            yield data


def _decode_members(
    new_member: "Callable[[bytes], zlib._Decompress | zstandard.ZstdDecompressionObj]", step: int
) -> Decoder:
    """Decode a body of one or more members (gzip) or frames (zstd), each with a new decoder.

    `new_member` creates it from the first bytes.  `step` is the number of bytes to decode at once.
    """
    member: zlib._Decompress | zstandard.ZstdDecompressionObj | None = None

    def decode(data: bytes) -> Iterator[bytes]:
        nonlocal member
        for begin in range(0, len(data), step):
            rest = data[begin : begin + step]
            while rest:
                if member is None or member.eof:
                    member = new_member(rest)
                yield member.decompress(rest)
                rest = member.unused_data if member.eof else b""

    return Decoder(decode)


def _brotli() -> Decoder:
    process, step = brotli.Decompressor().process, 16  # a meta-block of 16 MiB can take 12 bytes
    return Decoder(lambda data: (bytes(process(data[begin : begin + step])) for begin in range(0, len(data), step)))


def _gzip() -> Decoder:
    # One byte of deflate decodes to at most 1032 bytes.
    return _decode_members(lambda _: zlib.decompressobj(wbits=zlib.MAX_WBITS | 32), step=1024)


def _deflate() -> Decoder:
    # RFC 9110 means the zlib format, but some servers send raw deflate data, and browsers accept both.
    # Only zlib has method 8 in the low half of the first byte.
    def new_member(first: bytes) -> "zlib._Decompress":
        return zlib.decompressobj(wbits=zlib.MAX_WBITS if first[0] & 0x0F == 8 else -zlib.MAX_WBITS)

    return _decode_members(new_member, step=1024)


def _zstd() -> Decoder:
    # A block of 128 KiB can take 4 bytes.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    return _decode_members(lambda _: decompressor.decompressobj(), step=256)


_DECODERS: dict[str, Callable[[], Decoder]] = {
    "": Identity,
    "identity": Identity,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}


def decoder(content_encoding: str | None) -> Decoder:
    """Return a new decoder for a Content-Encoding header.  Raises DecodingError for an unknown encoding."""
    name = (content_encoding or "").strip().lower()
    try:
        return _DECODERS[name]()
    except KeyError:
        raise DecodingError(f"Content-Encoding {name!r} is not known") from None


def decode_beginning(content_encoding: str | None, parts: Iterable[bytes], most: int) -> tuple[bytes, str]:
    """Return the first `most` bytes of a decoded body, and why fewer could be decoded; empty if they could.

    A small body may decode to a thousand times its size, so no more than needed is decoded.
    """
    data = bytearray()
    try:
        decoding = decoder(content_encoding)
        for part in parts:
            for piece in decoding.slices(part):
                data += piece
                if len(data) >= most:
                    return bytes(data[:most]), ""
    except DecodingError as error:
        return bytes(data), str(error)
    return bytes(data), ""


def is_identity(content_encoding: str | None) -> bool:
    """Whether a body with this Content-Encoding is not encoded."""
    return _DECODERS.get((content_encoding or "").strip().lower()) is Identity
