"""Rules of contracts: what is proven, what is inconclusive, and where the evidence is."""

import gc
import json
from types import FunctionType, ModuleType

import pytest
from for_each import for_each
from stream_text import LOST, events

from wiretape.checker import Checker, Settings
from wiretape.contract.contract_builder import load_contract
from wiretape.observations import RequestStarted, ResponseStarted
from wiretape.traffic_builder import TrafficBuilder

SMALL = """
contract = "{0}"
[operations.all]
request = "GET {1}"
[[rule]]
code = "{2}001"
name = "lacks-a-{0}"
clause = "c"
require = "/a"
breaks = ""
"""

SERVICE = "agent-sessions"
ITEMS = 'lifecycle = "call"'
OPENED = """
{"type": "run.start", "run": 1}
{"type": "call.start", "run": 1, "call": 1}
"""
CASES = {
    # name: primitive, request, chunks, ending, verdict, part of the message
    "a fact that is absent does not differ": ('match = ["event", "/type"]', ['{"type": "a"}'], "not-exercised"),
    "true is not 1": ('match = ["/a", "/b"]', ['{"a": true, "b": 1}'], "Expected `/b` to be true as `/a`"),
    "1.0 is 1": ('match = ["/a", "/b"]', ['{"a": 1.0, "b": 1}'], "pass"),
    "each missing fact is a finding": ('require = ["id", "/a"]', ["{}"], "Expected `/a`, got none."),
    "a number of another type is named": (
        'require = "sequence"',
        ['{"n": "7"}', '{"n": true}'],
        "Expected `sequence` to be an integer, got the string `7`.",
    ),
    "a text of another type is named": (
        'require = "text"\non = "delta"',
        ['{"type": "delta", "text": 7}'],
        "Expected `text` to be a string, got the number 7.",
    ),
    "a number that is absent": ('require = "sequence"', ["{}"], "Expected `sequence`, got none."),
    "a fact of another type": (
        'require = { "/a" = ["object", "array"], "/a/b" = "string", x = { "/c" = "integer" } }',
        ['{"type": "x", "a": 1, "c": 1.0}', '{"type": "y"}'],
        (
            "Expected `/a` to be an object or an array, got the number 1. "
            "Expected `/c` to be an integer, got the number 1.0. "
            "Expected `/a` to be an object or an array, got no value."
        ),
    ),
    "a fact inside of one": (
        'require = { "/a" = "object", "/a/b" = "string" }',
        ['{"a": {}}'],
        "`/a/b` to be a string",
    ),
    "a null is none": ('forbid = "/a"', ['{"a": null}'], "pass"),
    "only events that have a fact": (
        'require = "/b"\nhaving = "/a"',
        ['{"a": null}', "id:\ndata: {}"],
        "not-exercised",
    ),
    "a value of several": (
        'one_of = { fact = ["/a", "/b"], values = [[1, 2], [3, 4]] }',
        ['{"a": 1, "b": 2}', '{"a": 1, "b": 4}'],
        "Expected `/a` and `/b` to be `1` and `2` or `3` and `4`, got the number 1 and the number 4.",
    ),
    "a value of another type": (
        'one_of = { fact = "/a", values = [1] }',
        ['{"a": "1"}', '{"a": true}'],
        "not-exercised",
    ),
    "a time elsewhere": ('utc_time = "/a"', ['{"a": "2026-11-27T01:00:00+02:00"}'], "an ISO 8601 timestamp in UTC"),
    "another channel": (
        'match = ["/a", "channel"]',
        ['{"a": "7"}', '{"a": "8"}'],
        "Expected `/a` to be `7`, the channel",
    ),
    "pairs of facts": (
        'match = { facts = [["event", "/a"], ["id", "/b"]], required = true }\nexpected = "{wanted} as {name}"',
        [b'event: x\nid: y\ndata: {"a": "x", "b": "z"}\n\n'],
        "Expected y as b, got the string `z`.",
    ),
    "a pair without its second fact": (
        'match = { facts = [["event", "/a"]], required = true }',
        ["{}", b"event: x\ndata: {}\n\n"],
        "Expected `/a` to be the string `x` as `event`, got no value.",
    ),
    "an element of another type": (
        'require = { "/a" = "array", "/a/*/b" = "string" }',
        ['{"a": [{"b": "x"}, {}, {"b": 1}]}', '{"a": []}'],
        "Expected `a[1].b` to be a string, got no value.",
    ),
    "an event without data is none": ('require = "/a"', ["event: x"], "not-exercised"),
    "bytes that are not UTF-8 are inconclusive": ('require = "/a"', [b"data: \xff\n\n"], "inconclusive"),
    "deep values": (
        'unique = "/a"',
        [f'{{"a": [{"[" * n}{"]" * n}]}}' for n in (1020, 1021, 1021)],
        "got an array, which event 2 of exchange 1 already has",
    ),
    "a deep value is inconclusive": ('require = "/a"', [b"data: " + b"[" * 2000 + b"\n\n"], "inconclusive"),
    "lost bytes are inconclusive": ('forbid = "/a"', ["{}", LOST, "{}"], "inconclusive"),
    "the words of a rule": (
        'forbid = "/a"\nexpected = "no {fact} in a `{type}`"\ngot = "{/a:described} {{for}} {value:quoted}"',
        ['{"a": "x", "type": "y"}'],
        "Expected no /a in a `y`, got the string `x` {for} `x`.",
    ),
    "words for a value that is not there": (
        'forbid = "/a"\nexpected = ["{id}", "{event:quoted}"]\ngot = ["{/b}", "{/c}"]',
        ['{"a": 1, "b": ""}'],
        "Expected none, got the number 1.",
    ),
    "a schema names the place": (
        'schema = { properties = { a = { items = { type = "string" } } } }',
        ['{"a": ["x", 1]}'],
        "Expected `/a/1` to be a string, got the number 1.",
    ),
    **{
        f"a schema has {words}": (f"schema = {{ {schema} }}", [data], expected)
        for schema, data, expected, words in (
            ('required = ["a", "b"]', "{}", "Expected the data to have `a` and `b`, got no such key.", "keys"),
            ('properties.a.enum = ["x", 2]', '{"a": 1}', "Expected `/a` to be `x` or the number 2, got ", "values"),
            ('properties.a.pattern = "^x"', '{"a": "y"}', "Expected `/a` to match the pattern `^x`, got ", "a pattern"),
            (
                "properties.a.minItems = 2",
                '{"a": [1]}',
                "Expected `/a` to have at least 2 items, got 1 item.",
                "a limit",
            ),
            (
                "properties.a = {}, additionalProperties = false",
                '{"b": 1}',
                "Expected no other keys in the data, got `b`.",
                "all keys",
            ),
            ("properties.a = false", '{"a": 1}', "Expected no value at `/a`, got the number 1.", "no value"),
            (
                "properties.a.anyOf = [{ type = 'null' }]",
                '{"a": 1}',
                "Expected `/a` to match its schema, got ",
                "an alternative",
            ),
        )
    },
    "a schema meets a lone surrogate": ('schema = { type = "object" }', ['{"a": "\\ud800"}'], "pass"),
    "the first event after a loss is unknown": ('first = "a"', [LOST, "", '{"type": "b"}'], "inconclusive"),
    "a loss after the first event does not matter": ('first = "a"', ['{"type": "a"}', LOST], "pass"),
    "literal data is a type": ('last = "[DONE]"', ["data: [DONE]"], "pass"),
    "a glob has no classes": ('last = "[DONE]"', ["data: D"], "Expected `[DONE]` last, got `D`"),
    "nothing follows the last event": ('last = "z"', ['{"type": "z"}', "{}"], "Expected no event after `z`"),
    "another end after the last event": (
        'last = { types = "z", repeats = true }',
        ['{"type": "z"}', "{}", '{"type": "z"}', "{}"],
        "Expected `z` last, got `message`",
    ),
    "an event that cannot be next": (
        'next = { after = "a", types = "b" }',
        ['{"type": "a"}', "{}"],
        "Expected `b` after `a`",
    ),
    "what follows after a loss is unknown": (
        'next = { after = "a", types = "b" }',
        ['{"type": "a"}', LOST, "", "{}"],
        "inconclusive",
    ),
    "lines with CR": ('framing = "lf-lines"', [b"data: {}\r\n\r\n"], "Expected lines that end with LF"),
    "an empty stream has no last event": ('last = "z"', [": hello"], "got no event before the response ended"),
    "a loss hides the last event": ('last = "z"', ["{}", LOST], "inconclusive"),
    "a stream that is cut in an event": ('last = "z"', [b"data: {}\n\ndata: {"], "inconclusive"),
    "a number goes back after a loss": ('counter = "/n"', ['{"n": 5}', LOST, "", '{"n": 4}'], "above 5"),
    "a gap after a loss": (
        'counter = { fact = "/n", by_one = true }',
        ['{"n": 5}', LOST, "", '{"n": 9}'],
        "inconclusive",
    ),
    "a gap in texts of digits": (
        'counter = { fact = "id", by_one = true }',
        [b"id: 9\ndata: {}\n\nid: x\ndata: {}\n\nid: 11\ndata: {}\n\n"],
        "Expected `id` to be 10, got 11.",
    ),
    "a start after a loss": ('counter = { fact = "/n", starts_at = 0 }', [LOST, "", '{"n": 9}'], "inconclusive"),
    "a value twice": ('unique = "/n"', ['{"n": 5}', '{"n": 5}'], "which event 1 of exchange 1 already has"),
    "the same event twice on a channel": ('unique = { fact = "/n", over = "channel" }', ['{"n": 5}'] * 2, "pass"),
    "an open call when its run ends": (ITEMS, [OPENED, '{"type": "run.end", "run": 1}'], "closed before run `1`"),
    "a call outside any run": (ITEMS, ['{"type": "call.start", "run": 2, "call": 1}'], "before it was opened"),
    "a call that continues after its end": (
        ITEMS,
        [OPENED, '{"type": "call.end", "call": 1}', '{"type": "x", "call": 1}'],
        "no events after it was closed",
    ),
    "a call that ends twice": (ITEMS, [OPENED, *['{"type": "call.end", "call": 1}'] * 2], "closed once"),
    "a call that opens twice": (ITEMS, [OPENED, '{"type": "call.start", "run": 1, "call": 1}'], "opened once"),
    "a call whose start may be lost": (ITEMS, [LOST, "", '{"type": "call.end", "call": 1}'], "inconclusive"),
    "keys of different types": (ITEMS, [OPENED, '{"type": "call.end", "call": "1"}'], "opened by `call.start` first"),
    "a run that stays open": (
        'lifecycle = { entity = "run", aspects = "closes" }',
        [OPENED],
        "closed before the stream ends",
    ),
    "a run in a value that changes": (
        'same = { fact = "/m", over = "run" }',
        ['{"run": 1, "m": 1}', '{"run": 2, "m": 2}', '{"run": 1, "m": 3}'],
        "events of the run `1`",
    ),
    "texts of another length": (
        'joined = { entity = "run", final = "run.end", text = "/text" }',
        [OPENED, '{"type": "delta", "run": 1, "text": "ab"}', '{"type": "run.end", "run": 1, "text": "abc"}'],
        "to be the 2 characters that the deltas of run `1` have, got 3 characters",
    ),
    "a delta without a text where the contract says": (
        'joined = { entity = "run", final = "run.end", text = "/text" }',
        [OPENED, '{"type": "delta", "run": 1, "part": "abc"}', '{"type": "run.end", "run": 1, "text": "abc"}'],
        "inconclusive",
    ),
    "data that takes long to compare with its schema": (
        f"schema = {{ properties = {{ a = {{ items = {{ enum = {list(range(5000))} }} }} }} }}",
        [f'{{"a": [{"1, " * 5000}1]}}'],
        "inconclusive",
    ),
    "a lost delta": (
        'joined = { entity = "run", final = "run.end", text = "/text" }',
        [OPENED, LOST, "", '{"type": "run.end", "run": 1, "text": "abc"}'],
        "inconclusive",
    ),
}


