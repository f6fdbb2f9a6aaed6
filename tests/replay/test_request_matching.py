"""Which recorded exchange responds to a request, and why none does."""

import pytest
from for_each import for_each
from tables import read_tables

from wiretape.errors import InputError
from wiretape_replay import ReplayOptions
from wiretape_replay.http_server.http_messages import LARGEST_BODY, HttpRequest, read_body
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.no_match import explain_no_match

TABLES = read_tables(__file__)

FINGERPRINT = "[redacted:0123456789abcdef]"
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


@for_each(("recorded", "asked", "same"), TABLES["targets"])
def test_equivalent_targets_match(recorded, asked, same):
    assert World(("GET", recorded)).take("GET", asked) == (1 if same else None)


LARGE = b'{"a": "' + b"x" * LARGEST_BODY + b'"}'
BODIES = [
    *((recorded.encode(), asked.encode(), same) for recorded, asked, same in TABLES["bodies"]),
    *((body, body + more, not more) for body in (b"\xff\x00", b"[" * 5000) for more in (b"", b" ")),
    *((b"[" * 300 + b"]" * 300, b"[" * 300 + b"]" * 300 + more, not more) for more in (b"", b" ")),
    (LARGE, LARGE, True),
    (LARGE, LARGE[:-1] + b" }", False),
]
IGNORED = [
    *((path, recorded.encode(), asked.encode(), same) for path, recorded, asked, same in TABLES["ignored"]),
    ("$.at", LARGE, LARGE[:-1] + b" }", False),
    *(("$.at", b"[" * depth + b"1" + b"]" * depth, b"[" * depth + b"2" + b"]" * depth, False) for depth in (200, 1000)),
]


@for_each(("path", "recorded", "asked", "same"), [*((None, *row) for row in BODIES), *IGNORED])
def test_bodies_are_compared_as_json_or_bytes_without_ignored_paths(path, recorded, asked, same):
    options = {} if path is None else {"ignore_body": [path]}
    world = World(("POST", "/runs", recorded), ("POST", "/runs", b"else"), **options)

    assert world.take("POST", "/runs", asked) == (1 if same else None)


def test_a_body_over_the_limit_is_not_kept():
    assert read_body([LARGE]).text is None


A, B = ("GET", "/a"), ("GET", "/b")


def run(body):
    return "POST", "/runs", body


def request_of(row):
    """A request of a table: its line with the body, and headers."""
    line, *headers = row if isinstance(row, list) else [row]
    method, target, *body = line.split(" ", 2)
    body = None if body == ["?"] else "".join(body).encode()
    return method, target, body, tuple(tuple(header.split(": ", 1)) for header in headers)


@for_each("row", TABLES["sequences"].values(), ids=TABLES["sequences"])
def test_requests_are_matched_one_after_another(row):
    world = World(*map(request_of, row["recorded"]), **row.get("options", {}))

    numbers = [number for _, number in row["asked"]]
    assert [world.take(*request_of(request)) or 0 for request, _ in row["asked"]] == numbers
    assert [entry.number for entry in world.queues.unconsumed] == [
        number for number in range(1, len(row["recorded"]) + 1) if number not in numbers
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


@for_each("path", ["", "at", ".at", "$at", "$.", "$..", "$.a b", "$[", "$[a]", "$['a]", "$.[0]", "$...a", "$.a."])
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


@for_each(
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


@for_each(
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
