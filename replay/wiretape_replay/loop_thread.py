"""Replays and services for programs that have no event loop: tests, scripts, other runners.

All replays of a process share one event loop, in a thread of its own, so that one more is there in milliseconds.
"""

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from wiretape_replay.control.playhead_control import wait_for
from wiretape_replay.recording_server import Replay, serve_replay
from wiretape_replay.server_options import ReplayOptions
from wiretape_replay.stand_in import ServeOptions, Service, serve_scenario

_T = TypeVar("_T")


class LoopThread:
    """An event loop that runs in a thread of its own until the process ends."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wiretape", daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def call(self, work: Callable[[], Any]) -> Any:
        """Run `work` in the loop's thread, to its end if it is awaitable, and hand back what it returns or raises.

        Raises RuntimeError where it would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("This would wait for itself: in the event loop's thread, use the replay's own methods.")
        return wait_for(asyncio.run_coroutine_threadsafe(_whole(work), self._loop))

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[_T]) -> Iterator[_T]:
        """Enter an asynchronous context manager in the loop's thread, and leave it there."""
        value: _T = self.call(manager.__aenter__)
        try:
            yield value
        finally:
            self.call(lambda: manager.__aexit__(None, None, None))

    def stop(self) -> None:
        """End the thread."""
        atexit.unregister(self.stop)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


@contextmanager
def start_replay(recording_path: Path | str, options: ReplayOptions | None = None, **how: Any) -> Iterator[Replay]:
    """Serve a recording until the block ends.  Same arguments and errors as serve_replay."""
    with shared_thread().entered(serve_replay(recording_path, options, **how)) as replay:
        yield replay


@contextmanager
def start_scenario(scenario: Any = None, options: ServeOptions | None = None, **how: Any) -> Iterator[Service]:
    """Play a service until the block ends.  Same arguments and errors as serve_scenario."""
    with shared_thread().entered(serve_scenario(scenario, options, **how)) as service:
        yield service


def shared_thread() -> LoopThread:
    """Return the thread of this process, started on first use, also after a fork."""
    with _beginning:
        if os.getpid() not in _threads:
            _threads.clear()
            _threads[os.getpid()] = LoopThread()
        return _threads[os.getpid()]


async def _whole(work: Callable[[], Any]) -> Any:
    result = work()
    return await result if inspect.isawaitable(result) else result


_beginning = threading.Lock()
_threads: dict[int, LoopThread] = {}
