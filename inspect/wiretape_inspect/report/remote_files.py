"""Recordings at URLs, read through fsspec: their names, and temporary copies of them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wiretape.errors import InputError


def is_url(text: str) -> bool:
    """Whether an argument is a URL and not the name of a file."""
    return "://" in text


def expand_url(url: str) -> list[str]:
    """Return the URLs that match a pattern, or the URL itself.  Raises InputError."""
    if "*" not in url:
        _filesystem(url)
        return [url]
    filesystem, path = _filesystem(url)
    try:
        found = [str(filesystem.unstrip_protocol(each)) for each in sorted(filesystem.glob(path))]
    except Exception as error:  # noqa: BLE001 - each filesystem has errors of its own
        raise InputError(f"{url} cannot be listed: {_reason(error)}.") from None
    if not found:
        raise InputError(f"No file matches {url}.")
    return found


@contextmanager
def local_copy(url: str) -> Iterator[Path]:
    """Copy a file to this machine for the duration of the block.  Raises InputError."""
    filesystem, path = _filesystem(url)
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        copy = Path(folder, Path(path).name or "run.db")
        try:
            with filesystem.open(path, "rb") as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
        except Exception as error:  # noqa: BLE001 - each filesystem has errors of its own
            raise InputError(f"{url} cannot be read: {_reason(error)}.") from None
        yield copy


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        import fsspec  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(f"{url} is a URL, which needs fsspec: install wiretape[dask].") from None
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InputError(f"{url} cannot be read: {_reason(error)}.") from None
    return filesystem, str(path)


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
