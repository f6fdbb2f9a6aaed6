"""The exact bytes on the wire, and connections that are shared, slow or interrupted."""

import hashlib
import json
import sqlite3
import threading
from contextlib import closing

import pytest

from wiretape.observations import Ending

HEADERS = (
    ("X-b", "2"),
    ("x-A", "1"),
    ("Content-Type", "text/event-stream"),
    ("Link", "<a>"),
    ("TRANSFER-encoding", "chunked"),
    ("Link", "<\xe9>"),
    ("Empty", ""),
)


def test_the_head_is_exactly_the_recorded_one(builder, serve, call):
    """Order, case, repetition and bytes over 127 are kept; no Date and Server are added."""
    builder.exchange([b"data: 1\n\n", b"data: 2\n\n"], headers=HEADERS, reason="Fine By Me", status=203)
    caller = call(serve(builder.close()).url)
    caller.ask(extra="Connection: close\r\n")

    assert caller.read().data == (
        b"HTTP/1.1 203 Fine By Me\r\nX-b: 2\r\nx-A: 1\r\nContent-Type: text/event-stream\r\nLink: <a>\r\n"
        b"TRANSFER-encoding: chunked\r\nLink: <\xe9>\r\nEmpty: \r\n\r\n"
        b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"
    )


def test_a_connection_serves_many_requests_with_and_without_pipelining(builder, serve, call):
    for number in range(5):
        builder.exchange([b"%d" % number], headers=(("Content-Length", "1"),))
    caller = call(serve(builder.close()).url)
    for _ in range(4):
        caller.ask()
    caller.ask(extra="Connection: close\r\n")

    one = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d"

    assert caller.read().data == b"".join(one % number for number in range(5))


def test_a_miss_is_a_501_in_the_error_envelope(builder, serve, call):
    builder.exchange([b"data: 1\n\n"], target="/v1/sessions/s1/events/stream")
    replay = serve(builder.close())
    caller = call(replay.url)
    caller.ask("/v1/sessions/s2/events/stream", extra="Connection: close\r\n")

    seen = caller.read()

    assert seen.body == (
        b'{"error":{"code":"wiretape_no_match","message":"GET /v1/sessions/s2/events/stream was not recorded. '
        b'Closest: exchange 1, GET /v1/sessions/s1/events/stream (differs in path).","request_id":"wiretape-1"}}\n'
    )
    assert seen.head == (
        b"HTTP/1.1 501 Not Implemented\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\nX-Wiretape: no-match\r\n\r\n" % len(seen.body)
    )
    assert [miss.target for miss in replay.misses] == ["/v1/sessions/s2/events/stream"]
    assert [entry.number for entry in replay.unconsumed] == [1]


@pytest.mark.parametrize("target", ["*", "/%0a", "//x:80/", "/%zz", "/?" + "q" * 100_000, "http://x/y?z", "/v1"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "HEAD", "PROPFIND"])
def test_unusual_requests_never_get_an_empty_200(builder, serve, call, method, target):
    if target == "*":
        method = "OPTIONS"  # it is no target for any other method
    builder.exchange([b"data: 1\n\n"])
    caller = call(serve(builder.close()).url)
    caller.ask(target, method=method, extra="Connection: close\r\n")

    seen = caller.read()

    assert seen.data.startswith(b"HTTP/1.1 501 Not Implemented\r\n")
    assert (seen.body == b"") == (method == "HEAD")


@pytest.mark.parametrize(
    "nonsense", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / b HTTP/1.1\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"]
)
@pytest.mark.parametrize("contract", ["agent-sessions", "sse"])
def test_malformed_requests_get_a_400_and_are_logged(builder, serve, call, nonsense, contract):
    lines = []
    caller = call(serve(builder.close(), log=lines.append, contract=contract).url)
    caller.socket.sendall(nonsense)

    seen = caller.read()

    head, _, body = seen.data.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 400 Bad Request",
        b"Content-Type: application/json"
        if contract == "agent-sessions"
        else b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: %d" % len(body),
        b"Connection: close",
    ]
    assert seen.how == "closed"
    if contract == "agent-sessions":
        assert json.loads(body)["error"]["code"] == "invalid_request"
    else:
        assert body.startswith((b"Malformed request: ", b"Unknown method "))
    assert len(lines) == 1
    assert lines[0].startswith("Malformed request → 400: ")


@pytest.mark.parametrize("head", [b"Authorization: Bearer hush\xff\x1b\r\n\r\n", b"a: b\nX-API-KEY:hush\n\n"])
def test_the_log_line_of_a_malformed_request_contains_no_secret(builder, serve, call, head):
    lines = []
    caller = call(serve(builder.close(), log=lines.append).url)
    caller.socket.sendall(b"GET / HTTP/1.1" + (b"\n" if b"\r" not in head else b"\r\n") + head)

    caller.read()

    (line,) = lines
    assert line.endswith(": …")
    assert "hush" not in line


