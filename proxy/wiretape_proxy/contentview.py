"""Event streams in mitmproxy's own interfaces, whose way to extend what they show changed with version 12."""

from collections.abc import Callable, Iterator
from typing import Any

from mitmproxy import contentviews, http
from mitmproxy.flow import Flow

from wiretape.contract import is_event_stream
from wiretape_proxy.streams import lines_of_body

NAME = "SSE"
_PRIORITY = 2.0
"""Above that of plain text."""

Lookup = Callable[[Flow], list[str] | None]
"""Tells what there is to show of a flow's event stream, a line each; None where nothing is known of it."""


def install(lookup: Lookup) -> None:
    """Have event streams shown, from now on as `lookup` knows them."""
    api: Any = contentviews
    if not hasattr(api, "Contentview"):  # mitmproxy 11, which refuses a second view of a name; 12 replaces the first
        before = api.get(NAME)
        if before is not None:
            api.remove(before)
    api.add(EventStreams(lookup))


class EventStreams:
    """The view, to mitmproxy 11 (which calls it) and 12 (which calls `prettify`) alike."""

    name = NAME
    syntax_highlight = "none"

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def __call__(
        self, data: bytes, *, flow: Flow | None = None, http_message: http.Message | None = None, **_: object
    ) -> tuple[str, Iterator[list[tuple[str, str]]]]:
        """What stands above the text, and lines of styled pieces: mitmproxy 11."""
        return NAME, ([("text", line)] for line in self._lines(data, flow, http_message))

    def prettify(self, data: bytes, metadata: Any) -> str:
        """The text: mitmproxy 12."""
        return "\n".join(self._lines(data, metadata.flow, metadata.http_message))

    def render_priority(
        self, data: bytes, metadata: Any = None, *, content_type: str | None = None, **_: object
    ) -> float:
        """Above the other views for event streams, below them for everything else."""
        type_ = metadata.content_type if metadata is not None else content_type
        return _PRIORITY if data and is_event_stream(type_) else -1.0

    def _lines(self, data: bytes, flow: Flow | None, message: http.Message | None) -> list[str]:
        known = self._lookup(flow) if flow is not None and isinstance(message, http.Response) else None
        if known is not None:
            return known
        if message is None or message.raw_content is None:
            return lines_of_body(data, None)
        # mitmproxy decodes a body whole, or not at all.
        return lines_of_body(message.raw_content, message.headers.get("content-encoding"))
