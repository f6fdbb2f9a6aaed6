"""Options of matching: ignored parts, headers, order, and repetition after the last response."""

import pytest

from wiretape.errors import InputError
from wiretape.json_path import JsonPath
from wiretape_replay import ReplayOptions
from wiretape_replay.http_server.http_messages import LARGEST_BODY, HttpRequest, read_body
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.no_match import explain_no_match
from wiretape_replay.verbatim.request_matching import without_paths

FINGERPRINT = "[redacted:0123456789abcdef]"


class World:
    """Recorded requests, and requests to match: `(method, target, body, headers)`; the last items are optional."""

    def __init__(self, *requests, **options):
        recorded = [self._complete(*request) for request in requests]
        self._bodies = [read_body([body]) for _, _, body, _ in recorded]
        self.replay = ExchangeQueues(
            [
                RecordedRequest(number, method, target, self._bodies[number - 1], headers)
                for number, (method, target, _, headers) in enumerate(recorded, 1)
            ],
            ReplayOptions(**options).matching,
        )

    def take(self, *request):
        """The number of the exchange that responds to a request."""
        entry = self.replay.take(self._asked(*request))
        return entry and entry.number

    def why_not(self, *request):
        return explain_no_match(self.replay, self._asked(*request), lambda number: self._bodies[number - 1])

    def _asked(self, *request):
        method, target, body, headers = self._complete(*request)
        return HttpRequest(method, target, read_body([body]), headers)

    @staticmethod
    def _complete(method, target, body=b"", headers=()):
        return method, target, body, headers


def test_ignored_query_parameters_are_ignored_everywhere():
    world = World(("GET", "/s?a=1&t=5"), ("GET", "/s?a=2&t=6&t=7"), ignore_query=["t"])

    assert world.take("GET", "/s?t=9&a=2") == 2
    assert world.take("GET", "/s?a=1") == 1
    assert world.why_not("GET", "/s?a=3&t=1").endswith("(differs in query: a=3 instead of a=2).")


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
]


@pytest.mark.parametrize(("path", "recorded", "asked", "same"), IGNORED)
def test_ignored_json_paths_are_not_compared(path, recorded, asked, same):
    world = World(("POST", "/runs", recorded), ("POST", "/runs", b"else"), ignore_body=[path])

    assert world.take("POST", "/runs", asked) == (1 if same else None)


def test_several_json_paths_can_be_ignored():
    one, two = b'{"at":1,"id":"x","n":1}', b'{"at":2,"id":"y","n":2}'
    world = World(("POST", "/runs", one), ("POST", "/runs", two), ignore_body=["$.at", "$.id"])

    assert [world.take("POST", "/runs", b'{"n":%d}' % n) for n in (2, 1, 3)] == [2, 1, None]


def test_bodies_that_differ_only_in_ignored_paths_are_of_one_kind():
    world = World(("POST", "/runs", b'{"at":1}'), ("POST", "/runs", b'{"at":2}'), ignore_body=["$.at"])

    assert [world.take("POST", "/runs", b"what ever") for _ in range(3)] == [1, 2, None]


def test_a_redacted_value_next_to_an_ignored_path_matches_anything():
    recorded = b'{"at":1,"note":"use ********************"}'
    world = World(("POST", "/runs", recorded), ("POST", "/runs", b"else"), ignore_body=["$.at"])

    assert world.take("POST", "/runs", b'{"at":2,"note":"take sk-abc"}') is None
    assert world.take("POST", "/runs", b'{"at":2,"note":"use sk-abc"}') == 1


@pytest.mark.parametrize(
    "body", [*(b"[" * depth + b"1" + b"]" * depth for depth in (200, 1000)), b'{"n":"' + b"x" * LARGEST_BODY + b'"}']
)
def test_bodies_that_are_too_deep_or_too_large_are_compared_as_bytes(body):
    assert without_paths(read_body([body]), (JsonPath.of("$.at"),)).digest == read_body([body]).digest


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


def test_selected_headers_are_compared():
    world = World(
        ("GET", "/s", b"", (("Accept", "text/plain"), ("X-Trace", "1"))),
        ("GET", "/s", b"", (("accept", "text/html"),)),
        ("GET", "/s"),
        match_header=["ACCEPT", "accept"],
    )

    assert world.take("GET", "/s", b"", (("aCCept", " text/html"), ("X-Trace", "9"))) == 2
    assert world.take("GET", "/s", b"", (("X-Trace", "1"),)) == 3
    assert world.take("GET", "/s", b"", (("Accept", "text/plain"),)) == 1
    assert world.take("GET", "/s", b"", (("Accept", "image/png"),)) is None


