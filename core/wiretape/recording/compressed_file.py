"""Compressed recordings: whole SQLite files in the format of the program `zstd`, which can make and read them, too."""

import os
from collections.abc import Iterator
from pathlib import Path

import zstandard

from wiretape.errors import RecordingError
from wiretape.files import file_errors, replace_atomically, write_error
from wiretape.recording.recording_file import lock_for_writing, unlock
from wiretape.recording.schema import damage_error

MOST_RATIO = 200
"""Decompressed bytes for each compressed one; recordings have 5 to 40 ..."""
ANY_RATIO = 256 * 1024 * 1024
"""... but this many at any ratio."""

_MAGIC = b"\x28\xb5\x2f\xfd"
_LEVEL = 3
_STEP = 2048
"""A block of 128 KiB can take 4 bytes, so this decompresses to 64 MiB at most."""
_WINDOW = 128 * 1024 * 1024
"""What `zstd --long` needs."""


def is_compressed(path: Path) -> bool:
    """Return whether a file is compressed with zstd.  Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def compressed_name(path: Path) -> Path:
    """Return the path of the compressed form of a recording."""
    return path.with_name(f"{path.name}.zst")


def compress_recording(path: Path) -> Path:
    """Replace a recording that is closed by its compressed form, and return that path.

    Raises RecordingError, and leaves the recording as it is, if another program is using it, or if the disk is full.
    """
    target = compressed_name(path)
    with file_errors(path, kind=RecordingError):
        lock = lock_for_writing(path)
    try:
        # A link of another user could lead anywhere.
        if os.path.lexists(target):
            raise RecordingError(f"{path} remains uncompressed: {target} exists.")
        if Path(f"{path}-wal").exists():
            raise RecordingError(f"{path} remains uncompressed: another program is using it.")
        compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        with path.open("rb") as source, replace_atomically(target, 0o600) as file:
            compressor.copy_stream(source, file, size=path.stat().st_size)
            file.flush()
            # Not even a power failure may lose both.
            os.fsync(file.fileno())
        path.unlink()
    except (OSError, zstandard.ZstdError) as error:
        raise RecordingError(f"{path} remains uncompressed: {write_error(target, error)}") from None
    finally:
        unlock(lock)
    return target


def decompressed_parts(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file; parts before an error are valid.

    Raises RecordingError if the file is damaged, or decompresses to far more than a recording, and OSError.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
    member = decompressor.decompressobj()
    left = max(ANY_RATIO, MOST_RATIO * path.stat().st_size)
    with path.open("rb") as file:
        while data := file.read(_STEP):
            while data:
                if member.eof:
                    member = decompressor.decompressobj()
                try:
                    part = member.decompress(data)
                except zstandard.ZstdError as error:
                    raise damage_error(path, str(error)) from None
                left -= len(part)
                if left < 0:
                    raise RecordingError(
                        f"{path} is not a recording: it decompresses to more than {MOST_RATIO} times its size."
                    )
                yield part
                data = member.unused_data if member.eof else b""
    if not member.eof:
        raise damage_error(path, "it is truncated")
