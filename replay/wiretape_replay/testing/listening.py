"""A judge that also keeps what it was asked, for tests to look at."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretape import observations
from wiretape.observations import Ending, Headers
from wiretape.rules import Settings
from wiretape_replay.front.asked import Asked
from wiretape_replay.front.head import Head
from wiretape_replay.front.tap import OWN_ANSWER, Tap
from wiretape_replay.judging.judge import Judge


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


class Listener(Judge):
    """A judge whose recording is made late, and who knows the requests."""

    def __init__(self, settings: Settings, record: Path) -> None:
        """Raises RecordingError when `record` cannot be made."""
        super().__init__(settings, record=record, late=True)
        self.requests: list[Request] = []

    def asked(self, asked: Asked) -> Tap:
        """See Watcher."""
        request = Request(len(self.requests) + 1, asked.method, asked.target, asked.headers)
        self.requests.append(request)
        return _Tap(super().asked(asked), request)


@dataclass(frozen=True, slots=True)
class _Tap:
    """Tells the judge and the request."""

    judge: Tap
    request: Request

    def received(self, data: bytes) -> None:
        """See Tap."""
        self.request._pieces.append(data)  # noqa: SLF001 - nobody else may
        self.judge.received(data)

    def whole(self) -> None:
        """See Tap."""
        self.judge.whole()

    def began(self, head: Head) -> None:
        """See Tap."""
        self.request.status = head.status
        self.judge.began(head)

    def sent(self, data: bytes) -> None:
        """See Tap."""
        self.judge.sent(data)

    def injected(self, fault: str) -> None:
        """See Tap."""
        if fault != OWN_ANSWER:
            self.request.faults.append(fault)
        self.judge.injected(fault)

    def ended(self, ending: Ending) -> None:
        """See Tap."""
        self.request.ending = ending
        self.judge.ended(ending)
