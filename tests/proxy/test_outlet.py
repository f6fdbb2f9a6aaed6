"""What is sent to the recorder goes at once where the pipe takes it, and in order where it does not."""

import asyncio
import os

import pytest

from wiretape.observations import Side
from wiretape_proxy.notes import Notes
from wiretape_proxy.outlet import Outlet

BLOCK = bytes(range(256)) * 400


def with_pipe(scenario):
    """Run it with an outlet and the descriptor that its pipe is read from; whatever happens, that is closed."""

    async def run():
        source, target = os.pipe()
        os.set_blocking(target, False)
        reading = os.fdopen(source, "rb", buffering=0)
        try:
            await scenario(Outlet(target), reading)
        finally:
            reading.close()

    asyncio.run(run())


async def read_all(reading):
    """Everything up to the end of the pipe, read by a thread, as it is by another process."""
    return await asyncio.to_thread(reading.readall)


def test_what_the_pipe_takes_is_there_at_once():
    async def scenario(outlet, reading):
        outlet.write(b"one")
        outlet.write(b"two")
        assert (outlet.backlog, reading.read(100)) == (0, b"onetwo")
        outlet.close()
        assert await read_all(reading) == b""

    with_pipe(scenario)


def test_what_it_does_not_take_is_kept_and_tried_again_with_the_next_write():
    async def scenario(outlet, reading):
        outlet.write(BLOCK)
        kept = outlet.backlog
        assert 0 < kept < len(BLOCK)
        first = reading.read(len(BLOCK) - kept)
        outlet.write(b"end")  # no turn of the event loop between
        assert outlet.backlog == 0
        assert first + reading.read(len(BLOCK)) == BLOCK + b"end"
        outlet.close()

    with_pipe(scenario)


def test_closing_waits_for_what_is_kept():
    async def scenario(outlet, reading):
        for _ in range(5):
            outlet.write(BLOCK)
        outlet.close()
        outlet.write(b"too late")
        assert await read_all(reading) == BLOCK * 5

    with_pipe(scenario)


@pytest.mark.parametrize("full", [True, False])
def test_when_nobody_reads_nothing_is_kept(full):
    async def scenario(outlet, reading):
        if full:
            outlet.write(BLOCK)
        reading.close()
        outlet.write(BLOCK)
        assert (outlet.is_closing, outlet.backlog) == (True, 0)
        outlet.abandon()

    with_pipe(scenario)


def test_notes_that_wait_too_long_are_taken_within_the_turn():
    notes, taken = Notes(), []
    notes.overdue = lambda: taken.append(notes.take()[2::3])
    tap = notes.tap(1, Side.RESPONSE)
    tap(b"a")
    notes.due_ns = 0
    tap(b"b")
    assert taken == [[b"a", b"b"]]
