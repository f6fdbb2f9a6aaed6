"""Conversations that keep the specification give nothing above a note; one planted defect gives its code alone."""

import gzip
import itertools
import json
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.contract import ERROR_CODES, EVENT_TYPES, Durability
from wiretape.observations import BytesArrived, Ending, ExchangeEnded, RequestStarted, ResponseStarted, Side
from wiretape.rules import CATALOGUE, Checker, Settings, Severity, Verdict

FAMILIES = {"SSE", "DUR", "SEQ", "ERR"}
ERRORS = {"ERR001", "ERR002", "ERR003", "ERR004"}
OFF = frozenset(code for code in CATALOGUE if code[:-3] not in FAMILIES or (code[:3] == "ERR" and code not in ERRORS))
DELTAS = [name for name, row in EVENT_TYPES.items() if row.durability is Durability.EPHEMERAL]
STORED = [name for name, row in EVENT_TYPES.items() if row.durability is Durability.DURABLE]
FREE = [name for name, row in EVENT_TYPES.items() if row.durability is Durability.NOT_SHOWN]
SAFE_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ANY_TEXT = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)


@dataclass
class Msg:
    """One message of a stream, still open to change."""

    event: str | None
    id: str | None
    document: dict | None
    extra: list[str] = field(default_factory=list)

    def lines(self):
        lines = list(self.extra)
        if self.event is not None:
            lines.append(f"event: {self.event}")
        if self.id is not None:
            lines.append(f"id: {self.id}")
        if self.document is not None:
            lines.append(f"data: {json.dumps(self.document)}")
        return lines


def durable(number, kind, session, created="2025-01-01T00:00:00Z", extra=None):
    identity = f"evt_{session}_{number}"
    return Msg(
        kind,
        identity,
        {
            **(extra or {}),
            "id": identity,
            "sequence": number,
            "type": kind,
            "workspace_id": "ws_1",
            "session_id": session,
            "run_id": "run_1",
            "created_at": created,
            "content": [{"type": "text", "text": "x"}] if "message" in kind else {},
            "data": {},
        },
    )


def delta(kind="message.delta", text="Hi"):
    return Msg(kind, None, {"type": kind, "run_id": "run_1", "delta": {"text": text}})


# What is played: a session's log; each connection reads a part of it.


@st.composite
def logs(draw, session, *, contiguous=False):
    """A session's events in order: durable ones with growing sequences, ephemeral ones and deltas between them."""
    number = draw(st.integers(-5, 5))
    log = []
    for _ in range(draw(st.integers(1, 8))):
        match draw(st.sampled_from(["delta", "stored", "free", "ephemeral"])):
            case "delta":
                log.append(delta(draw(st.sampled_from(DELTAS)), draw(ANY_TEXT)))
            case "ephemeral":
                log.append(Msg(kind := draw(st.sampled_from(FREE)), None, {"type": kind, "x": draw(JSON)}))
            case shape:
                number += 1 if contiguous else draw(st.integers(1, 3))
                kind = draw(st.sampled_from(STORED if shape == "stored" else FREE))
                log.append(durable(number, kind, session, extra={"note": draw(JSON)}))
    return log


@dataclass
class Connection:
    """One exchange to be played."""

    session: str
    messages: list[Msg]
    deltas: bool = True
    status: int = 200
    headers: dict = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    ending: Ending = Ending.COMPLETE
    line_end: str = "\n"
    head: str = ""
    between: str = ""
    tail: str = ""
    raw: bytes | None = None

    @property
    def body(self):
        if self.raw is not None:
            return self.raw
        end = self.line_end
        blocks = self.between.join(end.join([*message.lines(), "", ""]) for message in self.messages)
        body = (self.head + blocks + self.tail).encode("utf-8", "surrogatepass")
        return gzip.compress(body) if "Content-Encoding" in self.headers else body


@st.composite
def connections(draw, session, log):
    """A connection that reads the log from some place on, with or without deltas."""
    deltas = draw(st.booleans())
    begin = draw(st.integers(0, len(log)))
    # Deltas are not replayed, but may come again after a reconnect.
    chosen = [m for m in log[begin:] if deltas or m.event not in DELTAS]
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    fillers = st.sampled_from(["", f": keep-alive{end}", f":{end}{end}", end])
    comments = st.lists(st.sampled_from([": inside", "retry: 1000"]), max_size=2)
    chosen = [Msg(m.event, m.id, m.document, draw(comments)) for m in chosen]
    return Connection(
        session,
        chosen,
        deltas,
        ending=draw(st.sampled_from(Ending)),
        line_end=end,
        head=draw(st.sampled_from(["", "\ufeff"])) + draw(fillers),
        between=draw(fillers),
        tail=draw(fillers),
    )


