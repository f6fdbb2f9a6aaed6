"""Interfaces for listening to the traffic of the server.

The server reports each request to a TrafficListener, and everything that follows to the ExchangeListener that it
returns.  Listeners are called for every chunk, so they must not block or raise.
"""

from typing import Protocol

from wiretape.observations import Ending
from wiretape_replay.http_server.request import HttpRequest
from wiretape_replay.http_server.response import ResponseHead

OWN_RESPONSE = "a response that wiretape made"
"""Passed to `fault_injected` for a response that comes from neither a recording nor a fault script."""


class ExchangeListener(Protocol):
    """Listens to one exchange."""

    def request_body(self, data: bytes) -> None:
        """A chunk of the request body arrived."""

    def request_ended(self) -> None:
        """The request arrived completely."""

    def response_started(self, head: ResponseHead) -> None:
        """The head of the response was sent."""

    def response_body(self, data: bytes) -> None:
        """A chunk of the response body was sent, given without HTTP framing."""

    def fault_injected(self, fault: str) -> None:
        """The named fault changes the response from here on."""

    def exchange_ended(self, ending: Ending) -> None:
        """The exchange ended."""


class TrafficListener(Protocol):
    """Listens to all exchanges."""

    def request_started(self, request: HttpRequest) -> ExchangeListener:
        """The head of a request arrived; `request.body` is still empty."""
        ...


class NullListener:
    """Ignores all traffic."""

    def request_started(self, request: HttpRequest) -> "NullListener":  # noqa: ARG002 - a TrafficListener
        """See TrafficListener."""
        return self

    def request_body(self, data: bytes) -> None:
        """See ExchangeListener."""

    def request_ended(self) -> None:
        """See ExchangeListener."""

    def response_started(self, head: ResponseHead) -> None:
        """See ExchangeListener."""

    def response_body(self, data: bytes) -> None:
        """See ExchangeListener."""

    def fault_injected(self, fault: str) -> None:
        """See ExchangeListener."""

    def exchange_ended(self, ending: Ending) -> None:
        """See ExchangeListener."""
