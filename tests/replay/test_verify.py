"""`wiretape replay --verify` finds equal responses equal, and every difference; and an independent comparison.

`--verify` asks the player what it is going to send.  The comparison here derives the bytes on the wire from the
recording, and so finds the player's mistakes.
"""

import itertools
import re

import pytest

from wiretape.observations import BytesArrived, Ending, Side
from wiretape.recording import Exchange, Recording, open_recording
from wiretape_replay import VerifyResult, verify
from wiretape_replay.verbatim import verifier

CHUNKED = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
LENGTH = (("Content-Type", "text/plain"), ("Content-Length", "28"))
SHORT = (("Content-Type", "text/plain"), ("Content-Length", "100"))
UNFRAMED = (("Content-Type", "text/plain"),)
EVENTS = [b"id: 1\r\n", b"", b"data: one\r\n\r\n", b"data: tw"]
SIZE = len(b"".join(EVENTS))
HTTP2 = {"version": "HTTP/2.0", "reason": ""}
GAP = 7

EVERY_ENDING = [
    {"headers": headers, "chunks": EVENTS, "ending": ending}
    for headers, ending in itertools.product((CHUNKED, LENGTH, SHORT, UNFRAMED), Ending)
] + [{"status": None, "ending": ending} for ending in Ending]
"""Every framing with every ending, and every ending without a response."""

UNUSUAL = [
    {"status": 204, "reason": "No Content", "headers": ()},
    {"status": 304, "reason": "Not Modified", "headers": (("Content-Length", "12"),)},
    {"status": 101, "reason": "Switching Protocols", "headers": (("Connection", "Upgrade"), ("Upgrade", "x"))},
    {"status": 204, "headers": (), "ending": Ending.CLIENT_CLOSED},
    {"status": 204, "headers": (), "ending": Ending.SERVICE_RESET},
    {"method": "HEAD", "headers": CHUNKED},
    {"method": "HEAD", "headers": SHORT, "ending": Ending.SERVICE_CLOSED},
    {"headers": (*LENGTH, ("Connection", "close")), "chunks": EVENTS},
    {"headers": LENGTH, "chunks": EVENTS, "version": "HTTP/1.0"},
    {"headers": (*LENGTH, ("Connection", "Keep-Alive")), "chunks": EVENTS, "version": "HTTP/1.0"},
    {"headers": UNFRAMED, "chunks": EVENTS, "version": "HTTP/1.0"},
    {"headers": UNFRAMED, "chunks": EVENTS, **HTTP2},
    {"headers": UNFRAMED, "chunks": EVENTS, "ending": Ending.SERVICE_RESET, **HTTP2},
    {"headers": LENGTH, "chunks": EVENTS, **HTTP2},
    {"headers": UNFRAMED, "status": 204, **HTTP2},
    {"headers": (("Content-Type", "a\r\n b"), ("X", "1\r\n\r\n2\0"), ("X\n", "\xe9"), *CHUNKED), "reason": "A\nB"},
    {"headers": (("Content-Type", "a\r\n\tb"), ("X", "1\r2"), (":status", "200"), *CHUNKED)},
    {"headers": (("Transfer-Encoding", "gzip"),), "chunks": EVENTS},
    {"headers": (("Transfer-Encoding", "gzip, Chunked"),), "chunks": EVENTS},
    {"headers": (("Transfer-Encoding", "gzip"), ("transfer-encoding", "chunked")), "chunks": EVENTS},
    {"headers": (("Transfer-Encoding", "chunked "),), "chunks": EVENTS},
    {"headers": (("Content-Length", "x"),), "chunks": EVENTS},
    {"headers": (("Content-Length", "0"),)},
    {"headers": CHUNKED, "chunks": [b"data: 1\n\n", GAP, b"data: 3\n\n"]},
    {"headers": SHORT, "chunks": [b"x" * 40, GAP]},
    {"headers": CHUNKED, "chunks": [bytes(range(256)) * 1024] * 3},
    {"headers": UNFRAMED, "chunks": [bytes(range(256)) * 1024] * 3, "ending": Ending.SERVICE_RESET},
]
REQUESTS = [
    {"method": "POST", "target": "/runs", "body": b'{"n": 1}', "request_headers": (("Content-Length", "8"),)},
    {"method": "POST", "target": "/runs", "body": b'{"n": 2}', "request_headers": (("Transfer-Encoding", "chunked"),)},
    {"method": "POST", "target": "/runs", "body": None, "request_headers": (("Content-Length", "8"),)},
    {"method": "POST", "target": "/runs", "body": 9},
    {"method": "PUT", "target": "/runs", "body": b"x" * 100, "request_headers": (("Expect", "100-continue"),)},
    {"method": "POST", "target": "/runs", "request_headers": (("Content-Length", "0"),)},
    {"target": "/x", "request_headers": (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("X", "\xe9"))},
    {"target": "/x", "request_headers": (("Host", "other.test"), ("Connection", "close"))},
    {"target": "/x?key=[redacted:0123456789abcdef]&n=1"},
    {"target": "/x?key=none&n=1"},
    {"target": "/x?key=[redacted:fedcba9876543210]&n=1"},
    {"method": "OPTIONS", "target": "*"},
    {"method": "PROPFIND", "target": "/%zz?q=%ff"},
    {"method": "POST", "target": "/k", "body": b'{"note": "********************, please"}'},
    {"method": "POST", "target": "/k", "body": b'{"note": "********************"}'},
    {"method": "POST", "target": "/k", "body": b'{"note": "********************, please"}'},
]  # fmt: skip


