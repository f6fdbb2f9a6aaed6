"""Incremental decoding of Content-Encoding, for looking at bodies that are stored as they came."""

import zlib
from collections.abc import Callable
from typing import Protocol

import brotli
import zstandard


class DecodingError(Exception):
    """The bytes are not what the Content-Encoding says."""


class Decoder(Protocol):
    """Turns encoded bytes into decoded ones, as early as the format allows."""

    def feed(self, data: bytes) -> bytes:
        """The decoded bytes that `data` completes.  Raises DecodingError."""
        ...


class Identity:
    """No encoding."""

    def feed(self, data: bytes) -> bytes:
        """`data` itself."""
        return data


class _Members:
    """Decodes a body of one or more members (gzip) or frames (zstd), each with a decoder of its own."""

    def __init__(self, new_member: Callable[[], "zlib._Decompress | zstandard.ZstdDecompressionObj"]) -> None:
        self._new_member = new_member
        self._member = new_member()

    def feed(self, data: bytes) -> bytes:
        decoded = []
        try:
            while data:
                if self._member.eof:
                    self._member = self._new_member()
                decoded.append(self._member.decompress(data))
                data = self._member.unused_data if self._member.eof else b""
        except (zlib.error, zstandard.ZstdError) as error:
            raise DecodingError(str(error)) from error
        return b"".join(decoded)


class _Brotli:
    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    def feed(self, data: bytes) -> bytes:
        try:
            return bytes(self._decompressor.process(data))
        except brotli.error as error:
            raise DecodingError(str(error)) from error


_DECODERS: dict[str, Callable[[], Decoder]] = {
    "": Identity,
    "identity": Identity,
    "gzip": lambda: _Members(lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)),
    "x-gzip": lambda: _Members(lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)),
    "deflate": lambda: _Members(lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)),
    "br": _Brotli,
    "zstd": lambda: _Members(lambda: zstandard.ZstdDecompressor().decompressobj()),
}


def decoder(content_encoding: str | None) -> Decoder:
    """A fresh decoder for the value of a Content-Encoding header.  Raises DecodingError for one it does not know."""
    name = (content_encoding or "").strip().lower()
    try:
        return _DECODERS[name]()
    except KeyError:
        raise DecodingError(f"Content-Encoding {name!r} is not known") from None
