"""What is on the wire, byte for byte, and what happens on connections that are shared, slow or cut."""

import asyncio
import hashlib
import json
import math
import threading
from contextlib import closing

import pytest

from wiretape.observations import BytesLost, Ending, Side
from wiretape.recording import open_recording
from wiretape_replay.http_server.server import HttpServer
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


def test_the_head_is_the_recorded_one_and_nothing_more(reel, serve, call):
    """Order, case, repetition and bytes over 127 as they were; no Date and no Server of our own."""
    reel.exchange([b"data: 1\n\n", b"data: 2\n\n"], headers=HEADERS, reason="Fine By Me", status=203)
    caller = call(serve(reel.close()).url)
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
def test_each_framing_is_kept(reel, serve, call, recorded, wire):
    reel.exchange(**recorded)
    caller = call(serve(reel.close()).url)
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
def test_the_connection_stays_open_if_the_recorded_one_could(reel, serve, call, headers, version, how):
    reel.exchange([b"x"], headers=headers, version=version)
    caller = call(serve(reel.close()).url)
    caller.ask()

    assert caller.read((b"\r\n\r\nx", b"\r\n0\r\n\r\n") if how == "open" else None).how == how


def test_a_client_that_knows_no_chunks_gets_none(reel, serve, call):
    reel.exchange([b"data: 1\n\n"])
    caller = call(serve(reel.close()).url)
    caller.ask(version="HTTP/1.0")

    seen = caller.read()

    assert seen.data == b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
    assert seen.how == "closed"


def test_what_would_split_a_head_cannot(reel, serve, call):
    """A recording from somebody else may hold any text; a folded line, which a service may send, stays."""
    reel.exchange(
        reason="OK\r\nX: 1",
        headers=(
            ("A", "1\r\n\r\nboo"),
            ("B\r\nC", "2\n3\r4\0"),
            ("D", "5\r\n 6"),
            (":e", "7"),
            ("Connection", "close"),
        ),
    )
    caller = call(serve(reel.close()).url)
    caller.ask(extra="Connection: close\r\n")

    assert caller.read().data == (
        b"HTTP/1.1 200 OK X: 1\r\nA: 1  boo\r\nB C: 2 3 4 \r\nD: 5\r\n 6\r\nConnection: close\r\n\r\n"
    )


def test_one_connection_serves_many_requests_pipelined_or_not(reel, serve, call):
    for number in range(5):
        reel.exchange([b"%d" % number], headers=(("Content-Length", "1"),))
    caller = call(serve(reel.close()).url)
    for _ in range(4):
        caller.ask()
    caller.ask(extra="Connection: close\r\n")

    one = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d"

    assert caller.read().data == b"".join(one % number for number in range(5))


def test_the_same_requests_give_the_same_bytes(new_reel, serve, call):
    """Everything on the wire, misses included, in two runs."""
    reel = new_reel("same.db")
    reel.exchange([b"data: 1\n\n"])
    reel.exchange([b"no"], status=404, reason="Not Found", headers=(("Content-Length", "2"),), target="/no")
    path = reel.close()
    seen = []
    for _ in range(2):
        caller = call(serve(path).url)
        for target in ("/v1/sessions/s1/events/stream", "/no", "/none"):
            caller.ask(target)
        caller.ask("/none", extra="Connection: close\r\n")
        seen.append(hashlib.sha256(caller.read().data).hexdigest())

    assert seen[0] == seen[1]


def test_a_miss_is_a_501_in_the_services_envelope(reel, serve, call):
    reel.exchange([b"data: 1\n\n"], target="/v1/sessions/s1/events/stream")
    tape = serve(reel.close())
    caller = call(tape.url)
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
    assert [miss.target for miss in tape.misses] == ["/v1/sessions/s2/events/stream"]
    assert [entry.number for entry in tape.unconsumed] == [1]


@pytest.mark.parametrize("target", ["*", "/%0a", "//x:80/", "/%zz", "/?" + "q" * 100_000, "http://x/y?z", "/v1"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "HEAD", "PROPFIND"])
def test_no_request_however_odd_gets_an_empty_200(reel, serve, call, method, target):
    if target == "*":
        method = "OPTIONS"  # it is no target for any other method
    reel.exchange([b"data: 1\n\n"])
    caller = call(serve(reel.close()).url)
    caller.ask(target, method=method, extra="Connection: close\r\n")

    seen = caller.read()

    assert seen.data.startswith(b"HTTP/1.1 501 Not Implemented\r\n")
    assert (seen.body == b"") == (method == "HEAD")


@pytest.mark.parametrize(
    "nonsense", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / b HTTP/1.1\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n"]
)
def test_what_is_not_http_gets_a_400_and_a_line_in_the_log(reel, serve, call, nonsense):
    lines = []
    caller = call(serve(reel.close(), log=lines.append).url)
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
def test_the_line_about_what_is_not_http_has_no_secret(reel, serve, call, head):
    lines = []
    caller = call(serve(reel.close(), log=lines.append).url)
    caller.socket.sendall(b"GET / HTTP/1.1" + (b"\n" if b"\r" not in head else b"\r\n") + head)

    caller.read()

    (line,) = lines
    assert line.endswith(": …")
    assert "hush" not in line


