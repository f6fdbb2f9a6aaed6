"""Which recorded exchange responds to a request, and why none does."""

import pytest

from wiretape.errors import InputError
from wiretape_replay import ReplayOptions
from wiretape_replay.http_server.http_messages import LARGEST_BODY, HttpRequest, read_body
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest, explain_no_match

FINGERPRINT = "[redacted:0123456789abcdef]"
OTHER_FINGERPRINT = "[redacted:fedcba9876543210]"
MASK = "*" * 20


class World:
    """Recorded requests, and requests to match: `(method, target, body, headers)`; the last items are optional."""

    def __init__(self, *requests, **options):
        recorded = [self._complete(*request) for request in requests]
        self._bodies = [None if body is None else read_body([body]) for _, _, body, _ in recorded]
        self.queues = ExchangeQueues(
            [
                RecordedRequest(number, method, target, self._bodies[number - 1], headers)
                for number, (method, target, _, headers) in enumerate(recorded, 1)
            ],
            ReplayOptions(**options).matching,
        )

    def take(self, *request):
        """The number of the exchange that responds to a request."""
        entry = self.queues.take(self._asked(*request))
        return entry and entry.number

    def why_not(self, *request):
        return explain_no_match(self.queues, self._asked(*request), lambda number: self._bodies[number - 1])

    def _asked(self, *request):
        method, target, body, headers = self._complete(*request)
        return HttpRequest(method, target, read_body([body]), headers)

    @staticmethod
    def _complete(method, target, body=b"", headers=()):
        return method, target, body, headers


@pytest.mark.parametrize(
    ("recorded", "asked", "same"),
    [
        *(
            ("/v1/s?a=1&b=2", asked, same)
            for asked, same in {
                "/v1/s?b=2&a=1": True,
                "/v1/s?a=%31&b=2": True,
                "/v1/%73?a=1&b=2": True,
                "http://replay.test/v1/s?a=1&b=2": True,
                "/v1/s?a=1&b=3": False,
                "/v1/s?a=1": False,
                "/v1/s?a=1&b=2&c=": False,
                "/v1/s/?a=1&b=2": False,
                "/v1%2Fs?a=1&b=2": False,
                "/V1/s?a=1&b=2": False,
            }.items()
        ),
        ("/s?x=1&x=2", "/s?x=2&x=1", False),
        ("/s?q=caf%C3%A9", "/s?q=caf\u00c3\u00a9", True),
        ("/s?q=a+b", "/s?q=a%20b", True),
        ("/s?q=a%26b", "/s?q=a&b", False),
        ("/s?q=", "/s?q", True),
        ("/s?q=%ff", "/s?q=%FF", True),
        ("/s?q=%ff", "/s?q=%fe", False),
        ("*", "*", True),
        ("/s?u=http://x/y", "/s?u=http%3A%2F%2Fx%2Fy", True),
        ("http://one.test", "/", True),
        ("http://one.test?q=1", "/?q=1", True),
        # A redacted part matches anything.
        *(
            (f"/s/{FINGERPRINT}/runs?page=1", asked, same)
            for asked, same in {
                "/s/my-key/runs?page=1": True,
                "/s//runs?page=1": True,
                "/s/my-key/runs?page=2": False,
                "/s/my-key/run?page=1": False,
                "/s/runs?page=1": False,
            }.items()
        ),
        *(
            (f"/s?key=a-{FINGERPRINT}-b-{OTHER_FINGERPRINT}-c", f"/s?key={key}", same)
            for key, same in {"a-1-b-2-c": True, "a--b--c": True, "a-1-b-2-d": False, "a-1-2-c": False}.items()
        ),
        *(
            (f"/s?key=a-{FINGERPRINT}-b-{FINGERPRINT}-b-{FINGERPRINT}-c", f"/s?key={key}", same)
            for key, same in {"a-1-b-2-b-3-c": True, "a-1-b-2-c": False, "a--b-b--c": False, "a-c": False}.items()
        ),
        (f"/s?key={FINGERPRINT}b{FINGERPRINT}", "/s?key=bx", True),
    ],
)
def test_equivalent_targets_match(recorded, asked, same):
    assert World(("GET", recorded)).take("GET", asked) == (1 if same else None)