async def test_every_framing_with_every_ending_comes_back_as_recorded(builder):
    for recorded in EVERY_ENDING:
        builder.exchange(**recorded)

    found = await verify(builder.close())

    assert found.first is None
    assert (found.exchanges, found.same) == (len(EVERY_ENDING), True)


@pytest.mark.parametrize("recorded", UNUSUAL)
async def test_unusual_exchanges_come_back_as_recorded_between_ordinary_ones(builder, recorded):
    for each in (recorded, {"headers": LENGTH, "chunks": EVENTS}, recorded):
        builder.exchange(**each)

    found = await verify(builder.close())

    assert found.first is None


_INCOMPLETE = {Ending.SERVICE_RESET: "reset", Ending.CLIENT_CLOSED: "open", Ending.TIMED_OUT: "open"}
_LINE_BREAK = re.compile(r"\r\n(?![ \t])|\r(?!\n)|\0|(?<!\r)\n")
"""What would end a header."""


def expected_wire(recording: Recording, exchange: Exchange) -> tuple[bytes, bytes, str]:
    """Head, body and end (`usable`, `closed`, `reset` or `open`) of a response, by RFC 9112 and the recording alone."""
    response, ending = exchange.response, exchange.ending
    end = _INCOMPLETE.get(ending, "closed")
    if response is None:
        return b"", b"", end
    named = {name.lower(): value.lower() for name, value in reversed(response.headers)}
    coding = [value for name, value in response.headers if name.lower() == "transfer-encoding"][-1:]
    empty = exchange.request.method == "HEAD" or response.status in {101, 204, 304}
    length = int(named["content-length"]) if not coding and named.get("content-length", "").isdigit() else None
    added = response.http_version == "HTTP/2.0" and not coding and length is None and not empty
    chunked = not empty and (added or "".join(coding).lower().rstrip().endswith("chunked"))
    is_old = response.http_version == "HTTP/1.0"
    lines = [
        f"HTTP/1.{0 if is_old else 1} {response.status} {response.reason}",
        *(": ".join(each) for each in response.headers if each[0][0] != ":"),
    ]
    lines += ["Transfer-Encoding: chunked"] * added
    head = "".join(_LINE_BREAK.sub(" ", line) + "\r\n" for line in [*lines, ""])
    runs = () if empty else recording.body(exchange.number, Side.RESPONSE)
    chunks = [data for run in runs if isinstance(run, BytesArrived) for _, data in run.chunks() if data]
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk for chunk in chunks)
    is_whole = empty or sum(map(len, chunks)) == length
    if ending is Ending.COMPLETE and chunked:
        body, is_whole = body + b"0\r\n\r\n", True
    if is_whole and (ending is Ending.COMPLETE or end == "open"):
        stays = named.get("connection") == "keep-alive" if is_old else named.get("connection") != "close"
        end = "usable" if stays and response.status != 101 else "closed"
    return head.encode("latin-1"), body, end


