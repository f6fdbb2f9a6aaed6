"""Run mitmproxy with the addon until a signal arrives, and choose the exit status."""

import asyncio
import os
import re
import shlex
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mitmproxy import options
from mitmproxy.addons import block, core, disable_h2c, next_layer, proxyserver, tlsconfig
from mitmproxy.certs import CertStore
from mitmproxy.master import Master
from mitmproxy.options import CONF_BASENAME, KEY_SIZE

from wiretape.addresses import Upstream, is_loopback, origin_of
from wiretape.errors import InputError
from wiretape.network_errors import describe_connection_error, describe_listen_error
from wiretape.recording.compressed_file import compressed_name
from wiretape.wiretape_subprocess import DebuggerProcess, WiretapeSubprocess
from wiretape_proxy import mitmproxy_internals as internals
from wiretape_proxy.addon import Wiretape
from wiretape_proxy.proxy_options import FAIL_ON, PREFIX
from wiretape_proxy.recorder_client import RecorderClient
from wiretape_proxy.stderr_writer import LogHandler, StderrWriter, install_log_handler

_FINDINGS = 1
_INCOMPLETE = 2
"""Exit status if traffic passed unrecorded, or the checks failed while `--fail-on` depends on them."""
_INTERRUPTED = 130
_UPSTREAM_TIMEOUT_S = 5.0
_INTERRUPT_FLUSH_S = 0.5
_EXPORT_S = 15.0
"""How long the export of the last spans may take."""


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """How to run the proxy."""

    upstream: Upstream | None
    """None: any host, in regular mode."""
    is_regular: bool
    """Whether it is in mitmproxy's mode `regular`, and not `reverse`."""
    listen: tuple[str, int]
    confdir: Path
    addon_options: Mapping[str, str]
    """The addon's options, without their prefix."""
    insecure: bool
    ca: Path | None
    """Authorities to trust for the service instead of the usual ones."""
    fail_on: str
    live_view: bool
    lists_requests: bool
    """Whether to print a line for each request that ended, and on a terminal the next command at the end."""
    logs_json: bool
    """Whether each printed line is a JSON object."""
    check_upstream: bool
    """Whether to check first that the service responds."""
    debug: bool
    """Whether to start a debugger as well."""
    otlp: str | None
    """URL of an OTLP receiver to export spans to."""