JSON = '{"a": "é", "b": [1, {"c": null}]}'.encode()
NOTE = b'{"note": "use ********************, please", "n": 1, "pin": 11111111}'
LARGE = b'{"a": "' + b"x" * LARGEST_BODY + b'"}'
BODIES = [
    (JSON, b'{"b":[1,{"c":null}],"a":"\\u00e9"}', True),
    (JSON, '{ "a": "é", "b": [1.0, {"c": null}] }\n'.encode(), True),
    (JSON, b'{"a":"\\u00e9","b":[{"c":null},1]}', False),
    (JSON, b'{"a":"\\u00e9","b":[true,{"c":null}]}', False),
    (JSON, b'{"a":"\\u00e9","b":["1",{"c":null}]}', False),
    (JSON, b'{"a":"\\u00e9","b":[1,{"c":null}],"d":null}', False),
    (NOTE, b'{"n": 2, "note": "use sk-abc, please", "pin": 8}', False),
    (NOTE, b'{"n": 1, "note": "use sk-abc, please", "pin": 8}', True),
    *((body, body + more, not more) for body in (b"1", b"a=1&b=2", b"\xff\x00", b'{"cut": ') for more in (b"", b" ")),
    *((b"[" * 5000, b"[" * 5000 + more, not more) for more in (b"", b" ")),
    *((b"[" * 300 + b"]" * 300, b"[" * 300 + b"]" * 300 + more, not more) for more in (b"", b" ")),
    (LARGE, LARGE, True),
    (LARGE, LARGE[:-1] + b" }", False),
]
IGNORED = [
    ("$.at", b'{"n":1,"at":1}', b'{"n":1,"at":2}', True),
    ("$.at", b'{"n":1,"at":1}', b'{"n":1}', True),
    ("$.at", b'{"n":1,"at":1}', b'{"n":2,"at":1}', False),
    ("$.at", b'{"n":1,"in":{"at":1}}', b'{"n":1,"in":{"at":2}}', False),
    ("$.in.at", b'{"n":1,"in":{"at":1}}', b'{"n":1,"in":{"at":2}}', True),
    ("$.in", b'{"n":1,"in":{"at":1}}', b'{"n":1,"in":3}', True),
    ("$..at", b'{"n":1,"in":[{"at":1}],"at":3}', b'{"in":[{"at":[2]}],"n":1}', True),
    ("$..at", b'{"n":1,"in":[{"at":{"x":1}}]}', b'{"n":1,"in":[{}]}', True),
    ("$.l[0]", b'{"l":[1,2]}', b'{"l":[9,2]}', True),
    ("$.l[0]", b'{"l":[1,2]}', b'{"l":[1,9]}', False),
    ("$.l[0]", b'{"l":[1,2]}', b'{"l":[2]}', False),
    ("$.l[*].id", b'{"l":[{"id":1,"v":1},{"id":2,"v":2}]}', b'{"l":[{"id":3,"v":1},{"id":4,"v":2}]}', True),
    ("$.l[*].id", b'{"l":[{"id":1},{"id":2}]}', b'{"l":[{"id":1}]}', False),
    ("$.l[*]", b'{"l":[1,2]}', b'{"l":[3,4]}', True),
    ("$.l[*]", b'{"l":[1,2]}', b'{"l":[3]}', False),
    ("$.*.id", b'{"a":{"id":1},"b":{"id":2}}', b'{"a":{"id":3},"b":{"id":4}}', True),
    ("$[1].id", b'[{"id":1},{"id":2}]', b'[{"id":1},{"id":3}]', True),
    ("$..[0]", b'{"a":[1,[2,3]]}', b'{"a":[4,[5,3]]}', True),
    ("$['created at']", b'{"n":1,"created at":1}', b'{"n":1}', True),
    ('$["0"]', b'{"n":1,"0":1}', b'{"n":1,"0":2}', True),
    ("$[0]", b'{"n":1,"0":1}', b'{"n":1,"0":2}', False),
    ("$.caf\u00e9", '{"n":1,"café":1}'.encode(), b'{"n":1,"caf\\u00e9":2}', True),
    ("$", b'{"n":1}', b"anything", True),
    ("$.at", b"at=1", b"at=2", False),
    ("$.at", b'{"at":1', b'{"at":2', False),
    ("$.n", b'{"n":1}', b"", False),
    ("$.at", LARGE, LARGE[:-1] + b" }", False),
    *(("$.at", b"[" * depth + b"1" + b"]" * depth, b"[" * depth + b"2" + b"]" * depth, False) for depth in (200, 1000)),
    # A redacted value next to an ignored path matches anything.
    ("$.at", b'{"at":1,"note":"use ********************"}', b'{"at":2,"note":"take sk-abc"}', False),
    ("$.at", b'{"at":1,"note":"use ********************"}', b'{"at":2,"note":"use sk-abc"}', True),
]


