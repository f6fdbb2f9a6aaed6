"""Each kind of message between the proxy and the recorder process, in each direction: cut, late, too long."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import time
from dataclasses import replace

import msgspec
import pytest
from wiretape_process import ForkedProgram

from wiretape.errors import InputError
from wiretape.observations import BytesLost, Ending, ExchangeEnded, RequestEnded, RequestStarted, ResponseStarted, Side
from wiretape.recording import open_recording
from wiretape_proxy import recorder_client
from wiretape_proxy.ipc_codec import CaptureBuffer, body_key, encode_observation, encode_stop, pack_batch
from wiretape_proxy.proxy_options import NO_CONFIG, Settings
from wiretape_proxy.recorder_client import RecorderClient
from wiretape_proxy.recorder_messages import (
    BatchesStored,
    MessageReader,
    RecorderConfig,
    RecorderFailed,
    RecorderMessage,
    RecordingClosed,
    RecordingOpened,
    RecordingRefused,
    decode_message,
    encode_message,
)

KINDS = RecorderMessage.__args__
REQUEST = RequestStarted(1, 0, "127.0.0.1", "GET", "http", "service", "/", "HTTP/1.1", ())
RECORDER = """
import os, signal, sys, time
opened, message, closed = map(bytes.fromhex, {frames!r})
half = len(message) // 2
def send(data):
    os.write(1, data)
def read_all():
    while os.read(0, 1 << 20):
        pass
config = os.read(0, 1 << 20)
send(opened)
if b'"resumed":null' in config:
    os.read(0, 1 << 20)
    {fault}
read_all()
send(closed)
"""
"""A recorder that answers, but stores nothing: before it goes on, it does `fault`, unless it adds what was lost."""
FAULTS = {
    "killed": "send(message[:half]); os.kill(os.getpid(), signal.SIGKILL)",
    "stopped": "send(message[:half]); os.kill(os.getpid(), signal.SIGSTOP)",
    "cut": "send(message[:half]); send(message * 5)",
    "closed": "send(message[:half]); os.close(1); read_all(); sys.exit()",
    "endless": "send(b'\\xff\\xff\\xff\\x7f' + message)",
    "invalid": "send(len(message).to_bytes(4, sys.byteorder) + b'?' * len(message))",
    "late": "send(message[:half]); time.sleep(0.05); send(message[half:])",
}
UNEXPECTED = (RecorderFailed, RecordingOpened, RecordingRefused, RecordingClosed)
"""What ends the recording if it arrives while there is traffic."""


def make(kind):
    """Return a message of a kind."""
    fields = {each.name: {str: "x", float: 1.0, bool: False}.get(each.type, 1) for each in msgspec.structs.fields(kind)}
    lists = {"held": [], "open_streams": [], "new_findings": [], "inconclusive": [], "severities": {}, "facts": {}}
    lists["files"] = "" if kind is RecordingClosed else ["run.db"]
    message = kind(**fields | {name: value for name, value in lists.items() if name in fields})
    # It loses nothing.
    return msgspec.structs.replace(message, lost_bytes=0) if "lost_bytes" in fields else message


class Scene:
    """The proxy's side, with a recorder that does something wrong."""

    def __init__(self, kind) -> None:
        self.kind = kind
        self.pauses: list[bool] = []
        self.buffer = CaptureBuffer()
        self.failed = asyncio.Event()
        self.client = RecorderClient(self.buffer, self.note_pause)

    def note_pause(self, pause: bool) -> None:
        """A failure ends pauses."""
        self.pauses.append(pause)
        self.failed.set()

    async def spawn(self, fault: str, monkeypatch) -> None:
        closed = replace_closed(dropped_bytes=2000, held_bytes=0)
        frames = [encode_message(each).hex() for each in (RecordingOpened(1, 0), make(self.kind), closed)]
        monkeypatch.setattr(recorder_client, "_START", RECORDER.format(frames=frames, fault=FAULTS[fault]))
        await self.client.spawn()

    async def play(self, fault: str) -> None:
        """Send traffic before and after the fault, and close."""
        self.is_harmless = fault == "late" and self.kind not in UNEXPECTED
        await self.client.open(replace(Settings(), output="run.db", config=NO_CONFIG), "http://service")
        self.buffer.add_observation(REQUEST)
        tap = self.buffer.body_tap(1, Side.RESPONSE)
        tap(b"x" * 1000)
        if not self.is_harmless:
            await self.failed.wait()
        tap(b"y" * 1000)
        await self.client.close()


