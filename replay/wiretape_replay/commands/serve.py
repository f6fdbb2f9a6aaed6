"""`wiretape serve`."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from wiretape.addresses import parse_address
from wiretape.labels import count_of
from wiretape.safe_text import shorten
from wiretape_replay.access.access_settings import ASSUMED
from wiretape_replay.client_verdict.client_report import VerdictOptions
from wiretape_replay.commands.foreground_server import (
    GroupedCommand,
    control_option,
    listen_option,
    log,
    option_group,
    options_of,
    serve_until_stopped,
    verdict_options,
)
from wiretape_replay.server_options import ACCESS, FAULTS, SERVING, ServeOptions
from wiretape_replay.service.assumptions import NOT_CONFIGURABLE, FixedAssumption, assumed_settings, fixed_assumptions
from wiretape_replay.service.scenario_file import scenario_list
from wiretape_replay.service.scenario_server import DEFAULT_SCENARIO, Service, serve_scenario

_SEEDS = 1_000_000_000
"""How many random seeds there are."""


def _print_assumptions(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    formatter = ctx.make_formatter()
    with formatter.section(f"Assumptions with settings, in [{ASSUMED}] of --service FILE"):
        formatter.write_dl(
            [(f"{name} = {default}", f"Assumed: {about}.") for name, default, about in assumed_settings()]
        )
    with formatter.section("Other assumptions"):
        formatter.write_dl([(_plain(each.subject), _plain(_describe(each))) for each in fixed_assumptions()])
    click.echo(formatter.getvalue().strip())
    ctx.exit()


def _describe(assumption: FixedAssumption) -> str:
    setting = "Not configurable" if assumption.setting == NOT_CONFIGURABLE else f"Set in {assumption.setting}"
    return f"Assumed: {assumption.assumed}. {setting}."


def _plain(text: str) -> str:
    return text.replace("`", "")


@click.command(cls=GroupedCommand, epilog="Example: wiretape serve hello --listen 127.0.0.1:8090")
@click.argument("scenario", default=DEFAULT_SCENARIO)
@option_group(SERVING)("--list", "lists", is_flag=True, help="List the bundled scenarios, and exit.")
@listen_option
@options_of(ServeOptions)
@option_group(ACCESS)(
    "--assumptions",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_assumptions,
    help="List what the service assumes where the specification is silent, and exit.",
)
@option_group(FAULTS)("--strict", is_flag=True, help="Exit with status 1 if a fault never matched.")
@control_option
@verdict_options
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    *,
    scenario: str,
    lists: bool,
    listen: str,
    control_token: str | None,
    strict: bool,
    verdict: VerdictOptions,
    **options: Any,
) -> None:
    """Simulate the whole service from SCENARIO: the name of a bundled scenario, or a TOML file.

    Clients can create sessions, read streams, and create, cancel and resume runs; the runs follow the scenario.
    Where the specification does not define the behaviour, the service makes assumptions; --assumptions lists
    them. When you press Ctrl-C, the service stops and prints the rules that the client broke.
    """
    if lists:
        click.echo(scenario_list(), nl=False)
        return
    host, port = parse_address(listen)
    chosen_seed = options["seed"]
    if chosen_seed is None:
        options["seed"] = secrets.randbelow(_SEEDS)
    parsed = ServeOptions(**options)
    running, failed = serve_until_stopped(
        lambda checker: serve_scenario(
            scenario, parsed, host=host, port=port, log=log, checker=checker, token=control_token
        ),
        verdict.record or Path(scenario),
        verdict,
        greeting=lambda running: _greet(running, scenario, chosen_seed),
        summary=_summarize,
        chosen_token=control_token is not None,
    )
    ctx.exit(int(failed or (strict and bool(running.faults.unused))))


def _greet(running: Service, scenario: str, chosen_seed: int | None) -> Iterator[str]:
    yield f"Serving {shorten(scenario)} on {running.url}, Authorization: Bearer {shorten(running.key)}; Ctrl-C to stop."
    if chosen_seed is None:
        seed = running.sessions.seed
        yield f"Seed: {seed}; --seed {seed} generates the same ids again."


def _summarize(running: Service) -> Iterator[str]:
    sessions, streams = len(running.sessions.by_id), len(running.streams.requests)
    yield f"Served {count_of(sessions, 'session')} and {count_of(streams, 'stream')}."
    yield from running.faults.summary_lines()
