"""`wiretape replay` that measures how long the client checks hold up the event loop.

timed_replay.py FILE ARGUMENTS...    runs `wiretape ARGUMENTS`, and writes the CPU microseconds of each slice to FILE
"""

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
    sys.argv[1:] = sys.argv[2:]
    try:
        main()
    finally:
        target.write_text(json.dumps(slices))


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
