"""Classify how an exchange ended, from what mitmproxy reports.

mitmproxy uses one error for several causes ("Client disconnected." also means its idle timeout and its own shutdown),
so the text alone is not enough.  `Facts` collects what else is known; `classify` is a pure function of it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from h2.errors import ErrorCodes

from wiretape.observations import Ending


class ErrorSide(StrEnum):
    """The side on which an error occurred."""

    CLIENT = "client"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known when an exchange ends."""

    error: str | None
    """mitmproxy's message (`flow.error.msg`); None if it considers the response complete."""
    side: ErrorSide | None = None
    """Where the error occurred, if that was observed."""
    stopping: bool = False
    """The proxy was asked to stop."""
    timed_out: bool = False
    """The proxy closed the client's connection after the idle timeout."""
    connecting: bool = False
    """The connection to the service was still being made."""
    service_fault: str | None = None
    """The operating system's error if the connection to the service did not close in an orderly way (RST)."""
    delimited_by_close: bool = False
    """Only the end of the connection marks the end of this response."""
    upgraded: bool = False
    """The response switches this connection to another protocol, such as WebSocket."""


Classification = tuple[Ending, str]
"""The ending, and a sentence about it."""

_H2_RESET = re.compile(r"stream reset by client \((\w+)\)")
_GOAWAY = re.compile(r"HTTP/2 connection closed: <ConnectionTerminated error_code:(?:ErrorCodes\.)?(\w+)")
_COUNTS = re.compile(r"\((received \d+ bytes, expected \d+|incomplete chunked read)\)$")
_INCOMPLETE = (
    "peer closed connection",
    "server closed connection",
    "HTTP/1 protocol error: peer closed connection",
)
_CLIENT_CLOSED = ("Client disconnected.", "client disconnected", "peer closed connection")
_TUNNEL = "mitmproxy received an HTTP CONNECT request"
_UNEXPECTED = "unexpected server response: b"
_STOPPED = {
    "Connection killed.": "Another mitmproxy addon ended this exchange.",
    "Request body exceeds mitmproxy's body_size_limit.": "The request exceeds mitmproxy's body_size_limit.",
    "Response body exceeds mitmproxy's body_size_limit.": "The response exceeds mitmproxy's body_size_limit.",
}


def classify(facts: Facts) -> Classification:
    """Return the ending and a sentence about it that quotes nothing of the traffic."""
    error = facts.error
    if error is None:
        if facts.upgraded:
            return Ending.COMPLETE, "Traffic after the protocol upgrade is not recorded."
        if facts.delimited_by_close and facts.service_fault is not None:
            return Ending.SERVICE_RESET, f"The service reset the connection ({facts.service_fault})."
        return Ending.COMPLETE, ""
    if facts.stopping:
        return Ending.PROXY_STOPPED, "The proxy was stopped."
    if facts.timed_out:
        return Ending.TIMED_OUT, "No data arrived before the idle timeout, so the proxy closed the client's connection."
    if error in _STOPPED:
        return Ending.PROXY_STOPPED, _STOPPED[error]
    side = _error_side(facts, error)
    is_client = side is ErrorSide.CLIENT
    if facts.connecting and not is_client:
        return Ending.SERVICE_UNREACHABLE, f"Cannot connect to the service: {error}"
    if reset := _H2_RESET.fullmatch(error):
        ending = Ending.CLIENT_CLOSED if is_client else Ending.SERVICE_RESET
        return ending, f"The {side} reset the HTTP/2 stream ({reset[1]})."
    if goaway := _GOAWAY.match(error):
        ending = Ending.CLIENT_CLOSED if is_client else Ending.SERVICE_CLOSED
        return ending, f"The {side} ended the HTTP/2 connection ({_code(goaway[1])})."
    return (Ending.CLIENT_CLOSED, _client_detail(error)) if is_client else _service_ending(facts, error)


def _error_side(facts: Facts, error: str) -> ErrorSide:
    if facts.side is not None:
        return facts.side
    is_client = " from client, refusing" in error or error.startswith(("Invalid request scheme", _TUNNEL))
    return ErrorSide.CLIENT if is_client else ErrorSide.SERVICE


def _client_detail(error: str) -> str:
    if error in _CLIENT_CLOSED:
        return ""  # the ending says it
    if error.startswith(_TUNNEL):
        return "The client sent CONNECT, which needs --mode regular."
    if error.startswith(_INCOMPLETE):
        return f"The client closed the connection before its request was complete{_counts(error)}."
    return f"The client sent invalid HTTP: {_without_content(error)}."


def _service_ending(facts: Facts, error: str) -> Classification:
    in_headers = error.startswith((f"{_UNEXPECTED}'HTTP/1", f'{_UNEXPECTED}"HTTP/1'))
    if in_headers or error.startswith(_INCOMPLETE):
        counts = " (before the response headers were complete)" if in_headers else _counts(error)
        if facts.service_fault is not None:
            return Ending.SERVICE_RESET, f"The service reset the connection{counts}."
        return Ending.SERVICE_CLOSED, f"The service closed the connection{counts}."
    return Ending.SERVICE_INVALID, f"The service sent invalid HTTP: {_without_content(error)}."


def _code(number: str) -> str:
    """Return the name of an HTTP/2 error code, or its number if it has no name."""
    try:
        return str(ErrorCodes(int(number)).name)
    except ValueError:
        return number


def _counts(error: str) -> str:
    """Return how much of a body arrived, if the error contains it."""
    counts = _COUNTS.search(error)
    return f" ({counts[1]})" if counts else ""


def _without_content(error: str) -> str:
    """Return the error without the bytes that it quotes: they can contain secrets."""
    head = error.removeprefix("HTTP/1 protocol error: ").split(" from ", 1)[0].split(": ", 1)[0]
    return re.sub(r"""b?(['"]).*""", "…", head).rstrip(". ")
