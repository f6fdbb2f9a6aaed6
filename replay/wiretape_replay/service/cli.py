"""`wiretape serve`."""

import asyncio
import signal
from pathlib import Path

import click

from wiretape.addresses import parse_address
from wiretape.files import PATH
from wiretape.labels import count_of
from wiretape.safe_text import shorten
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.client_verdict.client_report import ClientVerdict, fails
from wiretape_replay.common_options import (
    clients,
    control_option,
    faults_option,
    how_to_control,
    judging_options,
    listen_option,
    say,
    serving,
    timing,
)
from wiretape_replay.option_groups import GroupedCommand
from wiretape_replay.responses.access_settings import ASSUMED
from wiretape_replay.service.assumptions import settings
from wiretape_replay.service.scenario.shipped_scenarios import scenario_list
from wiretape_replay.service.serve_options import ServeOptions
from wiretape_replay.service.serving import DEFAULT_SCENARIO, Service, serve_scenario
from wiretape_replay.service.unsaid import FIXED


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
@serving("--list", "lists", is_flag=True, help="List the scenarios that ship, and serve nobody.")
@listen_option
@serving(
    "--data",
    metavar="FILE",
    type=PATH,
    help="Where sessions and events are kept, to go on with them later.  [default: a file that is removed]",
)
@serving("--seed", metavar="N", type=int, help="Of all ids.  [default: 0, or that of the data]")
@timing(
    "--clock",
    type=click.Choice(["real", "virtual"]),
    default="real",
    show_default=True,
    help="Virtual time goes on to the next event at once; it does not pass while clients are waited for.",
)
@clients(
    "--service",
    "setup",
    metavar="FILE",
    type=PATH,
    help="Keys, scopes, limits and what is assumed, in TOML.  [default: one key, the published limits]",
)
@faults_option
@control_option
@judging_options
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
        click.echo(scenario_list(), nl=False)
        return
    host, port = parse_address(listen)
    options = ServeOptions(
        clock=clock,
        seed=seed,
        data=data,
        service=setup,
        faults=fault_script,
    )
    with ClientVerdict.of(reports, record, config, no_config=no_config) as hearing:
        served = asyncio.run(_serve(scenario, options, host, port, hearing.judge, token=control_token))
        for line in hearing.verdict(record or Path(scenario)):
            say(line)
        hearing.report(fail_on)
    if served.sessions.failed is not None:
        raise served.sessions.failed
    ctx.exit(int(fails(hearing.judge.blame, fail_on)))


async def _serve(
    scenario: str, options: ServeOptions, host: str, port: int, judge: ClientChecker, *, token: str | None
) -> Service:
    async with serve_scenario(scenario, options, host=host, port=port, log=say, judge=judge, token=token) as served:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, served.broken.set)
        say(
            f"Serving {shorten(scenario)} on {served.url}, Authorization: Bearer {shorten(served.key)}; Ctrl-C to stop."
        )
        say(how_to_control(served.url, served.token, chosen=token is not None))
        if served.sessions.by_id:
            say(f"Sessions that go on: {len(served.sessions.by_id):,}.")
        await served.broken.wait()
    sessions, streams = len(served.sessions.by_id), len(served.streams.requests)
    say(f"Served {count_of(sessions, 'session')} and {count_of(streams, 'stream')}.")
    if (summary := served.faults.summary()) is not None:
        say(summary)
    return served