def test_a_post_is_matched_by_its_body_with_any_framing(builder, serve, call):
    """Also with `Expect: 100-continue`, which requests an interim response."""
    for number in (1, 2):
        builder.exchange(
            [b"%d" % number],
            method="POST",
            target="/runs",
            body=b'{"n": %d}' % number,
            headers=(("Content-Length", "1"),),
        )
    caller = call(serve(builder.close()).url)
    caller.ask("/runs", method="POST", extra="Transfer-Encoding: chunked\r\n")
    caller.socket.sendall(b'4\r\n{"n"\r\n3\r\n:2}\r\n0\r\n\r\n')
    assert caller.read_past(b"\r\n\r\n2").startswith(b"HTTP/1.1 200 OK\r\n")

    caller.ask("/runs", method="POST", extra="Content-Length: 8\r\nExpect: 100-continue\r\n")
    assert caller.read_past(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    caller.socket.sendall(b'{"n": 1}')
    assert caller.read_past(b"\r\n\r\n1").startswith(b"HTTP/1.1 200 OK\r\n")


def test_an_encoded_request_body_is_compared_without_decoding(builder, serve, call):
    """The recording contains the bytes on the wire: nothing is decoded."""
    for body in (b"\x1f\x8bnot really gzip", b"\x1f\x8bnor this"):
        builder.exchange(method="POST", target="/runs", body=body, headers=(("Content-Length", "0"),))
    replay = serve(builder.close())
    caller = call(replay.url)
    caller.post("/runs", b"\x1f\x8bnor this", "Content-Encoding: gzip\r\nConnection: close\r\n")
    caller.read()

    assert [served.exchange for served in replay.served] == [2]


def test_a_large_body_arrives_completely_while_another_client_does_not_read(builder, serve, call):
    """40 MB in chunks of 64 KB; the first client reads only the head until the second is done."""
    chunks = [bytes([number % 251]) * 65_536 for number in range(640)]
    for _ in range(2):
        builder.exchange(chunks, headers=(("Content-Type", "application/octet-stream"),))
    expected = hashlib.sha256(b"".join(chunks)).hexdigest()
    url = serve(builder.close()).url
    lazy, eager = call(url), call(url)
    lazy.ask()
    lazy.read_past(b"\r\n\r\n")

    eager.ask()

    assert hashlib.sha256(eager.read().body).hexdigest() == expected
    assert hashlib.sha256(lazy.read().data).hexdigest() == expected


def test_streams_do_not_wait_for_each_other(builder, serve, call):
    """Twenty clients keep a silent stream open; another client gets its response."""
    for _ in range(20):
        builder.exchange([b"data: 1\n\n"], ending=Ending.CLIENT_CLOSED)
    builder.exchange([b"data: 2\n\n"])
    url = serve(builder.close()).url
    waiting = [call(url) for _ in range(20)]
    for caller in waiting:
        caller.ask()
        caller.read_past(b"data: 1\n\n\r\n")

    last = call(url)
    last.ask(extra="Connection: close\r\n")

    assert last.read().body == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"


def test_a_disconnecting_client_ends_only_its_own_response(builder, serve, call):
    """One client disconnects during a wait; the other gets everything."""
    for _ in range(2):
        builder.exchange([b"data: 1\n\n", (300, b"data: 2\n\n")])
    url = serve(builder.close(), speed=1).url
    stays = call(url)
    stays.ask(extra="Connection: close\r\n")
    stays.read_past(b"data: 1\n\n\r\n")
    with closing(call(url)) as leaves:
        leaves.ask()
        leaves.read_past(b"data: 1\n\n\r\n")

    assert stays.read().data == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"


def test_a_client_that_disconnects_during_its_upload_consumes_no_response(builder, serve, call):
    builder.exchange(method="POST", target="/runs", body=b"x" * 10, headers=(("Content-Length", "0"),))
    replay = serve(builder.close())
    with closing(call(replay.url)) as leaves:
        leaves.ask("/runs", method="POST", extra="Content-Length: 10\r\n")
        leaves.socket.sendall(b"xxx")
    caller = call(replay.url)
    caller.ask("/other", extra="Connection: close\r\n")
    caller.read()

    assert [entry.number for entry in replay.unconsumed] == [1]


def test_concurrent_clients_share_the_recorded_responses(builder, serve, call):
    for number in range(50):
        builder.exchange([b"%02d" % number], headers=(("Content-Length", "2"),))
    replay = serve(builder.close())
    answers = []

    def client() -> None:
        with closing(call(replay.url)) as caller:
            for _ in range(5):
                caller.ask()
                answers.append(caller.read_past(b"\r\n\r\n") and caller.socket.recv(2))

    threads = [threading.Thread(target=client) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == [b"%02d" % number for number in range(50)]
    assert replay.unconsumed == []


# Endings, and clients of HTTP/1.0; test_verify derives what clients of HTTP/1.1 get.

STREAM = "/v1/sessions/s1/events/stream"
EVENTS = [b"id: 1\r\n", b"data: one\r\n\r\n", b"data: tw"]
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


WHOLE = (("Content-Type", "text/plain"), ("Content-Length", "28"))


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
    gap = 7
    builder.exchange([b"data: 1\n\n", gap, b"data: 3\n\n"])
    replay = serve(builder.close(), log=lines.append)
    caller = call(replay.url)
    caller.ask()

    assert caller.read(b"0\r\n\r\n").body == b"9\r\ndata: 1\n\n\r\n9\r\ndata: 3\n\n\r\n0\r\n\r\n"
    assert lines == [f"GET {STREAM} → exchange 1, 200 (warning: 7 bytes not recorded, and therefore left out)"]


def test_a_response_shorter_than_its_length_closes_the_connection(builder, serve, call):
    gap = 60
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
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE segment SET chunks = ?", (lie,))
    caller = call(serve(path, log=lines.append).url)
    caller.ask()

    assert caller.read().how == "closed"
    assert [line for line in lines if line.startswith("Error: ")] == [lines[-1]]
    assert "is damaged: " in lines[-1]
