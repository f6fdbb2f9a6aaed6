"""The command `wiretape proxy`."""

import asyncio
import os
import shutil
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import click

from wiretape import addresses
from wiretape.errors import InputError, missing_package_error
from wiretape.files import PATH, path_exists, read_error
from wiretape_proxy import proxy_options
from wiretape_proxy.proxy_options import NO_CONFIG

_ADDONS = "mitmproxy.addons"


class _ValidText(click.ParamType[Any]):
    """Text that a parser of `proxy_options` accepts.  It is passed on unchanged: mitmproxy takes text."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parsed = self._parse(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        if parsed == ():  # an empty line of mitmproxy's option; on a command line, probably an unset variable
            self.fail(f"the {self.name} is empty.", param, ctx)
        return value


def _addon_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that the addon has as well."""
    for option in reversed(proxy_options.OPTIONS):
        names = [f"--{option.name.replace('_', '-')}", *filter(None, [option.letter])]
        if option.is_flag:
            command = click.option(*names, is_flag=True, help=option.help)(command)
        elif option.metavar:
            command = click.option(
                *names,
                type=PATH if option.metavar == "FILE" else _ValidText(option.metavar.lower(), option.parse),
                metavar=option.metavar,
                multiple=option.is_repeatable,
                default=option.default or None,
                show_default=bool(option.default),
                help=f"{option.help} Repeatable." if option.is_repeatable else option.help,
            )(command)
    return command


def _print_addon_path(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(Path(__file__).with_name("mitmproxy_script.py"))
        ctx.exit()


@click.command(
    epilog="\b\nExample:\n    wiretape proxy http://127.0.0.1:9000 --output run.db\n\nClients then connect to http://127.0.0.1:8080."
)
@click.argument("upstream", metavar="[UPSTREAM]", required=False)
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    default="127.0.0.1:8080",
    show_default=True,
    help="Address to listen on; port 0 picks a free port.",
)
@click.option(
    "--mode",
    type=click.Choice(["reverse", "regular"]),
    default="reverse",
    show_default=True,
    help="reverse: clients use wiretape's address instead of the service's. regular: clients are configured to use "
    "wiretape as their HTTP proxy.",
)
@_addon_options
@click.option(
    "--confdir",
    metavar="FOLDER",
    type=PATH,
    help="Folder with mitmproxy's certificate authority.  [default: ~/.mitmproxy in regular mode, otherwise none]",
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
    type=click.Choice(proxy_options.FAIL_ON),
    default="never",
    show_default=True,
    help="Exit with status 1 if any finding is at least this severe. With inconclusive, exit with status 1 if there "
    "is any finding or any inconclusive rule.",
)
@click.option("--no-config", is_flag=True, help="Do not read a configuration file.")
@click.option(
    "--debug",
    is_flag=True,
    help="Also show the recording, as it grows, on a `wiretape debug` page, and print the URL of the page.",
)
@click.option(
    "--otlp",
    metavar="ENDPOINT",
    type=_ValidText("url", partial(addresses.parse_upstream, name="endpoint")),
    help="Also export the recording to this OTLP/HTTP endpoint, as OpenTelemetry spans.",
)
@click.option("--plain", is_flag=True, help="Print plain lines instead of the live view, even on a terminal.")
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print no line for an ordinary request that ended, only for findings, streams and failures.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How to print lines; json: each one is a JSON object, without the live view.",
)
@click.option("--no-upstream-check", is_flag=True, help="Start even if the service does not respond.")
@click.option(
    "--addon-path",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_addon_path,
    help="Print the path of the addon for mitmdump and mitmweb, and exit.",
)
@click.pass_context
def proxy(ctx: click.Context, /, upstream: str | None, **given: Any) -> None:
    """Record and check the traffic between clients and the service at UPSTREAM, an http or https URL.

    Bodies are forwarded unchanged as they arrive, and checked against the specification. Each finding, and each
    request that ended, is printed as one line on standard error; on a terminal, the open streams are shown below
    the lines. Ctrl-C closes the recording; a second Ctrl-C exits at once.

    With --mode regular, traffic to hosts other than UPSTREAM passes unrecorded; without UPSTREAM, all traffic is
    recorded.

    \b
    Exit status:
      0    the proxy was stopped
      1    the proxy was stopped, and there are findings at or above --fail-on,
           or inconclusive rules with --fail-on inconclusive
      2    the proxy could not start, the recording is incomplete, or
           --fail-on was given and the checks could not be completed
      130  a second signal ended the proxy at once
    """
    is_regular = given["mode"] == "regular"
    if upstream is None and not is_regular:
        raise click.UsageError("Missing argument 'UPSTREAM': the URL of the service, such as http://127.0.0.1:9000.")
    if given["config"] is not None and given["no_config"]:
        raise click.UsageError("--config and --no-config cannot be combined.")
    excluded = {"rotate": ("append", "debug", "otlp"), "compress": ("debug", "otlp"), "contract": ("base",)}
    for option, others in excluded.items():
        for name in others:
            if given[option] and given[name]:
                raise click.UsageError(f"--{option} and --{name} cannot be combined.")
    if given["rotate_command"] and not given["rotate"]:
        raise click.UsageError("--rotate-command needs --rotate.")
    if given["otlp"] is not None and find_spec("opentelemetry") is None:
        raise missing_package_error("opentelemetry", "Exporting OTLP")
    service = addresses.require_upstream(upstream) if upstream is not None else None
    address = addresses.parse_address(given["listen"])
    values = given | {
        "output": given["output"] or proxy_options.dated_name(),
        "upstream": service.url if service is not None else "",
        "config": NO_CONFIG if given["no_config"] else given["config"],
    }
    _check_output(Path(values["output"]), append=given["append"])
    if given["compress"]:
        _check_output(Path(f"{values['output']}.zst"), append=False)
    _check_authorities(given["ca"])
    # mitmproxy takes long to import, and `--help` does not need it.
    with only_needed_addons():
        from wiretape_proxy.proxy_runner import RunnerOptions, run  # noqa: PLC0415

    with _key_folder(given["confdir"], is_regular=is_regular) as (folder, delete_keys):
        options = RunnerOptions(
            upstream=service,
            is_regular=is_regular,
            listen=address,
            confdir=folder,
            addon_options={option.name: _addon_text(values[option.name]) for option in proxy_options.OPTIONS},
            insecure=given["insecure"],
            ca=given["ca"],
            fail_on=given["fail_on"],
            live_view=supports_live_view() and not given["plain"] and given["log_format"] == "text",
            lists_requests=not given["quiet"],
            logs_json=given["log_format"] == "json",
            check_upstream=not given["no_upstream_check"],
            debug=given["debug"],
            otlp=given["otlp"],
        )
        ctx.exit(asyncio.run(run(options, delete_keys)))


