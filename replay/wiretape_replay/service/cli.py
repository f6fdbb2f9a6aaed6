"""`wiretape serve`."""

import asyncio
import signal
from pathlib import Path

import click

from wiretape.rules import Severity
from wiretape.text import shown
from wiretape_replay.answers.settings import ASSUMED
from wiretape_replay.control.tokens import VARIABLE, command_line
from wiretape_replay.faults import telling as told_faults
from wiretape_replay.faults.reading import read_script
from wiretape_replay.faults.script import Script
from wiretape_replay.grouped import GroupedCommand, group_of
from wiretape_replay.judging.hearing import Hearing
from wiretape_replay.judging.judge import Judge
from wiretape_replay.judging.telling import NEVER, fails
from wiretape_replay.listening import address
from wiretape_replay.service.assumptions import FIXED, default_setup, load_setup, settings
from wiretape_replay.service.scenario.listing import listing
from wiretape_replay.service.serving import DEFAULT_SCENARIO, ServeOptions, Service, serve_scenario

_serving = group_of("What is served, and where")
_time = group_of("Time")
_clients = group_of("How clients are treated")
_faults = group_of("What goes wrong")
_control = group_of("Control")
_judging = group_of("What the client did, judged")


class _Serve(GroupedCommand):
    """Says in the help what is assumed."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click.Command."""
        with formatter.section(f"Assumptions: what the specification does not show ([{ASSUMED}] of --service FILE)"):
            formatter.write_dl([(f"{name} = {default}", f"Assumed: {about}.") for name, default, about in settings()])
        with formatter.section("Assumptions that are set elsewhere, or not at all"):
            formatter.write_dl(
                [(_plain(one.subject), f"Assumed: {_plain(one.assumed)}. Set: {_plain(one.instead)}.") for one in FIXED]
            )
        super().format_epilog(ctx, formatter)


def _plain(text: str) -> str:
    return text.replace("`", "")


@click.command(cls=_Serve, epilog="Example: wiretape serve hello --listen 127.0.0.1:8090 --data run.db")
@click.argument("scenario", default=DEFAULT_SCENARIO)
@_serving("--list", "lists", is_flag=True, help="List the scenarios that ship, and serve nobody.")
@_serving("--listen", metavar="HOST:PORT", default="127.0.0.1:8090", show_default=True, help="Port 0: a free one.")
@_serving(
    "--data",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where sessions and events are kept, to go on with them later.  [default: a file that is removed]",
)
@_serving("--seed", metavar="N", type=int, help="Of all ids.  [default: 0, or that of the data]")
@_time(
    "--clock",
    type=click.Choice(["real", "virtual"]),
    default="real",
    show_default=True,
    help="Virtual time goes on to the next event at once; it does not pass while clients are waited for.",
)
@_clients(
    "--service",
    "setup",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Keys, scopes, limits and what is assumed, in TOML.  [default: one key, the published limits]",
)
@_faults(
    "--faults",
    "fault_script",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Faults: what goes wrong, where and how often, in TOML.",
)
@_control(
    "--control-token",
    metavar="TOKEN",
    envvar=VARIABLE,
    help=f"What `wiretape control` has to show, by default a new one; in ${VARIABLE} other users do not see it.",
)
@_judging(
    "--fail-on",
    type=click.Choice([*(severity.value for severity in Severity), NEVER]),
    default=NEVER,
    show_default=True,
    help="Exit status 1 if the client did something as bad as this, or worse.",
)
@_judging(
    "--report",
    "reports",
    metavar="FORMAT:FILE",
    multiple=True,
    help="Write a report on the client in the end, as `wiretape report` does. Repeatable; FILE may be -.",
)
@_judging("--record", metavar="FILE", type=click.Path(path_type=Path), help="Record what passes, in a new file.")
@_judging(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Configuration of the rules, instead of wiretape.toml or [tool.wiretape] in pyproject.toml, here or above.",
)
@_judging("--no-config", is_flag=True, help="Read no configuration.")
@click.pass_context
def serve(
    ctx: click.Context,
    *,
    scenario: str,
    lists: bool,
    listen: str,
    data: Path | None,
    seed: int | None,
    clock: str,
    setup: Path | None,
    fault_script: Path | None,
    control_token: str | None,
    fail_on: str,
    reports: tuple[str, ...],
    record: Path | None,
    config: Path | None,
    no_config: bool,
) -> None:
    """Play the whole service, as SCENARIO says: a shipped one's name, or a TOML file.

    Clients create sessions and runs, read streams, cancel and resume; the runs do what the scenario says.
    Everything that is not in the specification is an assumption, and listed below.
    Ctrl-C ends it and prints which rules the client broke.
    """
    if lists:
        click.echo(listing(), nl=False)
        return
    host, port = address(listen)
    options = ServeOptions(
        seed=seed,
        virtual=clock == "virtual",
        data=data,
        setup=load_setup(setup) if setup is not None else default_setup(),
        faults=read_script(fault_script) if fault_script is not None else Script(),
    )
    with Hearing.of(reports, record, config, no_config=no_config) as hearing:
        served = asyncio.run(_serve(scenario, options, host, port, hearing.judge, token=control_token))
        for line in hearing.verdict(record or Path(scenario)):
            _say(line)
        hearing.report()
    if served.sessions.failed is not None:
        raise served.sessions.failed
    ctx.exit(int(fails(hearing.judge.blame, fail_on)))


async def _serve(
    scenario: str, options: ServeOptions, host: str, port: int, judge: Judge, *, token: str | None
) -> Service:
    async with serve_scenario(scenario, options, host=host, port=port, log=_say, judge=judge, token=token) as served:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, served.broken.set)
        _say(f"Serving {shown(scenario)} on {served.url}, Authorization: Bearer {shown(served.key)}; Ctrl-C to stop.")
        control = command_line(served.url, None if token is not None else served.token)
        _say(f"Control: {control}" if control else "Control: none, as this is no loopback address.")
        if served.sessions.by_id:
            _say(f"Sessions that go on: {len(served.sessions.by_id):,}.")
        await served.broken.wait()
    _say(f"Served {len(served.sessions.by_id):,} sessions and {len(served.streams.streamed):,} streams.")
    for line in told_faults.summary(served.faults):
        _say(line)
    return served


def _say(line: str) -> None:
    click.echo(line, err=True)
