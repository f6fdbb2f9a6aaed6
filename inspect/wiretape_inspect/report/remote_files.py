"""Recordings at URLs, read through fsspec: their names, and temporary copies of them.

A server may send without end, or a byte now and then: a copy has a limited size, and takes a limited time.
"""

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from wiretape.errors import InputError
from wiretape.network_errors import describe_connection_error
from wiretape.recording import redact_urls
from wiretape.time_limit import call_within
from wiretape.units import format_duration, format_size, parse_size

LIMIT_VARIABLE = "WIRETAPE_URL_LIMIT"
"""The environment variable for the largest size of a recording at a URL."""
_SIZE, _SECONDS = 2 << 30, 300.0
"""The default limits.  A larger size also gives more time."""
_HTTP = ("http://", "https://")
_LONGEST_NAME = 100
_T = TypeVar("_T")


class _TooLargeError(Exception):
    """A file is larger than the limit."""


class _BoundedFile(io.BufferedWriter):
    """A new file of limited size."""

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(io.FileIO(path, "xb"))
        self._left = size

    def write(self, data: Any, /) -> int:
        self._left -= len(data)
        if self._left < 0:
            raise _TooLargeError
        return super().write(data)


def is_url(text: str) -> bool:
    """Whether an argument is a URL and not the name of a file."""
    return "://" in text


def shown_name(name: str) -> str:
    """Return the name of a file, or a URL without its credentials."""
    return redact_urls(name) if is_url(name) else name


def absolute_name(name: str) -> str:
    """Return the absolute name of a file, or a URL as it is: a worker may have another working directory."""
    return name if is_url(name) else str(Path(name).absolute())


def expand_name(name: str) -> list[str]:
    """Return the URLs that match a pattern; the name itself if it is not the pattern of URLs.  Raises InputError."""
    if not is_url(name) or "*" not in name:
        return [name]
    if name.lower().startswith(_HTTP):
        raise InputError(f"{shown_name(name)} cannot be listed, because HTTP has no lists of files: name each file.")

    def expand() -> list[str]:
        filesystem, path = _filesystem(name)
        return [str(filesystem.unstrip_protocol(each)) for each in sorted(filesystem.glob(path))]

    found = _call(name, "listed", _SECONDS, expand)
    if not found:
        raise InputError(f"No file matches {shown_name(name)}.")
    return found


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Copy a file to this machine for the duration of the block.  Raises InputError."""
    size = _read_limit()
    seconds = max(_SECONDS, _SECONDS * size / _SIZE)
    with tempfile.TemporaryDirectory(prefix="wiretape-", ignore_cleanup_errors=True) as folder:
        name = url.partition("?")[0].rpartition("/")[2]
        copy = Path(folder, name if 0 < len(name) <= _LONGEST_NAME else "run.db")

        def download() -> None:
            filesystem, path = _filesystem(url, seconds)
            with _BoundedFile(copy, size) as target:
                if url.lower().startswith(_HTTP):
                    # One request; a file object of fsspec reads parts, and holds each in memory, whatever its size.
                    filesystem.get_file(path, target)
                    return
                with filesystem.open(path, "rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)

        try:
            _call(url, "read", seconds, download)
        except _TooLargeError:
            raise InputError(
                f"{shown_name(url)} is larger than {format_size(size)}: set {LIMIT_VARIABLE} to a larger size, "
                "for example 20G."
            ) from None
        yield copy


def _call(url: str, what: str, seconds: float, function: Callable[[], _T]) -> _T:
    """Call a function that uses a file system of fsspec.  Raises InputError and _TooLargeError."""
    try:
        return call_within(seconds, function)
    except (InputError, _TooLargeError):
        raise
    except TimeoutError:
        reason = f"this takes longer than {format_duration(round(seconds * 1e9))}"
    except Exception as error:  # noqa: BLE001 - each file system has errors of its own
        text = describe_connection_error(error) if hasattr(error, "os_error") else str(error)
        reason = redact_urls((text.strip().splitlines() or [type(error).__name__])[0]).rstrip(".")
    raise InputError(f"{shown_name(url)} cannot be {what}: {reason}.")


def _filesystem(url: str, seconds: float = _SECONDS) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.  Raises what a file system raises."""
    try:
        import fsspec  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(f"{shown_name(url)} is a URL, which needs fsspec: install wiretape[dask].") from None
    if url.lower().startswith(_HTTP):
        from aiohttp import ClientTimeout  # noqa: PLC0415 - loaded only when it is used

        return fsspec.filesystem("http", timeout=ClientTimeout(total=seconds)), url
    if "::" in url:
        raise InputError(f"{shown_name(url)} is a chain of URLs, which is not supported: name the file itself.")
    filesystem, path = fsspec.core.url_to_fs(url)
    return filesystem, str(path)


def _read_limit() -> int:
    text = os.environ.get(LIMIT_VARIABLE)
    try:
        return parse_size(text) if text else _SIZE
    except ValueError as error:
        raise InputError(f"Invalid {LIMIT_VARIABLE}: {error}.") from None
