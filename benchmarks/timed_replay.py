"""`wiretape replay` that measures what holds up the event loop: the client checks, and garbage collection.

timed_replay.py FILE ARGUMENTS...    runs `wiretape ARGUMENTS`, and writes the CPU microseconds of each pause to FILE
"""

import gc
import json
import sys
import time
from pathlib import Path

from wiretape.cli import main
from wiretape_replay.client_verdict.client_checker import ClientChecker


def measure(target: Path) -> None:
    slices: list[int] = []
    check = ClientChecker._check_slice  # noqa: SLF001 - this is what is measured

    def timed(self: ClientChecker) -> None:
        began = time.thread_time_ns()
        check(self)
        slices.append((time.thread_time_ns() - began) // 1000)

    ClientChecker._check_slice = timed  # type: ignore[method-assign]  # noqa: SLF001
    moments: list[int] = []
    """When collections began and ended, in turn."""

    def collect(_phase: str, _info: dict[str, int]) -> None:
        moments.append(time.thread_time_ns())

    def freeze() -> None:
        moments.clear()  # what was collected so far delayed no stream
        gc.callbacks.append(collect)
        began_freezing()

    began_freezing, gc.freeze = gc.freeze, freeze
    sys.argv[1:] = sys.argv[2:]
    try:
        main()
    finally:
        gc.callbacks.clear()
        pauses = [(end - begin) // 1000 for begin, end in zip(moments[::2], moments[1::2], strict=True)]
        target.write_text(json.dumps({"client checks": slices, "garbage collection": pauses}))


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