class RecordingMaster(Master):
    """A master with only those addons that forwarding needs.

    mitmproxy calls each hook of each of its thirty default addons for every request, which takes half of the time of
    a small request.  Some of them also alter traffic.
    """

    def __init__(self, given: RunnerOptions, addon: Wiretape) -> None:
        service = given.upstream
        opts = options.Options(
            mode=["regular" if given.is_regular or service is None else f"reverse:{service.origin}"],
            listen_host=given.listen[0],
            listen_port=given.listen[1],
            confdir=str(given.confdir),
            # TLS to other hosts passes through untouched.
            allow_hosts=[f"^{re.escape(service.authority)}$"] if service is not None and given.is_regular else [],
            ssl_insecure=given.insecure,
            ssl_verify_upstream_trusted_ca=str(given.ca) if given.ca else None,
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
        # Lazy: the client gets a 502 if the service is unreachable, and the exchange is recorded.  Otherwise
        # mitmproxy would just close the client's connection.
        opts.update(connection_strategy="lazy", **{PREFIX + name: value for name, value in given.addon_options.items()})


async def run(given: RunnerOptions, on_ready: Callable[[], None]) -> int:
    """Run the proxy until a signal arrives; return the exit status.  Raises InputError if it cannot start.

    `on_ready` is called once mitmproxy has read its keys.
    """
    with closing(StderrWriter(live=given.live_view, as_json=given.logs_json)) as stderr:
        return await _run(given, on_ready, stderr)


async def _run(given: RunnerOptions, on_ready: Callable[[], None], stderr: StderrWriter) -> int:
    log_handler = install_log_handler(stderr)
    stop = _stop_on_signals(stderr)
    if given.check_upstream and given.upstream is not None:
        await _check_upstream(given.upstream)
    _load_keys(given.confdir)
    addon = Wiretape(in_command=True)
    master = RecordingMaster(given, addon)
    if given.live_view:
        addon.recorder.on_status = stderr.show
    addon.recorder.lists_requests = given.lists_requests
    await addon.recorder.spawn()
    debugger = DebuggerProcess(stderr.write_line)
    exporter = WiretapeSubprocess(stderr.write_line, patience_s=_EXPORT_S)
    running = asyncio.create_task(master.run())
    started = asyncio.create_task(addon.started.wait())
    await asyncio.wait({running, started}, return_when=asyncio.FIRST_COMPLETED)
    try:
        _check_started(master, addon, given.listen)
        on_ready()
        _announce(stderr, log_handler, internals.listen_address(master), given, addon)
        if given.debug:
            debugger.show(Path(addon.recording))
        if given.otlp is not None:
            exporter.start("export", addon.recording, "--format", "otlp", "--endpoint", given.otlp)
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
    finally:
        started.cancel()
        master.shutdown()  # type: ignore[no-untyped-call]
        await running
    await debugger.stop()
    await exporter.stop()
    closed = addon.recorder.closed
    if given.fail_on == "inconclusive" and closed is not None and closed.inconclusive:
        stderr.write_line(f"Inconclusive: {', '.join(closed.inconclusive)}; `wiretape report` lists the reasons.")
    if given.lists_requests and os.isatty(2) and closed is not None and closed.exchanges and not closed.is_missing:
        stderr.write_line(_next_command(Path(addon.recording)))
    return exit_status(addon.recorder, given.fail_on)


def _next_command(recording: Path) -> str:
    path = recording if recording.exists() else compressed_name(recording)
    return f"Next: wiretape report {shlex.quote(str(path))}"


def exit_status(recorder: RecorderClient, fail_on: str) -> int:
    """Return the exit status after the recording is closed."""
    closed = recorder.closed
    if closed is None or not recorder.is_complete:
        return _INCOMPLETE
    if fail_on == "never":
        return 0
    reached = FAIL_ON[: FAIL_ON.index(fail_on) + 1]
    if any(map(closed.severities.get, reached)) or (fail_on == "inconclusive" and closed.inconclusive):
        return _FINDINGS
    return _INCOMPLETE if closed.checks_failed else 0


def _stop_on_signals(stderr: StderrWriter) -> asyncio.Event:
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            stderr.close(_INTERRUPT_FLUSH_S)
            os._exit(_INTERRUPTED)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup ignores SIGHUP: the proxy is to outlive the terminal.
        if signal.getsignal(number) is not signal.SIG_IGN or number is not signal.SIGHUP:
            asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return stop


async def _check_upstream(upstream: Upstream) -> None:
    """Raise InputError if nothing responds at the service's address."""
    try:
        async with asyncio.timeout(_UPSTREAM_TIMEOUT_S):
            _, writer = await asyncio.open_connection(upstream.host, upstream.port)
    except OSError as error:
        hint = "start the service first, or use --no-upstream-check."
        raise InputError(f"{upstream.origin} does not respond ({describe_connection_error(error)}): {hint}") from None
    writer.close()


def _load_keys(folder: Path) -> None:
    """Let mitmproxy create or read its keys now.  Raises InputError; later, mitmproxy would only log the error."""
    try:
        CertStore.from_store(folder, CONF_BASENAME, KEY_SIZE)
    except (OSError, ValueError):
        raise InputError(f"Cannot use the keys in {folder}: choose another folder with --confdir.") from None


def _check_started(master: Master, addon: Wiretape, listen: tuple[str, int]) -> None:
    """Raise InputError if the proxy does not listen or record."""
    if addon.error is not None:
        raise addon.error
    for error in internals.listen_exceptions(master):
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        if not isinstance(cause, OSError):
            raise InputError(f"Cannot listen on {':'.join(map(str, listen))}: {error}.") from None
        raise InputError(describe_listen_error(*listen, cause)) from None


def _announce(
    stderr: StderrWriter, log_handler: LogHandler, address: tuple[str, int], given: RunnerOptions, addon: Wiretape
) -> None:
    host, port = address
    to = given.upstream.url if given.upstream is not None else "every host"
    role = f"as a proxy for {to}" if given.is_regular else f"forwarding to {to}"
    url = origin_of(host, port)
    stderr.write_line(
        f"Listening on {url}, {role}, recording to {addon.recording}; Ctrl-C to stop.",
        {"url": url, "recording": addon.recording},
    )
    if given.is_regular:
        stderr.write_line(f"Clients that use TLS must trust {given.confdir / 'mitmproxy-ca-cert.pem'}.")
    if not is_loopback(host):
        stderr.write_line("Other machines can connect to this proxy and use the service through it.")
    log_handler.open()
