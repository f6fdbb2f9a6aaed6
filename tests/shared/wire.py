"""A checker before which exchanges pass, for tests that say in a line what passes."""

import json
import re

from tables import read_tables

from wiretape.checker import CATALOGUE, Checker, Settings
from wiretape.observations import BytesArrived, BytesLost, Ending, ExchangeEnded, RequestStarted, ResponseStarted, Side

KEY = (("authorization", "Bearer key_1"),)
STREAM = "GET /v1/sessions/ses_1/events/stream?event_deltas=true"


class Wire:
    """A checker, of the rules of these families or of all, and the means to let exchanges pass before it."""

    def __init__(self, off=frozenset(), families=None):
        off |= {code for code in CATALOGUE if families is not None and code[:-3] not in families}
        self.checker = Checker(Settings(off=off))
        self.findings = []
        self._now = 0
        self._ends = {}

    def wait(self, seconds):
        """Let time pass in which nothing is seen."""
        self._now += round(seconds * 1e9)

    def _tick(self):
        self._now += 1
        return self._now

    def feed(self, observation):
        self.findings += self.checker.feed(observation)

    def ask(self, exchange=1, request=STREAM, authority="service.test", asked=KEY):
        method, _, target = request.partition(" ")
        self._ends[exchange] = 0
        self.feed(
            RequestStarted(exchange, self._tick(), "::1", method, "http", authority, target, "HTTP/1.1", tuple(asked))
        )

    def begin(self, exchange=1, request=STREAM, status=200, headers=None, authority="service.test", asked=KEY):
        self.ask(exchange, request, authority, asked)
        kind = "text/event-stream" if status == 200 else "application/json"
        headers = {"content-type": kind} if headers is None else headers
        self.feed(ResponseStarted(exchange, self._tick(), status, "", "HTTP/1.1", tuple(headers.items())))

    def body(self, data, exchange=1):
        data = data.encode() if isinstance(data, str) else data
        start = self._ends[exchange]
        end = self._ends[exchange] = start + len(data)
        self.feed(BytesArrived(exchange, Side.RESPONSE, start, data, (end,), (self._tick(),)))

    def lose(self, number, exchange=1):
        self.feed(BytesLost(exchange, self._tick(), Side.RESPONSE, self._ends[exchange], number, "disk full"))
        self._ends[exchange] += number

    def end(self, exchange=1, ending=Ending.COMPLETE):
        self.feed(ExchangeEnded(exchange, self._tick(), ending))

    def stream(self, *parts, ending=Ending.COMPLETE, **begin):
        """A whole stream answer: text, or how many bytes are lost, or for how many seconds (a float) nothing is sent.

        Returns the codes found.
        """
        exchange = begin.get("exchange", 1)
        self.begin(**begin)
        for part in parts:
            if isinstance(part, float):
                self.wait(part)
            elif isinstance(part, int):
                self.lose(part, exchange)
            else:
                self.body(part, exchange)
        self.end(exchange, ending)
        return self.codes

    def answer(
        self, body, status=404, request="GET /v1/sessions/anything", headers=None, ending=Ending.COMPLETE, **begin
    ):
        """A whole answer, typed as JSON unless `headers` say otherwise; returns the codes found."""
        headers = {"content-type": "application/json"} | (headers or {})
        exchange = begin.get("exchange", 1)
        self.begin(request=request, status=status, headers=headers, **begin)
        self.body(_body(body), exchange)
        self.end(exchange, ending)
        return self.codes

    def hold(self, kind, case, how, codes, row):
        """Let what a row of a table says be sent, in a stream or as an answer, and hold it against the table."""
        how = how | {"ending": Ending(how.get("ending", "complete"))}
        if kind == "answers":
            found = self.answer(row["sent"], **how)
        else:
            sent = row["sent"] if isinstance(row["sent"], list) else [row["sent"]]
            found = self.stream(*map(_part, sent), **how)
        assert found == codes
        assert row.get("says") in (None, [finding.message for finding in self.findings])
        for verdict, named in case.get("verdicts", {}).items():
            assert {code: self.verdict(code).name for code in named.split()} == dict.fromkeys(named.split(), verdict)

    @property
    def codes(self):
        return [finding.code for finding in self.findings]

    def verdict(self, code):
        return self.checker.verdicts()[code]


def rows_of(module):
    """Yield each row of the `streams` and the `answers` in the tables of a module, for `Wire.hold`."""
    tables = read_tables(module)
    for kind in ("streams", "answers"):
        for case in tables.get(kind, ()):
            given = case.get("with", {})
            for how in given if isinstance(given, list) else [given]:
                for codes, rows in case["found"].items():
                    for row in rows:
                        yield kind, case, how, codes.split(), row if isinstance(row, dict) else {"sent": row}


def durable_event(sequence, kind="session.error", /, sse_id=None, **changes):
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
    document = _present(document)
    identity = document.get("id") if sse_id is None else sse_id
    line = "" if identity is ... else f"id: {identity}\n"
    return f"event: {kind}\n{line}data: {json.dumps(document)}\n\n"


def _part(part):
    """A part of a stream in a table: a durable event is the JSON of its changes, another event may be on one line."""
    if isinstance(part, str) and part.startswith("{"):
        changes = _changes(part)
        return durable_event(changes.pop("number", 1), changes.pop("event", "session.error"), **changes)
    if isinstance(part, str) and (lines := re.fullmatch(r"(event: \S+)(?: (id: \S+))? (data: .*)", part)):
        return "".join(f"{line}\n" for line in lines.groups() if line) + "\n"
    return part


def _body(text):
    """The body of an answer: of an error, only its code and JSON of what differs from what the code requires."""
    if not isinstance(text, str) or not (error := re.fullmatch(r"(\w+) (\{.*\})", text)):
        return text
    fields = {"code": error[1], "message": "It is wrong.", "request_id": "req_1"} | ERRORS.get(error[1], {})
    return json.dumps({"error": _present(fields | _changes(error[2]))})


def _present(fields):
    return {key: value for key, value in fields.items() if value is not ...}


def _changes(text):
    return {name: ... if value == "..." else value for name, value in json.loads(text).items()}


RUN = "/v1/sessions/ses_1/runs/run_1"
ERRORS = {
    "SESSION_BUSY": {
        "message": "Session ses_1 has run run_1 with status waiting_for_input.",
        "active_run_id": "run_1",
        "active_run_status": "waiting_for_input",
        "recovery": [f"POST {RUN}/cancel", f"POST {RUN}/resume"],
    },
    "RATE_LIMITED": {"details": {"limit": 60, "window_seconds": 60, "retry_after": 7}},
}
