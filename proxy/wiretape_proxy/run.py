"""One run of `wiretape proxy`: from the knock at the service to the exit status."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wiretape.addresses import is_loopback, origin_of
from wiretape.debugger_process import DebuggerProcess
from wiretape.errors import InputError
from wiretape_proxy import stderr
from wiretape_proxy.addon import Wiretape
from wiretape_proxy.feed import Feed
from wiretape_proxy.master import Plan, serve
from wiretape_proxy.settings import NEVER, Upstream, reaches

_FOUND = 1
_UNRECORDED = 2
"""Exit status when bytes passed unrecorded, or what there is cannot be judged as was asked for."""
_AT_ONCE = 130
_UPSTREAM_PATIENCE_S = 5.0
_LAST_WORDS_S = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """What to run, and how."""

    plan: Plan
    service: Upstream | None
    """None: whatever clients ask for."""
    fail_on: str
    live: bool
    """Whether to show the open streams."""
    check: bool
    """Whether to see first if the service answers."""
    debug: bool
    """Whether to let a debugger run as well."""
    forget_keys: Callable[[], None]
    """To be called once mitmproxy has read its keys."""


async def run(what: Run) -> int:
    """Run the proxy until a signal comes; returns the exit status.  Raises InputError when it cannot start."""
    says = stderr.Stderr(live=what.live)
    try:
        return await _run(what, says)
    finally:
        says.close()


async def _run(what: Run, says: stderr.Stderr) -> int:
    output = stderr.install(says)
    stop = _stop_on_signals(says)
    if what.check and what.service is not None:
        await _knock(what.service)

    companion = DebuggerProcess(says.say)

    def ready(address: tuple[str, int], addon: Wiretape) -> None:
        what.forget_keys()
        output.open()
        _announce(says, address, what, addon)
        if what.debug:
            companion.start(Path(addon.recording))

    addon = await serve(what.plan, stop, ready, says.show if what.live else None)
    await companion.stop()
    return _status(addon.feed, what.fail_on)


def _stop_on_signals(says: stderr.Stderr) -> asyncio.Event:
    stop = asyncio.Event()

    def interrupted() -> None:
        if stop.is_set():
            says.close(_LAST_WORDS_S)
            os._exit(_AT_ONCE)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Who starts us with nohup wants us to outlive the terminal.
        if signal.getsignal(number) is not signal.SIG_IGN or number is not signal.SIGHUP:
            asyncio.get_running_loop().add_signal_handler(number, interrupted)
    return stop


def _status(feed: Feed, fail_on: str) -> int:
    closed = feed.closed
    if closed is None or not feed.whole:
        return _UNRECORDED
    if fail_on == NEVER:
        return 0
    if reaches(closed.severities, fail_on):
        return _FOUND
    return _UNRECORDED if closed.unchecked else 0


def _announce(says: stderr.Stderr, address: tuple[str, int], what: Run, addon: Wiretape) -> None:
    host, port = address
    to = what.service.url if what.service is not None else "every host"
    how = f"as a proxy for {to}" if what.plan.mode == "regular" else f"forwarding to {to}"
    says.say(f"Listening on {origin_of(host, port)}, {how}, recording to {addon.recording}; Ctrl-C to stop.")
    if what.plan.mode == "regular":
        says.say(f"Clients that use TLS must trust {what.plan.confdir / Path('mitmproxy-ca-cert.pem')}.")
    if not is_loopback(host):
        says.say(f"Other machines can reach {host}: whoever does uses the service through this proxy, recorded.")


async def _knock(service: Upstream) -> None:
    """Raises InputError when nobody answers at the service's address."""
    try:
        async with asyncio.timeout(_UPSTREAM_PATIENCE_S):
            _, writer = await asyncio.open_connection(service.host, service.port)
    except OSError as error:
        hint = "start the service first, or pass --no-upstream-check."
        raise InputError(f"{service.origin} does not answer ({_reason(error)}): {hint}") from None
    writer.close()


def _reason(error: OSError) -> str:
    """Why a connection could not be made, in the words of the operating system, which asyncio replaces."""
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return os.strerror(error.errno) if error.errno else str(error)
