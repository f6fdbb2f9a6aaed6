"""`wiretape replay --record-missing`: forwards what was not recorded, and adds it to the recording.

The service is another replay, which sends exactly the bytes and endings of a recording.
"""

import socket
import threading
from contextlib import closing

import pytest
from invoke import invoke

from wiretape.observations import Ending, Side, header
from wiretape.recording import open_recording

CHUNKED = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
LARGE = bytes(range(256)) * 20_000
"""A body that is not kept in memory."""


def length(size):
    return (("Content-Length", str(size)),)


EXCHANGES = {
    "/chunked": {"chunks": [b"data: 1\n\ndata: 2\n\n"], "headers": (("X-b", "2"), ("x-A", "\xe9"), *CHUNKED)},
    "/length?a=1&b=%2F": {"chunks": [b"{}"], "headers": length(2), "status": 203, "reason": "Fine By Me"},
    "/no-body": {"headers": (), "status": 204},
    "/unframed": {"chunks": [b"to the end"], "headers": (("Connection", "close"),)},
    "/gzip": {"chunks": [b"\x1f\x8bnot really"], "headers": (("Content-Encoding", "gzip"), *length(12))},
    "/cut": {"chunks": [b"data: 1\n\n"], "ending": Ending.SERVICE_CLOSED},
    "/reset": {"chunks": [b"data: 1\n\n"], "ending": Ending.SERVICE_RESET},
    "/silent": {"status": None, "ending": Ending.SERVICE_CLOSED},
}


@pytest.fixture
def tape(tmp_path):
    path = tmp_path / "run.tape"
    path.write_text("tape: 1\n---\nrequest: GET /known\nresponse-body: {}\n", "utf-8")
    return path


def contents(path):
    """Of each exchange, what the client and the service sent, and how it ended."""
    with open_recording(path) as recording:
        return [
            (
                each.request.target,
                each.response and (each.response.status, each.response.reason, each.response.headers),
                [b"".join(part.data for part in recording.body(each.number, side)) for side in Side],
                each.ending,
            )
            for each in recording.exchanges()
        ]


def test_clients_and_the_recording_get_every_byte_and_ending(builder, serve, call, start, tape):
    for target, exchange in EXCHANGES.items():
        builder.exchange(target=target, **exchange)
    builder.exchange(target="/upload", method="POST", body=LARGE, headers=length(0))
    service, direct = (serve(path) for path in [builder.close()] * 2)
    replay = start(tape, "--record-missing", service.url)

    def ask(url, target):
        caller = call(url)
        if target == "/upload":
            caller.post(target, LARGE, "Connection: close\r\n")
        else:
            caller.ask(target, extra="Connection: close\r\n")
        return caller.read()

    targets = [*EXCHANGES, "/upload"]
    received = [ask(replay.url, target) for target in targets]
    assert received == [ask(direct.url, target) for target in targets]
    assert replay.stop() == 0
    assert "POST /upload → forwarded to " in replay.err
    assert f"Recorded {len(targets)} new exchanges in " in replay.err
    known, *recorded = contents(tape)
    assert known[0] == "/known"
    assert recorded == contents(builder.path)
    with open_recording(tape) as recording:
        (request,) = {each.request for each in recording.exchanges() if each.request.target == "/chunked"}
    assert (request.authority, header(request.headers, "host")) == (service.url.removeprefix("http://"),) * 2
    offline = start(tape, "--mode", "verbatim")
    assert [ask(offline.url, target) for target in targets] == received


@pytest.fixture
def service():
    """A service that sends a stream of one event, and then waits; yields its address, and when its client left."""
    left, began = threading.Event(), threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def respond():
        connection, _ = listening.accept()
        with closing(connection):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            began.set()
            assert connection.recv(1) == b""
            left.set()

    thread = threading.Thread(target=respond, daemon=True)
    thread.start()
    with closing(listening):
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", left
    thread.join(1)


