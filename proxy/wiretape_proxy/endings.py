"""How an exchange ended, told from what mitmproxy lets us know of it.

mitmproxy has one error for many things ("Client disconnected." is also what an idle timeout and its own
shutdown say), so the text alone decides little.  `Facts` gathers what else is known; `classify` is a pure
function of it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from h2.errors import ErrorCodes

from wiretape.observations import Ending


class Origin(StrEnum):
    """On which of its two sides mitmproxy met the trouble."""

    CLIENT = "client"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known at the moment an exchange ends."""

    error: str | None
    """What mitmproxy said (`flow.error.msg`); None when it calls the response whole."""
    origin: Origin | None = None
    """Where mitmproxy met the trouble, when that is known for certain."""
    stopping: bool = False
    """The proxy was asked to stop."""
    timed_out: bool = False
    """The proxy gave the client's connection up because no byte came for too long."""
    connecting: bool = False
    """A connection to the service was still being made."""
    client_open: bool = True
    service_open: bool = True
    service_fault: str | None = None
    """What the operating system said of the connection to the service, if it did not end in good order (RST)."""
    until_close: bool = False
    """Nothing but the end of the connection says where this response ends."""
    upgraded: bool = False
    """The response agrees to another protocol, such as WebSocket, on this connection."""


Verdict = tuple[Ending, str]

_H2_RESET = re.compile(r"stream reset by client \((\w+)\)")
_GOAWAY = re.compile(r"HTTP/2 connection closed: <ConnectionTerminated error_code:(?:ErrorCodes\.)?(\w+)")
_COUNTS = re.compile(r"\((received \d+ bytes, expected \d+|incomplete chunked read)\)$")
_CUT_SHORT = (
    "peer closed connection",
    "server closed connection",
    "HTTP/1 protocol error: peer closed connection",
)
_CLIENT_LEFT = ("Client disconnected.", "client disconnected", "peer closed connection")
_TUNNEL = "mitmproxy received an HTTP CONNECT request"
_UNEXPECTED = "unexpected server response: b"
_OURS = {
    "Connection killed.": "mitmproxy was told to end this exchange.",
    "Request body exceeds mitmproxy's body_size_limit.": "The request is longer than mitmproxy's body_size_limit.",
    "Response body exceeds mitmproxy's body_size_limit.": "The response is longer than mitmproxy's body_size_limit.",
}


def classify(facts: Facts) -> Verdict:
    """The ending, and a sentence about it that repeats nothing of the traffic."""
    error = facts.error
    if error is None:
        if facts.upgraded:
            return Ending.COMPLETE, "What passes after the upgrade to another protocol is not recorded."
        if facts.until_close and facts.service_fault is not None:
            return Ending.SERVICE_RESET, f"The service reset the connection ({facts.service_fault})."
        return Ending.COMPLETE, ""
    if facts.stopping:
        return Ending.PROXY_STOPPED, "The proxy was stopped."
    if facts.timed_out:
        return Ending.TIMED_OUT, "No byte came for too long, so the proxy closed the client's connection."
    if error in _OURS:
        return Ending.PROXY_STOPPED, _OURS[error]
    if _origin(facts, error) is Origin.CLIENT:
        return Ending.CLIENT_CLOSED, _client_detail(error)
    if facts.connecting:
        return Ending.SERVICE_UNREACHABLE, f"No connection to the service could be made: {error}"
    return _service_ended(facts, error)


def _origin(facts: Facts, error: str) -> Origin:
    if facts.origin is not None:
        return facts.origin
    if " from client, refusing" in error or error.startswith(("Invalid request scheme", _TUNNEL)):
        return Origin.CLIENT
    if " from server, refusing" in error:
        return Origin.SERVICE
    # From here on, measured rules of thumb: an upstream's RST_STREAM (CANCEL) would be taken for the client's.
    if not facts.client_open or error == "stream reset by client (CANCEL)":
        return Origin.CLIENT
    if facts.service_open and error in _CLIENT_LEFT:
        return Origin.CLIENT
    return Origin.SERVICE


def _client_detail(error: str) -> str:
    if reset := _H2_RESET.fullmatch(error):
        return f"The client reset the HTTP/2 stream ({reset[1]})."
    if goaway := _GOAWAY.match(error):
        return f"The client ended the HTTP/2 connection ({_code(goaway[1])})."
    if error in _CLIENT_LEFT:
        return "The client closed the connection."
    if error.startswith(_TUNNEL):
        return "The client asked for a tunnel (CONNECT), as of a proxy: those come with --mode regular."
    if error.startswith(_CUT_SHORT):
        return f"The client closed the connection within its request{_counts(error)}."
    return f"The client sent what is not HTTP: {_without_content(error)}."


def _service_ended(facts: Facts, error: str) -> Verdict:
    if reset := _H2_RESET.fullmatch(error):
        return Ending.SERVICE_RESET, f"The service reset the HTTP/2 stream ({reset[1]})."
    if goaway := _GOAWAY.match(error):
        return Ending.SERVICE_CLOSED, f"The service ended the HTTP/2 connection ({_code(goaway[1])})."
    half_a_head = error.startswith((f"{_UNEXPECTED}'HTTP/1", f'{_UNEXPECTED}"HTTP/1'))
    if half_a_head or error.startswith(_CUT_SHORT):
        counts = " (within the response's head)" if half_a_head else _counts(error)
        if facts.service_fault is not None:
            return Ending.SERVICE_RESET, f"The service reset the connection{counts}."
        return Ending.SERVICE_CLOSED, f"The service closed the connection{counts}."
    return Ending.SERVICE_INVALID, f"The service sent what is not HTTP: {_without_content(error)}."


def _code(number: str) -> str:
    """The name of an HTTP/2 error code, where it has one."""
    try:
        return str(ErrorCodes(int(number)).name)
    except ValueError:
        return number


def _counts(error: str) -> str:
    """How much of a body had come, if the error says."""
    counts = _COUNTS.search(error)
    return f" ({counts[1]})" if counts else ""


def _without_content(error: str) -> str:
    """The error, without the bytes that it quotes: they can hold secrets."""
    head = error.removeprefix("HTTP/1 protocol error: ").split(" from ", 1)[0].split(": ", 1)[0]
    return re.sub(r"""b?(['"]).*""", "…", head).rstrip(". ")
