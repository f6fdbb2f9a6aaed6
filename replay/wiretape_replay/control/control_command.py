"""`wiretape control`."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import click

from wiretape.control_protocol import LONGEST_WAIT_S, MOST_STEPS, PATIENCE_S
from wiretape.errors import InputError
from wiretape_replay.control import telling
from wiretape_replay.control.control_access import VARIABLE, check_token
from wiretape_replay.control.control_client import ControlClient
from wiretape_replay.control.handle import not_reached
from wiretape_replay.control.playhead_control import Until
from wiretape_replay.session.playhead import Step


class _Teller:
    """A replay, which session of it is meant, and how answers are written."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.token: str | None = None
        self.session: str | None = None
        self.as_json = False

    def ask(self) -> None:
        """Write the state."""
        self.write(self._remote.get("state", self.session))

    def do(
        self, name: str, fields: Mapping[str, object] | None = None, *, method: str = "POST", takes_s: float = 0
    ) -> dict[str, Any]:
        """Do an operation, and write the state that follows."""
        fields = {"session": self.session, **(fields or {})}
        answer = self._remote.send(name, fields, method=method, takes_s=takes_s)
        self.write(answer)
        return answer

    def write(self, answer: Mapping[str, Any]) -> None:
        """Write an answer."""
        click.echo(json.dumps(answer, indent=2) if self.as_json else "\n".join(_told(answer)))

    @property
    def _remote(self) -> ControlClient:
        if self.token is None:
            raise InputError(f"Give the token that the replay said when it began: --token, or {VARIABLE}.")
        return ControlClient.at(self.url, check_token(self.token))


def _told(answer: Mapping[str, Any]) -> Iterator[str]:
    if answer.get("stepped") is not None:
        yield f"passed: {telling.entry(answer['stepped'])}"
    elif "found" in answer:
        yield f"passed: everything to the end of the log, with only {answer['found']} of what was asked for"
    yield from telling.lines(answer)


class _InOrder(click.Group):
    """Lists its commands in the order in which they stand here, and whole sentences of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - the same
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help or "") for name, command in self.commands.items()])


@click.group(cls=_InOrder, epilog="Example: wiretape control http://127.0.0.1:8090 step durable --count 3 --token 2f…")
@click.argument("url")
@click.pass_context
def control(ctx: click.Context, *, url: str) -> None:
    """Move the playheads of a replay that runs at URL, and see where they are.

    Every command writes the state that follows.
    """
    ctx.obj = _Teller(url)


def _noted(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    setattr(ctx.obj, parameter.name or "", value)


def _command(function: Callable[..., None]) -> click.Command:
    """A command of the group, with the options that all of them take."""
    told = partial(click.option, expose_value=False, callback=_noted)
    options = [
        told("--token", envvar=VARIABLE, metavar="TOKEN", help=f"The one that the replay said; also ${VARIABLE}."),
        told("--session", metavar="ID", help="Which session; needed where there are several."),
        told("--json", "as_json", is_flag=True, help="Write the answer as one JSON document."),
    ]
    for option in reversed(options):
        function = option(function)
    return control.command(name=function.__name__.rstrip("_"))(click.pass_obj(function))


@_command
def state(teller: _Teller) -> None:
    """Where the playheads are, what is ahead, and who is connected."""
    teller.ask()


@_command
def pause(teller: _Teller) -> None:
    """Stop here."""
    teller.do("pause")


@_command
def resume(teller: _Teller) -> None:
    """Move on, beyond the breakpoint that stopped it."""
    teller.do("resume")


@_command
@click.argument("to", type=click.Choice([step.value for step in Step]), default=Step.EVENT.value)
@click.option(
    "--count", metavar="N", type=click.IntRange(1, MOST_STEPS), default=1, show_default=True, help="How many."
)
def step(teller: _Teller, to: str, count: int) -> None:
    """Pause, and go behind the next event, durable event or event with a finding."""
    teller.do("step", {"to": to, "count": count})


@_command
@click.option("--sequence", metavar="N", type=int, help="Behind the event with this sequence.")
@click.option("--event", metavar="ID", help="Behind the durable event with this id.")
@click.option("--time", "time_s", type=click.FloatRange(min=0), metavar="SECONDS", help="To a time of the log.")
@click.option("--place", metavar="N", type=click.IntRange(min=0), help="To a place of the log, counted from 0.")
@click.option("--end", is_flag=True, help="Behind everything.")
def seek(teller: _Teller, /, **where: object) -> None:
    """Go to one place of the log, forward or back."""
    teller.do("seek", {name: value for name, value in where.items() if value is not False})


@_command
@click.option("--type", "type_", metavar="TYPE", help="Stop before events of this type; * stands for anything.")
@click.option("--sequence", metavar="N", type=int, help="Stop before the event with this sequence.")
@click.option("--tool-call", "tool_call_id", metavar="ID", help="Stop before events of this tool call.")
@click.option("--finding", metavar="CODE", help="Stop before events with this finding; the code may be a beginning.")
@click.option("--remove", is_flag=True, help="Take this breakpoint away instead.")
@click.option("--clear", is_flag=True, help="Take all breakpoints away.")
@click.option("--list", "listed", is_flag=True, help="Change nothing.")
def break_(teller: _Teller, /, *, type_: str | None, remove: bool, clear: bool, listed: bool, **rest: object) -> None:
    """Stop before every event that fits all that is said."""
    point = {"type": type_, **rest}
    is_empty = not any(value is not None for value in point.values())
    if clear + listed + (not is_empty) != 1 or (remove and is_empty):
        raise InputError("Say what to stop before (--type, --sequence, --tool-call, --finding), or --clear, or --list.")
    if listed:
        teller.ask()
    else:
        teller.do("breakpoints", point, method="DELETE" if remove or clear else "POST")


@_command
def reset(teller: _Teller) -> None:
    """Begin anew: playheads, recorded answers and faults; streams that are connected end."""
    teller.do("reset")


@_command
@click.argument("until", type=click.Choice([until.value for until in Until]), default=Until.STANDING.value)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, LONGEST_WAIT_S),
    default=PATIENCE_S,
    show_default=True,
    metavar="SECONDS",
    help="Longer than this is an error.",
)
def wait(teller: _Teller, until: str, timeout_s: float) -> None:
    """Wait until the playhead stands, is at a breakpoint or at the end, or a stream is connected."""
    answer = teller.do("wait", {"until": until, "timeout_s": timeout_s}, takes_s=timeout_s)
    if not answer["reached"]:
        raise InputError(not_reached(answer["sessions"][0]["session"], Until(until), timeout_s))
