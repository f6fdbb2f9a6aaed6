"""`wiretape proxy` with mistakes: the file in the variable FAULT names the function that raises, or `clock`.

`batches` and `messages` remove bytes once from what the recorder gets or sends, and `endless` makes a message too long.
The variable PATIENCE is how long a silent recorder lives, and an exporter that should end.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from wiretape.__main__ import main
from wiretape_proxy import flow_capture, proxy_runner, recorder_client
from wiretape_proxy.addon import Wiretape

__all__ = ["main"]
FAULT = Path(os.environ["FAULT"])
HOOKS = ("client_connected", "server_connected", "client_disconnected", "request", "response", "error")
"""Hooks that may raise at once.  The others first let the body stream."""
_CHANCE = random.Random(1)


def breakable(original: Callable[..., object], name: str) -> Callable[..., object]:
    def function(*arguments: object, **options: object) -> object:
        if FAULT.read_text() == name:
            raise RuntimeError(f"injected into {name}")
        return original(*arguments, **options)

    return function


for name in HOOKS:
    setattr(flow_capture.FlowCapture, name, breakable(getattr(flow_capture.FlowCapture, name), name))
for name in ("request_started", "response_started", "classify"):
    setattr(flow_capture, name, breakable(getattr(flow_capture, name), name))
Wiretape.configure = breakable(Wiretape.configure, "configure")
for name, unit in (("time", 1), ("time_ns", 10**9)):
    clock = getattr(time, name)
    jumps = lambda unit=unit: _CHANCE.randint(-(10**6), 10**6) * unit if FAULT.read_text() == "clock" else 0  # noqa: E731
    setattr(time, name, lambda clock=clock, jumps=jumps: clock() + jumps())


def damage(data: bytes, fault: str) -> bytes:
    """Return data, without some bytes in the middle if that is the fault."""
    if FAULT.read_text() != fault:
        return data
    FAULT.write_text("")
    return data[: len(data) // 2] + data[len(data) // 2 + 3 :]


class DamagedReader(recorder_client.MessageReader):
    def feed(self, data: bytes) -> Iterator[bytes]:
        if FAULT.read_text() == "endless":
            FAULT.write_text("")
            data = b"\xff\xff\xff\x7f" + data
        return super().feed(damage(data, "messages"))


write = recorder_client.PipeWriter.write
recorder_client.PipeWriter.write = lambda pipe, data: write(pipe, damage(data, "batches"))
recorder_client.MessageReader = DamagedReader
recorder_client._GIVE_UP_AFTER_S = proxy_runner._EXPORT_S = float(os.environ.get("PATIENCE", "10"))