@for_each("name", CASES)
def test_a_rule_reports_what_the_stream_proves(name, contract, check):
    primitive, parts, expected = CASES[name]
    chunks = [part if isinstance(part, bytes) else events(part) or b"\n\n" for part in parts]
    found = check(contract(primitive), ("GET /x/7", chunks, "complete"))
    if expected in {"pass", "inconclusive", "not-exercised"}:
        assert (found.messages, found.verdict) == ([], expected)
    else:
        assert expected in " ".join(found.messages)
        # A byte a chunk makes no difference, and lost bytes stay where they are.
        pieces = [piece for chunk in chunks for piece in ([chunk] if chunk == LOST else [bytes([b]) for b in chunk])]
        assert check(contract(primitive), ("GET /x/7", pieces, "complete")).messages == found.messages


THREAD = """
contract = "thread"
[operations.follow]
request = "POST /x"
[event]
type = "/type"
[entity.turn]
key = "/turn"
opens = "turn"
closes = ["end", "fail"]
single = true
[entity.step]
key = "/step"
optional_key = "/by"
opens = "step"
closes = "done"
within = "turn"
reopens = true
"""
ONE_TURN, STEPS = 'lifecycle = { entity = "turn" }', 'lifecycle = "step"\non = ["step", "done", "end"]'


