"""mitmproxy with what recording needs, and nothing else."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mitmproxy import options
from mitmproxy.addons import block, core, disable_h2c, next_layer, proxyserver, tlsconfig
from mitmproxy.certs import CertStore
from mitmproxy.master import Master
from mitmproxy.options import CONF_BASENAME, KEY_SIZE

from wiretape.errors import InputError
from wiretape.safe_text import printable
from wiretape_proxy.addon import Wiretape
from wiretape_proxy.reports import Progress
from wiretape_proxy.settings import PREFIX


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run the proxy."""

    mode: str
    """As mitmproxy writes it: `regular`, or `reverse:URL`."""
    listen: tuple[str, int]
    confdir: Path
    recording: dict[str, str]
    """The addon's options, without their prefix."""
    only: Sequence[str] = ()
    """Patterns of `host:port`; TLS to others passes through untouched."""
    insecure: bool = False
    ca: Path | None = None
    """Authorities to trust for the service, beside the usual ones."""


class RecordingMaster(Master):
    """A master with the addons that forwarding needs.

    mitmproxy calls each hook of each of its thirty-odd standard addons for each request; half of the time that a
    small request takes is spent so.  And some of them alter traffic.
    """

    def __init__(self, plan: Plan, addon: Wiretape) -> None:
        opts = options.Options(
            mode=[plan.mode],
            listen_host=plan.listen[0],
            listen_port=plan.listen[1],
            confdir=str(plan.confdir),
            allow_hosts=list(plan.only),
            ssl_insecure=plan.insecure,
            ssl_verify_upstream_trusted_ca=str(plan.ca) if plan.ca else None,
        )
        super().__init__(opts)
        self.addons.add(
            core.Core(),
            block.Block(),
            disable_h2c.DisableH2C(),
            proxyserver.Proxyserver(),
            next_layer.NextLayer(),
            tlsconfig.TlsConfig(),
            addon,
        )
        # Lazy: a service that cannot be reached is then answered for with 502, and recorded; otherwise the client's
        # connection would just be closed.
        opts.update(connection_strategy="lazy", **{PREFIX + name: value for name, value in plan.recording.items()})


async def serve(
    plan: Plan,
    stop: asyncio.Event,
    on_ready: Callable[[tuple[str, int], Wiretape], None],
    on_progress: Callable[[Progress], None] | None = None,
) -> Wiretape:
    """Run the proxy until `stop` is set.  Raises InputError when it cannot listen or record.

    `on_progress`, if there is one, is told now and then how things stand.
    """
    _check_keys(plan.confdir)
    addon = Wiretape(command=True)
    master = RecordingMaster(plan, addon)
    if on_progress is not None:
        addon.feed.watch(on_progress)
    await addon.feed.spawn()
    running = asyncio.create_task(master.run())
    begun = asyncio.create_task(addon.begun.wait())
    await asyncio.wait({running, begun}, return_when=asyncio.FIRST_COMPLETED)
    try:
        _check(master, addon)
        on_ready(_address(master), addon)
        await _either(running, stop)
    finally:
        begun.cancel()
        master.shutdown()  # type: ignore[no-untyped-call]
        await running
    return addon


def _check_keys(folder: Path) -> None:
    """Have mitmproxy make or read its keys now: later, it would only log that it cannot."""
    try:
        CertStore.from_store(folder, CONF_BASENAME, KEY_SIZE)
    except (OSError, ValueError):
        raise InputError(f"Cannot use the keys in {printable(str(folder))}: choose another --confdir.") from None


async def _either(running: asyncio.Task[None], stop: asyncio.Event) -> None:
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


def _check(master: Master, addon: Wiretape) -> None:
    """Raises InputError when the proxy does not listen or record."""
    if addon.refused is not None:
        raise addon.refused
    for server in master.addons.get("proxyserver").servers:
        if server.last_exception is not None:
            raise InputError(_not_listening(master.options, server.last_exception))


def _not_listening(opts: options.Options, error: Exception) -> str:
    address = f"{opts.listen_host}:{opts.listen_port}"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{address} is in use: choose another address with --listen."
    # What asyncio says holds the reason at its end.
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    reason = getattr(cause, "strerror", None) or str(cause)
    return f"Cannot listen on {address}: {reason}."


def _address(master: Master) -> tuple[str, int]:
    """Where it listens: the port that was taken, where 0 was asked for."""
    host, port, *_ = master.addons.get("proxyserver").listen_addrs()[0]
    return host, port