@pytest.mark.parametrize(("path", "recorded", "asked", "same"), [*((None, *row) for row in BODIES), *IGNORED])
def test_bodies_are_compared_as_json_or_bytes_without_ignored_paths(path, recorded, asked, same):
    options = {} if path is None else {"ignore_body": [path]}
    world = World(("POST", "/runs", recorded), ("POST", "/runs", b"else"), **options)

    assert world.take("POST", "/runs", asked) == (1 if same else None)


def test_a_body_over_the_limit_is_not_kept():
    assert read_body([LARGE]).text is None


A, B, C = ("GET", "/a"), ("GET", "/b"), ("GET", "/c")
ACCEPTS = [("GET", "/s", b"", (("Accept", accept), ("X-Trace", "1"))) for accept in ("text/plain", "text/html")]
BEARER = ("GET", "/s", b"", (("Authorization", f"Bearer {FINGERPRINT}"),))


def run(body):
    return "POST", "/runs", body


def key(value):
    return "GET", f"/s?key={value}"


def accept(*values):
    return "GET", "/s", b"", tuple(("aCCept", value) for value in values)


SEQUENCES = {
    "once, in recorded order": ([A, B, A], {}, [(A, 1), (A, 3), (A, None), (B, 2)]),
    "the body does not matter if all are equal": ([run(b"{}"), run(b"{}")], {}, [(run(b'{"other": 1}'), 1)]),
    "the body selects the response if they differ": (
        [run(b'{"n": 1}'), run(b'{"n": 2}'), run(b'{"n": 1}')],
        {},
        [(run(b'{"n": 2}'), 2), (run(b'{"n": 1}'), 1), (run(b'{"n": 3}'), None), (run(b'{"n": 1}'), 3)],
    ),
    "an incomplete recorded body matches any": (
        [run(b"one"), run(None), run(b"two")],
        {},
        [(run(b"two"), 3), (run(b"three"), 2), (run(b"four"), None)],
    ),
    "a redacted value matches any, in recorded order": (
        [key(f"{FINGERPRINT}&n=1"), key(f"{OTHER_FINGERPRINT}&n=1"), key(f"{FINGERPRINT}&n=2")],
        {},
        [
            (("GET", "/s?n=2&key=mine"), 3),
            *((key(f"{name}&n=1"), at) for name, at in (("b", 1), ("a", 2), ("c", None))),
        ],
    ),
    "an exact match is preferred to a redacted one": ([key(FINGERPRINT), key("none")], {}, [(key("none"), 2)]),
    "ignored query parameters": (
        [("GET", "/s?a=1&t=5"), ("GET", "/s?a=2&t=6&t=7")],
        {"ignore_query": ["t"]},
        [(("GET", "/s?t=9&a=2"), 2), (("GET", "/s?a=1"), 1)],
    ),
    "several ignored paths": (
        [run(b'{"at":1,"id":"x","n":1}'), run(b'{"at":2,"id":"y","n":2}')],
        {"ignore_body": ["$.at", "$.id"]},
        [(run(b'{"n":2}'), 2), (run(b'{"n":1}'), 1), (run(b'{"n":3}'), None)],
    ),
    "bodies that differ only in ignored paths are of one kind": (
        [run(b'{"at":1}'), run(b'{"at":2}')],
        {"ignore_body": "$.at"},
        [(run(b"what ever"), 1), (run(b"what ever"), 2), (run(b"what ever"), None)],
    ),
    "selected headers": (
        [*ACCEPTS, ("GET", "/s")],
        {"match_header": ["ACCEPT", "accept"]},
        [(accept(" text/html"), 2), (("GET", "/s"), 3), (accept("text/plain"), 1), (accept("image/png"), None)],
    ),
    "the order of values of one header": (
        [accept("a, b")],
        {"match_header": "accept"},
        [(accept("b", "a"), None), (accept("a", "b"), 1)],
    ),
    "a redacted header is matched by its presence and scheme": (
        [BEARER],
        {"match_header": ["authorization"]},
        [
            (("GET", "/s"), None),
            (("GET", "/s", b"", (("Authorization", "Basic eA=="),)), None),
            (("GET", "/s", b"", (("Authorization", "Bearer mine"),)), 1),
        ],
    ),
    **{
        f"repeat={repeat}": ([A, B, A, A], {"repeat": repeat}, [*((A, at) for at in [1, 3, 4, *after]), (C, None)])
        for repeat, after in {"refuse": [None, None], "last": [4, 4], "cycle": [1, 3]}.items()
    },
    **{
        f"repeat={repeat}, redacted and plain requests together": (
            [key(FINGERPRINT), key("x"), key(f"x{FINGERPRINT}")],
            {"repeat": repeat},
            [(key("x"), at) for at in (2, 1, 3, after)],
        )
        for repeat, after in {"last": 3, "cycle": 2}.items()
    },
    "strict order": (
        [A, ("POST", "/b", b"1"), A, ("POST", "/b", b"2")],
        {"order": "strict"},
        [
            (("POST", "/b", b"1"), None),
            (A, 1),
            (A, None),
            (("POST", "/b", b"1"), 2),
            (A, 3),
            (("POST", "/b", b"2"), 4),
            (A, None),
        ],
    ),
    "strict order selects the expected one of several matches": (
        [key(FINGERPRINT), key("x"), key(FINGERPRINT)],
        {"order": "strict"},
        [(key("x"), 1), (key("x"), 2), (key("x"), 3)],
    ),
    **{
        f"strict order, repeat={repeat}": (
            [A, B, A],
            {"order": "strict", "repeat": repeat},
            [(A, 1), (A, None), (B, 2), (A, 3), (A, after), (B if repeat == "cycle" else C, then)],
        )
        for repeat, after, then in (("refuse", None, None), ("last", 3, None), ("cycle", 1, 2))
    },
}