@for_each(
    ("primitive", "types", "expected"),
    [
        (ONE_TURN, ["turn 1", "turn 2"], "turn `2` to be opened after the previous one was closed"),
        (ONE_TURN, ["turn 1", "end 2"], "Expected turn `1` to be closed, got turn `2`."),
        (ONE_TURN, ["turn 1", "fail", "turn 2", "end 2", "fail"], None),
        (ONE_TURN, ["turn 1", "end 1", "turn 1"], "opened again after it was closed"),
        (STEPS, ["turn 1", "step a", "end 1"], "step `a` to be closed before turn `1`"),
        (STEPS, ["turn 1", "step a", "fail", "turn 2", "step a", "done a", "end 2"], None),
        (STEPS, ["turn 1", "step a", "fail", "turn 2", "done a"], "step `a` to be opened by `step` first"),
        (STEPS, ["turn 1", "step a", "done a", "step a", "done a", "done a"], "closed again"),
        (STEPS, ["turn 1", "step a", "step a by b", "done a by b", "done a", "end 1"], None),
        (STEPS, ["turn 1", "step a", "done a by b"], "step `a` `b` to be opened"),
    ],
)
def test_an_entity_can_be_alone_or_reopen_or_have_an_optional_key(primitive, types, expected, contract, check):
    def event(text):
        type_, *key = text.split()
        name = "turn" if type_ in {"turn", "end", "fail"} else "step"
        return json.dumps({"type": type_} | dict(zip([name, "", "by"], key, strict=False)))

    stream = [events("\n".join(map(event, types)))]
    found = check(contract(primitive, head=THREAD), ("POST /x", stream, "complete"))
    assert [expected in each for each in found.messages] == ([] if expected is None else [True])


