"""`wiretape replay --verify`: equal responses are found equal, and every kind of difference is found."""

import itertools
import math

import pytest

from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import open_recording
from wiretape_replay.http_server.aiohttp_server import HttpServer
from wiretape_replay.verbatim.request_matching import Matching, Order
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer
from wiretape_replay.verbatim.verifier import VerifyResult, _Verifier, verify

CHUNKED = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
LENGTH = (("Content-Type", "text/plain"), ("Content-Length", "28"))
SHORT = (("Content-Type", "text/plain"), ("Content-Length", "100"))
UNFRAMED = (("Content-Type", "text/plain"),)
EVENTS = [b"id: 1\r\n", b"", b"data: one\r\n\r\n", b"data: tw"]
SIZE = len(b"".join(EVENTS))
HTTP2 = {"version": "HTTP/2.0", "reason": ""}
GAP = BytesLost(0, 0, Side.RESPONSE, 0, 7, "disk full")

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
    {"headers": (("Transfer-Encoding", "gzip"),), "chunks": EVENTS},
    {"headers": (("Transfer-Encoding", "gzip, chunked"),), "chunks": EVENTS},
    {"headers": (("Transfer-Encoding", "gzip"), ("transfer-encoding", "chunked")), "chunks": EVENTS},
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
    {"method": "POST", "target": "/runs", "body": BytesLost(0, 0, Side.REQUEST, 0, 9, "disk full")},
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


async def verify_against(recorded, served) -> VerifyResult:
    """Verify one recording against a replay of another one, on a machine so slow that every wait times out."""
    with open_recording(recorded) as recording, open_recording(served) as other:
        player = VerbatimPlayer(other, math.inf, matching=Matching(order=Order.STRICT))
        server = HttpServer(player.respond)
        try:
            return await _Verifier(recording, player, await server.start("127.0.0.1", 0), 0.001).run()
        finally:
            await server.stop()


