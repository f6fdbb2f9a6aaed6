"""The thread that checks what is stored, waits for locks, and how the recorder reports both."""

import gc
import io
import os
import sqlite3
import sys

import pytest

from wiretape.checker import Settings
from wiretape.observations import Ending, ExchangeEnded, RequestStarted, ResponseStarted, Side
from wiretape.recording import Writer, derived_tables, open_recording
from wiretape_contracts.agent_sessions.state import client_state, event_log, runs, stream_state
from wiretape_proxy import recorder
from wiretape_proxy.ipc_codec import CaptureBuffer, encode_stop, pack_batch
from wiretape_proxy.live_view import LiveView
from wiretape_proxy.recorder import Recorder
from wiretape_proxy.recorder_messages import MOST_FINDINGS, LogLine, OpenStream, RecorderStatus, RecordingClosed

STREAM = "/v1/sessions/s1/events/stream"


@pytest.mark.parametrize(("unchecked", "is_shown"), [(12_345_678, True), (20_000, False)])
def test_the_live_view_shows_unchecked_bytes(unchecked, is_shown, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")  # a dumb terminal shows no live view
    stream = OpenStream(1, "ses_1", 5, 4, 0.1)
    progress = RecorderStatus(1, 5, 0, 1, [stream], [], unchecked)
    screen = io.StringIO()
    view = LiveView(screen)
    view.draw([], progress)
    view.close()
    assert ("0 findings, 12.3 MB not yet checked" in screen.getvalue()) is is_shown


def test_while_the_recording_is_locked_input_is_read_and_the_wait_is_reported(tmp_path, monkeypatch):
    """Another program holds a lock while traffic arrives and when the proxy stops."""
    monkeypatch.setattr(recorder, "_PATIENCE_S", 0)
    monkeypatch.setattr(recorder, "_PROGRESS_EVERY_S", 0)
    path = tmp_path / "run.db"
    writer = Writer.create(path, upstream="http://service")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    buffer = CaptureBuffer()
    buffer.add_observation(
        RequestStarted(1, 0, "127.0.0.1", "GET", "http", "service", "/v1/sessions/s1", "HTTP/1.1", ())
    )
    buffer.add_observation(ExchangeEnded(1, 0, Ending.COMPLETE))
    source, sink = os.pipe()
    os.write(sink, pack_batch(buffer.take()))
    sent = []

    def send(message):
        sent.append(message)
        waits = [each for each in sent if isinstance(each, LogLine)]
        if [message] == waits:
            buffer.add_message(encode_stop())
            os.write(sink, pack_batch(buffer.take()))
            os.close(sink)
        elif message in waits and "cannot be closed" in message.text:
            other.execute("COMMIT")

    Recorder(writer, Settings(), send).run(source)
    os.close(source)
    other.close()

    lines = [message.text for message in sent if isinstance(message, LogLine) and "lock" in message.text]
    assert len(lines) == 2
    assert lines[0].startswith("Another program has locked the recording for 0 s: traffic is kept in memory")
    assert lines[1].startswith("Another program has locked the recording for 0 s: the recording cannot be closed")
    assert isinstance(sent[-1], RecordingClosed)
    assert sent[-1].lost_bytes == 0
    with open_recording(path) as recording:
        assert recording.exchange(1).ending is Ending.COMPLETE
        assert recording.info.ended_ns is not None


def test_a_wait_for_a_lock_is_reported_after_a_second_and_then_every_five(tmp_path, monkeypatch):
    sent = []
    writer = Writer.create(tmp_path / "run.db", upstream="http://service")
    waiting = Recorder(writer, Settings(), sent.append)
    for tenths in range(123):
        monkeypatch.setattr(recorder.time, "monotonic", lambda tenths=tenths: 1000 + tenths / 10)
        assert waiting._on_locked(tenths / 10)
    writer.close()
    lines = [message.text.partition(":")[0] for message in sent if isinstance(message, LogLine)]
    assert lines == [f"Another program has locked the recording for {seconds} s" for seconds in (1, 6, 11)]


def test_the_memory_of_the_recorder_does_not_grow_with_the_events_of_an_open_stream(tmp_path, monkeypatch):
    """Once the bounded collections are full; they are small here."""
    for module, name, bound in (
        (event_log, "MOST_EVENTS", 50),
        (stream_state, "_MOST_IDS", 50),
        (client_state, "_MOST_UNREAD", 10),
        (event_log, "LEAST_EVENTS", 10),
        (runs, "MOST_RUNS", 10),
        (runs, "MOST_CALLS", 10),
        (derived_tables, "_MOST_WORDS", 20),
    ):
        monkeypatch.setattr(module, name, bound)
    buffer = CaptureBuffer()
    buffer.add_observation(RequestStarted(1, 0, "127.0.0.1", "GET", "http", "service", STREAM, "HTTP/1.1", ()))
    buffer.add_observation(ResponseStarted(1, 0, 200, "OK", "HTTP/1.1", (("Content-Type", "text/event-stream"),)))
    tap = buffer.body_tap(1, Side.RESPONSE)
    writer = Writer.create(tmp_path / "run.db", upstream="http://service")
    recording = Recorder(writer, Settings(), lambda message: None)
    blocks = []
    for turn in range(600):
        for number in range(2 * turn + 1, 2 * turn + 3):
            kind = ("run.completed", "run.started")[number % 2]
            tap(
                b'id: e%d\nevent: %b\ndata: {"id":"e%d","sequence":%d,"type":"%b","workspace_id":"w1",'
                b'"session_id":"s1","run_id":"r%d","created_at":"2025-01-01T00:00:00Z","content":{},"data":{}}\n\n'
                % (number, kind.encode(), number, number, kind.encode(), turn)
            )
        recording.store(pack_batch(buffer.take()))
        recording.commit()
        recording.checker.catch_up()
        if turn % 200 == 199:
            gc.collect()
            blocks.append(sys.getallocatedblocks())
    writer.close()
    assert blocks[2] - blocks[1] < 200, "fewer than one for each turn"


def test_a_status_with_many_new_findings_is_divided(tmp_path):
    sent = []
    writer = Writer.create(tmp_path / "run.db", upstream="http://service")
    recording = Recorder(writer, Settings(), sent.append, wants_status=True)
    count = 2 * MOST_FINDINGS + 1
    recording.checker._new_findings.update((number, "SEQ001", "error") for number in range(count))
    recording.checker.send_status()
    writer.close()
    assert [len(status.new_findings) for status in sent] == [MOST_FINDINGS, MOST_FINDINGS, 1]
    assert {finding.exchange for status in sent for finding in status.new_findings} == set(range(count))


def test_frames_that_cannot_be_written_are_reported_when_the_recording_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(derived_tables, "_INSERT_FRAME", "no SQL")
    sent = []
    writer = Writer.create(tmp_path / "run.db", upstream="http://service")
    recording = Recorder(writer, Settings(), sent.append)
    buffer = CaptureBuffer()
    buffer.add_observation(RequestStarted(1, 0, "127.0.0.1", "GET", "http", "service", STREAM, "HTTP/1.1", ()))
    buffer.add_observation(ResponseStarted(1, 0, 200, "OK", "HTTP/1.1", (("Content-Type", "text/event-stream"),)))
    buffer.add_chunk(1, Side.RESPONSE, b"data: {}\n\n")
    recording.store(pack_batch(buffer.take()))
    recording.close()
    (line,) = [message.text for message in sent if isinstance(message, LogLine) and "frame" in message.text]
    assert line == (
        'The tables frame and finding lack rows (near "no": syntax error): reports do not need them, and --append adds '
        "them."
    )