@for_each(
    ("request_body", "primitive", "expected"),
    [
        (b'{"a": 1}', 'echo = { fact = "/a", request = "/a" }', ["the number 1 as in the request, got the number 2"]),
        (b'{"a": 1}', 'echo = { fact = "/a", request = "/a", last = true }', []),
        (
            b'{"a": 2}',
            'echo = { fact = "/a", request = "/a", last = true }',
            ["the number 2 as in the request, got the number 1"],
        ),
        (b'{"a": "', "request_body = {}", ["got text that is not JSON"]),
        (None, 'request_body = { required = ["a"] }', []),
        (b'{"a": "', 'echo = { fact = "/a", request = "/a" }', []),
    ],
)
def test_bodies_of_requests_are_compared_if_they_are_known(request_body, primitive, expected, contract):
    traffic = TrafficBuilder()
    length = [("content-length", "9")] if request_body is None else []
    exchange = traffic.request("POST", "/x", headers=dict(length), body=request_body or b"")
    exchange.respond_stream().send(b'data: {"a": 2}\n\ndata: {"a": 1}\n\n').end()
    checker = Checker(Settings(contracts=(contract(primitive, head=THREAD),)))
    found = [each for seen in traffic.observations() for each in checker.feed(seen)] + checker.finish()
    assert [part in each.message for part, each in zip(expected, found, strict=True)] == [True] * len(expected)


