"""Every response ends as recorded, seen on a raw socket."""

import hashlib
import sqlite3

import pytest

from wiretape.observations import BytesLost, Ending, Side

STREAM = "/v1/sessions/s1/events/stream"
EVENTS = [b"id: 1\r\n", b"data: one\r\n\r\n", b"data: tw"]
BODY = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS)
LENGTH = (("Content-Type", "text/plain"), ("Content-Length", "100"))
NO_LENGTH = (("Content-Type", "text/plain"),)
CHUNKED = (("Content-Type", "text/plain"), ("Transfer-Encoding", "chunked"))
ENDS = {
    Ending.SERVICE_CLOSED: "closed",
    Ending.SERVICE_RESET: "reset",
    Ending.SERVICE_INVALID: "closed",
    Ending.CLIENT_CLOSED: "open",
    Ending.TIMED_OUT: "open",
    Ending.PROXY_STOPPED: "closed",
    Ending.OPEN: "closed",
}
"""What a client sees of the connection after an incomplete response."""


@pytest.mark.parametrize(
    ("ending", "how", "tail"),
    [
        (Ending.COMPLETE, "open", b"0\r\n\r\n"),
        (Ending.SERVICE_CLOSED, "closed", b""),
        (Ending.SERVICE_RESET, "reset", b""),
        (Ending.SERVICE_INVALID, "closed", b""),
        (Ending.CLIENT_CLOSED, "open", b""),
        (Ending.TIMED_OUT, "open", b""),
        (Ending.PROXY_STOPPED, "closed", b""),
        (Ending.OPEN, "closed", b""),
    ],
)
def test_a_chunked_response_ends_as_recorded(builder, serve, call, ending, how, tail):
    builder.exchange(EVENTS, ending=ending)
    replay = serve(builder.close())
    caller = call(replay.url)
    caller.ask()

    seen = caller.read(BODY + tail if how == "open" else None)

    assert seen.body == BODY + tail
    assert seen.how == how


@pytest.mark.parametrize("headers", [LENGTH, NO_LENGTH], ids=["content-length", "close-delimited"])
@pytest.mark.parametrize(("ending", "how"), [(Ending.COMPLETE, "closed"), *ENDS.items()])
def test_a_response_without_chunks_ends_as_recorded(builder, serve, call, headers, ending, how):
    builder.exchange(EVENTS, headers=headers, ending=ending)
    replay = serve(builder.close())
    caller = call(replay.url)
    caller.ask()

    seen = caller.read(b"".join(EVENTS) if how == "open" else None)

    assert seen.body == b"".join(EVENTS)
    assert seen.how == how


@pytest.mark.parametrize(
    ("ending", "how"),
    [
        (Ending.SERVICE_UNREACHABLE, "closed"),
        (Ending.SERVICE_CLOSED, "closed"),
        (Ending.SERVICE_RESET, "reset"),
        (Ending.CLIENT_CLOSED, "open"),
        (Ending.OPEN, "closed"),
    ],
)
def test_a_request_without_a_recorded_response_gets_no_bytes(builder, serve, call, ending, how):
    builder.exchange(status=None, ending=ending)
    replay = serve(builder.close())
    caller = call(replay.url)
    caller.ask()

    seen = caller.read(b"" if how == "open" else None)

    assert (seen.data, seen.how) == (b"", how)
    assert replay.served[0].status is None


WHOLE = (("Content-Type", "text/plain"), ("Content-Length", "28"))


@pytest.mark.parametrize(("ending", "how"), [(Ending.COMPLETE, "open"), *ENDS.items()])
def test_a_complete_response_ends_as_recorded(builder, serve, call, ending, how):
    builder.exchange(EVENTS, headers=WHOLE, ending=ending)
    caller = call(serve(builder.close()).url)
    caller.ask()

    seen = caller.read(b"".join(EVENTS) if how == "open" else None)

    assert (seen.body, seen.how) == (b"".join(EVENTS), how)


@pytest.mark.parametrize(
    "recorded",
    [{"method": "HEAD"}, {"status": 204, "headers": NO_LENGTH}, {"status": 304}],
    ids=["HEAD", "204", "304"],
)
@pytest.mark.parametrize(("ending", "how"), [(Ending.COMPLETE, "open"), *ENDS.items()])
def test_a_response_without_a_body_ends_as_recorded(builder, serve, call, recorded, ending, how):
    builder.exchange(**{"headers": LENGTH} | recorded, ending=ending)
    caller = call(serve(builder.close()).url)
    caller.ask(method=recorded.get("method", "GET"))

    seen = caller.read(b"\r\n\r\n" if how == "open" else None)

    assert (seen.body, seen.how) == (b"", how)


def test_switching_protocols_is_the_last_response_of_a_connection(builder, serve, call):
    """The new protocol is not implemented, and recordings do not contain it."""
    switch = (("Connection", "Upgrade"), ("Upgrade", "something"))
    builder.exchange(status=101, reason="Switching Protocols", headers=switch)
    caller = call(serve(builder.close()).url)
    caller.ask(extra="Connection: Upgrade\r\nUpgrade: something\r\n")

    seen = caller.read()

    assert seen.data == b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: something\r\n\r\n"
    assert seen.how == "closed"


