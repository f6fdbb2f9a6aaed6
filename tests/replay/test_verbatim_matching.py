"""Which recorded exchange responds to a request."""

import pytest

from wiretape_replay.http_server.http_messages import LARGEST_BODY, NO_BODY, HttpRequest, read_body
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.no_match import explain_no_match
from wiretape_replay.verbatim.request_matching import Matching, Order

FINGERPRINT = "[redacted:0123456789abcdef]"
OTHER_FINGERPRINT = "[redacted:fedcba9876543210]"


def replay(*requests: tuple[str, str] | tuple[str, str, bytes | None]) -> ExchangeQueues:
    """Recorded requests, numbered from 1: `(method, target)` or `(method, target, body)`."""
    return ExchangeQueues(
        RecordedRequest(number, *request[:2], _body(request)) for number, request in enumerate(requests, 1)
    )


def _body(request):
    body = request[2] if len(request) > 2 else b""
    return None if body is None else read_body([body])


def taken(replay: ExchangeQueues, method: str, target: str, body: bytes = b"") -> int | None:
    """The number of the exchange that responds to a request."""
    entry = replay.take(HttpRequest(method, target, read_body([body])))
    return entry and entry.number


def why_not(replay: ExchangeQueues, method: str, target: str, body: bytes = b"") -> str:
    return explain_no_match(replay, HttpRequest(method, target, read_body([body])))


def test_responses_are_served_once_in_recorded_order():
    recorded = replay(("GET", "/a"), ("GET", "/b"), ("GET", "/a"))

    assert [taken(recorded, "GET", "/a") for _ in range(3)] == [1, 3, None]
    assert taken(recorded, "GET", "/b") == 2


@pytest.mark.parametrize(
    ("target", "same"),
    [
        ("/v1/s?a=1&b=2", True),
        ("/v1/s?b=2&a=1", True),
        ("/v1/s?a=%31&b=2", True),
        ("/v1/%73?a=1&b=2", True),
        ("http://replay.test/v1/s?a=1&b=2", True),
        ("/v1/s?a=1&b=3", False),
        ("/v1/s?a=1", False),
        ("/v1/s?a=1&b=2&c=", False),
        ("/v1/s/?a=1&b=2", False),
        ("/v1%2Fs?a=1&b=2", False),
        ("/V1/s?a=1&b=2", False),
        ("/v1/s", False),
    ],
)
def test_equivalent_paths_and_queries_match(target, same):
    assert taken(replay(("GET", "/v1/s?a=1&b=2")), "GET", target) == (1 if same else None)


@pytest.mark.parametrize(
    ("recorded", "asked", "same"),
    [
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
    ],
)
def test_origin_and_absolute_targets_match(recorded, asked, same):
    assert taken(replay(("GET", recorded)), "GET", asked) == (1 if same else None)


def test_the_body_is_ignored_if_all_recorded_bodies_are_equal():
    assert taken(replay(("POST", "/runs", b"{}"), ("POST", "/runs", b"{}")), "POST", "/runs", b'{"other": 1}') == 1


def test_the_body_selects_the_response_if_recorded_bodies_differ():
    recorded = replay(("POST", "/runs", b'{"n": 1}'), ("POST", "/runs", b'{"n": 2}'), ("POST", "/runs", b'{"n": 1}'))

    assert taken(recorded, "POST", "/runs", b'{"n": 2}') == 2
    assert taken(recorded, "POST", "/runs", b'{"n": 1}') == 1
    assert taken(recorded, "POST", "/runs", b'{"n": 3}') is None
    assert taken(recorded, "POST", "/runs", b'{"n": 1}') == 3


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        (b'{"b":[1,{"c":null}],"a":"\\u00e9"}', True),
        ('{ "a": "é", "b": [1.0, {"c": null}] }\n'.encode(), True),
        (b'{"a":"\\u00e9","b":[{"c":null},1]}', False),
        (b'{"a":"\\u00e9","b":[true,{"c":null}]}', False),
        (b'{"a":"\\u00e9","b":["1",{"c":null}]}', False),
        (b'{"a":"\\u00e9","b":[1,{"c":null}],"d":null}', False),
    ],
)
def test_json_bodies_are_compared_as_values(asked, same):
    recorded = replay(("POST", "/runs", '{"a": "é", "b": [1, {"c": null}]}'.encode()), ("POST", "/runs", b"else"))

    assert taken(recorded, "POST", "/runs", asked) == (1 if same else None)


