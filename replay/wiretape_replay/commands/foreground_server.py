"""What the commands `replay` and `serve` share: options, help in groups, and serving until Ctrl-C."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import fields
from functools import wraps
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from wiretape.addresses import is_loopback
from wiretape.files import PATH
from wiretape.wiretape_subprocess import TOKEN_VARIABLE, DebuggerProcess
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.client_verdict.client_report import VerdictOptions, check_client
from wiretape_replay.offline_server import RunningServer
from wiretape_replay.server_options import SERVING

_BUSY_PAUSE_S, _QUIET_PAUSE_S = 0.01, 0.2
"""Pauses between collections of garbage."""
_QUIET_TURNS = 10
"""After so many collections in which next to nothing was new, nothing happens."""
_FEW_OBJECTS = 100
_MOST_UNCHECKED = 50_000_000
"""Objects that were new at some time; most of them are gone.  A thousand busy sessions need 20 minutes."""

_F = TypeVar("_F", bound=Callable[..., Any])
_Running = TypeVar("_Running", bound=RunningServer)


class _GroupedOption(click.Option):
    """An option in a group of the help."""

    def __init__(self, *args: Any, group: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group


class GroupedCommand(click.Command):
    """Lists options in groups, in the order of their first options, and ungrouped options last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click.Command."""
        groups: dict[str, list[tuple[str, str]]] = {}
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        for option in sorted(options, key=lambda option: not isinstance(option, _GroupedOption)):
            record = option.get_help_record(ctx)
            if record is not None:
                title = option.group if isinstance(option, _GroupedOption) else "Options"
                groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def option_group(title: str) -> Callable[..., Callable[[_F], _F]]:
    """Return `click.option` for the options of one group."""

    def option(*names: str, **attributes: Any) -> Callable[[_F], _F]:
        return click.option(*names, cls=_GroupedOption, group=title, **attributes)

    return option


_control = option_group("Control")

listen_option = option_group(SERVING)(
    "--listen",
    metavar="[HOST:]PORT",
    default="127.0.0.1:8090",
    show_default=True,
    help="Address to listen on; port 0 picks a free port.",
)
control_option = _control(
    "--control-token",
    metavar="TOKEN",
    envvar=TOKEN_VARIABLE,
    help=f"Token for `wiretape control`; set ${TOKEN_VARIABLE} instead to hide it from other users.  "
    "[default: generated]",
)
debug_option = _control(
    "--debug",
    is_flag=True,
    help="Also show FILE on a `wiretape debug` page that can move the playhead, and print the URL of the page.",
)


def options_of(type_: type[Any], *, for_tests: bool = False, without: str = "") -> Callable[[_F], _F]:
    """Add the options that are declared by the fields of a dataclass, `without` one; see `server_options.option`.

    `for_tests`: with the defaults of Python where the command has others.
    """

    def decorate(command: _F) -> _F:
        for each in reversed(fields(type_)):
            if each.metadata and each.name != without:
                declared = dict(each.metadata)
                if for_tests:
                    declared.pop("command_default", None)
                command = _click_option(each.name, each.default, **declared)(command)
        return command

    return decorate


def _click_option(
    name: str,
    default: Any,
    flag: str,
    group: str,
    *,
    choices: Sequence[str] = (),
    is_file: bool = False,
    **attributes: Any,
) -> Callable[[_F], _F]:
    default = attributes.pop("command_default", default)
    if choices:
        attributes["type"] = click.Choice(choices)
    if is_file:
        attributes |= {"type": PATH, "metavar": "FILE"}
    if isinstance(default, bool):
        attributes["is_flag"] = True
    elif isinstance(default, tuple):
        attributes["multiple"] = True
    else:
        attributes |= {"default": default, "show_default": default is not None}
    return option_group(group)(flag, name, **attributes)


def verdict_options(command: Callable[..., Any], *, without: str = "") -> Callable[..., Any]:
    """Add the options of the client verdict, `without` one; the command gets them as `verdict`."""
    names = [each.name for each in fields(VerdictOptions) if each.name != without]

    @wraps(command)
    def run(*args: Any, **values: Any) -> Any:
        verdict = VerdictOptions(**{name: values.pop(name) for name in names})
        return command(*args, verdict=verdict, **values)

    return options_of(VerdictOptions, without=without)(run)


def log(line: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(f"{line}\n")  # click.echo takes ten times as long


def serve_until_stopped(
    start: Callable[[ClientChecker], AbstractAsyncContextManager[_Running]],
    name: Path,
    options: VerdictOptions,
    *,
    greeting: Callable[[_Running], Iterable[str]],
    summary: Callable[[_Running], Iterable[str]],
    chosen_token: bool,
    debug: Path | None = None,
) -> tuple[_Running, bool]:
    """Serve until Ctrl-C, then print the summary and the client verdict, and write the reports.

    `name` is what the verdict calls the traffic; `debug` is a recording to show in the debugger.
    Returns the replay or service, and whether the client fails.
    """

    async def serve(checker: ClientChecker) -> _Running:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with start(checker) as running:
            first, *others = greeting(running)
            for line in (first, *_control_line(running, chosen=chosen_token), *others):
                log(line)
            debugger = DebuggerProcess(log)
            if debug is not None:
                url = loopback_url(running.url) if running.has_playheads else None
                debugger.show(debug, replay=url, token=running.token)
            collector = asyncio.create_task(collect_garbage())
            await stop.wait()
            collector.cancel()
            await debugger.stop()
        for line in summary(running):
            log(line)
        return running

    with check_client(options) as verdict:
        running = asyncio.run(serve(verdict.checker))
        for line in verdict.lines(str(name)):
            log(line)
        verdict.write_reports()
        return running, verdict.fails


async def collect_garbage() -> None:
    """Collect garbage often, and then only among new objects, so that no stream waits for it.

    The others are collected while nothing happens, or when there are very many.  Left to itself, Python collects
    thousands of objects at once, because it does not count those that replace others.
    """
    gc.freeze()  # what was read stays
    gc.disable()
    unchecked = quiet = 0
    try:
        while True:
            await asyncio.sleep(_QUIET_PAUSE_S if quiet else _BUSY_PAUSE_S)
            new = len(gc.get_objects(generation=0))
            unchecked += new
            quiet = quiet + 1 if new < _FEW_OBJECTS else 0
            if unchecked > _MOST_UNCHECKED or (quiet == _QUIET_TURNS and unchecked > _FEW_OBJECTS):
                gc.collect()
                unchecked = 0
            else:
                gc.collect(0)
    finally:
        gc.unfreeze()
        gc.enable()


def _control_line(running: RunningServer, *, chosen: bool) -> Iterable[str]:
    """How to move the playheads.  A token that the user chose is not printed."""
    if running.has_playheads:
        command = control_command_line(running.url, None if chosen else running.token)
        yield f"Control: {command}" if command else "Control: not available, because this is not a loopback address."


def control_command_line(url: str, token: str | None) -> str | None:
    """The command that controls the replay at `url`; None if no loopback address reaches it.

    Without `token`, the command leaves the token out.
    """
    local_url = loopback_url(url)
    option = f" --token {token}" if token else ""
    return f"wiretape control {local_url} state{option}" if local_url else None


def loopback_url(url: str) -> str | None:
    """The URL at which this machine reaches the replay at `url` by a loopback address; None if there is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host not in {"localhost", "127.0.0.1"}:
        address = ip_address(host)
        if address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "[::1]"
        elif is_loopback(host):
            host = f"[{host}]" if address.version == 6 else host
        else:
            return None
    return f"http://{host}:{parts.port}"
