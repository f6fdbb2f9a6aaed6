"""Between the proxy and the recorder process: no traffic ends recording, and no failure of one stops traffic."""

import asyncio
import fcntl
import os
import signal
import threading
from dataclasses import replace

import msgspec
import pytest
from for_each import for_each
from wiretape_process import run_wiretape

from wiretape.checker import CATALOGUE
from wiretape.observations import Ending, ExchangeEnded, RequestStarted, ResponseStarted, Side
from wiretape.recording import open_recording
from wiretape.safe_text import printable
from wiretape_proxy import recorder_client, recorder_messages
from wiretape_proxy.ipc_codec import CaptureBuffer
from wiretape_proxy.proxy_options import NO_CONFIG, Settings
from wiretape_proxy.recorder_client import RecorderClient
from wiretape_proxy.recorder_messages import (
    MOST_BYTES,
    MOST_FINDINGS,
    MOST_HELD,
    MOST_STREAMS,
    BatchesStored,
    FindingCount,
    HeldBody,
    LogLine,
    MessageReader,
    OpenStream,
    RecorderConfig,
    RecorderStatus,
    RecordingClosed,
    UnfinishedFiles,
    decode_config,
    decode_message,
    encode_message,
)

BLOCK = b"x" * 50_000
HUGE = '\\"é\x00\ud800😀' * 100_000
KINDS = {kind.__name__: kind for kind in recorder_messages.RecorderMessage.__args__}


def longest(kind):
    """Return a message whose fields are as large as traffic can make them."""
    values: dict[object, object] = {str: HUGE, int: 2**63, float: 1e300, bool: True, str | None: HUGE}
    fields = {each.name: values.get(each.type) for each in msgspec.structs.fields(kind)}
    if kind is RecorderStatus:
        stream = OpenStream(2**63, HUGE, 2**63, 2**63, 1e300)
        count = FindingCount(2**63, "DUR001", "warning", 2**63)
        fields |= {"open_streams": [stream] * MOST_STREAMS, "new_findings": [count] * MOST_FINDINGS}
    if kind is LogLine:
        fields["facts"] = {"path": printable(HUGE[:1000]), "bytes": 2**63}
    if kind is BatchesStored:
        fields["held"] = [HeldBody(2**63, Side.RESPONSE, 2**63)] * MOST_HELD
    if kind is UnfinishedFiles:
        fields["files"] = ["/" + "x" * 4000] * 200
    if kind is RecordingClosed:
        fields |= {"severities": dict.fromkeys(("error", "warning", "note"), 2**63), "inconclusive": list(CATALOGUE)}
    return kind(**fields)


@for_each("kind", KINDS.values(), ids=KINDS)
def test_no_message_of_the_recorder_is_too_long(kind):
    data = encode_message(longest(kind))
    assert len(data) <= MOST_BYTES
    (message,) = MessageReader().feed(data)
    assert isinstance(decode_message(message), kind)


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_messages_survive_however_the_pipe_splits_them(step):
    config = RecorderConfig(replace(Settings(), output="run.db"), "http://a", wants_status=True)
    data = encode_message(config) * 2
    reader = MessageReader()
    found = [each for at in range(0, len(data), step) for each in reader.feed(data[at : at + step])]
    assert [decode_config(each) for each in found] == [config] * 2
    assert not reader.rest


def test_a_message_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(ValueError, match="a message of 1,048,577 bytes"):
        list(MessageReader().feed((MOST_BYTES + 1).to_bytes(4, "little")))


def answer(peer) -> None:
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BLOCK), BLOCK))


def exchange(proxy, service, path: str) -> bytes:
    """Send a request through the proxy, and return the body of the response."""
    service.on(path, answer)
    client = proxy.get(path)
    client.until(b"\r\n\r\n")
    return client.exactly(len(BLOCK))


@pytest.mark.parametrize(
    ("arguments", "headers", "sent"),
    [
        ((), ("Authorization: Bearer secret-key-1",), b"data: 1\n\ndata: secret-ke"),
        (("--redact-body", "$.pin"), (), b'data: 1\n\ndata: {"pin": 1'),
    ],
    ids=["credential", "JSON"],
)
def test_bytes_that_a_killed_recorder_held_back_are_counted_as_lost(start_proxy, service, arguments, headers, sent):
    """A part of a credential, or of an event with redacted JSON, is not stored until the rest of it arrives."""
    proxy = start_proxy(service.url, *arguments)
    over = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    service.on("/open", lambda peer: (peer.send(head + sent), over.wait(45), peer.send(BLOCK), peer.close()))
    client = proxy.get("/open", *headers)
    client.until(sent)
    for path in ("/stored", "/later"):  # once the second is stored, the proxy knows what the first commit held back
        exchange(proxy, service, path)
        proxy.ended(path)
    os.kill(proxy.recorder, signal.SIGKILL)
    proxy.wait_line("The recorder process died")
    over.set()
    assert client.rest() == BLOCK
    assert proxy.stop() == 2
    seen = proxy.find("/open")
    assert seen.ending is Ending.COMPLETE
    assert 9 <= seen.response_bytes < len(sent)
    assert seen.response_bytes + seen.lost_bytes == len(sent) + len(BLOCK)
    assert proxy.lines[-1] == f"{seen.lost_bytes:,} bytes passed unrecorded."


def test_a_recorder_that_stands_still_for_a_moment_is_reported_and_loses_nothing(start_proxy, service):
    proxy = start_proxy(service.url)
    recorder = proxy.recorder
    os.kill(recorder, signal.SIGSTOP)
    assert exchange(proxy, service, "/stopped") == BLOCK
    proxy.wait_line("The recorder process does not respond: traffic waits in memory.")
    os.kill(recorder, signal.SIGCONT)
    proxy.wait_line("The recorder process responds again.")
    assert proxy.stop() == 0
    assert proxy.ended("/stopped").response_bytes == len(BLOCK)


