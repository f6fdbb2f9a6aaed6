"""A client checker that also collects the requests of the client, for a test to inspect."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretape import observations
from wiretape.observations import Ending, Headers
from wiretape.rules import Settings
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.http_server.http_messages import HttpRequest, ResponseHead
from wiretape_replay.http_server.response_writer import OWN_RESPONSE, ExchangeListener


@dataclass(slots=True)
class ReceivedRequest:
    """A request of the client, and its response so far."""

    number: int
    """From 1; the number of the exchange in findings and reports."""
    method: str
    target: str
    """Path and query."""
    headers: Headers
    status: int | None = None
    """The status of the response, once it has started."""
    faults: list[str] = field(default_factory=list)
    """The faults that changed the response."""
    ending: Ending | None = None
    """How the response ended, once it has."""
    _chunks: list[bytes] = field(default_factory=list, repr=False)

    @property
    def body(self) -> bytes:
        """The body so far, as it was sent."""
        return b"".join(self._chunks)

    @property
    def path(self) -> str:
        """The target without the query."""
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        """The value of a header, whatever the case of its name; None if it is missing."""
        return observations.header(self.headers, name)

    def json(self) -> Any:
        """The body as JSON.  Raises ValueError if it is not JSON."""
        return json.loads(self.body)


class RequestCollector(ClientChecker):
    """A client checker that collects the requests, and writes its recording only when `keep` is called."""

    def __init__(self, settings: Settings, record: Path) -> None:
        """Raises RecordingError if `record` cannot be written."""
        super().__init__(settings, record=record, late=True)
        self.requests: list[ReceivedRequest] = []

    def request_started(self, request: HttpRequest) -> ExchangeListener:
        """See TrafficListener."""
        received = ReceivedRequest(len(self.requests) + 1, request.method, request.target, request.headers)
        self.requests.append(received)
        return _CollectingListener(super().request_started(request), received)


@dataclass(frozen=True, slots=True)
class _CollectingListener:
    """Updates a collected request, and passes everything on to the checker."""

    checker: ExchangeListener
    request: ReceivedRequest

    def request_body(self, data: bytes) -> None:
        """See ExchangeListener."""
        self.request._chunks.append(data)  # noqa: SLF001 - read-only for everybody else
        self.checker.request_body(data)

    def request_ended(self) -> None:
        """See ExchangeListener."""
        self.checker.request_ended()

    def response_started(self, head: ResponseHead) -> None:
        """See ExchangeListener."""
        self.request.status = head.status
        self.checker.response_started(head)

    def response_body(self, data: bytes) -> None:
        """See ExchangeListener."""
        self.checker.response_body(data)

    def fault_injected(self, fault: str) -> None:
        """See ExchangeListener."""
        if fault != OWN_RESPONSE:
            self.request.faults.append(fault)
        self.checker.fault_injected(fault)

    def exchange_ended(self, ending: Ending) -> None:
        """See ExchangeListener."""
        self.request.ending = ending
        self.checker.exchange_ended(ending)
