"""The pipe to the recorder: bytes are written at once if the pipe has room, and in order later if not."""

import asyncio
import os

import pytest

from wiretape.observations import Side
from wiretape_proxy.ipc_codec import CaptureBuffer
from wiretape_proxy.recorder_client import PipeWriter

BLOCK = bytes(range(256)) * 400


def with_pipe(scenario):
    """Run a scenario with a writer and the reading end of its pipe."""

    async def run():
        source, target = os.pipe()
        os.set_blocking(target, False)
        reading = os.fdopen(source, "rb", buffering=0)
        try:
            await scenario(PipeWriter(target), reading)
        finally:
            reading.close()

    asyncio.run(run())


async def read_all(reading):
    """Read to the end of the pipe in a thread, as another process would."""
    return await asyncio.to_thread(reading.readall)


def test_bytes_that_fit_are_written_at_once():
    async def scenario(writer, reading):
        writer.write(b"one")
        writer.write(b"two")
        assert (writer.backlog, reading.read(100)) == (0, b"onetwo")
        writer.close()
        assert await read_all(reading) == b""

    with_pipe(scenario)


def test_bytes_that_do_not_fit_are_kept_and_retried_with_the_next_write():
    async def scenario(writer, reading):
        writer.write(BLOCK)
        kept = writer.backlog
        assert 0 < kept < len(BLOCK)
        first = reading.read(len(BLOCK) - kept)
        writer.write(b"end")  # without an iteration of the event loop in between
        assert writer.backlog == 0
        assert first + reading.read(len(BLOCK)) == BLOCK + b"end"
        writer.close()

    with_pipe(scenario)


def test_closing_waits_for_kept_bytes():
    async def scenario(writer, reading):
        for _ in range(5):
            writer.write(BLOCK)
        writer.close()
        writer.write(b"too late")
        assert await read_all(reading) == BLOCK * 5

    with_pipe(scenario)


@pytest.mark.parametrize("full", [True, False])
def test_without_a_reader_bytes_are_dropped(full):
    async def scenario(writer, reading):
        if full:
            writer.write(BLOCK)
        reading.close()
        writer.write(BLOCK)
        assert (writer.is_closing, writer.backlog) == (True, 0)
        writer.abandon()

    with_pipe(scenario)


def test_an_overdue_buffer_is_flushed_within_the_iteration_of_the_event_loop():
    buffer, taken = CaptureBuffer(), []
    buffer.on_overdue = lambda: taken.append(buffer.take()[2::3])
    tap = buffer.body_tap(1, Side.RESPONSE)
    tap(b"a")
    buffer.due_ns = 0
    tap(b"b")
    assert taken == [[b"a", b"b"]]