@pytest.mark.parametrize(("recorded", "options", "asked"), SEQUENCES.values(), ids=SEQUENCES)
def test_requests_are_matched_one_after_another(recorded, options, asked):
    world = World(*recorded, **options)

    assert [world.take(*request) for request, _ in asked] == [number for _, number in asked]
    served = {number for _, number in asked}
    assert [entry.number for entry in world.queues.unconsumed] == [
        number for number in range(1, len(recorded) + 1) if number not in served
    ]


def test_strict_order_skips_only_the_request_that_it_expects():
    world = World(A, A, B, order="strict")
    world.queues.skip(2)
    assert world.queues.expected.number == 1
    world.queues.skip(1)
    world.queues.skip(1)  # it is no longer expected
    assert [world.take(*request) for request in (B, A, A)] == [None, 2, None]
    world.queues.skip(3)
    assert world.queues.expected is None


def test_a_reset_starts_again_from_the_first_response():
    world = World(A, B, order="strict")
    world.take(*A)

    world.queues.reset()

    assert [entry.number for entry in world.queues.unconsumed] == [1, 2]
    assert [world.take(*A), world.take(*B)] == [1, 2]


@pytest.mark.parametrize(
    "path", ["", "at", ".at", "$at", "$.", "$..", "$.a b", "$[", "$[a]", "$['a]", "$.[0]", "$...a", "$.a."]
)
def test_an_invalid_json_path_is_refused_in_one_sentence(path):
    with pytest.raises(InputError, match=r"Invalid JSON path"):
        ReplayOptions(ignore_body=[path])


