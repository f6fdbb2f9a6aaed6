"""Reads a recording in a thread of its own, so that the event loop never waits for the disk."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from wiretape.errors import InputError
from wiretape.recording import Recording

_T = TypeVar("_T")
_BATCH_BYTES = 256 * 1024
_FIRST_BATCH_S, _BATCH_S = 0.01, 0.05
"""How long lines are collected into a batch.  The first batch is short, because the page waits for it."""


class RecordingThread:
    """Reads the recording for one request.

    The thread ends soon after `stop`, and does not keep the program from ending.
    """

    def __init__(self, opening: Callable[[], Recording]) -> None:
        """Start the thread; `opening` opens the recording in it when it is first needed."""
        self._opening = opening
        self._opened: Recording | None = None
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[Recording], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="recording-reader", daemon=True).start()

    async def run(self, job: Callable[[Recording], _T]) -> _T:
        """Run `job` in the thread; return its result or raise its error.  Raises RecordingError."""
        future: Future[_T] = Future()
        self._jobs.put((future, job))
        return await asyncio.wrap_future(future)

    async def lines(self, make: Callable[[Recording], Iterator[str]]) -> AsyncIterator[bytes]:
        """Yield the lines of `make` in batches, which are made only as fast as they are consumed."""
        async for data in self.parts(lambda recording: (f"{line}\n".encode() for line in make(recording))):
            yield data

    async def parts(self, make: Callable[[Recording], Iterator[bytes]]) -> AsyncIterator[bytes]:
        """Yield the bytes of `make` in batches in the same way."""
        batches = await self.run(lambda recording: _batches(make(recording)))
        while data := await self.run(lambda _: next(batches, b"")):
            yield data

    async def close_recording(self) -> None:
        """Close the recording until the next job: while it is open, the recorder cannot close its file tidily."""
        await self.run(Recording.close)
        self._opened = None

    def stop(self) -> None:
        """Close the recording and end the thread after the jobs that wait."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            future, job = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                self._opened = self._opened or self._opening()
                future.set_result(job(self._opened))
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
                future.set_exception(error)
            del entry, future, job
        if self._opened is not None:
            self._opened.close()


def _batches(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield parts in batches.  Raises the error of the parts after those before it."""
    until, batch, size = time.monotonic() + _FIRST_BATCH_S, list[bytes](), 0
    try:
        for part in parts:
            batch.append(part)
            size += len(part)
            if size >= _BATCH_BYTES or time.monotonic() >= until:
                yield b"".join(batch)
                until, batch, size = time.monotonic() + _BATCH_S, [], 0
    except InputError:
        if batch:
            yield b"".join(batch)
        raise
    if batch:
        yield b"".join(batch)