@for_each(
    ("ending", "verdict"),
    [("complete", "fail"), ("service-closed", "fail"), ("service-reset", "fail")]
    + [(ending, "inconclusive") for ending in ("client-closed", "timed-out", "proxy-stopped", "open")],
)
def test_only_the_service_can_end_a_stream_too_early(ending, verdict, contract, check):
    assert check(contract('last = "z"'), ("GET /x/7", [events("{}")], ending)).verdict == verdict


def stream(*ids):
    return [events("\n".join(f"id: {each}" for each in ids)).replace(b"\n\n", b"\ndata: {}\n\n")]


@for_each(
    ("streams", "expected"),
    [
        ([("GET /x/7", "abc"), ("GET /x/7 a", "bc")], "pass"),
        ([("GET /x/7", "abc"), ("GET /x/7 a", "c")], "begin with the event `b`, which follows the cursor `a`"),
        ([("GET /x/7", "abc"), ("GET /x/7 b", "bc")], "begin with the event `c`, which follows the cursor `b`"),
        ([("GET /x/7", "abcd"), ("GET /x/7 a", "bd")], "continue with the event `c`, which follows `b`, got the"),
        ([("GET /x/7", "abc"), ("GET /x/7 c", "ab")], "an event after the cursor `c`, got the earlier event `a`."),
        ([("GET /x/7", "abc"), ("GET /x/7 c", "de")], "not-exercised"),
        ([("GET /x/7", "abc"), ("GET /x/8 a", "c")], "inconclusive"),
        ([("GET /x/7", "ab"), ("GET /x/7 z", "c")], "inconclusive"),
        ([("GET /x/7", "ab(c"), ("GET /x/7 b", "c")], "not-exercised"),
    ],
)
def test_a_resumed_stream_goes_on_where_the_recording_shows(streams, expected, contract, check):
    def chunks(ids):
        before, lost, after = ids.partition("(")
        return [*stream(*before), *([LOST, b"\n\n", *stream(*after)] if lost else [])]

    found = check(contract("resume = true"), *((request, chunks(ids), "complete") for request, ids in streams))
    assert any(expected in text for text in [found.verdict, *found.messages])


FINAL = 'resume = { unknown = 410, final = "z" }'
WHOLE = [b'id: a\ndata: {}\n\nid: b\ndata: {"type": "z"}\n\n']
SAID = "Expected the status 410 after the cursor `q`, which no event has, got a stream."


@for_each(
    ("exchanges", "expected"),
    [
        ([("GET /x/7", WHOLE), ("GET /x/7 q", stream("b"))], SAID),
        ([("GET /x/7", WHOLE), ("GET /x/7 q", [b": hello\n\n"])], SAID),
        ([("GET /x/7", WHOLE), ("GET /x/7 a", stream("b"))], "pass"),
        ([("GET /x/7", WHOLE), ("GET /x/7 b", [b": hello\n\n"])], "not-exercised"),
        ([("GET /x/7", stream(*"ab")), ("GET /x/7 q", stream("b"))], "inconclusive"),
        ([("GET /x/7", [LOST, b"\n\n", *WHOLE]), ("GET /x/7 q", stream("b"))], "inconclusive"),
        ([("GET /x/7", WHOLE), ("GET /x/8 q", stream("b"))], "inconclusive"),
        ([("GET /x/7 q", stream("b")), ("GET /x/7", WHOLE)], "inconclusive"),
    ],
)
def test_a_cursor_is_unknown_only_if_the_whole_channel_was_seen(exchanges, expected, contract, check):
    found = check(contract(FINAL), *((request, chunks, "complete") for request, chunks in exchanges))
    assert expected in {found.verdict, *found.messages}


