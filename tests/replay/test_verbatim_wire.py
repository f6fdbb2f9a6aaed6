"""The exact bytes on the wire, and connections that are shared, slow or interrupted."""

import asyncio
import hashlib
import json
import math
import threading
from contextlib import closing

import pytest

from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import open_recording
from wiretape_replay.http_server.aiohttp_server import HttpServer
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer

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


@pytest.mark.parametrize(
    ("recorded", "wire"),
    [
        (
            {"headers": (("Content-Length", "5"),), "chunks": [b"ab", b"cde"]},
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        ),
        ({"headers": (), "chunks": [b"ab", b"cde"]}, b"HTTP/1.1 200 OK\r\n\r\nabcde"),
        (
            {"headers": (("Connection", "close"), ("Content-Length", "0")), "reason": ""},
            b"HTTP/1.1 200 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        ),
        ({"status": 204, "reason": "No Content", "headers": ()}, b"HTTP/1.1 204 No Content\r\n\r\n"),
        (
            {"status": 304, "reason": "Not Modified", "headers": (("Content-Length", "12"),)},
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n",
        ),
        (
            {"method": "HEAD", "headers": (("Transfer-Encoding", "chunked"),)},
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ),
        (
            {"version": "HTTP/1.0", "headers": (), "chunks": [b"old"]},
            b"HTTP/1.0 200 OK\r\n\r\nold",
        ),
        (
            {"version": "HTTP/2.0", "reason": "", "headers": (("content-type", "text/plain"),), "chunks": [b"x"]},
            b"HTTP/1.1 200 \r\ncontent-type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        ),
        (
            {"version": "HTTP/2.0", "reason": "", "headers": (("content-length", "3"),), "chunks": [b"a", b"", b"bc"]},
            b"HTTP/1.1 200 \r\ncontent-length: 3\r\n\r\nabc",
        ),
        ({"chunks": [b"a", b"", b"b"], "headers": (("Transfer-Encoding", "chunked"),)},
         b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"),
    ],
    ids=["length", "close-delimited", "empty", "204", "304", "HEAD", "HTTP/1.0", "HTTP/2", "HTTP/2-length", "no-data"],
)  # fmt: skip
def test_each_framing_is_kept(builder, serve, call, recorded, wire):
    builder.exchange(**recorded)
    caller = call(serve(builder.close()).url)
    caller.ask(method=recorded.get("method", "GET"), extra="Connection: close\r\n")

    seen = caller.read()

    assert (seen.data, seen.how) == (wire, "closed")


@pytest.mark.parametrize(
    ("headers", "version", "how"),
    [
        ((("Content-Length", "1"),), "HTTP/1.1", "open"),
        ((("Content-Length", "1"), ("Connection", "Close")), "HTTP/1.1", "closed"),
        ((("Content-Length", "1"),), "HTTP/1.0", "closed"),
        ((("Content-Length", "1"), ("Connection", "keep-alive")), "HTTP/1.0", "open"),
        ((("Transfer-Encoding", "chunked"),), "HTTP/1.1", "open"),
        ((), "HTTP/1.1", "closed"),
    ],
)
def test_the_connection_stays_open_if_the_recorded_one_could_be_reused(builder, serve, call, headers, version, how):
    builder.exchange([b"x"], headers=headers, version=version)
    caller = call(serve(builder.close()).url)
    caller.ask()

    assert caller.read((b"\r\n\r\nx", b"\r\n0\r\n\r\n") if how == "open" else None).how == how


def test_an_http_1_0_client_gets_no_chunks(builder, serve, call):
    builder.exchange([b"data: 1\n\n"])
    caller = call(serve(builder.close()).url)
    caller.ask(version="HTTP/1.0")

    seen = caller.read()

    assert seen.data == b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
    assert seen.how == "closed"


def test_line_breaks_in_headers_become_spaces(builder, serve, call):
    """An imported recording can contain any text; a folded line, which a service may send, is kept."""
    builder.exchange(
        reason="OK\r\nX: 1",
        headers=(
            ("A", "1\r\n\r\nboo"),
            ("B\r\nC", "2\n3\r4\0"),
            ("D", "5\r\n 6"),
            (":e", "7"),
            ("Connection", "close"),
        ),
    )
    caller = call(serve(builder.close()).url)
    caller.ask(extra="Connection: close\r\n")

    assert caller.read().data == (
        b"HTTP/1.1 200 OK X: 1\r\nA: 1  boo\r\nB C: 2 3 4 \r\nD: 5\r\n 6\r\nConnection: close\r\n\r\n"
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


def test_the_same_requests_give_the_same_bytes(new_builder, serve, call):
    """All bytes on the wire, including misses, in two runs."""
    builder = new_builder("same.db")
    builder.exchange([b"data: 1\n\n"])
    builder.exchange([b"no"], status=404, reason="Not Found", headers=(("Content-Length", "2"),), target="/no")
    path = builder.close()
    seen = []
    for _ in range(2):
        caller = call(serve(path).url)
        for target in ("/v1/sessions/s1/events/stream", "/no", "/none"):
            caller.ask(target)
        caller.ask("/none", extra="Connection: close\r\n")
        seen.append(hashlib.sha256(caller.read().data).hexdigest())

    assert seen[0] == seen[1]


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
def test_malformed_requests_get_a_400_and_are_logged(builder, serve, call, nonsense):
    lines = []
    caller = call(serve(builder.close(), log=lines.append).url)
    caller.socket.sendall(nonsense)

    seen = caller.read()

    head, _, body = seen.data.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 400 Bad Request",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        b"Connection: close",
    ]
    assert (json.loads(body)["error"]["code"], seen.how) == ("invalid_request", "closed")
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


@pytest.mark.parametrize("body", [None, BytesLost(0, 0, Side.REQUEST, 0, 9, "disk full")], ids=["cut", "lost"])
def test_an_incomplete_recorded_request_body_matches_any_body(builder, serve, call, body):
    for recorded in (b"one", body, b"two"):
        builder.exchange(method="POST", target="/runs", body=recorded, headers=(("Content-Length", "0"),))
    replay = serve(builder.close())
    caller = call(replay.url)
    for asked in (b"two", b"other"):
        caller.post("/runs", asked)
        caller.read_past(b"\r\n\r\n")

    assert [served.exchange for served in replay.served] == [3, 2]


def test_an_encoded_request_body_is_compared_without_decoding(builder, serve, call):
    """The recording contains the bytes on the wire: nothing is decoded."""
    for body in (b"\x1f\x8bnot really gzip", b"\x1f\x8bnor this"):
        builder.exchange(method="POST", target="/runs", body=body, headers=(("Content-Length", "0"),))
    replay = serve(builder.close())
    caller = call(replay.url)
    caller.post("/runs", b"\x1f\x8bnor this", "Content-Encoding: gzip\r\nConnection: close\r\n")
    caller.read()

    assert [served.exchange for served in replay.served] == [2]


@pytest.mark.parametrize(
    "headers",
    [(("Transfer-Encoding", "chunked"),), (("Content-Length", "6"),), ()],
    ids=["chunked", "content-length", "close-delimited"],
)
async def test_each_recorded_chunk_is_written_separately_with_any_framing(builder, headers):
    """Without chunked framing, a client sees the boundaries only by their time."""
    builder.exchange([b"a", b"bcd", b"ef"], headers=headers)
    parts = []
    with open_recording(builder.close()) as recording:
        front = HttpServer(
            VerbatimPlayer(recording, math.inf).respond,
            lambda _: None,
            lambda _: parts.append,
        )
        host, _, port = (await front.start("127.0.0.1", 0)).removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /v1/sessions/s1/events/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await reader.read()
        writer.close()
        await front.stop()

    assert [part for part in parts if isinstance(part, bytes)] == [b"a", b"bcd", b"ef"]


@pytest.mark.parametrize("lines", [("gzip", "chunked"), ("gzip, Chunked",), ("chunked ",)])
def test_the_last_transfer_coding_decides_the_framing(builder, serve, call, lines):
    builder.exchange([b"a"], headers=tuple(("Transfer-Encoding", line) for line in lines))
    caller = call(serve(builder.close()).url)
    caller.ask(extra="Connection: close\r\n")

    assert caller.read().body == b"1\r\na\r\n0\r\n\r\n"


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