@st.composite
def errors(draw):
    """An error answer that keeps the specification, on any path."""
    row = draw(st.sampled_from(list(ERROR_CODES.values())))
    document = {"error": {"code": row.code, "message": draw(ANY_TEXT), "request_id": draw(ANY_TEXT)}}
    raw = json.dumps(document).encode()
    return Connection(draw(SAFE_TEXT), [], status=row.status, headers={}, raw=raw, ending=draw(st.sampled_from(Ending)))


@st.composite
def conversations(draw):
    """Several sessions, each read by several connections, and errors between."""
    played = []
    for number in range(draw(st.integers(1, 3))):
        session = f"ses_{number}"
        log = draw(logs(session))
        played += draw(st.lists(connections(session, log), min_size=1, max_size=3))
    return played + draw(st.lists(errors(), max_size=2))


@st.composite
def interleaved(draw, played):
    """The observations of the connections, cut into chunks anywhere and mixed in any order."""
    parts = []
    for number, connection in enumerate(played, 1):
        body = connection.body
        cuts = sorted(draw(st.sets(st.integers(0, len(body)), max_size=6)) | {0, len(body)})
        pieces = [(a, body[a:b]) for a, b in itertools.pairwise(cuts)]
        parts.append([(number, "ask", None), (number, "answer", None), *[(number, "body", p) for p in pieces]])
        parts[-1].append((number, "end", None))
    order = draw(st.permutations([number for number, part in enumerate(parts) for _ in part]))
    queues = [iter(part) for part in parts]
    return [next(queues[number]) for number in order]


def observe(played, steps):
    for time_ns, (number, what, piece) in enumerate(steps, 1):
        connection = played[number - 1]
        query = "?event_deltas=true" if connection.deltas else ""
        target = f"/v1/sessions/{connection.session}/events/stream{query}"
        match what:
            case "ask":
                yield RequestStarted(number, time_ns, "::1", "GET", "http", "s", target, "HTTP/1.1", ())
            case "answer":
                yield ResponseStarted(
                    number, time_ns, connection.status, "", "HTTP/1.1", tuple(connection.headers.items())
                )
            case "body":
                start, data = piece
                yield BytesArrived(number, Side.RESPONSE, start, data, (start + len(data),), (time_ns,))
            case "end":
                yield ExchangeEnded(number, time_ns, connection.ending)


def judge(played, steps):
    checker = Checker(Settings(off=OFF))
    found = [finding for seen in observe(played, steps) for finding in checker.feed(seen)]
    return found + checker.finish(), checker


@given(st.data())
def test_a_conforming_conversation_has_only_notes(data):
    played = data.draw(conversations())
    found, checker = judge(played, data.draw(interleaved(played)))
    assert {finding.code for finding in found} <= {"SEQ004"}
    failed = {code for code, verdict in checker.verdicts().items() if verdict is Verdict.FAIL}
    assert failed <= {"SEQ004"}


# One defect each: given a connection whose log has a durable event, a delta and another durable event.


def _first_durable(connection):
    return next(message for message in connection.messages if message.id is not None)


def _first_delta(connection):
    return next(message for message in connection.messages if message.event in DELTAS)


def _insert(connection, message):
    connection.messages.append(message)


def _sequences(connection):
    return [m.document["sequence"] for m in connection.messages if m.id is not None]


def _json(message, **changes):
    message.document = {key: value for key, value in (message.document | changes).items() if value is not ...}


def _cut_off(connection):
    connection.tail = "event: run.st"
    connection.ending = Ending.SERVICE_CLOSED


def _compress(connection):
    connection.headers["Content-Encoding"] = "gzip"


def _bad_byte(connection):
    connection.raw = connection.body.replace(b'"delta": {', b'"\xff": 1, "delta": {', 1)


def _rename(message, name):
    message.id = name
    _json(message, id=name)


def _one_more(connection, step):
    last = _sequences(connection)[-1]
    return durable(last + step, "session.error", connection.session)


def _reuse_id(connection):
    more = _one_more(connection, 1)
    _rename(more, _first_durable(connection).id)
    _insert(connection, more)