@pytest.mark.parametrize("recorded", [*EVERY_ENDING, *UNUSUAL])
def test_the_bytes_and_the_end_on_the_wire_are_those_of_the_recording(builder, serve, call, recorded):
    builder.exchange(**recorded)
    builder.exchange(target="/next", headers=LENGTH, chunks=[b"x" * 28])
    path = builder.close()
    with open_recording(path) as recording:
        head, body, end = expected_wire(recording, recording.exchange(1))
    client = call(serve(path).url)
    client.ask(method=recorded.get("method", "GET"))
    if end == "usable":
        client.ask("/next")
        assert client.read_to(b"\r\n\r\n" + b"x" * 28).startswith(head + body + b"HTTP/1.1 200 OK\r\n")
    else:
        assert (received := client.read((head + body) if end == "open" else None)).data == head + body
        assert received.how == end


async def test_every_kind_of_request_gets_its_own_response(builder):
    for number, recorded in enumerate(REQUESTS):
        builder.exchange([b"%02d" % number], **recorded)

    found = await verify(builder.close())

    assert found.first is None
    assert (found.exchanges, found.size) == (len(REQUESTS), 2 * len(REQUESTS))


async def test_exchanges_bytes_chunks_and_gaps_are_counted(builder):
    builder.exchange(EVENTS)
    builder.exchange(EVENTS, headers=UNFRAMED, **HTTP2)
    builder.exchange([b"data: 1\n\n", GAP])

    found = await verify(builder.close())

    assert found.first is None
    assert (found.exchanges, found.size, found.chunks, found.http2, found.gaps) == (3, 2 * SIZE + 9, 7, 1, 7)


@pytest.fixture
def verify_against(new_builder, monkeypatch):
    """Verify one recording against a replay of another: `await verify_against(exchanges, others)`."""

    async def verify_replay(*exchanges: list[dict], timeout_s: float = 10) -> VerifyResult:
        paths = []
        for name, each in zip(("recorded.db", "served.db"), exchanges, strict=True):
            builder = new_builder(name)
            for exchange in each:
                builder.exchange(**{"chunks": EVENTS} | exchange)
            paths.append(builder.close())
        with open_recording(paths[1]) as served:
            player = verifier.VerbatimPlayer
            monkeypatch.setattr(verifier, "VerbatimPlayer", lambda _, *args, **how: player(served, *args, **how))
            return await verify(paths[0], timeout_s=timeout_s)

    return verify_replay


