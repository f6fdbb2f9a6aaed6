"""The pipe to the recorder: bytes are written at once if the pipe has room, and in order later if not."""

import asyncio
import os

import pytest

from wiretape_proxy.recorder_client import PipeWriter

BLOCK = bytes(range(256)) * 400


@pytest.fixture
def pipe():
    source, target = os.pipe()
    os.set_blocking(target, False)
    with os.fdopen(source, "rb", buffering=0) as reading:
        yield target, reading


async def test_what_does_not_fit_is_kept_retried_with_the_next_write_and_written_before_the_end(pipe):
    target, reading = pipe
    writer = PipeWriter(target)
    writer.write(b"one")
    writer.write(b"two")
    assert (writer.backlog, reading.read(100)) == (0, b"onetwo")
    writer.write(BLOCK)
    kept = writer.backlog
    assert 0 < kept < len(BLOCK)
    first = reading.read(len(BLOCK) - kept)
    writer.write(b"end")  # without an iteration of the event loop in between
    assert writer.backlog == 0
    assert first + reading.read(len(BLOCK)) == BLOCK + b"end"
    for _ in range(5):
        writer.write(BLOCK)
    writer.close()
    writer.write(b"too late")
    assert await asyncio.to_thread(reading.readall) == BLOCK * 5


@pytest.mark.parametrize("full", [True, False])
async def test_without_a_reader_bytes_are_dropped(pipe, full):
    target, reading = pipe
    writer = PipeWriter(target)
    if full:
        writer.write(BLOCK)
    reading.close()
    writer.write(BLOCK)
    assert (writer.is_closing, writer.backlog) == (True, 0)
    writer.abandon()