@pytest.mark.parametrize("name", ["order", "repeat"])
def test_an_unknown_choice_is_refused_in_one_sentence(name):
    with pytest.raises(InputError, match=f"Invalid {name} 'some': expected [a-z, ]+"):
        ReplayOptions(**{name: "some"})


# Why a request has no match.


def test_a_miss_reports_that_all_responses_are_used_up():
    world = World(A, A, B)
    for request in (A, A, B):
        world.take(*request)

    assert world.why_not(*A) == "All 2 recorded responses are used up: GET /a was requested again."
    assert world.why_not(*B) == "The only recorded response is used up: GET /b was requested again."


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        (("GET", "/v1/s/1/runs?a=2"), "exchange 1, GET /v1/s/1/runs?a=1 (differs in query: a=2 instead of a=1)"),
        (("GET", "/v1/s/1/runs"), "exchange 1, GET /v1/s/1/runs?a=1 (differs in query: a=1 is missing)"),
        (("GET", "/v1/s/1/runs?a=1&b=2"), "exchange 1, GET /v1/s/1/runs?a=1 (differs in query: b=2 was not recorded)"),
        (("PUT", "/v1/s/1/runs?a=1"), "exchange 1, GET /v1/s/1/runs?a=1 (differs in method)"),
        (("GET", "/v1/s/2/runs?a=1"), "exchange 1, GET /v1/s/1/runs?a=1 (differs in path)"),
        (("POST", "/v1/s/1/run", b"3"), "exchange 2, POST /v1/s/1/run (differs in body)"),
        (("POST", "/v1/s/3/run", b"3"), "exchange 2, POST /v1/s/1/run (differs in path and body)"),
        (
            ("GET", "/k?n=2&key=mine"),
            "exchange 4, GET /k?key=[redacted:0123456789abcdef]&n=1 (differs in query: n=2 instead of n=1)",
        ),
        (("GET", "/o?x=2&x=1"), "exchange 5, GET /o?x=1&x=2 (differs in query: the same values in another order)"),
    ],
)
def test_a_miss_names_the_closest_requests_and_their_differences(asked, nearest):
    recorded = [("GET", "/v1/s/1/runs?a=1"), ("POST", "/v1/s/1/run", b"1"), ("POST", "/v1/s/1/run", b"2")]
    world = World(*recorded, ("GET", f"/k?key={FINGERPRINT}&n=1"), ("GET", "/o?x=1&x=2"))

    name = f"{asked[0]} {asked[1].replace('mine', '[redacted]')}"
    assert world.why_not(*asked).startswith(f"{name} was not recorded. Closest: {nearest}")


BOTH, ONE, OTHER = (("X-A", "1"), ("X-B", "1")), (("X-A", "1"),), (("X-A", "1"), ("X-C", "1"))


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [
        ([("GET", "/z/y"), ("GET", "/a/x/y")], ("GET", "/a/b")),
        ([("GET", "/a?c=3"), ("GET", "/a?a=1&b=3")], ("GET", "/a?a=1&b=2")),
        ([("GET", "/a", b"", BOTH), ("GET", "/a", b"", ONE)], ("GET", "/a", b"", OTHER)),
    ],
    ids=["most equal segments for its length", "equal parameters", "headers that were not sent"],
)
def test_the_closest_request_has_most_in_common(recorded, asked):
    assert "Closest: exchange 2," in World(*recorded, match_header=["x-a", "x-b", "x-c"]).why_not(*asked)