def test_a_post_is_matched_by_its_body_however_it_is_framed(reel, serve, call):
    """Also with `Expect: 100-continue`, which asks for an answer before the answer."""
    for number in (1, 2):
        reel.exchange(
            [b"%d" % number],
            method="POST",
            target="/runs",
            body=b'{"n": %d}' % number,
            headers=(("Content-Length", "1"),),
        )
    caller = call(serve(reel.close()).url)
    caller.ask("/runs", method="POST", extra="Transfer-Encoding: chunked\r\n")
    caller.socket.sendall(b'4\r\n{"n"\r\n3\r\n:2}\r\n0\r\n\r\n')
    assert caller.read_past(b"\r\n\r\n2").startswith(b"HTTP/1.1 200 OK\r\n")

    caller.ask("/runs", method="POST", extra="Content-Length: 8\r\nExpect: 100-continue\r\n")
    assert caller.read_past(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    caller.socket.sendall(b'{"n": 1}')
    assert caller.read_past(b"\r\n\r\n1").startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("body", [None, BytesLost(0, 0, Side.REQUEST, 0, 9, "disk full")], ids=["cut", "lost"])
def test_a_request_body_that_is_not_recorded_whole_matches_any(reel, serve, call, body):
    for recorded in (b"one", body, b"two"):
        reel.exchange(method="POST", target="/runs", body=recorded, headers=(("Content-Length", "0"),))
    tape = serve(reel.close())
    caller = call(tape.url)
    for asked in (b"two", b"other"):
        caller.post("/runs", asked)
        caller.read_past(b"\r\n\r\n")

    assert [served.exchange for served in tape.served] == [3, 2]


def test_an_encoded_request_body_is_compared_as_it_came(reel, serve, call):
    """What the recording holds is what crossed the wire: nothing is decoded on the way."""
    for body in (b"\x1f\x8bnot really gzip", b"\x1f\x8bnor this"):
        reel.exchange(method="POST", target="/runs", body=body, headers=(("Content-Length", "0"),))
    tape = serve(reel.close())
    caller = call(tape.url)
    caller.post("/runs", b"\x1f\x8bnor this", "Content-Encoding: gzip\r\nConnection: close\r\n")
    caller.read()

    assert [served.exchange for served in tape.served] == [2]


@pytest.mark.parametrize(
    "headers",
    [(("Transfer-Encoding", "chunked"),), (("Content-Length", "6"),), ()],
    ids=["chunked", "content-length", "close-delimited"],
)
async def test_a_recorded_chunk_is_one_piece_whatever_the_framing(reel, headers):
    """Where no frame shows it, a client sees the boundaries in time only: each piece is written by itself."""
    reel.exchange([b"a", b"bcd", b"ef"], headers=headers)
    parts = []
    with open_recording(reel.close()) as recording:
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
def test_the_last_transfer_coding_tells_the_framing(reel, serve, call, lines):
    reel.exchange([b"a"], headers=tuple(("Transfer-Encoding", line) for line in lines))
    caller = call(serve(reel.close()).url)
    caller.ask(extra="Connection: close\r\n")

    assert caller.read().body == b"1\r\na\r\n0\r\n\r\n"


def test_a_large_body_arrives_whole_while_another_client_does_not_read(reel, serve, call):
    """40 MB in chunks of 64 KB; the first client takes its head only, and reads on when the second is done."""
    chunks = [bytes([number % 251]) * 65_536 for number in range(640)]
    for _ in range(2):
        reel.exchange(chunks, headers=(("Content-Type", "application/octet-stream"),))
    expected = hashlib.sha256(b"".join(chunks)).hexdigest()
    url = serve(reel.close()).url
    lazy, eager = call(url), call(url)
    lazy.ask()
    lazy.read_past(b"\r\n\r\n")

    eager.ask()

    assert hashlib.sha256(eager.read().body).hexdigest() == expected
    assert hashlib.sha256(lazy.read().data).hexdigest() == expected


def test_streams_do_not_wait_for_each_other(reel, serve, call):
    """Twenty clients hold a stream open that has gone silent; one more is answered."""
    for _ in range(20):
        reel.exchange([b"data: 1\n\n"], ending=Ending.CLIENT_CLOSED)
    reel.exchange([b"data: 2\n\n"])
    url = serve(reel.close()).url
    waiting = [call(url) for _ in range(20)]
    for caller in waiting:
        caller.ask()
        caller.read_past(b"data: 1\n\n\r\n")

    last = call(url)
    last.ask(extra="Connection: close\r\n")

    assert last.read().body == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"


def test_a_client_that_leaves_ends_its_own_answer_only(reel, serve, call):
    """The one leaves in the middle of a wait; the other gets everything."""
    for _ in range(2):
        reel.exchange([b"data: 1\n\n", (300, b"data: 2\n\n")])
    url = serve(reel.close(), speed=1).url
    stays = call(url)
    stays.ask(extra="Connection: close\r\n")
    stays.read_past(b"data: 1\n\n\r\n")
    with closing(call(url)) as leaves:
        leaves.ask()
        leaves.read_past(b"data: 1\n\n\r\n")

    assert stays.read().data == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"


def test_a_client_that_leaves_during_its_upload_is_given_nothing(reel, serve, call):
    reel.exchange(method="POST", target="/runs", body=b"x" * 10, headers=(("Content-Length", "0"),))
    tape = serve(reel.close())
    with closing(call(tape.url)) as leaves:
        leaves.ask("/runs", method="POST", extra="Content-Length: 10\r\n")
        leaves.socket.sendall(b"xxx")
    caller = call(tape.url)
    caller.ask("/other", extra="Connection: close\r\n")
    caller.read()

    assert [entry.number for entry in tape.unconsumed] == [1]


def test_many_clients_at_once_share_the_recorded_answers(reel, serve, call):
    for number in range(50):
        reel.exchange([b"%02d" % number], headers=(("Content-Length", "2"),))
    tape = serve(reel.close())
    answers = []

    def client() -> None:
        with closing(call(tape.url)) as caller:
            for _ in range(5):
                caller.ask()
                answers.append(caller.read_past(b"\r\n\r\n") and caller.socket.recv(2))

    threads = [threading.Thread(target=client) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == [b"%02d" % number for number in range(50)]
    assert tape.unconsumed == []