def test_an_unknown_cursor_is_not_proven_by_some_of_the_events(contract, check):
    exchanges = [("GET /x/7", WHOLE, "complete"), ("GET /x/7 q", stream("b"), "complete")]
    assert check(contract(f'{FINAL}\nkinds = ["durable"]'), *exchanges).verdict == "inconclusive"


CUT = [b"id: a\ndata: {}\n\nid: b\ndata: {}\n\n"]
NONE = "Expected the cursor of an event that the client received, such as `b`, got {}."


@for_each(
    ("exchanges", "expected"),
    [
        ([("GET /x/7", CUT, "service-closed"), ("GET /x/7", WHOLE)], NONE.format("none")),
        ([("GET /x/7", CUT, "service-closed"), ("GET /x/7", [])], NONE.format("none")),
        ([("GET /x/7", CUT, "service-closed"), ("GET /x/7 q", stream("q"))], NONE.format("`q`")),
        ([("GET /x/7", [LOST, b"\n\n", *CUT], "service-closed"), ("GET /x/7 q", stream("q"))], "inconclusive"),
        ([("GET /x/7", CUT, "service-closed"), ("GET /x/7 a", WHOLE)], "pass"),
        ([("GET /x/7", [], "service-closed"), ("GET /x/7", WHOLE)], "not-exercised"),
        ([("GET /x/7", WHOLE), ("GET /x/7", WHOLE)], "not-exercised"),
        ([("GET /x/7", WHOLE), ("GET /x/7 b", [])], "Expected no request after the last event `b`, got one."),
        ([("GET /x/7", WHOLE, "client-closed"), ("GET /x/7 b", [])], "not-exercised"),
        ([("GET /x/7", CUT, "service-closed"), ("GET /x/8", WHOLE)], "not-exercised"),
    ],
)
def test_a_client_that_reconnects_sends_a_cursor_that_it_received(exchanges, expected, contract, check):
    exchanges = [(request, chunks, *(ending or ["complete"])) for request, chunks, *ending in exchanges]
    found = check(contract('reconnect = "z"'), *exchanges)
    assert expected in {found.verdict, *found.messages}
    assert all(each.side.value == "client" and each.event is None for each in found.findings if each.code == "TST001")


def test_the_whole_text_can_be_elsewhere_in_each_final_event(contract, check):
    texts = 'text = { "run.part" = "/part/text", "*" = "/all" }'
    joined = f'joined = {{ entity = "run", deltas = "delta", final = ["run.part", "run.end"], {texts} }}'
    stream = b"""data: {"type": "run.start", "run": 1}

data: {"type": "delta", "run": 1, "text": "Hi"}

data: {"type": "run.part", "run": 1, "part": {"text": "Ho"}}

data: {"type": "run.end", "run": 1, "all": "Hi!"}

"""
    found = check(contract(joined), ("GET /x/7", [stream], "complete"))
    assert [each.split("`")[1] for each in found.messages] == ["/part/text", "/all"]


def test_deltas_of_each_type_have_their_text_elsewhere(contract, check, head):
    texts = 'delta = { types = "*.delta", text = { "call.*" = "/arguments", "*" = "/text" } }'
    head = head.replace('delta = { types = "delta", text = "/text" }', texts)
    rule = contract('joined = { entity = "run", final = "run.end", text = "/text" }', head=head)
    body = [
        '{"type": "run.start", "run": 1}',
        '{"type": "a.delta", "run": 1, "text": "ab", "arguments": "x"}',
        '{"type": "call.delta", "run": 1, "text": "x", "arguments": "cd"}',
    ]
    for text, verdict in (("abcd", "pass"), ("abx", "fail")):
        end = f'{{"type": "run.end", "run": 1, "text": "{text}"}}'
        assert check(rule, ("GET /x/7", [events(each) for each in (*body, end)], "complete")).verdict == verdict