@pytest.mark.parametrize(
    ("headers", "sent"),
    [(CHUNKED, NO_LENGTH), (LENGTH, LENGTH), (NO_LENGTH, NO_LENGTH)],
    ids=["chunked", "content-length", "close-delimited"],
)
@pytest.mark.parametrize(("ending", "how"), [(Ending.COMPLETE, "closed"), *ENDS.items()])
def test_an_http_1_0_client_gets_no_chunks_and_the_recorded_ending(builder, serve, call, headers, sent, ending, how):
    builder.exchange(EVENTS, headers=headers, ending=ending)
    caller = call(serve(builder.close()).url)
    caller.ask(version="HTTP/1.0")

    seen = caller.read(b"".join(EVENTS) if how == "open" else None)

    lines = [b"HTTP/1.1 200 OK", *(f"{name}: {value}".encode() for name, value in sent)]
    assert seen.data == b"\r\n".join([*lines, b"", b"".join(EVENTS)])
    assert seen.how == how


@pytest.mark.parametrize(
    ("headers", "how"),
    [(WHOLE, "open"), (NO_LENGTH, "closed"), (CHUNKED, "closed")],
    ids=["length", "close", "chunked"],
)
def test_an_http_1_0_client_can_keep_the_connection_if_the_length_is_known(builder, serve, call, headers, how):
    builder.exchange(EVENTS, headers=headers)
    caller = call(serve(builder.close()).url)
    caller.ask(version="HTTP/1.0", extra="Connection: keep-alive\r\n")

    seen = caller.read(b"".join(EVENTS) if how == "open" else None)

    assert (seen.body, seen.how) == (b"".join(EVENTS), how)


@pytest.mark.parametrize("size", [16 * 1024 * 1024, 200_000], ids=["more than buffers hold", "less than buffers hold"])
def test_a_slow_client_gets_every_byte_before_a_reset(builder, serve, call, size):
    """The client begins to read late; until then, most bytes are buffered by the server or its system."""
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    chunks = [data[at : at + 50_000] for at in range(0, size, 50_000)]
    builder.exchange(chunks, headers=NO_LENGTH, ending=Ending.SERVICE_RESET)
    replay = serve(builder.close())
    caller = call(replay.url, receive_buffer=4096)
    caller.ask()
    caller.read_past(b"\r\n\r\n")

    # When these requests have their responses, the first request had many turns.
    second = call(replay.url)
    for _ in range(20):
        second.ask("/nothing")
        second.read_past(b"}}\n")
    seen = caller.read()

    assert seen.how == "reset"
    assert hashlib.sha256(seen.data).digest() == hashlib.sha256(data).digest()


def test_a_connection_is_reusable_if_the_client_had_received_everything(builder, serve, call):
    """In the recording, the client disconnected before the end, but no byte was missing."""
    builder.exchange([b"x" * 100], headers=LENGTH, ending=Ending.CLIENT_CLOSED)
    builder.exchange([b"y" * 100], headers=LENGTH)
    replay = serve(builder.close())
    caller = call(replay.url)
    caller.ask()
    caller.read_past(b"x" * 100)

    caller.ask()

    assert caller.read_past(b"y" * 100).startswith(b"HTTP/1.1 200 OK\r\n")


def test_lost_bytes_are_left_out_with_a_warning(builder, serve, call):
    lines = []
    gap = BytesLost(0, 0, Side.RESPONSE, 0, 7, "disk full")
    builder.exchange([b"data: 1\n\n", gap, b"data: 3\n\n"])
    replay = serve(builder.close(), log=lines.append)
    caller = call(replay.url)
    caller.ask()

    assert caller.read(b"0\r\n\r\n").body == b"9\r\ndata: 1\n\n\r\n9\r\ndata: 3\n\n\r\n0\r\n\r\n"
    assert lines == [
        f"GET {STREAM} → exchange 1, 200 (warning: 7 bytes not recorded, and therefore left out)",
    ]


def test_a_response_shorter_than_its_length_closes_the_connection(builder, serve, call):
    gap = BytesLost(0, 0, Side.RESPONSE, 0, 60, "disk full")
    builder.exchange([b"x" * 40, gap], headers=LENGTH)
    replay = serve(builder.close())
    caller = call(replay.url)
    caller.ask()

    seen = caller.read()

    assert (seen.body, seen.how) == (b"x" * 40, "closed")


@pytest.mark.parametrize("lie", ["[1, 0]", "[5, 0, 99999, 1]", "[-1, 0]", "no json", '["a", "b"]', "{}"])
def test_a_damaged_body_ends_the_connection_with_one_sentence(builder, serve, call, lie):
    builder.exchange([b"a", b"bc", b"d"])
    path, lines = builder.close(), []
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE segment SET chunks = ?", (lie,))
    caller = call(serve(path, log=lines.append).url)
    caller.ask()

    assert caller.read().how == "closed"
    assert [line for line in lines if line.startswith("Error: ")] == [lines[-1]]
    assert "is damaged: " in lines[-1]