PLANTS = {
    "SSE001": _bad_byte,
    "SSE002": _cut_off,
    "SSE003": lambda c: _first_delta(c).extra.append("channel: x"),
    "SSE004": lambda c: setattr(_first_durable(c), "id", "evt\0"),
    "SSE005": lambda c: _first_delta(c).extra.append("event: message.delta"),
    "SSE006": lambda c: setattr(_first_delta(c), "event", None),
    "SSE007": lambda c: c.headers.update({"Content-Type": "text/html"}),
    "SSE008": lambda c: _insert(c, Msg("session.error", None, None)),
    "SSE009": _compress,
    "SSE010": lambda c: _first_delta(c).extra.append("retry: 99999999999"),
    "SSE011": lambda c: _rename(_first_durable(c), " outside"),
    "DUR001": lambda c: _json(_first_durable(c), sequence=...),
    "DUR002": lambda c: setattr(_first_durable(c), "id", None),
    "DUR003": lambda c: _json(_first_durable(c), id="another"),
    "DUR004": lambda c: setattr(_first_delta(c), "id", ""),
    "DUR005": lambda c: _json(_first_delta(c), sequence=1),
    "DUR006": lambda c: _insert(c, Msg("reasoning.message", None, {"type": "reasoning.message"})),
    "DUR007": lambda c: setattr(c, "deltas", False),
    "SEQ001": lambda c: _insert(c, _one_more(c, -100)),
    "SEQ003": _reuse_id,
    "SEQ004": lambda c: _insert(c, _one_more(c, 2)),
    "SEQ005": lambda c: _json(_first_durable(c), created_at="2026-01-01T00:00:00Z"),
}


@st.composite
def planted(draw, code):
    """Two sessions, one of which has a defect."""
    log = draw(logs("ses_1", contiguous=True))
    last = max((m.document["sequence"] for m in log if m.id is not None), default=0)
    more = [durable(last + 1, "tool.completed", "ses_1"), delta(), durable(last + 2, "run.completed", "ses_1")]
    connection = Connection("ses_1", log + more)
    PLANTS[code](connection)
    return [connection, Connection("ses_2", draw(logs("ses_2", contiguous=True)))]


@settings(max_examples=max(100, settings().max_examples))
@given(st.sampled_from(sorted(PLANTS)), st.data())
def test_one_planted_defect_gives_exactly_its_code(code, data):
    played = data.draw(planted(code))
    found, checker = judge(played, data.draw(interleaved(played)))
    assert Counter(finding.code for finding in found) == {code: 1}
    assert found[0].severity is CATALOGUE[code].severity
    assert checker.verdicts()[code] is Verdict.FAIL


ERROR_PLANTS = {
    "ERR001": lambda error, row: {"err": error, "status": row.status},
    "ERR002": lambda error, _row: {"error": error | {"message": None}},
    "ERR003": lambda error, row: {"error": error | {"code": row.code.swapcase()}},
    "ERR004": lambda error, row: {
        "error": error | {"code": next(other.code for other in ERROR_CODES.values() if other.status != row.status)}
    },
}


@given(st.sampled_from(sorted(ERROR_PLANTS)), st.sampled_from(list(ERROR_CODES.values())), st.data())
def test_one_planted_defect_in_an_error_gives_exactly_its_code(code, row, data):
    error = {"code": row.code, "message": data.draw(ANY_TEXT), "request_id": data.draw(ANY_TEXT)}
    raw = json.dumps(ERROR_PLANTS[code](error, row)).encode()
    played = [Connection("ses_1", [], status=row.status, headers={}, raw=raw), data.draw(errors())]
    found, _ = judge(played, data.draw(interleaved(played)))
    assert [finding.code for finding in found] == [code]
    assert found[0].severity is Severity.ERROR


def test_every_rule_but_one_has_a_planted_defect():
    """SEQ002 needs two connections; its vector plants it."""
    assert set(CATALOGUE) - OFF - set(PLANTS) - set(ERROR_PLANTS) == {"SEQ002"}


@given(st.binary(max_size=300), st.data())
def test_arbitrary_bytes_do_not_make_the_checker_fail(body, data):
    played = [Connection("ses_1", [], raw=body), Connection("ses_1", [], status=500, raw=body)]
    found, _ = judge(played, data.draw(interleaved(played)))
    assert all(finding.message.isprintable() for finding in found)


@given(st.sampled_from(sorted(PLANTS)), st.data())
def test_chunks_make_no_difference(code, data):
    played = data.draw(conversations()) + data.draw(planted(code))
    order = dict.fromkeys((number, what) for number, what, _ in data.draw(interleaved(played)))

    def places(*, bytewise):
        steps = []
        for number, what in order:
            body = played[number - 1].body if what == "body" else b""
            cut = [(at, body[at : at + 1]) for at in range(len(body))] if bytewise else [(0, body)]
            steps += [(number, what, piece) for piece in (cut if what == "body" else [None])]
        found, checker = judge(played, steps)
        return [(f.code, f.exchange, f.event, f.byte_offset, f.message) for f in found], checker.verdicts()

    whole = places(bytewise=False)
    assert code in {found[0] for found in whole[0]}
    assert whole == places(bytewise=True)
