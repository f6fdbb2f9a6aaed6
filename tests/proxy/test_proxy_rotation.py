"""`wiretape proxy --rotate --compress`: streams go on while the recording continues in new files."""

import json
from contextlib import ExitStack
from dataclasses import replace
from threading import Semaphore, Thread

from invoke import succeed
from wire_bytes import CHUNKED, END, chunk, durable_event

from wiretape import checker
from wiretape.observations import Side
from wiretape.recording import DerivedTables, RecordingFile, Writer, open_recording
from wiretape.recording.rotated_parts import open_joined
from wiretape_proxy.proxy_options import Settings
from wiretape_proxy.recorder_messages import UnfinishedFiles
from wiretape_proxy.rotation import Rotation

FILES = 4


def test_no_byte_is_lost_while_files_are_rotated(start_proxy, service, eventually, tmp_path):
    log = tmp_path / "closed.txt"
    command = f"sh -c 'echo \"$0\" >> {log}'"
    proxy = start_proxy(service.url, "--rotate", "0.1s", "--compress", "--rotate-command", command)
    files = lambda: sorted(proxy.file.parent.glob(f"{proxy.file.stem}*.db.zst"))  # noqa: E731
    sent = {f"s{number}": b"" for number in range(3)}
    # Few events are on their way at a time: the machine decides how fast they are, and so how many are sent.
    arrived = {session: Semaphore(5) for session in sent}

    def stream(session):
        def behave(peer):
            peer.send(CHUNKED)
            number = 0
            while len(files()) < FILES:
                number += 1
                arrived[session].acquire()
                data = durable_event(number, session=session)
                sent[session] += data
                # Each event crosses in two chunks, so that some are divided between files.
                for part in (data[:40], data[40:]):
                    peer.send(chunk(part))
            peer.send(END)

        return behave

    received = dict.fromkeys(sent, b"")

    def read(session, path):
        client = proxy.get(path, "Authorization: Bearer sk-1")
        client.until(b"\r\n\r\n")
        while size := int(client.until(b"\r\n"), 16):
            seen = received[session].count(b"\n\n")
            received[session] += client.exactly(size + 2)[:-2]
            for _ in range(received[session].count(b"\n\n") - seen):
                arrived[session].release()

    paths = {session: service.on(f"/v1/sessions/{session}/events/stream", stream(session)) for session in sent}
    readers = [Thread(target=read, args=item) for item in paths.items()]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert received == sent
    assert proxy.stop() == 0
    assert not [*proxy.file.parent.glob("*.db")]

    with ExitStack() as opened:
        parts = sorted(map(opened.enter_context, map(open_recording, files())), key=lambda part: part.info.part)
        assert len(parts) >= FILES
        joined = opened.enter_context(open_joined(parts))
        recorded = {
            exchange.channel: b"".join(run.data for run in joined.body(exchange.number, Side.RESPONSE))
            for exchange in joined.exchanges()
        }
    assert recorded == sent
    assert sorted(log.read_text().split()) == [str(path) for path in files()]
    report = json.loads(succeed("report", *files(), "--format", "json", "--no-config").stdout)
    assert report["summary"]["events"] == sum(body.count(b"event:") for body in sent.values())
    assert report["findings"] == []


def test_a_command_that_is_killed_is_reported_and_recording_continues(start_proxy, service):
    service.on("/", lambda peer: peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"))
    proxy = start_proxy(service.url, "--rotate", "1h", "--rotate-command", "sh -c 'kill -9 $$'")
    proxy.get("/").until(b"x")
    assert proxy.stop() == 0
    assert f"sh failed for {proxy.file} with status -9." in proxy.lines


def test_whatever_goes_wrong_with_a_closed_file_is_reported(tmp_path, monkeypatch):
    messages = []
    path = tmp_path / "run.db"
    rotation = Rotation(replace(Settings(), output=str(path), compress=True), messages.append, path)
    monkeypatch.setattr("wiretape_proxy.rotation.compress_recording", lambda path: 1 / 0)
    rotation.finish(is_missing=False)
    (message,) = messages
    assert message.text.startswith(f"{path} is closed, but not handled further (ZeroDivisionError in ")


def test_a_file_whose_tables_cannot_be_closed_is_unlocked_and_handled(tmp_path, monkeypatch):
    messages = []
    path = tmp_path / "run.db"
    Writer.create(path, upstream="http://service.test").close(1)
    rotation = Rotation(replace(Settings(), output=str(path)), messages.append, path)
    close = DerivedTables.close
    monkeypatch.setattr(DerivedTables, "close", lambda tables: close(tables) or 1 / 0)
    rotation.finish_earlier(path, checker.Settings())
    rotation.finish(is_missing=True)
    failed, unfinished = messages
    assert failed.text.startswith(f"{path} is not checked completely (ZeroDivisionError in ")
    assert unfinished == UnfinishedFiles([])
    RecordingFile.reopen(path).close()
