"""What a page unpacks when it is asked for."""

import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator

_GZIP = 31
"""What zlib calls a window of 32 KiB in a gzip frame, whose head then names no time."""
_LEVEL = 6


def packed(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts joined, as gzip, as base64; made while they come."""
    held = b""
    for data in _compressed(parts):
        held += data
        whole = len(held) // 3 * 3
        yield b64encode(held[:whole])
        held = held[whole:]
    yield b64encode(held)


def _compressed(parts: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()
