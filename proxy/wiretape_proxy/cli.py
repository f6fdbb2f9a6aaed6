"""`wiretape proxy`."""

import asyncio
import ipaddress
import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wiretape.errors import InputError
from wiretape.text import printable
from wiretape_proxy import settings, stderr
from wiretape_proxy.settings import Upstream

if TYPE_CHECKING:
    from wiretape_proxy.addon import Wiretape
    from wiretape_proxy.master import Plan

_UNRECORDED = 2
"""Exit status when the recorder died and traffic passed unrecorded."""
_AT_ONCE = 130
_UPSTREAM_PATIENCE_S = 5.0


class _Parsed(click.ParamType[Any]):
    """Text that one of the functions in `settings` understands; it is passed on as it is, for mitmproxy takes text."""

    def __init__(self, read: Callable[[str], object]) -> None:
        self.name = read.__name__
        self._read = read

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            self._read(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        return value


def _print_addon_path(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(Path(__file__).with_name("script.py"))
        ctx.exit()


@click.command(
    epilog="Example: wiretape proxy http://127.0.0.1:9000 --output run.db, with clients sent to http://127.0.0.1:8080"
)
@click.argument("upstream", metavar="UPSTREAM")
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8080", show_default=True, help="Port 0: a free one.")
@click.option("-o", "--output", metavar="FILE", help="The recording.  [default: wiretape-DATE-TIME.db]")
@click.option("--append", is_flag=True, help="Go on in a recording that exists.")
@click.option(
    "--mode",
    type=click.Choice(["reverse", "regular"]),
    default="reverse",
    show_default=True,
    help="Stand in for the service (reverse), or be the proxy that clients are configured to use (regular).",
)
@click.option("--identity", is_flag=True, help="Ask the service for no content encoding.")
@click.option(
    "--idle-timeout",
    metavar="SECONDS",
    type=_Parsed(settings.seconds),
    default="none",
    show_default=True,
    help="Give an exchange up after this time without a byte.",
)
@click.option(
    "--on-overload",
    type=click.Choice(["slow", "drop"]),
    default="slow",
    show_default=True,
    help="When recording cannot keep up, slow the streams down or let bytes pass unrecorded.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    type=_Parsed(settings.size),
    default="256M",
    show_default=True,
    help="How much may wait to be recorded.",
)
@click.option(
    "--confdir",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where mitmproxy keeps its certificate authority.  [default: ~/.mitmproxy in regular mode, else nowhere]",
)
@click.option(
    "--ca",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Certificate authorities (PEM) to trust for the service, instead of the usual ones.",
)
@click.option("--insecure", is_flag=True, help="Do not verify the service's certificate.")
@click.option("--no-upstream-check", is_flag=True, help="Start even though the service does not answer.")
@click.option(
    "--addon-path",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_addon_path,
    help="Print the script for mitmdump -s and mitmweb -s, and exit.",
)
@click.pass_context
def proxy(  # noqa: PLR0917 - click passes them by name
    ctx: click.Context,
    upstream: str,
    listen: str,
    output: str | None,
    append: bool,
    mode: str,
    identity: bool,
    idle_timeout: str,
    on_overload: str,
    memory: str,
    confdir: Path | None,
    ca: Path | None,
    insecure: bool,
    no_upstream_check: bool,
) -> None:
    """Record what passes between clients and the service at UPSTREAM, an http or https URL.

    Bodies are streamed through unchanged and checked against the specification as they pass; each finding is
    one line on standard error.  Ctrl-C closes the recording; a second one exits at once.
    """
    service, address = _upstream(upstream), _address(listen)
    recording = {
        "output": output or settings.dated_name(),
        "append": str(append).lower(),
        "upstream": service.url,
        "identity": str(identity).lower(),
        "idle_timeout": idle_timeout,
        "on_overload": on_overload,
        "memory": memory,
    }
    # mitmproxy takes half a second to import, which `--help` need not wait for.
    from wiretape_proxy.master import Plan  # noqa: PLC0415

    regular = mode == "regular"
    with _keys(confdir, regular=regular) as (folder, forget):
        plan = Plan(
            mode="regular" if regular else f"reverse:{service.url}",
            listen=address,
            confdir=folder,
            recording=recording,
            only=[f"^{re.escape(service.authority)}$"] if regular else [],
            insecure=insecure,
            ca=ca,
        )
        ctx.exit(asyncio.run(_run(plan, service, forget, check=not no_upstream_check)))


async def _run(plan: "Plan", service: Upstream, forget_keys: Callable[[], None], *, check: bool) -> int:
    from wiretape_proxy.master import serve  # noqa: PLC0415 - see above

    output = stderr.install()
    stop = asyncio.Event()

    def interrupted() -> None:
        if stop.is_set():
            os._exit(_AT_ONCE)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted)
    if check:
        await _knock(service)

    def ready(address: tuple[str, int], addon: "Wiretape") -> None:
        forget_keys()
        output.open()
        _announce(address, plan, service, addon)

    addon = await serve(plan, stop, ready)
    return _UNRECORDED if addon.feed.closed is None else 0


def _announce(address: tuple[str, int], plan: "Plan", service: Upstream, addon: "Wiretape") -> None:
    host, port = address
    here = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    regular = plan.mode == "regular"
    what = f"as a proxy for {service.url}" if regular else f"forwarding to {service.url}"
    stderr.say(f"Listening on {here}, {what}, recording to {addon.recording}; Ctrl-C to stop.")
    if regular:
        stderr.say(f"Clients that use TLS must trust {plan.confdir / 'mitmproxy-ca-cert.pem'}.")
    if not _is_loopback(host):
        stderr.say(f"Other machines can reach {host}: whoever does uses the service through this proxy, recorded.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _upstream(text: str) -> Upstream:
    try:
        return settings.upstream(text)
    except ValueError as error:
        raise InputError(printable(f"{error}.")) from None


def _address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, with brackets around an IPv6 host.  Raises InputError."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+)):([0-9]{1,5})", text, re.ASCII)
    if match is None or int(match[3]) > 65535:
        raise InputError(
            printable(f"{text!r} is no address to listen on: give HOST:PORT, such as 127.0.0.1:8080 or [::1]:0.")
        )
    return match[1] or match[2], int(match[3])


async def _knock(service: Upstream) -> None:
    """Raises InputError when nobody answers at the service's address."""
    try:
        async with asyncio.timeout(_UPSTREAM_PATIENCE_S):
            _, writer = await asyncio.open_connection(service.host, service.port)
    except OSError as error:
        hint = "start the service first, or pass --no-upstream-check."
        raise InputError(f"{service.url} does not answer ({_reason(error)}): {hint}") from None
    writer.close()


def _reason(error: OSError) -> str:
    """Why a connection could not be made, in the words of the operating system, which asyncio replaces."""
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return os.strerror(error.errno) if error.errno else str(error)


@contextmanager
def _keys(wanted: Path | None, *, regular: bool) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Where mitmproxy keeps its certificate authority, and what to call once it has read it.

    In reverse mode, few clients speak TLS to the proxy: unless asked to, it leaves no keys behind, not even when
    it is killed.
    """
    if wanted is None and not regular:
        with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
            yield Path(folder), lambda: shutil.rmtree(folder, ignore_errors=True)
        return
    keys = (wanted or Path("~/.mitmproxy")).expanduser()
    reason = "it cannot be written to"
    try:
        keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(keys, os.R_OK | os.W_OK | os.X_OK)
    except OSError as error:
        usable, reason = False, str(error.strerror)
    if not usable:
        raise InputError(f"Cannot keep certificates in {printable(str(keys))}: {reason}; choose another --confdir.")
    yield keys, lambda: None
