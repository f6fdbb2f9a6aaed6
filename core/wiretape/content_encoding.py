"""Incremental decoding of Content-Encoding, for looking at bodies that are stored as they came.

Encoded bodies are not to be trusted: a few bytes may stand for gigabytes.  So they are
decoded a slice at a time, small enough that what comes of it fits in memory, and no more than
`MOST_DECODED` bytes are made of what is fed at once.
"""

import zlib
from collections.abc import Callable, Iterator

import brotli
import zstandard

MOST_DECODED = 64 * 1024 * 1024
"""Decoded bytes that one feed may give.  A chunk from a socket has some 64 KiB; no real stream packs a thousandfold."""

# RFC 9659 allows a zstd window of 8 MB in HTTP; browsers refuse more.
_ZSTD_WINDOW = 8 * 1024 * 1024


class DecodingError(Exception):
    """The bytes are not what the Content-Encoding says."""


class Decoder:
    """Turns encoded bytes into decoded ones, as early as the format allows.

    After a DecodingError a decoder is of no more use.
    """

    def feed(self, data: bytes) -> bytes:
        """The decoded bytes that `data` completes.  Raises DecodingError."""
        return b"".join(self.slices(data))

    def slices(self, data: bytes) -> Iterator[bytes]:
        """The same, in parts, none of them empty; those before a DecodingError are good."""
        decoded = 0
        for part in self._slices(data):
            decoded += len(part)
            if decoded > MOST_DECODED:
                raise DecodingError(f"{len(data)} bytes decode to more than {MOST_DECODED}")
            if part:
                yield part

    def _slices(self, data: bytes) -> Iterator[bytes]:
        raise NotImplementedError


class Identity(Decoder):
    """No encoding."""

    def feed(self, data: bytes) -> bytes:
        """`data` itself, however long."""
        return data

    def _slices(self, data: bytes) -> Iterator[bytes]:
        yield data


class _Members(Decoder):
    """Decodes a body of one or more members (gzip) or frames (zstd), each with a decoder of its own.

    `new_member` makes it, given the first bytes.  `step` is how many bytes to decode at once.
    """

    def __init__(
        self, new_member: "Callable[[bytes], zlib._Decompress | zstandard.ZstdDecompressionObj]", step: int
    ) -> None:
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
    # A meta-block of 16 MiB takes some 12 bytes.
    _STEP = 16

    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    def _slices(self, data: bytes) -> Iterator[bytes]:
        try:
            for begin in range(0, len(data), self._STEP):
                yield bytes(self._decompressor.process(data[begin : begin + self._STEP]))
        except brotli.error as error:
            raise DecodingError(str(error)) from error


def _gzip() -> Decoder:
    # Deflate packs at most 1032 bytes into one.
    return _Members(lambda _: zlib.decompressobj(wbits=zlib.MAX_WBITS | 32), step=4096)


def _deflate() -> Decoder:
    # RFC 9110 means the zlib format, but bare deflate data is sent too, and browsers take both.
    # Only the first begins with the method number 8 in the low half of its first byte.
    def new_member(first: bytes) -> "zlib._Decompress":
        return zlib.decompressobj(wbits=zlib.MAX_WBITS if first[0] & 0x0F == 8 else -zlib.MAX_WBITS)

    return _Members(new_member, step=4096)


def _zstd() -> Decoder:
    # A block of 128 KiB takes 4 bytes.
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
    """A fresh decoder for the value of a Content-Encoding header.  Raises DecodingError for one it does not know."""
    name = (content_encoding or "").strip().lower()
    try:
        return _DECODERS[name]()
    except KeyError:
        raise DecodingError(f"Content-Encoding {name!r} is not known") from None


def is_identity(content_encoding: str | None) -> bool:
    """Whether a body with this Content-Encoding crosses the wire as it is."""
    return _DECODERS.get((content_encoding or "").strip().lower()) is Identity
