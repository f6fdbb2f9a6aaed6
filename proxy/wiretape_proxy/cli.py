"""`wiretape proxy`."""

import asyncio
import os
import re
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from wiretape import addresses
from wiretape.errors import InputError
from wiretape.files import PATH, path_exists, read_error
from wiretape.safe_text import printable
from wiretape_proxy import settings, stderr
from wiretape_proxy.needed import only_needed_addons
from wiretape_proxy.order import NO_CONFIG
from wiretape_proxy.settings import Upstream


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
@click.argument("upstream", metavar="[UPSTREAM]", required=False)
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8080", show_default=True, help="Port 0: a free one.")
@click.option("-o", "--output", metavar="FILE", help="The recording.  [default: wiretape-DATE-TIME.db]")
@click.option("--append", is_flag=True, help="Go on in a recording that exists.")
@click.option(
    "--mode",
    type=click.Choice(["reverse", "regular"]),
    default="reverse",
    show_default=True,
    help="Stand in for the service (reverse), or be the proxy that clients are configured to use (regular): "
    "then, other hosts than UPSTREAM pass unrecorded; without UPSTREAM, all are recorded.",
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
    type=PATH,
    help="Where mitmproxy keeps its certificate authority.  [default: ~/.mitmproxy in regular mode, else nowhere]",
)
@click.option(
    "--ca",
    metavar="FILE",
    type=PATH,
    help="Certificate authorities (PEM) to trust for the service, instead of the usual ones.",
)
@click.option("--insecure", is_flag=True, help="Do not verify the service's certificate.")
@click.option(
    "--fail-on",
    type=click.Choice([*settings.SEVERITIES, settings.NEVER]),
    default=settings.NEVER,
    show_default=True,
    help="Exit with status 1, when stopped, if there was a finding as bad as this, or worse.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=PATH,
    help="Configuration to read, instead of wiretape.toml or [tool.wiretape] in pyproject.toml, here or above.",
)
@click.option("--no-config", is_flag=True, help="Read no configuration.")
@click.option("--debug", is_flag=True, help="Show the recording in a browser as well, while it is made.")
@click.option("--plain", is_flag=True, help="Lines only, no view of the open streams, also on a terminal.")
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
def proxy(ctx: click.Context, /, upstream: str | None, **given: Any) -> None:
    """Record what passes between clients and the service at UPSTREAM, an http or https URL.

    Bodies are streamed through unchanged and checked against the specification as they pass.  On a terminal, the
    open streams are shown, and findings scroll above them; else each finding is one line on standard error.
    Ctrl-C closes the recording; a second one exits at once.

    \b
    Exit status:
      0    it was stopped
      1    it was stopped, and there are findings that --fail-on names
      2    it could not start, the recording is not whole, or --fail-on was
           given and the checks failed
      130  a second signal ended it at once
    """
    regular = given["mode"] == "regular"
    if upstream is None and not regular:
        raise click.UsageError("Missing argument 'UPSTREAM': the URL of the service, such as http://127.0.0.1:9000.")
    if given["config"] is not None and given["no_config"]:
        raise click.UsageError("Give --config or --no-config, not both.")
    service, address = _upstream(upstream) if upstream is not None else None, addresses.parse_address(given["listen"])
    output = given["output"] or settings.dated_name()
    _check_output(Path(output), append=given["append"])
    _check_authorities(given["ca"])
    recording = {
        "output": output,
        "append": str(given["append"]).lower(),
        "upstream": service.url if service is not None else "",
        "config": NO_CONFIG if given["no_config"] else str(given["config"] or ""),
        "identity": str(given["identity"]).lower(),
        "idle_timeout": given["idle_timeout"],
        "on_overload": given["on_overload"],
        "memory": given["memory"],
    }
    # mitmproxy takes long to import, which `--help` need not wait for.
    with only_needed_addons():
        from wiretape_proxy.master import Plan  # noqa: PLC0415
        from wiretape_proxy.run import Run, run  # noqa: PLC0415

    with _keys(given["confdir"], regular=regular) as (folder, forget):
        plan = Plan(
            mode="regular" if service is None or regular else f"reverse:{service.origin}",
            listen=address,
            confdir=folder,
            recording=recording,
            only=[f"^{re.escape(service.authority)}$"] if service is not None and regular else [],
            insecure=given["insecure"],
            ca=given["ca"],
        )
        what = Run(
            plan,
            service,
            fail_on=given["fail_on"],
            live=stderr.is_for_people() and not given["plain"],
            check=not given["no_upstream_check"],
            debug=given["debug"],
            forget_keys=forget,
        )
        ctx.exit(asyncio.run(run(what)))


def _check_output(path: Path, *, append: bool) -> None:
    """Complain of what can be seen to be wrong before anything is started.  Raises InputError."""
    if (path_exists(path) and not append) or not os.access(path.parent, os.W_OK | os.X_OK):
        from wiretape.recording import check_output  # noqa: PLC0415 - slow to import, and usually not needed

        check_output(path, append=append)


def _check_authorities(path: Path | None) -> None:
    """Raises InputError where a file holds no certificates, which mitmproxy would only see at the first connection."""
    if path is None:
        return
    try:
        path.open("rb").close()
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise InputError(f"{path} holds no certificates in PEM: give --ca another file.") from None
    except OSError as error:
        raise InputError(read_error(path, error)) from None


def _upstream(text: str) -> Upstream:
    try:
        return settings.upstream(text)
    except ValueError as error:
        raise InputError(printable(f"{error}.")) from None


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
