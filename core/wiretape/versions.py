"""The versions that matter in a bug report."""

import platform
import sqlite3
import ssl
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from wiretape import __version__

_PACKAGES = ("mitmproxy", "aiohttp", "msgspec", "orjson", "opentelemetry-sdk")


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def version_lines() -> Iterator[str]:
    """Yield the lines of `wiretape --version`."""
    yield f"wiretape {__version__}"
    yield f"{platform.python_implementation()} {platform.python_version()}"
    yield platform.platform()
    for package in _PACKAGES:
        yield f"{package} {installed_version(package) or 'not installed'}"
    yield f"SQLite {sqlite3.sqlite_version}"
    yield ssl.OPENSSL_VERSION
