"""`wiretape proxy` with mistakes: the file in the variable FAULT names the function that raises, or `clock`."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

from wiretape.__main__ import main
from wiretape_proxy import flow_capture
from wiretape_proxy.addon import Wiretape

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
main()
