"""A recording read in a thread of its own, so that nobody else has to wait."""

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
_SLICE_BYTES = 256 * 1024
_FIRST_S, _SLICE_S = 0.01, 0.05
"""How long lines are collected before they are handed on: the first ones are waited for."""


class Reader:
    """Reads one recording for one request.

    The thread ends soon after `leave`; it keeps no program from ending.
    """

    def __init__(self, opening: Callable[[], Recording]) -> None:
        """`opening` opens the recording: when it is needed, and in the thread."""
        self._opening = opening
        self._opened: Recording | None = None
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[Recording], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    async def do(self, work: Callable[[Recording], _T]) -> _T:
        """What `work` returns or raises, which is run in the thread.  Raises RecordingError."""
        future: Future[_T] = Future()
        self._jobs.put((future, work))
        return await asyncio.wrap_future(future)

    async def lines(self, make: Callable[[Recording], Iterator[str]]) -> AsyncIterator[bytes]:
        """The lines that `make` makes, many at once.  They are made as fast as they are taken."""
        slices = await self.do(lambda recording: _Slices(make(recording)))
        while data := await self.do(slices.take):
            yield data

    async def rest(self) -> None:
        """Let the recording go until it is needed again: as long as it is open, whoever records cannot tidy up."""
        await self.do(Recording.close)
        self._opened = None

    def leave(self) -> None:
        """Let the recording go."""
        self._jobs.put(None)

    def _read(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                self._opened = self._opened or self._opening()
                future.set_result(work(self._opened))
            except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
                future.set_exception(error)
            del job, future, work
        if self._opened is not None:
            self._opened.close()


class _Slices:
    """Lines, taken many at a time."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._patience_s = _FIRST_S
        self._failed: InputError | None = None

    def take(self, _recording: Recording) -> bytes:
        """The next ones; nothing when there are no more.  Raises what making them raises, behind the last one."""
        if self._failed is not None:
            raise self._failed
        until, held, size = time.monotonic() + self._patience_s, list[bytes](), 0
        try:
            for line in self._lines:
                held.append(line.encode())
                size += len(held[-1])
                if size >= _SLICE_BYTES or time.monotonic() >= until:
                    break
        except InputError as error:
            if not held:
                raise
            self._failed = error
        self._patience_s = _SLICE_S
        return b"\n".join([*held, b""])