def replace_closed(**values: int) -> RecordingClosed:
    return msgspec.structs.replace(make(RecordingClosed), is_missing=False, **values)


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_fault_of_the_recorder_stops_traffic_or_is_silent(fault, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(recorder_client, "_SILENCE_S", 0.2)
    if fault == "stopped":
        monkeypatch.setattr(recorder_client, "_GIVE_UP_AFTER_S", 2)
    scenes = [Scene(kind) for kind in KINDS]
    for scene in scenes:
        await scene.spawn(fault, monkeypatch)
    await asyncio.gather(*(scene.play(fault) for scene in scenes))
    reports = [record for record in caplog.messages if record.endswith(": traffic continues unrecorded.")]
    # Some messages are worded like this themselves.
    reports = [each for each in reports if "recorder process" in each]
    assert len(reports) == sum(not scene.is_harmless for scene in scenes), reports
    for scene in scenes:
        client = scene.client
        seen = (scene.kind, client._failure, client.lost_bytes, client.is_complete)
        assert (client.lost_bytes, client.is_complete) == ((0, True) if scene.is_harmless else (2000, False)), seen
        assert scene.is_harmless or scene.pauses[-1] is False


async def test_a_failure_before_the_recording_begins_is_the_reason_why_it_does_not(monkeypatch):
    data = encode_message(RecorderFailed("OSError in recorder.py:1"))
    monkeypatch.setattr(recorder_client, "_START", f"import os; os.write(1, {data!r})")
    client = RecorderClient(CaptureBuffer(), lambda _pause: None)
    with pytest.raises(InputError, match=r"The recorder process failed \(OSError in recorder.py:1\); see its output"):
        await client.open(Settings(), "http://service")


# The other direction


def batch(*contents: tuple[int, bytes]) -> bytes:
    """Pack entries, at this moment."""
    return pack_batch([value for key, content in contents for value in (time.monotonic_ns(), key, content)])


def observed(observation) -> tuple[int, bytes]:
    return 0, encode_observation(observation)


SENT = {
    "a request": observed(REQUEST),
    "the end of a request": observed(RequestEnded(1, 0)),
    "a response": observed(ResponseStarted(1, 0, 200, "OK", "HTTP/1.1", ())),
    "a loss": observed(BytesLost(1, 0, Side.RESPONSE, 0, 5, "why")),
    "a chunk": (body_key(1, Side.RESPONSE), b"x" * 1000),
    "the end": observed(ExchangeEnded(1, 0, Ending.COMPLETE)),
    "the stop": (0, encode_stop()),
}


class RealRecorder:
    """A recorder process, and the pipes to it."""

    def __init__(self, path, opened: contextlib.ExitStack) -> None:
        self.path = path
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = opened.enter_context(ForkedProgram("recorder", **pipes))
        opened.callback(self.process.kill)
        settings = replace(Settings(), output=str(path), config=NO_CONFIG)
        self.send(encode_message(RecorderConfig(settings, "http://service", wants_status=False)))
        self.reader = MessageReader()

    def wait_stored(self) -> None:
        """Wait until the first batch is stored."""
        stored = False
        while not stored:
            messages = map(decode_message, self.reader.feed(os.read(self.process.stdout.fileno(), 65536)))
            stored = any(isinstance(message, BatchesStored) and message.count == 1 for message in messages)

    def send(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def rest(self) -> list[object]:
        """Close the pipe, and return all messages."""
        self.process.stdin.close()
        messages = [decode_message(each) for each in self.reader.feed(self.process.stdout.read())]
        self.process.wait(20)
        return messages


@pytest.mark.parametrize("fault", ["cut off", "cut", "late"])
def test_no_fault_of_the_proxy_damages_the_recording_or_is_silent(fault, tmp_path):
    """Batches before the fault are stored; what is cut off at the end is ignored, because the proxy was killed."""
    before = batch(*list(SENT.values())[:-1])
    with contextlib.ExitStack() as opened:
        recorders = {what: RealRecorder(tmp_path / f"{what}.db", opened) for what in SENT}
        for recorder in recorders.values():
            recorder.send(before)
        for what, recorder in recorders.items():
            recorder.wait_stored()
            entry = SENT[what]
            if entry[0]:
                entry = (body_key(2, Side.RESPONSE), entry[1])
            elif what != "the stop":
                entry = (0, entry[1].replace(b'"exchange":1', b'"exchange":2'))
            request = observed(replace(REQUEST, exchange=2, target="/second"))
            data = batch(*([request, entry] if what != "a request" else [entry]))
            half = len(data) // 2
            recorder.send(data[:half])
            if fault == "cut":
                recorder.send(before)
            elif fault == "late":
                time.sleep(0.01)
                recorder.send(data[half:])
        for what, recorder in recorders.items():
            messages = recorder.rest()
            kinds = {type(each) for each in messages}
            assert (RecorderFailed in kinds) is (fault == "cut"), what
            assert (RecordingClosed in kinds) is (fault != "cut"), what
            with open_recording(recorder.path) as recording:
                exchanges = list(recording.exchanges())
                assert (exchanges[0].ending, exchanges[0].response_bytes, exchanges[0].lost_bytes) == (
                    Ending.COMPLETE,
                    1000,
                    5,
                ), what
                assert len(exchanges) == 1 + (fault == "late"), what
                assert (recording.info.ended_ns is not None) is (fault == "late" and what == "the stop")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_recorder_that_the_system_stops_does_not_hold_up_others(number, tmp_path):
    """What it has stored before can be read."""
    with contextlib.ExitStack() as opened:
        recorder = RealRecorder(tmp_path / "run.db", opened)
        recorder.send(batch(*SENT.values()))
        recorder.wait_stored()
        os.kill(recorder.process.pid, number)
        with open_recording(recorder.path) as recording:
            assert recording.exchange(1).response_bytes == 1000
