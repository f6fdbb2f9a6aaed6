"""Which recorded exchange a request is given."""

import pytest

from wiretape_replay.http_server.http_messages import LARGEST_BODY, NO_BODY, HttpRequest, read_body
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.no_match import explain_no_match

FINGERPRINT = "[redacted:0123456789abcdef]"
OTHER_FINGERPRINT = "[redacted:fedcba9876543210]"


def tape(*requests: tuple[str, str] | tuple[str, str, bytes | None]) -> ExchangeQueues:
    """A tape of requests, numbered from 1: `(method, target)` or `(method, target, body)`."""
    return ExchangeQueues(
        RecordedRequest(number, *request[:2], _body(request)) for number, request in enumerate(requests, 1)
    )


def _body(request):
    body = request[2] if len(request) > 2 else b""
    return None if body is None else read_body([body])


def taken(tape: ExchangeQueues, method: str, target: str, body: bytes = b"") -> int | None:
    """The number of the exchange that the request is given."""
    entry = tape.take(HttpRequest(method, target, read_body([body])))
    return entry and entry.number


def why_not(tape: ExchangeQueues, method: str, target: str, body: bytes = b"") -> str:
    return explain_no_match(tape, HttpRequest(method, target, read_body([body])))


def test_answers_come_in_recorded_order_once_each():
    recorded = tape(("GET", "/a"), ("GET", "/b"), ("GET", "/a"))

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
def test_paths_and_queries_are_compared_by_what_they_mean(target, same):
    assert taken(tape(("GET", "/v1/s?a=1&b=2")), "GET", target) == (1 if same else None)


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
def test_targets_are_read_as_servers_read_them(recorded, asked, same):
    assert taken(tape(("GET", recorded)), "GET", asked) == (1 if same else None)


def test_a_body_does_not_matter_while_all_recorded_ones_are_the_same():
    assert taken(tape(("POST", "/runs", b"{}"), ("POST", "/runs", b"{}")), "POST", "/runs", b'{"other": 1}') == 1


def test_a_body_decides_where_recorded_ones_differ():
    recorded = tape(("POST", "/runs", b'{"n": 1}'), ("POST", "/runs", b'{"n": 2}'), ("POST", "/runs", b'{"n": 1}'))

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
    recorded = tape(("POST", "/runs", '{"a": "é", "b": [1, {"c": null}]}'.encode()), ("POST", "/runs", b"else"))

    assert taken(recorded, "POST", "/runs", asked) == (1 if same else None)


@pytest.mark.parametrize("body", [b"1", b"a=1&b=2", b"\xff\x00", b'{"cut": ', b"[" * 5000, b"[" * 300 + b"]" * 300])
def test_other_bodies_are_compared_as_bytes(body):
    recorded = tape(("POST", "/runs", body), ("POST", "/runs", b"else"))

    assert taken(recorded, "POST", "/runs", body + b" ") is None
    assert taken(recorded, "POST", "/runs", body) == 1


def test_a_body_over_the_limit_is_compared_without_being_kept():
    large = b'{"a": "' + b"x" * LARGEST_BODY + b'"}'
    recorded = tape(("POST", "/runs", large), ("POST", "/runs", b"else"))

    assert read_body([large]).text is None
    assert taken(recorded, "POST", "/runs", large[:-1] + b" }") is None
    assert taken(recorded, "POST", "/runs", large) == 1


def test_a_request_that_was_cut_while_recorded_matches_any_body():
    recorded = tape(("POST", "/runs", b"one"), ("POST", "/runs", None), ("POST", "/runs", b"two"))

    assert [taken(recorded, "POST", "/runs", body) for body in (b"two", b"three", b"four")] == [3, 2, None]


def test_a_redacted_query_value_matches_any_and_keeps_the_recorded_order():
    recorded = tape(
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
def test_a_redacted_piece_of_a_path_matches_any(asked, same):
    assert taken(tape(("GET", f"/s/{FINGERPRINT}/runs?page=1")), "GET", asked) == (1 if same else None)


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
def test_several_redacted_pieces_match_any_between_what_is_known(asked, same):
    recorded = tape(("GET", f"/s?key=a-{FINGERPRINT}-b-{OTHER_FINGERPRINT}-c"))

    assert taken(recorded, "GET", asked) == (1 if same else None)


def test_a_masked_credential_in_a_body_matches_any():
    masked = b'{"note": "use ********************, please", "n": 1}'
    recorded = tape(("POST", "/runs", masked), ("POST", "/runs", b"else"))

    assert taken(recorded, "POST", "/runs", b'{"n": 2, "note": "use sk-abc, please"}') is None
    assert taken(recorded, "POST", "/runs", b'{"n": 1, "note": "use sk-abc, please"}') == 1


def test_an_exact_match_is_preferred_to_a_redacted_one():
    recorded = tape(("GET", f"/s?token={FINGERPRINT}"), ("GET", "/s?token=none"))

    assert taken(recorded, "GET", "/s?token=none") == 2


def test_what_was_never_asked_for_is_listed_in_recorded_order():
    recorded = tape(("GET", "/a"), ("GET", "/b"), ("GET", "/a"), ("GET", "/c"))
    taken(recorded, "GET", "/a")

    assert [entry.number for entry in recorded.unconsumed] == [2, 3, 4]


def test_a_miss_says_that_all_answers_were_given():
    recorded = tape(("GET", "/a"), ("GET", "/a"), ("GET", "/b"))
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
def test_a_miss_names_what_comes_nearest_and_what_differs(asked, nearest):
    recorded = tape(
        ("GET", "/v1/s/1/runs?a=1"),
        ("POST", "/v1/s/1/run", b"1"),
        ("POST", "/v1/s/1/run", b"2"),
        ("GET", f"/k?key={FINGERPRINT}&n=1"),
        ("GET", "/o?x=1&x=2"),
    )

    assert why_not(recorded, *asked).startswith(f"{asked[0]} {asked[1]} was not recorded. Closest: {nearest}")


def test_a_miss_is_safe_to_print_and_short():
    message = why_not(tape(("GET", "/" + "é" * 1000)), "GET", "/\x1b[31m" + "x" * 1000)

    assert "\x1b" not in message
    assert len(message) < 700


def test_a_tape_of_nothing_says_so():
    assert why_not(tape(), "GET", "/a") == "GET /a was not recorded: the recording contains no exchanges."
    assert ExchangeQueues([]).take(HttpRequest("GET", "/a", NO_BODY)) is None