def test_the_order_of_values_of_one_header_matters():
    world = World(("GET", "/s", b"", (("Accept", "a, b"),)), match_header=["accept"])

    assert world.take("GET", "/s", b"", (("Accept", "b"), ("Accept", "a"))) is None
    assert world.take("GET", "/s", b"", (("Accept", "a"), ("Accept", "b"))) == 1


def test_a_redacted_header_is_matched_by_its_presence_and_scheme():
    world = World(("GET", "/s", b"", (("Authorization", f"Bearer {FINGERPRINT}"),)), match_header=["authorization"])

    assert world.take("GET", "/s") is None
    assert world.take("GET", "/s", b"", (("Authorization", "Basic eA=="),)) is None
    assert world.take("GET", "/s", b"", (("Authorization", "Bearer mine"),)) == 1


@pytest.mark.parametrize(
    ("repeat", "expected"),
    [("refuse", [1, 3, 4, None, None]), ("last", [1, 3, 4, 4, 4]), ("cycle", [1, 3, 4, 1, 3])],
)
def test_repeating_responses_after_the_last_of_a_kind(repeat, expected):
    world = World(("GET", "/a"), ("GET", "/b"), ("GET", "/a"), ("GET", "/a"), repeat=repeat)

    assert [world.take("GET", "/a") for _ in range(5)] == expected
    assert world.take("GET", "/none") is None
    assert [entry.number for entry in world.replay.unconsumed] == [2]


@pytest.mark.parametrize(("repeat", "expected"), [("last", [2, 1, 3, 3]), ("cycle", [2, 1, 3, 2])])
def test_responses_to_redacted_and_plain_requests_are_repeated_together(repeat, expected):
    world = World(
        ("GET", f"/s?key={FINGERPRINT}"), ("GET", "/s?key=x"), ("GET", f"/s?key=x{FINGERPRINT}"), repeat=repeat
    )

    assert [world.take("GET", "/s?key=x") for _ in range(4)] == expected


def test_strict_order_refuses_requests_out_of_order():
    world = World(("GET", "/a"), ("POST", "/b", b"1"), ("GET", "/a"), ("POST", "/b", b"2"), order="strict")

    assert world.take("POST", "/b", b"1") is None
    assert world.take("GET", "/a") == 1
    assert world.take("GET", "/a") is None
    assert [world.take("POST", "/b", b"1"), world.take("GET", "/a"), world.take("POST", "/b", b"2")] == [2, 3, 4]
    assert world.take("GET", "/a") is None


def test_strict_order_selects_the_expected_one_of_several_matches():
    world = World(
        ("GET", f"/s?key={FINGERPRINT}"), ("GET", "/s?key=x"), ("GET", f"/s?key={FINGERPRINT}"), order="strict"
    )

    assert [world.take("GET", "/s?key=x") for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(("repeat", "expected"), [("refuse", [None, None]), ("last", [3, None]), ("cycle", [1, 2])])
def test_strict_order_repeats_responses_after_the_last(repeat, expected):
    world = World(("GET", "/a"), ("GET", "/b"), ("GET", "/a"), order="strict", repeat=repeat)

    assert [world.take("GET", target) for target in ("/a", "/a", "/b", "/a")] == [1, None, 2, 3]
    assert [world.take("GET", "/a"), world.take("GET", "/b" if repeat == "cycle" else "/c")] == expected


def test_a_reset_starts_again_from_the_first_response():
    world = World(("GET", "/a"), ("GET", "/b"), order="strict")
    world.take("GET", "/a")

    world.replay.reset()

    assert [entry.number for entry in world.replay.unconsumed] == [1, 2]
    assert [world.take("GET", "/a"), world.take("GET", "/b")] == [1, 2]


def test_a_request_out_of_order_is_told_the_expected_one():
    world = World(("GET", "/a"), ("POST", "/b", b'{"n":1}'), ("POST", "/b", b'{"n":2}'), order="strict")
    world.take("GET", "/a")

    assert world.why_not("POST", "/b", b'{"n":2}') == (
        "POST /b is out of order: the next recorded request is exchange 2, "
        "POST /b (differs in body: $.n: 2 instead of 1)."
    )
    assert world.why_not("GET", "/a").endswith("exchange 2, POST /b (differs in method, path and body).")


MASK = "*" * 20
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
    world = World(("POST", "/runs", RECORDED), ("POST", "/runs", b"else"))

    assert world.why_not("POST", "/runs", asked).partition("; ")[0].endswith(f"(differs in body: {said})")


def test_ignored_parts_are_not_named_as_differences():
    world = World(
        ("POST", "/runs", b'{"at":1,"n":1}'), ("POST", "/runs", b"else"), ignore_body=["$.at"], ignore_query=["t"]
    )

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
