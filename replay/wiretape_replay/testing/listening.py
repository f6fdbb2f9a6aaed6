"""A judge that also keeps what it was asked, for tests to look at."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretape import observations
from wiretape.observations import Ending, Headers
from wiretape.rules import Settings
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.http_server.request import HttpRequest
from wiretape_replay.http_server.response import ResponseHead
from wiretape_replay.http_server.traffic_listener import OWN_RESPONSE, ExchangeListener


@dataclass(slots=True)
class Request:
    """A request that came, and what became of it so far."""

    number: int
    """From 1; findings and reports call it the exchange."""
    method: str
    target: str
    """Path and query."""
    headers: Headers
    status: int | None = None
    """Of the answer, once it has begun."""
    faults: list[str] = field(default_factory=list)
    """What was done to the answer by script."""
    ending: Ending | None = None
    """How the answer ended, once it has."""
    _pieces: list[bytes] = field(default_factory=list, repr=False)

    @property
    def body(self) -> bytes:
        """As far as it has come, as it crossed the wire."""
        return b"".join(self._pieces)

    @property
    def path(self) -> str:
        """Without the query."""
        return self.target.partition("?")[0]

    def header(self, name: str) -> str | None:
        """The value of a header, in whatever case its name is; None without it."""
        return observations.header(self.headers, name)

    def json(self) -> Any:
        """The body, read as JSON.  Raises ValueError when it is none."""
        return json.loads(self.body)


class Listener(ClientChecker):
    """A judge whose recording is made late, and who knows the requests."""

    def __init__(self, settings: Settings, record: Path) -> None:
        """Raises RecordingError when `record` cannot be made."""
        super().__init__(settings, record=record, late=True)
        self.requests: list[Request] = []

    def request_started(self, request: HttpRequest) -> ExchangeListener:
        """See TrafficListener."""
        received = Request(len(self.requests) + 1, request.method, request.target, request.headers)
        self.requests.append(received)
        return _Tap(super().request_started(request), received)


@dataclass(frozen=True, slots=True)
class _Tap:
    """Tells the judge and the request."""

    judge: ExchangeListener
    request: Request

    def request_body(self, data: bytes) -> None:
        """See ExchangeListener."""
        self.request._pieces.append(data)  # noqa: SLF001 - nobody else may
        self.judge.request_body(data)

    def request_ended(self) -> None:
        """See ExchangeListener."""
        self.judge.request_ended()

    def response_started(self, head: ResponseHead) -> None:
        """See ExchangeListener."""
        self.request.status = head.status
        self.judge.response_started(head)

    def response_body(self, data: bytes) -> None:
        """See ExchangeListener."""
        self.judge.response_body(data)

    def fault_injected(self, fault: str) -> None:
        """See ExchangeListener."""
        if fault != OWN_RESPONSE:
            self.request.faults.append(fault)
        self.judge.fault_injected(fault)

    def exchange_ended(self, ending: Ending) -> None:
        """See ExchangeListener."""
        self.request.ending = ending
        self.judge.exchange_ended(ending)
