"""The upstream of a recording: the URL of the service that the user named, or several of them.  Empty if none."""

from collections.abc import Iterable

_SEPARATOR = ", "


def join_upstreams(upstreams: Iterable[str]) -> str:
    """Return the upstream for several of them, each URL once; empty if none names a URL."""
    return _SEPARATOR.join(dict.fromkeys(url for upstream in upstreams for url in split_upstreams(upstream) if url))


def split_upstreams(upstream: str) -> list[str]:
    """Return the URLs of an upstream, which may be any text."""
    return upstream.split(_SEPARATOR)