REQUEST = "exchange 1, GET /v1/sessions/s1/events/stream"
DIFFERENT = {
    "status": ({"status": 201}, "the head has 'HTTP/1.1 201 OK' where 'HTTP/1.1 200 OK' was recorded"),
    "reason": ({"reason": "\x1b[2J"}, "the head has 'HTTP/1.1 200 \\x1b[2J' where 'HTTP/1.1 200 OK' was recorded"),
    "case of a header": (
        {"headers": (("content-type", "text/event-stream"), CHUNKED[1])},
        "the head has 'content-type: text/event-stream' where 'Content-Type: text/event-stream' was recorded",
    ),
    "an added header": ({"headers": (*CHUNKED, ("Date", "today"))}, "the head has 'Date: today' where '' was recorded"),
    "a missing header": (
        {"headers": CHUNKED[1:]},
        "the head has 'Transfer-Encoding: chunked' where 'Content-Type: text/event-stream' was recorded",
    ),
    "a byte": (
        {"chunks": [EVENTS[0], b"data: two\r\n\r\n", EVENTS[3]]},
        "byte 13 of the body begins 'two\\r\\n\\r\\n' where 'one\\r\\n\\r\\n' was recorded",
    ),
    "a boundary": ({"chunks": [EVENTS[0] + EVENTS[2], EVENTS[3]]}, "chunk 1 has 20 bytes where 7 bytes were recorded"),
    "a later boundary": (
        {"chunks": [EVENTS[0], EVENTS[2][:6], EVENTS[2][6:], EVENTS[3]]},
        "chunk 2 has 6 bytes where 13 bytes were recorded",
    ),
    "a missing chunk": ({"chunks": EVENTS[:3]}, "the response ended before byte 20 of the body"),
    "an added chunk": ({"chunks": [*EVENTS, b"more"]}, "more data follows the 3 recorded chunks: 'more'"),
    "no response, closed": (
        {"status": None, "ending": Ending.SERVICE_CLOSED},
        "the connection was closed before the head",
    ),
    "no response, reset": (
        {"status": None, "ending": Ending.SERVICE_RESET},
        "the connection was reset before the head",
    ),
    "no response, held": ({"status": None, "ending": Ending.CLIENT_CLOSED}, "nothing more arrived before the head"),
    "cut": (
        {"chunks": EVENTS[:3], "ending": Ending.SERVICE_CLOSED},
        "the connection was closed before byte 20 of the body",
    ),
    "held": ({"ending": Ending.CLIENT_CLOSED}, "nothing more arrived before the end"),
}


@pytest.mark.parametrize("what", DIFFERENT)
async def test_a_difference_is_found_and_described(verify_against, what):
    change, difference = DIFFERENT[what]

    found = await verify_against([{}, {}], [change, {}], timeout_s=0.2 if "held" in what else 10)

    assert found.first == f"{REQUEST}: {difference}."
    assert (found.exchanges, found.different, found.same) == (2, 1, False)


ENDS = {
    Ending.COMPLETE: ("the response ended", "complete"),
    Ending.SERVICE_CLOSED: ("the connection was closed", "closed"),
    Ending.SERVICE_RESET: ("the connection was reset", "reset"),
    Ending.CLIENT_CLOSED: ("nothing more arrived", "left open without the end of the response"),
}


@pytest.mark.parametrize(
    ("recorded", "served"), [pair for pair in itertools.permutations(ENDS, 2) if pair[1] is not Ending.CLIENT_CLOSED]
)
@pytest.mark.parametrize("headers", [CHUNKED, UNFRAMED], ids=["chunked", "close"])
async def test_endings_are_distinguished(verify_against, headers, recorded, served):
    found = await verify_against([{"headers": headers, "ending": recorded}], [{"headers": headers, "ending": served}])

    assert (
        found.first
        == f"{REQUEST}: {ENDS[served][0]} after the last byte; in the recording, it was {ENDS[recorded][1]}."
    )


async def test_bytes_that_follow_a_response_that_was_left_open_are_found(verify_against):
    held = {"ending": Ending.CLIENT_CLOSED}

    found = await verify_against([held], [held | {"chunks": [*EVENTS, b"more"]}])

    assert found.first == f"{REQUEST}: more data follows the 3 recorded chunks: 'more'."


async def test_a_request_without_a_match_is_reported_with_its_reason_and_the_rest_is_compared(verify_against):
    found = await verify_against([{"target": "/a"}, {}], [{"target": "/b"}, {}])

    assert found.first == (
        "exchange 1, GET /a: no match: GET /a is out of order: the next recorded request is exchange 1, GET /b "
        "(differs in path)."
    )
    assert found.different == 1


async def test_a_request_that_cannot_be_sent_is_a_difference(builder):
    """An invalid method, from an imported recording."""
    builder.exchange(EVENTS, method="G\x00T")
    builder.exchange(EVENTS)

    found = await verify(builder.close())

    assert (found.exchanges, found.different) == (2, 1)
    assert (
        found.first == "exchange 1, G\\x00T /v1/sessions/s1/events/stream: the connection was closed before the head."
    )


async def test_an_empty_recording_is_the_same(builder):
    assert (await verify(builder.close())).same