@pytest.mark.parametrize("body", [b"1", b"a=1&b=2", b"\xff\x00", b'{"cut": ', b"[" * 5000, b"[" * 300 + b"]" * 300])
def test_other_bodies_are_compared_as_bytes(body):
    recorded = replay(("POST", "/runs", body), ("POST", "/runs", b"else"))

    assert taken(recorded, "POST", "/runs", body + b" ") is None
    assert taken(recorded, "POST", "/runs", body) == 1


def test_a_body_over_the_limit_is_compared_but_not_kept():
    large = b'{"a": "' + b"x" * LARGEST_BODY + b'"}'
    recorded = replay(("POST", "/runs", large), ("POST", "/runs", b"else"))

    assert read_body([large]).text is None
    assert taken(recorded, "POST", "/runs", large[:-1] + b" }") is None
    assert taken(recorded, "POST", "/runs", large) == 1


def test_an_incomplete_recorded_request_matches_any_body():
    recorded = replay(("POST", "/runs", b"one"), ("POST", "/runs", None), ("POST", "/runs", b"two"))

    assert [taken(recorded, "POST", "/runs", body) for body in (b"two", b"three", b"four")] == [3, 2, None]


def test_a_redacted_query_value_matches_any_value_in_recorded_order():
    recorded = replay(
        ("GET", f"/s?token={FINGERPRINT}&n=1"),
        ("GET", f"/s?token={OTHER_FINGERPRINT}&n=1"),
        ("GET", f"/s?token={FINGERPRINT}&n=2"),
    )

    assert taken(recorded, "GET", "/s?n=2&token=my-own-key") == 3
    assert [taken(recorded, "GET", f"/s?n=1&token={token}") for token in ("b", "a", "c")] == [1, 2, None]
    assert taken(recorded, "GET", "/s?n=1") is None


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ("/s/my-key/runs?page=1", True),
        ("/s//runs?page=1", True),
        ("/s/my-key/runs?page=2", False),
        ("/s/my-key/run?page=1", False),
        ("/s/runs?page=1", False),
    ],
)
def test_a_redacted_part_of_a_path_matches_anything(asked, same):
    assert taken(replay(("GET", f"/s/{FINGERPRINT}/runs?page=1")), "GET", asked) == (1 if same else None)


@pytest.mark.parametrize(
    ("asked", "same"),
    [
        ("/s?key=a-one-b-two-c", True),
        ("/s?key=a--b--c", True),
        ("/s?key=a-one-b-two-d", False),
        ("/s?key=a-one-two-c", False),
        ("/s?key=a-c", False),
    ],
)
def test_several_redacted_parts_match_anything_between_known_text(asked, same):
    recorded = replay(("GET", f"/s?key=a-{FINGERPRINT}-b-{OTHER_FINGERPRINT}-c"))

    assert taken(recorded, "GET", asked) == (1 if same else None)


@pytest.mark.parametrize(
    ("value", "asked", "same"),
    [
        (f"a-{FINGERPRINT}-b-{FINGERPRINT}-b-{FINGERPRINT}-c", "a-1-b-2-b-3-c", True),
        (f"a-{FINGERPRINT}-b-{FINGERPRINT}-b-{FINGERPRINT}-c", "a-1-b-2-c", False),
        (f"a-{FINGERPRINT}-b-{FINGERPRINT}-b-{FINGERPRINT}-c", "a--b-b--c", False),
        (f"{FINGERPRINT}b{FINGERPRINT}", "bx", True),
    ],
)
def test_known_text_between_redacted_parts_occurs_as_often_as_recorded(value, asked, same):
    assert taken(replay(("GET", f"/s?key={value}")), "GET", f"/s?key={asked}") == (1 if same else None)


def test_strict_order_skips_only_the_request_that_it_expects():
    requests = (RecordedRequest(number, "GET", f"/{number}", _body(())) for number in (1, 2, 3))
    recorded = ExchangeQueues(requests, Matching(order=Order.STRICT))
    recorded.skip(2)
    assert recorded.expected.number == 1
    recorded.skip(1)
    assert recorded.expected.number == 2
    assert [taken(recorded, "GET", f"/{number}") for number in (1, 2, 3)] == [None, 2, 3]
    recorded.skip(3)
    assert recorded.expected is None