def test_a_recorder_that_hangs_while_the_proxy_stops_does_not_hold_it_up(start_proxy, service, tmp_path):
    """What it does not store is counted; test_soak.py has the other ways in which a recorder can fail."""
    fault = tmp_path / "fault"
    fault.write_text("")
    proxy = start_proxy(service.url, name="breakable_proxy", env={"FAULT": str(fault), "PATIENCE": "1"})
    assert exchange(proxy, service, "/before") == BLOCK
    proxy.ended("/before")
    os.kill(proxy.recorder, signal.SIGSTOP)
    assert exchange(proxy, service, "/after") == BLOCK
    assert proxy.stop() == 2
    (line,) = [line for line in proxy.lines if line.endswith("traffic continues unrecorded.")]
    assert "The recorder process has not responded for 1 s" in line
    before, after = (proxy.find(path) for path in ("/before", "/after"))
    assert (before.lost_bytes, after.ending) == (0, Ending.COMPLETE)
    assert after.response_bytes + after.lost_bytes == len(BLOCK)
    assert proxy.lines[-1] == f"{after.lost_bytes:,} bytes passed unrecorded."


def test_the_recording_of_a_failed_recorder_can_be_rotated(start_proxy, service, tmp_path):
    """What was lost is in the file that was the last one; files that were not handled yet are handled."""
    log = tmp_path / "closed.txt"
    command = f"sh -c 'echo \"$0\" >> {log}'"
    proxy = start_proxy(service.url, "--rotate", "100K", "--compress", "--rotate-command", command)
    stream = "/v1/sessions/s1/events/stream"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    service.on(stream, lambda peer: (peer.send(head + b"data: {}\n\n:" + BLOCK + b"\n"), peer.close()))
    while not proxy.has_line("; recording continues in "):
        proxy.get(stream).rest()
    os.kill(proxy.recorder, signal.SIGKILL)
    proxy.wait_line("The recorder process died")
    exchange(proxy, service, "/after")
    assert proxy.stop() == 2
    (line,) = [line for line in proxy.lines if line.startswith("Recorded ")]
    files = sorted(tmp_path.glob("run*.db.zst"), key=lambda file: (len(file.name), file))
    assert line.endswith(f" to {files[0]} … {files[-1].name}")
    assert sorted(set(log.read_text().split())) == sorted(map(str, files))
    assert not list(tmp_path.glob("*.db"))
    with open_recording(files[0]) as recording:
        assert max(found.exchange for found in recording.findings()) == recording.last_exchange
    with open_recording(files[-1]) as recording:
        (after,) = [each for each in recording.exchanges() if each.request.target == "/after"]
    assert (after.response_bytes, after.lost_bytes) == (0, len(BLOCK))
    report = run_wiretape("report", *files, "--no-config", "--fail-on", "warning")
    assert (report.returncode, "REC001" in report.stdout) == (1, True), report


def test_if_nothing_can_be_added_to_the_recording_lost_exchanges_are_counted(start_proxy, service):
    proxy = start_proxy(service.url)
    os.kill(proxy.recorder, signal.SIGKILL)
    proxy.wait_line("The recorder process died")
    exchange(proxy, service, "/after")
    with proxy.file.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert proxy.stop() == 2
    assert proxy.lines[-2].startswith("What was lost cannot be recorded: ")
    assert proxy.lines[-1] == "1 exchange with 50,000 bytes passed unrecorded."


async def test_traffic_after_the_pipe_broke_and_before_the_failure_is_known_is_recorded(tmp_path):
    buffer = CaptureBuffer()
    client = RecorderClient(buffer, lambda paused: None)
    await client.open(replace(Settings(), output=str(tmp_path / "run.db"), config=NO_CONFIG), "http://service")
    client._pipe.abandon()  # as a write to a recorder that has just died does
    buffer.add_observation(RequestStarted(1, 0, "::1", "GET", "http", "service", "/", "HTTP/1.1", ()))
    buffer.add_observation(ResponseStarted(1, 0, 200, "OK", "HTTP/1.1", ()))
    client._flush()
    client._process.kill()
    await asyncio.wait({client._listening})
    buffer.body_tap(1, Side.RESPONSE)(BLOCK)
    buffer.add_observation(ExchangeEnded(1, 0, Ending.COMPLETE))
    await client.close()
    assert client.lost == "50,000 bytes"
    with open_recording(tmp_path / "run.db") as recording:
        (exchange,) = recording.exchanges()
        assert (exchange.ending, exchange.lost_bytes) == (Ending.COMPLETE, len(BLOCK))


async def test_a_second_recorder_that_hangs_does_not_hold_up_the_end(tmp_path, monkeypatch, caplog):
    buffer = CaptureBuffer()
    client = RecorderClient(buffer, lambda paused: None)
    await client.open(replace(Settings(), output=str(tmp_path / "run.db"), config=NO_CONFIG), "http://service")
    client._process.kill()
    await asyncio.wait({client._listening})
    buffer.add_observation(RequestStarted(1, 0, "::1", "GET", "http", "service", "/", "HTTP/1.1", ()))
    monkeypatch.setattr(recorder_client, "_START", "import time; time.sleep(600)")
    monkeypatch.setattr(recorder_client, "_GIVE_UP_AFTER_S", 0.2)
    await asyncio.wait_for(client.close(), 30)
    assert caplog.messages[-1] == "What was lost cannot be recorded: the recorder process does not respond."
    assert client.lost == "1 exchange with 0 bytes"
