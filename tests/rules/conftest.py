"""Traffic of one exchange, for tests that say in a line what passes."""

import json
from itertools import count

import pytest

from wiretape.observe import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.rules import Checker

STREAM = "GET /v1/sessions/ses_1/events/stream?event_deltas=true"


class Wire:
    """A checker, and the means to let exchanges pass before it."""

    def __init__(self):
        self.checker = Checker()
        self.findings = []
        self._time = count(1)
        self._ends = {}

    def feed(self, observation):
        self.findings += self.checker.feed(observation)

    def ask(self, exchange=1, request=STREAM, authority="service.test"):
        method, _, target = request.partition(" ")
        self._ends[exchange] = 0
        self.feed(RequestStarted(exchange, next(self._time), "::1", method, "http", authority, target, "HTTP/1.1", ()))

    def begin(self, exchange=1, request=STREAM, status=200, headers=None, authority="service.test"):
        self.ask(exchange, request, authority)
        kind = "text/event-stream" if status == 200 else "application/json"
        headers = {"content-type": kind} if headers is None else headers
        self.feed(ResponseStarted(exchange, next(self._time), status, "", "HTTP/1.1", tuple(headers.items())))

    def body(self, data, exchange=1):
        data = data.encode() if isinstance(data, str) else data
        start = self._ends[exchange]
        end = self._ends[exchange] = start + len(data)
        self.feed(BytesArrived(exchange, Side.RESPONSE, start, data, (end,), (next(self._time),)))

    def lose(self, number, exchange=1):
        self.feed(BytesLost(exchange, next(self._time), Side.RESPONSE, self._ends[exchange], number, "disk full"))
        self._ends[exchange] += number

    def end(self, exchange=1, ending=Ending.COMPLETE):
        self.feed(ExchangeEnded(exchange, next(self._time), ending))

    def stream(self, *parts, **begin):
        """A whole stream answer; returns the codes found."""
        self.begin(**begin)
        for part in parts:
            self.body(part)
        self.end()
        return self.codes

    def answer(self, body, status=404, request="GET /v1/anything", headers=None, ending=Ending.COMPLETE):
        """A whole error answer; returns the codes found."""
        self.begin(request=request, status=status, headers=headers)
        self.body(body)
        self.end(ending=ending)
        return self.codes

    @property
    def codes(self):
        return [finding.code for finding in self.findings]

    def verdict(self, code):
        return self.checker.verdicts()[code]


@pytest.fixture
def wire():
    """A checker before which traffic can pass."""
    return Wire()


@pytest.fixture
def event():
    """Makes a durable event as it stands in a stream: `event(sequence, type, **changes of the JSON)`."""
    return _event


def _event(sequence, kind="session.error", /, sse_id=None, **changes):
    document = {
        "id": f"evt_{sequence}",
        "sequence": sequence,
        "type": kind,
        "workspace_id": "ws_1",
        "session_id": "ses_1",
        "run_id": "run_1",
        "created_at": "2025-01-01T00:00:00Z",
        "content": {},
        "data": {},
    } | changes
    document = {key: value for key, value in document.items() if value is not ...}
    identity = document.get("id") if sse_id is None else sse_id
    line = "" if identity is ... else f"id: {identity}\n"
    return f"event: {kind}\n{line}data: {json.dumps(document)}\n\n"