def test_a_redacted_credential_in_a_body_matches_anything():
    masked = b'{"note": "use ********************, please", "n": 1, "pin": 11111111}'
    recorded = replay(("POST", "/runs", masked), ("POST", "/runs", b"else"))

    assert taken(recorded, "POST", "/runs", b'{"n": 2, "note": "use sk-abc, please", "pin": 8}') is None
    assert taken(recorded, "POST", "/runs", b'{"n": 1, "note": "use sk-abc, please", "pin": 8}') == 1


def test_an_exact_match_is_preferred_to_a_redacted_one():
    recorded = replay(("GET", f"/s?token={FINGERPRINT}"), ("GET", "/s?token=none"))

    assert taken(recorded, "GET", "/s?token=none") == 2


def test_unconsumed_requests_are_listed_in_recorded_order():
    recorded = replay(("GET", "/a"), ("GET", "/b"), ("GET", "/a"), ("GET", "/c"))
    taken(recorded, "GET", "/a")

    assert [entry.number for entry in recorded.unconsumed] == [2, 3, 4]


def test_a_miss_reports_that_all_responses_are_used_up():
    recorded = replay(("GET", "/a"), ("GET", "/a"), ("GET", "/b"))
    for target in ("/a", "/a", "/b"):
        taken(recorded, "GET", target)

    assert why_not(recorded, "GET", "/a") == "All 2 recorded responses are used up: GET /a was requested again."
    assert why_not(recorded, "GET", "/b") == "The only recorded response is used up: GET /b was requested again."


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
    recorded = replay(
        ("GET", "/v1/s/1/runs?a=1"),
        ("POST", "/v1/s/1/run", b"1"),
        ("POST", "/v1/s/1/run", b"2"),
        ("GET", f"/k?key={FINGERPRINT}&n=1"),
        ("GET", "/o?x=1&x=2"),
    )

    name = f"{asked[0]} {asked[1].replace('mine', '[redacted]')}"
    assert why_not(recorded, *asked).startswith(f"{name} was not recorded. Closest: {nearest}")


def test_the_closest_path_has_the_most_equal_segments_for_its_length():
    assert "Closest: exchange 2," in why_not(replay(("GET", "/z/y"), ("GET", "/a/x/y")), "GET", "/a/b")


def test_equal_parameters_count_for_a_request_and_different_ones_against_it():
    assert "Closest: exchange 2," in why_not(replay(("GET", "/a?c=3"), ("GET", "/a?a=1&b=3")), "GET", "/a?a=1&b=2")


def test_headers_that_were_not_sent_count_against_a_request():
    both, one = (("X-A", "1"), ("X-B", "1")), (("X-A", "1"),)
    requests = [RecordedRequest(number, "GET", "/a", NO_BODY, headers) for number, headers in ((1, both), (2, one))]
    queues = ExchangeQueues(requests, Matching(headers=("x-a", "x-b", "x-c")))
    request = HttpRequest("GET", "/a", NO_BODY, (*one, ("X-C", "1")))
    assert "Closest: exchange 2," in explain_no_match(queues, request)


def test_in_strict_order_a_skipped_exchange_is_not_taken_later():
    requests = [RecordedRequest(number, "GET", "/a", NO_BODY) for number in (1, 2)]
    queues = ExchangeQueues(requests, Matching(order=Order.STRICT))
    queues.skip(1)
    queues.skip(1)  # it is no longer expected
    assert queues.take(HttpRequest("GET", "/a", NO_BODY)).number == 2


def test_a_miss_is_safe_to_print_and_short():
    message = why_not(replay(("GET", "/" + "é" * 1000)), "GET", "/\x1b[31m" + "x" * 1000)

    assert "\x1b" not in message
    assert len(message) < 700


def test_a_miss_in_an_empty_recording_is_explained():
    assert why_not(replay(), "GET", "/a") == "GET /a was not recorded: the recording contains no exchanges."
    assert ExchangeQueues([]).take(HttpRequest("GET", "/a", NO_BODY)) is None
