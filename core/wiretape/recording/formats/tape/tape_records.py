"""Types of the documents of a tape: its header, and its exchanges.  Times are seconds."""

from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wiretape import __version__
from wiretape.contract import EVENT_STREAM
from wiretape.observations import Ending, Headers
from wiretape.recording.formats.tape.elements import Seconds
from wiretape.recording.formats.tape.event_framing import DEFAULT_FRAMING, Framing
from wiretape.recording.recording_source import MAX_REDACTED

VERSION = 1
BODY_KEYS = ("body", "events", "response-body")
EARLIER_KEYS = {
    "asked": "request-ended",
    "answer": "response",
    "answered": "responded",
    "answer-http": "response-http",
    "answer-headers": "response-headers",
    "answer-body": "response-body",
}
"""Keys that the first tapes have, and their present names."""
DEFAULT_CLIENT = "127.0.0.1"
DEFAULT_HTTP = "HTTP/1.1"
STREAM_HEADERS: Headers = (("Content-Type", EVENT_STREAM),)
JSON_HEADERS: Headers = (("Content-Type", "application/json"),)

_HeaderTable = dict[str, str | int]


class TapeHeader(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The first document of a tape."""

    tape: Annotated[int, Meta(ge=1)]
    """Version of the format."""
    upstream: str = "http://service.test"
    started: str = "1970-01-01T00:00:00Z"
    ended: Seconds | None = UNSET
    tool: str = f"wiretape {__version__}"
    redacted: Annotated[int, Meta(ge=0, le=MAX_REDACTED)] = 0


class TapeExchange(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    """A document of a tape with one exchange."""

    request: str
    target: str | UnsetType = UNSET
    at: Seconds = UNSET
    number: Annotated[int, Meta(ge=1, le=2**63 - 1)] | UnsetType = UNSET
    client: str = DEFAULT_CLIENT
    scheme: str | UnsetType = UNSET
    authority: str | UnsetType = UNSET
    http: str = DEFAULT_HTTP
    headers: list[_HeaderTable] | _HeaderTable | UnsetType = UNSET
    body: str | dict[str, Any] | list[Any] | UnsetType = UNSET
    request_ended: Seconds | None = UNSET
    response: int | str | None = 200
    responded: Seconds = UNSET
    response_http: str | UnsetType = UNSET
    response_headers: list[_HeaderTable] | _HeaderTable | UnsetType = UNSET
    response_body: str | dict[str, Any] | list[Any] | UnsetType = UNSET
    events: list[Any] | UnsetType = UNSET
    framing: Framing = DEFAULT_FRAMING
    ending: Ending = Ending.COMPLETE
    ended: Seconds = UNSET
    detail: str = ""


def split_upstream(upstream: str) -> tuple[str, str]:
    """Return the default scheme and authority of requests; an upstream that is not a URL is an authority."""
    try:
        parts = urlsplit(upstream)
    except ValueError:
        return "http", upstream
    return parts.scheme or "http", parts.netloc or upstream


def is_target(method: str, target: str) -> bool:
    """Return whether HTTP allows a target, or it is empty; if it is partly redacted, it may begin with `*`."""
    return not target or target[0] in "/*" or "://" in target or method == "CONNECT"