def test_a_finding_names_the_event_and_its_first_byte(contract, check):
    first, second = events('{"n": 1}'), events('{"n": 1}')
    found = check(contract('counter = "sequence"'), ("GET /x/7", [first + second], "complete"))
    (finding,) = [each for each in found.findings if each.code == "TST001"]
    assert (finding.exchange, finding.event, finding.byte_offset) == (1, 2, len(first))


def test_rules_of_a_contract_are_counted_as_all_others(contract, check):
    body = [events("{}\n{}\n{}")]
    once = check(
        contract('require = "/a"\nonce_per = "channel"'), ("GET /x/7", body, "complete"), ("GET /x/7", body, "complete")
    )
    assert len(once.messages) == 1
    assert once.tally.failed == 1
    other = """
    [[rule]]
    code = "TST002"
    name = "other"
    clause = "c"
    require = "/b"
    breaks = ""
    """
    both = check(contract('require = "/a"\nunless = ["TST002"]', more=other), ("GET /x/7", body, "complete"))
    assert both.messages == []
    assert {each.code for each in both.findings} == {"TST002"}


def test_only_exchanges_of_the_operations_are_checked(contract, check):
    found = check(contract('require = "/a"'), ("GET /y/7", [events("{}")], "complete"), ("POST /x", [], "complete"))
    assert found.verdict == "not-exercised"
    assert [(scope.exchanges, scope.reason.is_service) for scope in found.checker.scopes()] == [(1, True), (1, False)]


@pytest.fixture
def small_contract(tmp_path):
    """Loads a contract with a name, the path of its requests, and the family of its only rule."""

    def load(name, path, family):
        file = tmp_path / f"{name}.toml"
        file.write_text(SMALL.format(name, path, family), "utf-8")
        return load_contract(str(file))

    return load


def test_each_exchange_belongs_to_the_first_contract_with_its_operation(small_contract, check):
    contracts = (small_contract("one", "/y/*", "ONE"), small_contract("two", "/{any}/1", "TWO"), load_contract(SERVICE))
    sent = [events("{}"), b": hello\n\n"]
    targets = ("/y/1", "/z/1", "/v1/sessions/s/events/stream", "/w")
    found = check(contracts, *((f"GET {target}", sent, "complete") for target in targets))
    assert [(each.code, each.exchange) for each in found.findings if each.code[:3] in {"ONE", "TWO", "SSE", "KAL"}] == [
        ("ONE001", 1),
        ("TWO001", 2),
        ("SSE006", 3),
        ("KAL003", 3),
    ]
    assert [scope.text for scope in found.checker.scopes()] == [
        "they match an operation of the contract one",
        "they match an operation of the contract two",
        "their paths are under /v1/sessions on the upstream",
        "they match no operation of the contract one or two or agent-sessions",
    ]


def reachable_classes(*objects):
    """The names of the classes of all objects that others lead to, without code."""
    found, waiting, seen = set(), list(objects), set()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen and not isinstance(each, ModuleType | FunctionType | type):
            seen.add(id(each))
            found.add(type(each).__name__)
            waiting += gc.get_referents(each)
    return found


@pytest.mark.parametrize(("name", "is_kept"), [("sse", False), (SERVICE, True)])
def test_only_the_contract_of_the_service_keeps_sessions_and_clients(name, is_kept, check):
    found = check(load_contract(name), ("GET /v1/sessions/s/events/stream", [events("{}")], "complete"))
    classes = {"SessionRegistry", "ClientRegistry"}
    assert classes & reachable_classes(found.checker) == (classes if is_kept else set())


def test_two_contracts_cannot_have_one_code_for_two_rules(small_contract, check):
    contracts = (small_contract("one", "/a", "ONE"), small_contract("two", "/b", "ONE"))
    with pytest.raises(ValueError, match="Two rules have the code ONE001"):
        check(contracts, ("GET /a", [], "complete"))


