"""Whatever a service sends, the checker judges it; and it judges plain messages as it would without its short cut."""

import json

import pytest
from for_each import for_each
from hypothesis import given
from hypothesis import strategies as st

from wiretape.checker import CATALOGUE, Checker
from wiretape.rules.vectors import vectors
from wiretape.safe_text import printable
from wiretape.traffic_builder import TrafficBuilder
from wiretape_contracts.agent_sessions import DELTA_TYPES, EVENT_TYPES, session_traffic
from wiretape_contracts.agent_sessions.session_event import SessionEvent
from wiretape_contracts.agent_sessions.session_traffic import SessionRules

TEXT = st.text(max_size=6) | st.sampled_from(["evt_1", "run_1", "ses_1", "ws_1", "call_1", "ping"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
KINDS = st.sampled_from(sorted(EVENT_TYPES)) | st.sampled_from(["ping", "x", ""])
CALL = {"tool_call_id": "call_1", "name": "search"}
NAMES = ["id", "sequence", "type", "workspace_id", "session_id", "run_id", "created_at", "content", "data", "delta"]


@st.composite
def documents(draw, kind, number):
    """The JSON of an event as it should be, but for some fields that are missing or anything at all."""
    document = {"type": kind, "run_id": "run_1", "delta": {"text": "Hi"}}
    if kind not in DELTA_TYPES and draw(st.booleans()):
        document |= {
            "id": f"evt_{number}",
            "sequence": number,
            "workspace_id": "ws_1",
            "session_id": "ses_1",
            "created_at": "2025-01-01T00:00:00Z",
            "content": CALL | {"input": {}},
            "data": CALL,
        }
    for name in draw(st.lists(st.sampled_from(NAMES) | TEXT, max_size=draw(st.sampled_from([0, 0, 3])))):
        if draw(st.booleans()):
            document.pop(name, None)
        else:
            document[name] = draw(JSON)
    return document


@st.composite
def messages(draw):
    """The bytes of messages, many of them plain, and many malformed somewhere."""
    stream = b""
    for number in range(draw(st.integers(1, 8))):
        kind = draw(KINDS)
        document = draw(documents(kind, number))
        data = draw(st.sampled_from([json.dumps, compact]))(document)
        lines = [f"event: {kind}"] if draw(st.integers(0, 9)) else []
        lines += [f"id: {document['id']}"] if type(document.get("id")) is str else []
        lines += draw(st.lists(st.sampled_from(["id: x", "id", "event: ping", "retry: 0", "x: y", ": c"]), max_size=1))
        text = "\n".join([*draw(st.permutations([*lines, f"data: {data}"])), "", ""])
        raw = text.encode("utf-8", "surrogatepass")
        stream += raw if draw(st.integers(0, 9)) else raw.replace(b'"', b'"\xff', 1)
    return stream


def compact(document):
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def judged(body, status=200, target="/v1/sessions/ses_1/events/stream?event_deltas=true"):
    checker, traffic = Checker(), TrafficBuilder()
    kind = "text/event-stream" if status == 200 else "application/json"
    request = traffic.request("GET", target, headers={"Authorization": ""})
    request.respond(status, headers={"Content-Type": kind}, body=body)
    found = [finding for seen in traffic.observations() for finding in checker.feed(seen)] + checker.finish()
    # The request has no key.
    assert "CLI001" in {finding.code for finding in found}
    return found, {code: repr(tally) for code, tally in checker.tallies().items()}


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_checked(body):
    for status in (200, 500):
        assert all(is_safe(finding.message) for finding in judged(body, status)[0])


def is_safe(message):
    """Whether a sentence can be printed anywhere, and on a few lines."""
    return printable(message) == message and len(message) < 1000


def by_the_long_way(judge):
    """What comes of it when no message counts as plain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_traffic, "is_ordinary", lambda _event: False)
        return judge()


@given(messages())
def test_malformed_events_have_the_same_findings_without_the_fast_path(stream):
    found, tallies = judged(stream)
    assert all(is_safe(finding.message) for finding in found)
    assert {finding.code for finding in found} <= CATALOGUE.keys()
    assert by_the_long_way(lambda: judged(stream)) == (found, tallies)


_DELTA = b'event: message.delta\ndata: {"type":"message.delta","run_id":"r","delta":{"text":"a"}}\n\n'
_DURABLE = (
    b'id: evt_%d\nevent: %s\ndata: {"id":"evt_%d","sequence":%d,"type":"%s","workspace_id":"w","session_id":"ses_1",'
    b'"run_id":"%s","created_at":"2026-01-01T00:00:00Z","content":[],"data":{}}\n\n'
)


def durable(number, name, run_id=b"r"):
    return _DURABLE % (number, name, number, number, name, run_id)


NEARLY_REPEATED = [
    _DELTA.replace(b'"r"', b'"other"'),
    _DELTA.replace(b'"r"', b"1"),
    _DELTA.replace(b"message.delta", b"reasoning.delta"),
    _DELTA.replace(b"event: message", b"event: reasoning"),
    _DELTA.replace(b'"message', b'"reasoning'),
    _DELTA.replace(b'{"type', b'{"sequence":1,"type'),
    _DELTA.replace(b'{"type', b'{"sequence":null,"type'),
    _DELTA.replace(b'{"type', b'{"run_id":"r","type'),
    _DELTA.replace(b'"a"', b"1"),
    _DELTA.replace(b'"a"', b'"\xff"'),
    _DELTA.replace(b'"a"', '"ü"'.encode()),
    *(
        _DELTA.replace(b'"a"', text)
        for text in (b'"\\""', b'"\\"', b'"\\ud800"', b'"\t"', b'"b","run_id":"x"', b'""', b'"')
    ),
    _DELTA.replace(b"a", b"b\r\nid: 1"),
    _DELTA.replace(b"a", b"b" * 9)[:-12],
    _DELTA.replace(b"data:", b":\xff\ndata:"),
    _DELTA.replace(b":", b": "),
    _DELTA.replace(b"}}", b"}"),
    _DELTA.replace(b"data: {", b"data: [").replace(b"}\n", b"]\n"),
    _DELTA.replace(b"event", b"id: 1\nevent"),
    _DELTA.replace(b"event", b"event: message.delta\nevent"),
    _DELTA.replace(b"\n\n", b"\ndata: 1\n\n"),
    _DELTA.replace(b"data", b"other"),
    _DELTA.replace(b"event: message.delta\n", b""),
    durable(3, b"run.completed"),
    durable(3, b"run.started"),
    durable(3, b"message.completed"),
    durable(3, b"message.completed", b"other"),
    durable(3, b"run.completed", b"other") + _DELTA + _DELTA.replace(b'"r"', b'"other"'),
    b":\n\n",
]


@pytest.mark.parametrize("query", ["?event_deltas=true", ""])
@pytest.mark.parametrize("started", [b"r", b"other"])
@pytest.mark.parametrize("before", [b"data", b'data: :"delta":{"text":"b"}\ndata', b':"delta":{"text":"a"}\ndata'])
def test_deltas_that_are_only_counted_have_the_same_findings_as_all_others(query, started, before):
    delta = _DELTA.replace(b"data", before)
    for other in NEARLY_REPEATED:
        end = durable(9, b"run.completed")
        body = durable(1, b"run.started", started) + 2 * delta + other + 2 * delta + end + 2 * delta

        def judge(body=body):
            return judged(body, 200, f"/v1/sessions/ses_1/events/stream{query}")

        assert by_the_long_way(judge) == judge(), other


def test_repeated_deltas_are_only_counted(monkeypatch):
    judged_by_rules, read = [], []
    run_event, read_facts = SessionRules.run_event, SessionEvent._read_facts

    def note(runner, event, stream):
        judged_by_rules.append(event.number)
        run_event(runner, event, stream)

    monkeypatch.setattr(SessionRules, "run_event", note)
    monkeypatch.setattr(SessionEvent, "_read_facts", lambda event: [read.append(event.number), read_facts(event)][0])
    found, _ = judged(3 * _DELTA + durable(1, b"message.completed") + 3 * _DELTA)
    assert {finding.code for finding in found} == {"CLI001", "AUTH001"}
    assert judged_by_rules == read == [1, 4]


@given(JSON, st.sampled_from([200, 201, 400, 401, 409, 429, 503]))
def test_any_error_response_is_checked(document, status):
    for value in (document, {"error": document}, {"error": {"code": "SESSION_BUSY", "details": document}}):
        body = json.dumps(value).encode()
        found, _ = judged(body, status, "/v1/sessions/ses_1/runs")
        assert all(is_safe(finding.message) for finding in found)


@given(
    st.sampled_from(["SESSION_BUSY", "RATE_LIMITED", "SANDBOX_PROVISION_FAILED", "invalid_request"]),
    st.dictionaries(
        st.sampled_from(
            ["code", "message", "request_id", "details", "active_run_id", "active_run_status", "recovery", "x"]
        ),
        JSON | st.lists(TEXT, max_size=2),
    ),
    st.sampled_from([200, 409, 429, 503]),
)
def test_any_field_of_an_error_is_checked(code, fields, status):
    found, _ = judged(json.dumps({"error": {"code": code} | fields}).encode(), status, "/v1/sessions/ses_1/runs")
    assert all(is_safe(finding.message) for finding in found)


@for_each("vector", vectors(), ids=lambda vector: f"{vector.code}-{vector.name}")
def test_a_vector_has_the_same_findings_without_the_fast_path(vector):
    def judge():
        checker = Checker()
        found = [finding for seen in vector.observations() for finding in checker.feed(seen)] + checker.finish()
        return found, {code: repr(tally) for code, tally in checker.tallies().items()}

    assert by_the_long_way(judge) == judge()
    assert judge()[0] or not vector.breaks


@for_each(
    "data",
    [
        '{"type":"message.delta","run_id":"r","delta":{"text":"' + "x" * 10_000_000 + '"}}',
        '{"type":"message.delta","run_id":"r","delta":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"type":"run.started","content":' + '{"a":' * 900 + "1" + "}" * 900 + "}",
        '{"type":"run.started","content":[' + "[" * 900 + "]" * 900 + "]}",
        '{"type":"run.started","sequence":' + "9" * 5000 + "}",
        '{"type":"run.started","content":[' + "1," * 200_000 + "1]}",
        "{" + ",".join(f'"k{n}":{n}' for n in range(50_000)) + "}",
    ],
    ids=["huge", "deep", "deep object", "deep list", "long number", "wide list", "many keys"],
)
def test_huge_and_deep_events_are_checked(data):
    found, _ = judged(f"event: run.started\nid: a\ndata: {data}\n\n".encode())
    assert all(len(finding.message) < 1000 for finding in found)