def _addon_text(value: object) -> str:
    """Return the value of an option as the addon takes it, which is text."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            return "\n".join(value)
        case _:
            return str(value)


def supports_live_view(descriptor: int = 2) -> bool:
    """Whether a descriptor is a terminal that can show a live view, and plain text is not requested."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    try:
        return os.isatty(descriptor) and not plain
    except OSError:
        return False


def _check_output(path: Path, *, append: bool) -> None:
    """Raise InputError for an output that cannot be written, before anything is started."""
    if (path_exists(path) and not append) or not os.access(path.parent, os.W_OK | os.X_OK):
        from wiretape.recording import check_output  # noqa: PLC0415 - slow to import, and usually not needed

        check_output(path, append=append)


def _check_authorities(path: Path | None) -> None:
    """Raise InputError for a file without certificates, which mitmproxy would only notice at the first connection."""
    if path is None:
        return
    try:
        path.open("rb").close()
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise InputError(f"{path} contains no PEM certificates: choose another file for --ca.") from None
    except OSError as error:
        raise InputError(read_error(path, error)) from None


@contextmanager
def _key_folder(wanted: Path | None, *, is_regular: bool) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield the folder of mitmproxy's certificate authority, and a function to call once mitmproxy has read it.

    In reverse mode, few clients use TLS to the proxy: unless a folder is given, no keys are left behind, even if the
    proxy is killed.
    """
    if wanted is None and not is_regular:
        with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
            yield Path(folder), lambda: shutil.rmtree(folder, ignore_errors=True)
        return
    keys = (wanted or Path("~/.mitmproxy")).expanduser()
    reason = "it cannot be written"
    try:
        keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(keys, os.R_OK | os.W_OK | os.X_OK)
    except OSError as error:
        usable, reason = False, str(error.strerror)
    if not usable:
        raise InputError(f"Cannot store certificates in {keys} ({reason}): choose another folder with --confdir.")
    yield keys, lambda: None


@contextmanager
def only_needed_addons() -> Iterator[None]:
    """Import only those of mitmproxy's addons that are named: that saves a third of the proxy's start-up time.

    The package `mitmproxy.addons` imports all of them, and with them LDAP, Flask and more.  Importing it afterwards
    imports it completely.
    """
    spec = find_spec(_ADDONS) if _ADDONS not in sys.modules else None
    if spec is None:
        yield
        return
    # The package itself, without running it: its modules are found by its path.
    sys.modules[_ADDONS] = module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[_ADDONS]
