"""Describe why listening or connecting failed."""

import errno
import os
import socket
import ssl
from typing import Any

from wiretape.addresses import origin_of


def describe_listen_error(host: str, port: int, error: OSError) -> str:
    """Return why nothing can listen on an address."""
    where = origin_of(host, port).removeprefix("http://")
    if error.errno == errno.EADDRINUSE:
        return f"Cannot listen on {where}: the port is in use; choose another with --listen, or 0 for a free one."
    return f"Cannot listen on {where}: {error.strerror or error}."


def describe_connection_error(error: Exception) -> str:
    """Return why a connection failed, in the words of the operating system, which asyncio and aiohttp replace."""
    cause: Any = getattr(error, "os_error", error)
    if isinstance(cause, socket.gaierror):
        return "unknown host name"
    if isinstance(cause, TimeoutError):
        return "timed out"
    if cause.errno and not isinstance(cause, ssl.SSLError):
        return os.strerror(cause.errno)
    return str(cause) or "the connection was closed"
