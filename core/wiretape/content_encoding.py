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


class DecodingError(Exception):
    """The bytes do not match their Content-Encoding."""


class Decoder:
    """Decodes bytes as early as the format allows.  Unusable after a DecodingError."""

    def __init__(self) -> None:
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
        for part in self._slices(data):
            for begin in range(0, len(part), _SLICE):
                piece = part[begin : begin + _SLICE]
                self.spend(len(piece))
                yield piece

    def spend(self, size: int) -> None:
        """Count decoded bytes, or what is as much work.  Raises DecodingError beyond the limits."""
        self._left -= size
        self._allowed -= size
        if self._left < 0:
            raise DecodingError(f"it decodes to more than {MOST_DECODED >> 20} MiB")
        if self._allowed < 0:
            raise DecodingError(f"it decodes to more than {ANY_RATIO >> 20} MiB and {MOST_RATIO} times its size")

    def _slices(self, data: bytes) -> Iterator[bytes]:
        raise NotImplementedError


class Identity(Decoder):
    """No encoding."""

    def feed(self, data: bytes) -> bytes:
        """Return `data` itself, whatever its size."""
        return data

    def slices(self, data: bytes) -> Iterator[bytes]:
        """Yield `data` itself, whatever its size."""
        if data:
            yield data


class _Members(Decoder):
    """Decodes a body of one or more members (gzip) or frames (zstd), each with a new decoder.

    `new_member` creates it from the first bytes.  `step` is the number of bytes to decode at once.
    """

    def __init__(
        self, new_member: "Callable[[bytes], zlib._Decompress | zstandard.ZstdDecompressionObj]", step: int
    ) -> None:
        super().__init__()
        self._new_member = new_member
        self._step = step
        self._member: zlib._Decompress | zstandard.ZstdDecompressionObj | None = None

    def _slices(self, data: bytes) -> Iterator[bytes]:
        for begin in range(0, len(data), self._step):
            yield from self._decode(data[begin : begin + self._step])

    def _decode(self, data: bytes) -> Iterator[bytes]:
        try:
            while data:
                if self._member is None or self._member.eof:
                    self._member = self._new_member(data)
                yield self._member.decompress(data)
                data = self._member.unused_data if self._member.eof else b""
        except (zlib.error, zstandard.ZstdError) as error:
            raise DecodingError(str(error)) from error


class _Brotli(Decoder):
    # A meta-block of 16 MiB can take 12 bytes.
    _STEP = 16

    def __init__(self) -> None:
        super().__init__()
        self._decompressor = brotli.Decompressor()

    def _slices(self, data: bytes) -> Iterator[bytes]:
        try:
            for begin in range(0, len(data), self._STEP):
                yield bytes(self._decompressor.process(data[begin : begin + self._STEP]))
        except brotli.error as error:
            raise DecodingError(str(error)) from error


def _gzip() -> Decoder:
    # One byte of deflate decodes to at most 1032 bytes.
    return _Members(lambda _: zlib.decompressobj(wbits=zlib.MAX_WBITS | 32), step=1024)


def _deflate() -> Decoder:
    # RFC 9110 means the zlib format, but some servers send raw deflate data, and browsers accept both.
    # Only zlib has method 8 in the low half of the first byte.
    def new_member(first: bytes) -> "zlib._Decompress":
        return zlib.decompressobj(wbits=zlib.MAX_WBITS if first[0] & 0x0F == 8 else -zlib.MAX_WBITS)

    return _Members(new_member, step=1024)


def _zstd() -> Decoder:
    # A block of 128 KiB can take 4 bytes.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    return _Members(lambda _: decompressor.decompressobj(), step=256)


_DECODERS: dict[str, Callable[[], Decoder]] = {
    "": Identity,
    "identity": Identity,
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _Brotli,
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
