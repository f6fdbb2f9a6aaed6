"""The options that everything that serves has in common, and the groups that help sorts options into."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from wiretape.config import NEVER
from wiretape.debugger_process import TOKEN_VARIABLE
from wiretape.files import PATH
from wiretape.rules import Severity
from wiretape_replay.control.control_access import control_command_line
from wiretape_replay.option_groups import option_group

_F = TypeVar("_F", bound=Callable[..., Any])

serving = option_group("What is served, and where")
timing = option_group("Time")
clients = option_group("How clients are treated")
failing = option_group("What goes wrong")
_control = option_group("Control")
_judging = option_group("What the client did, judged")

listen_option = serving(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:8090", show_default=True, help="Port 0: a free one."
)
faults_option = failing(
    "--faults",
    "fault_script",
    metavar="FILE",
    type=PATH,
    help="Faults: what goes wrong, where and how often, in TOML.",
)
control_option = _control(
    "--control-token",
    metavar="TOKEN",
    envvar=TOKEN_VARIABLE,
    help=f"What `wiretape control` has to show, by default a new one; in ${TOKEN_VARIABLE} other users do not see it.",
)
debug_option = _control("--debug", is_flag=True, help="Show FILE in a browser as well, and drive the playhead there.")


def judging_options(command: _F) -> _F:
    """`--fail-on`, `--report`, `--record`, `--config` and `--no-config`."""
    options = (
        _judging(
            "--fail-on",
            type=click.Choice([*(severity.value for severity in Severity), NEVER]),
            default=NEVER,
            show_default=True,
            help="Exit status 1 if the client did something as bad as this, or worse.",
        ),
        _judging(
            "--report",
            "reports",
            metavar="FORMAT:FILE",
            multiple=True,
            help="Write a report on the client in the end, as `wiretape report` does. Repeatable; FILE may be -.",
        ),
        _judging("--record", metavar="FILE", type=PATH, help="Record what passes, in a new file."),
        _judging(
            "--config",
            metavar="FILE",
            type=PATH,
            help="Configuration of the rules, instead of wiretape.toml or [tool.wiretape] in pyproject.toml, here or "
            "above.",
        ),
        _judging("--no-config", is_flag=True, help="Read no configuration."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def how_to_control(url: str, token: str, *, chosen: bool) -> str:
    """The line that says how playheads are moved.  A token that somebody chose is not shown."""
    line = control_command_line(url, None if chosen else token)
    return f"Control: {line}" if line else "Control: none, as this is no loopback address."


def say(line: str) -> None:
    """Tell people, on standard error."""
    click.echo(line, err=True)
