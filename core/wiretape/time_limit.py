"""Limit the time of a function that waits for a server, which may send a byte now and then for ever."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

_T = TypeVar("_T")


def call_within(seconds: float, function: Callable[[], _T]) -> _T:
    """Return the result of a function.  Raises TimeoutError if it takes longer.

    It runs in a thread, which then continues; the thread ends with the process.
    """
    result: Future[_T] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    return result.result(seconds)