DIFFERENT = {
    "status": ({"status": 201}, "the head has 'HTTP/1.1 201 OK' where 'HTTP/1.1 200 OK' was recorded"),
    "reason": ({"reason": "\x1b[2J"}, "the head has 'HTTP/1.1 200 \\x1b[2J' where 'HTTP/1.1 200 OK' was recorded"),
    "case of a header": (
        {"headers": (("content-type", "text/event-stream"), CHUNKED[1])},
        "the head has 'content-type: text/event-stream' where 'Content-Type: text/event-stream' was recorded",
    ),
    "an added header": (
        {"headers": (*CHUNKED, ("Date", "today"))},
        "the head has 'Date: today' where '' was recorded",
    ),
    "a missing header": (
        {"headers": CHUNKED[1:]},
        "the head has 'Transfer-Encoding: chunked' where 'Content-Type: text/event-stream' was recorded",
    ),
    "a byte": (
        {"chunks": [EVENTS[0], b"data: two\r\n\r\n"]},
        "byte 13 of the body begins 'two\\r\\n\\r\\n\\r\\n0\\r\\n\\r\\n' where 'one\\r\\n\\r\\n' was recorded",
    ),
    "a boundary": (
        {"chunks": [EVENTS[0] + EVENTS[2], EVENTS[3]]},
        "chunk 1 has 20 bytes where 7 bytes were recorded",
    ),
    "a later boundary": (
        {"chunks": [EVENTS[0], EVENTS[2][:6], EVENTS[2][6:], EVENTS[3]]},
        "chunk 2 has 6 bytes where 13 bytes were recorded",
    ),
    "a missing chunk": ({"chunks": EVENTS[:3]}, "chunk 3 has 0 bytes where 8 bytes were recorded"),
    "an added chunk": (
        {"chunks": [*EVENTS, b"more"]},
        "more data follows the 3 recorded chunks: '4\\r\\nmore\\r\\n0\\r\\n\\r\\n'",
    ),
    "no response, closed": (
        {"status": None, "ending": Ending.SERVICE_CLOSED},
        "the connection was closed after 0 of the 80 bytes of the head",
    ),
    "no response, reset": (
        {"status": None, "ending": Ending.SERVICE_RESET},
        "the connection was reset after 0 of the 80 bytes of the head",
    ),
    "closed": (
        {"ending": Ending.SERVICE_CLOSED},
        "the connection was closed instead of the chunk that ends the body",
    ),
    "reset": ({"ending": Ending.SERVICE_RESET}, "the connection was reset instead of the chunk that ends the body"),
    "held": ({"ending": Ending.CLIENT_CLOSED}, "nothing more arrived instead of the chunk that ends the body"),
    "cut": (
        {"chunks": EVENTS[:3], "ending": Ending.SERVICE_CLOSED},
        "the connection was closed before byte 20 of the body",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
async def test_a_difference_is_found_and_described(new_builder, what):
    change, difference = DIFFERENT[what]
    recorded, served = new_builder("recorded.db"), new_builder("served.db")
    for builder, changed in ((recorded, {}), (served, change)):
        builder.exchange(**{"chunks": EVENTS, "headers": CHUNKED} | changed)
        builder.exchange(EVENTS)

    found = await verify_against(recorded.close(), served.close())

    assert found.first == f"exchange 1, GET /v1/sessions/s1/events/stream: {difference}."
    assert (found.exchanges, found.different, found.same) == (2, 1, False)


ENDS = [Ending.SERVICE_CLOSED, Ending.SERVICE_RESET, Ending.CLIENT_CLOSED]
STATES = {
    Ending.SERVICE_CLOSED: "the connection was closed",
    Ending.SERVICE_RESET: "the connection was reset",
    Ending.CLIENT_CLOSED: "nothing more arrived",
}
EXPECTED = {
    Ending.SERVICE_CLOSED: "closed",
    Ending.SERVICE_RESET: "reset",
    Ending.CLIENT_CLOSED: "left open without the end of the response",
}


@pytest.mark.parametrize(("recorded", "served"), list(itertools.permutations(ENDS, 2)))
@pytest.mark.parametrize("headers", [CHUNKED, SHORT, UNFRAMED], ids=["chunked", "length", "close"])
async def test_endings_are_distinguished(new_builder, headers, recorded, served):
    paths = []
    for name, ending in (("recorded.db", recorded), ("served.db", served)):
        builder = new_builder(name)
        builder.exchange(EVENTS, headers=headers, ending=ending)
        paths.append(builder.close())

    found = await verify_against(*paths)

    assert found.first == (
        f"exchange 1, GET /v1/sessions/s1/events/stream: "
        f"{STATES[served]} after the last byte; in the recording, it was {EXPECTED[recorded]}."
    )


@pytest.mark.parametrize("served", [Ending.COMPLETE, Ending.SERVICE_CLOSED])
async def test_bytes_after_the_recorded_ones_are_found_without_framing(new_builder, served):
    paths = []
    for name, chunks in (("recorded.db", EVENTS), ("served.db", [*EVENTS, b"more"])):
        builder = new_builder(name)
        builder.exchange(chunks, headers=UNFRAMED, ending=served)
        paths.append(builder.close())

    found = await verify_against(*paths)

    assert found.first.endswith(f": more data follows the recorded {SIZE} bytes of body: 'more'.")


async def test_a_request_without_a_match_is_reported_with_its_reason_and_the_rest_is_compared(new_builder):
    recorded, served = new_builder("recorded.db"), new_builder("served.db")
    for builder, target in ((recorded, "/a"), (served, "/b")):
        builder.exchange(EVENTS, target=target)
        builder.exchange(EVENTS)

    found = await verify_against(recorded.close(), served.close())

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
    assert found.first.startswith("exchange 1, G\\x00T /v1/sessions/s1/events/stream: the head has 'HTTP/1.0 400 ")


async def test_an_empty_recording_is_the_same(builder):
    assert (await verify(builder.close())).same