def test_a_header_that_an_import_invented_is_not_missing(contract):
    checker = Checker(Settings(contracts=(contract('header = "X-Request-Id"'),)))
    for seen in (
        RequestStarted(1, 1, "", "GET", "http", "x", "/x/7", "HTTP/1.1", (), is_invented=True),
        ResponseStarted(1, 2, 200, "OK", "HTTP/1.1", (("Content-Type", "text/event-stream"),)),
    ):
        assert checker.feed(seen) == []
    assert checker.verdicts()["TST001"] == "not-exercised"


REFUSED = 'header = { name = "Key", of = "request", refused = { status = 401 } }'
ERRORS = {
    # name: primitive, statuses and bodies, verdict or message
    "each requirement counts": (
        'error = { require = { "/m" = "string" }, unique = "/id" }',
        [(400, '{"id": "a", "m": 1}')],
        "Expected `m` to be a string, got the number 1.",
    ),
    "an id twice": ('error = { unique = "/id" }', [(400, '{"id": "a"}')] * 2, "which exchange 1 already has"),
    "the first id is not compared": ('error = { unique = "/id" }', [(400, '{"id": "a"}')], "not-exercised"),
    "fields of the elements of an array": (
        'error = { require = { "/d" = "array", "/d/*/p" = "string" } }',
        [(400, '{"d": [{"p": "x"}, {"p": 1}]}')],
        "Expected `d[1].p` to be a string, got the number 1.",
    ),
    "an error without the object": (
        'error = { aspects = "object" }',
        [(400, "[1]")],
        "Expected a JSON object, got an array",
    ),
    "an error of any kind": (REFUSED.replace("{ status = 401 }", "true"), [(403, "")], "pass"),
    "an error with the status alone": (REFUSED, [(401, "")], "pass"),
    "another status": (REFUSED, [(403, "")], "Expected the status 401 for a request without the header `Key`"),
    "no error": (REFUSED, [(200, "{}")], "got the status 200"),
    "a number in a header": (
        'header = { name = "X", of = "error", type = "integer" }',
        [(400, "{}")],
        "whole digits, got `1s`",
    ),
    "the type of the content": ('header = { name = "Content-Type", value = "application/json" }', [(400, "")], "pass"),
}


@for_each("name", ERRORS)
def test_a_rule_reports_what_responses_prove(name, contract):
    primitive, responses, expected = ERRORS[name]
    traffic = TrafficBuilder()
    for status, body in responses:
        headers = {"Content-Type": "Application/JSON; charset=utf-8", "X": "1s"}
        traffic.request("POST", "/x").respond(status, headers=headers, body=body.encode())
    checker = Checker(Settings(contracts=(contract(primitive),)))
    found = [each for seen in traffic.observations() for each in checker.feed(seen)] + checker.finish()
    messages = [each.message for each in found if each.code == "TST001"]
    assert expected in " ".join(messages) if messages else checker.verdicts()["TST001"] == expected


def test_only_entities_that_a_rule_names_are_followed(contract):
    names = {rule: [each.name for each in contract(rule).tracked_entities] for rule in ('first = "a"', ITEMS)}
    assert names == {'first = "a"': [], ITEMS: ["run", "call"]}


def test_what_is_remembered_is_bounded(contract, check, monkeypatch):
    monkeypatch.setattr("wiretape.contract.primitive._MOST_VALUES", 10)
    monkeypatch.setattr("wiretape.contract.entity_tracker._MOST_ENTITIES", 10)
    monkeypatch.setattr("wiretape.contract.contract_traffic._MOST_CHANNELS", 10)
    numbers = [*range(30), 0]
    body = [events("\n".join(f'{{"n": {number}, "type": "call.start", "call": {number}}}' for number in numbers))]
    assert check(contract('unique = "/n"'), ("GET /x/7", body, "complete")).verdict == "inconclusive"
    assert check(contract('lifecycle = "call"'), ("GET /x/7", body, "complete")).verdict == "inconclusive"
    streams = [(f"GET /x/{number}", [events(f'{{"n": {number}}}')], "complete") for number in range(30)]
    assert check(contract('unique = { fact = "/n", over = "channel" }'), *streams).verdict == "inconclusive"
