"""`wiretape serve`."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from wiretape.addresses import parse_address
from wiretape.labels import count_of
from wiretape.safe_text import shorten
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
from wiretape_replay.server_options import ACCESS, FAULTS, SERVING
from wiretape_replay.stand_in import ServeOptions, Service, StandIn, find_stand_in, serve_scenario

_SEEDS = 1_000_000_000
"""How many random seeds there are."""


@click.command(cls=GroupedCommand, epilog="\b\nExample:\n    wiretape serve hello --listen 127.0.0.1:8090")
@click.argument("scenario", required=False)
@option_group(SERVING)("--list", "lists", is_flag=True, help="List the bundled scenarios, and exit.")
@listen_option
@options_of(ServeOptions)
@option_group(ACCESS)(
    "--assumptions",
    is_flag=True,
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
    scenario: str | None,
    lists: bool,
    listen: str,
    assumptions: bool,
    control_token: str | None,
    strict: bool,
    verdict: VerdictOptions,
    **options: Any,
) -> None:
    """Simulate the service of a contract from SCENARIO: the name of a bundled scenario, or a TOML file.

    Where the specification does not define the behavior, the service makes assumptions; --assumptions lists
    them. When you press Ctrl-C, the service stops and prints the rules that the client broke.
    """
    stand_in = find_stand_in(options["contract"])
    if lists:
        _print_list(stand_in)
        return
    if assumptions:
        _print_assumptions(ctx, stand_in)
        return
    scenario = stand_in.default_scenario if scenario is None else scenario
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
        greeting=lambda running: _greet(running, scenario, parsed.seed, is_chosen=chosen_seed is not None),
        summary=_summarize,
        chosen_token=control_token is not None,
    )
    ctx.exit(int(failed or (strict and bool(running.faults.unused))))


def _print_list(stand_in: StandIn) -> None:
    rows = stand_in.scenarios()
    width = max(len(name) for name, _ in rows)
    for name, title in rows:
        click.echo(f"{name:{width}}  {title}")


def _print_assumptions(ctx: click.Context, stand_in: StandIn) -> None:
    formatter = ctx.make_formatter()
    for title, rows in stand_in.assumptions().items():
        with formatter.section(title):
            formatter.write_dl(rows)
    click.echo(formatter.getvalue().strip())


def _greet(running: Service, scenario: str, seed: int, *, is_chosen: bool) -> Iterator[str]:
    yield f"Serving {shorten(scenario)} on {running.url}, Authorization: Bearer {shorten(running.key)}; Ctrl-C to stop."
    if not is_chosen:
        yield f"Seed: {seed}; --seed {seed} generates the same ids again."


def _summarize(running: Service) -> Iterator[str]:
    channels = count_of(len(running.logs), running.contracts.main.noun)
    yield f"Served {channels} and {count_of(len(running.streams.requests), 'stream')}."
    yield from running.faults.summary_lines()
