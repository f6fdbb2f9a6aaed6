"""`replay` and `serve` collect garbage in small steps, instead of when Python decides to."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from wiretape_replay.commands import foreground_server


class Cycle:
    """Something that only the garbage collector can free."""

    def __init__(self, freed: asyncio.Event) -> None:
        self.itself = self
        weakref.finalize(self, freed.set)


@asynccontextmanager
async def collecting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    for pause in ("_BUSY_PAUSE_S", "_QUIET_PAUSE_S"):
        monkeypatch.setattr(foreground_server, pause, 0)
    collector = asyncio.create_task(foreground_server.collect_garbage())
    await asyncio.sleep(0)
    assert not gc.isenabled(), "Python would collect thousands of objects at once"
    yield
    collector.cancel()
    with suppress(asyncio.CancelledError):
        await collector
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)


async def test_new_garbage_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = asyncio.Event()
    async with collecting(monkeypatch), asyncio.timeout(20):
        Cycle(freed)
        await freed.wait()


async def test_old_garbage_is_freed_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = asyncio.Event()
    async with collecting(monkeypatch), asyncio.timeout(20):
        old = Cycle(freed)
        gc.collect(0)
        del old
        busy = [[] for _ in range(2 * foreground_server._FEW_OBJECTS)]
        await freed.wait()
        del busy