def test_events_arrive_at_once_and_a_client_that_leaves_ends_the_stream(service, call, start, tape):
    url, left = service
    replay = start(tape, "--record-missing", url)
    caller = call(replay.url)
    caller.ask("/endless")
    caller.read_to(b"data: 1\n\n")
    caller.close()
    assert left.wait(45)
    replay.stop()
    assert contents(tape)[1][2:] == ([b"", b"data: 1\n\n"], Ending.CLIENT_CLOSED)


def test_a_killed_replay_leaves_the_recording_as_it_was_and_the_next_one_records(
    service, serve, builder, call, start, tape
):
    before, partial = tape.read_bytes(), tape.with_name("run.tape.recording")
    killed = start(tape, "--record-missing", service[0])
    caller = call(killed.url)
    caller.ask("/endless")
    caller.read_to(b"data: 1\n\n")
    other = start(tape, "--record-missing", service[0])
    second = call(other.url)
    second.ask("/endless", extra="Connection: close\r\n")
    assert second.read().body.decode().strip() == (
        f"GET /endless was not recorded, and it cannot be recorded: Another process is recording to {partial}."
    )
    killed.process.kill()
    killed.process.wait()
    assert (tape.read_bytes(), partial.exists()) == (before, True)
    builder.exchange([b"{}"], target="/endless", headers=length(2))
    last = start(tape, "--record-missing", serve(builder.close()).url)
    third = call(last.url)
    third.ask("/endless", extra="Connection: close\r\n")
    assert third.read().body == b"{}"
    assert last.stop() == 0
    assert [target for target, *_ in contents(tape)] == ["/known", "/endless"]
    assert not partial.exists()


def test_a_recording_keeps_its_exchanges_and_matches_bodies(new_builder, serve, call, start):
    """Without the option, a body counts only if recorded ones differ."""
    recorded, service = new_builder("run.db"), new_builder("service.db")
    recorded.exchange([b"old"], method="POST", target="/chat", body=b'{"n": 1}', headers=length(3))
    for number in (2, 3):
        service.exchange([b"new"], method="POST", target="/chat", body=b'{"n": %d}' % number, headers=length(3))
    path = recorded.close()
    replay = start(path, "--record-missing", serve(service.close()).url)
    caller = call(replay.url)
    for number, expected in ((1, b"old"), (2, b"new"), (3, b"new")):
        caller.post("/chat", b'{ "n": %d }' % number)
        assert caller.read_to(expected).endswith(b"\r\n\r\n" + expected)
    assert replay.stop() == 0
    assert [bodies[1] for _, _, bodies, _ in contents(path)] == [b"old", b"new", b"new"]
    assert path.read_bytes()[:6] == b"SQLite"


@pytest.fixture
def closed_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return listening.getsockname()[1]


def test_a_service_that_cannot_be_reached_is_a_miss(call, start, tape, closed_port):
    before = tape.read_bytes()
    replay = start(tape, "--record-missing", f"http://127.0.0.1:{closed_port}", "--strict")
    caller = call(replay.url)
    caller.ask("/other", extra="Connection: close\r\n")
    seen = caller.read()
    assert seen.head.startswith(b"HTTP/1.1 501 ")
    reason = f"http://127.0.0.1:{closed_port} cannot be reached: Connection refused"
    assert seen.body.decode().strip() == f"GET /other was not recorded, and {reason}."
    assert replay.stop() == 1
    assert "1 request had no match." in replay.err
    assert tape.read_bytes() == before


@pytest.mark.parametrize(
    ("file", "upstream", "message"),
    [
        ("run.tape", "localhost:80", "Invalid upstream 'localhost:80': expected an http or https URL"),
        ("none.tape", "http://localhost", "There is no file {}/none.tape."),
        ("run.db.zst", "http://localhost", "{}/run.db.zst is compressed, so nothing can be added to it"),
    ],
)
def test_what_cannot_be_recorded_is_refused_at_the_start(file, upstream, message, tape):
    tape.with_name("run.db.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    done = invoke("replay", tape.with_name(file), "--record-missing", upstream)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("Error: " + message.format(tape.parent))