def test_a_miss_is_safe_to_print_and_short():
    message = World(("GET", "/" + "é" * 1000)).why_not("GET", "/\x1b[31m" + "x" * 1000)

    assert "\x1b" not in message
    assert len(message) < 700


def test_a_miss_in_an_empty_recording_is_explained():
    assert World().why_not(*A) == "GET /a was not recorded: the recording contains no exchanges."
    assert World().take(*A) is None


def test_a_request_out_of_order_is_told_the_expected_one():
    world = World(A, ("POST", "/b", b'{"n":1}'), ("POST", "/b", b'{"n":2}'), order="strict")
    world.take(*A)

    assert world.why_not("POST", "/b", b'{"n":2}') == (
        "POST /b is out of order: the next recorded request is exchange 2, "
        "POST /b (differs in body: $.n: 2 instead of 1)."
    )
    assert world.why_not(*A).endswith("exchange 2, POST /b (differs in method, path and body).")


RECORDED = b'{"n":1,"who":{"name":"a","key":"use ********************"},"list":[1,2],"odd key":null}'


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (b'{"n":2}', '$.list: missing, $.n: 2 instead of 1, $["odd key"]: missing, …'),
        (RECORDED.replace(b"1,2", b"1"), "$.list[1]: missing"),
        (RECORDED.replace(b"1,2", b"1,2,3"), "$.list[2]: not recorded"),
        (RECORDED.replace(b"1,2", b"true,2"), "$.list[0]: true instead of 1"),
        (RECORDED.replace(b'"a"', b'{"x":"\\u001b[2J"}'), '$.who.name: {"x":"\\u001b[2J"} instead of "a"'),
        (RECORDED.replace(b"null", b"[]"), '$["odd key"]: [] instead of null'),
        (RECORDED.replace(b"use *", b"take *"), f'$.who.key: "take {MASK}" instead of "use {MASK}"'),
        (RECORDED.replace(b"********************", b"sk-mine").replace(b'"n":1', b'"n":"1"'), '$.n: "1" instead of 1'),
        (RECORDED[:-1] + b',"\\u009b":"' + b"y" * 100 + b'"}', '$["\\x9b"]: not recorded'),
    ],
)  # fmt: skip
def test_a_miss_names_the_json_paths_that_differ(asked, said):
    world = World(run(RECORDED), run(b"else"))

    assert world.why_not(*run(asked)).partition("; ")[0].endswith(f"(differs in body: {said})")


def test_ignored_parts_are_not_named_as_differences():
    world = World(run(b'{"at":1,"n":1}'), run(b"else"), ignore_body=["$.at"], ignore_query=["t"])

    assert world.why_not("POST", "/runs?t=1", b'{"at":2,"n":2}').partition("; ")[0] == (
        "POST /runs?t=1 was not recorded. Closest: exchange 1, POST /runs (differs in body: $.n: 2 instead of 1)"
    )


def test_a_miss_names_the_headers_that_differ_without_secrets():
    recorded = (("Accept", "a"), ("Authorization", f"Bearer {FINGERPRINT}"), ("X-One", "1"))
    asked = (("Accept", "b"), ("Authorization", "Basic my-secret"), ("X-Two", "2"))
    world = World(("GET", "/s", b"", recorded), match_header=["accept", "authorization", "x-one", "x-two"])

    assert world.why_not("GET", "/s", b"", asked) == (
        "GET /s was not recorded. Closest: exchange 1, GET /s (differs in headers: accept: b instead of a, "
        "authorization, x-one is missing, x-two was not recorded)."
    )
