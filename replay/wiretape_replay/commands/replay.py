"""`wiretape replay`."""

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from wiretape.addresses import parse_address
from wiretape.errors import InputError
from wiretape.files import PATH, path_exists, read_error
from wiretape.labels import count_of
from wiretape.safe_text import shorten
from wiretape_replay.client_verdict.client_report import VerdictOptions, read_config
from wiretape_replay.commands.foreground_server import (
    GroupedCommand,
    control_option,
    debug_option,
    listen_option,
    log,
    option_group,
    options_of,
    serve_until_stopped,
    verdict_options,
)
from wiretape_replay.faults.fault_preview import preview_lines
from wiretape_replay.recording_server import Replay, serve_replay
from wiretape_replay.server_options import FAULTS, MATCHING, ReplayOptions
from wiretape_replay.tape_recording import Cassette
from wiretape_replay.verbatim.verifier import verify as verify_recording

_MOST_LISTED = 20
"""How many exchanges that were not requested the summary lists."""

_outcome = option_group("Outcome")


@click.command(
    cls=GroupedCommand, epilog="\b\nExample:\n    wiretape replay run.db --listen 127.0.0.1:8090 --speed max"
)
@click.argument("recording", metavar="FILE", type=PATH)
@listen_option
@options_of(ReplayOptions)
@option_group(MATCHING)(
    "--record-missing",
    metavar="UPSTREAM",
    help="Forward requests without a match to this URL, and add them, with their responses, to FILE.",
)
@control_option
@debug_option
@_outcome(
    "--strict",
    is_flag=True,
    help="Exit with status 1 if a request had no match, a recorded request was never made, or a fault never matched.",
)
@_outcome("--verify", is_flag=True, help="Replay FILE against itself, compare all bytes, and exit.")
@option_group(FAULTS)(
    "--dry-run", is_flag=True, help="List the events and requests that the faults would hit, and exit."
)
@verdict_options
@click.pass_context
def replay(
    ctx: click.Context,
    /,
    *,
    recording: Path,
    listen: str,
    record_missing: str | None,
    control_token: str | None,
    debug: bool,
    strict: bool,
    verify: bool,
    dry_run: bool,
    verdict: VerdictOptions,
    **options: Any,
) -> None:
    """Replay the recording FILE as an offline service.

    In channel mode, a playhead advances through the log of a channel at --speed. A stream first carries the
    durable events that the playhead has passed, starting after the client's Last-Event-ID, and then each event that
    the playhead reaches. Any other request receives the next recorded response to a request of the same kind.
    In verbatim mode, requests for streams also receive their recorded responses, byte for byte and with the recorded
    ending.
    A request that was not recorded gets status 501 and the reason, or with --record-missing the response of the
    service.
    When you press Ctrl-C, the replay stops and prints what was requested, which recorded requests were never made, and
    which rules the client broke.
    """
    if verify:
        ctx.exit(_verify(ctx, recording))
    if dry_run and options["faults"] is None:
        raise InputError("--dry-run lists what a fault script would hit: add --faults FILE.")
    if options["contract"] is None:
        options["contract"] = read_config(verdict).contracts
    parsed = ReplayOptions(**options)
    if dry_run:
        for line in preview_lines(recording, parsed):
            click.echo(line)
        return
    host, port = parse_address(listen)
    cassette = None
    if record_missing is not None:
        if not path_exists(recording):
            raise InputError(read_error(recording, FileNotFoundError()))
        cassette = Cassette(recording, record_missing)
    running, failed = serve_until_stopped(
        lambda checker: serve_replay(
            recording,
            parsed,
            host=host,
            port=port,
            log=log,
            checker=checker,
            token=control_token,
            cassette=cassette,
        ),
        recording,
        verdict,
        greeting=lambda running: _greet(running, recording, parsed, cassette),
        summary=_summarize,
        chosen_token=control_token is not None,
        debug=recording if debug else None,
    )
    if cassette is not None:
        cassette.save()
        log(f"Recorded {count_of(cassette.recorded, 'new exchange')} in {shorten(str(recording))}.")
    failed |= strict and bool(running.misses or running.unconsumed or running.unfollowed or running.faults.unused)
    ctx.exit(int(failed))


def _verify(ctx: click.Context, recording: Path) -> int:
    """Replay the recording against itself; returns the exit status."""
    given = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name not in {"recording", "verify"}
        and ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]
    if given:
        raise InputError(f"--verify cannot be combined with {' and '.join(given)}.")
    result = asyncio.run(verify_recording(recording))
    for line in result.lines:
        log(line)
    return int(not result.same)


def _greet(running: Replay, recording: Path, options: ReplayOptions, cassette: Cassette | None) -> Iterator[str]:
    exchanges = len(running.verbatim.queues)
    contents = count_of(exchanges, "exchange")
    player = running.player
    if player is not None:
        nouns = Counter(channel.log.noun for channel in player.channels.values()) or {running.contracts.main.noun: 0}
        channels = ", ".join(count_of(count, noun) for noun, count in nouns.items())
        contents = f"{channels} and {count_of(exchanges - len(player.by_exchange), 'other exchange')}"
    base = "" if cassette is None else cassette.upstream.base
    speed = _describe_speed(options.speed_factor) + (", paused" if options.paused else "")
    yield f"Replaying {shorten(str(recording))} ({contents}) on {running.url}{base} {speed}; Ctrl-C to stop."
    if cassette is not None:
        yield f"Requests without a match are forwarded to {cassette.upstream.url}."
    yield from running.warnings


def _describe_speed(factor: float) -> str:
    if factor == math.inf:
        return "at once"
    return "at the recorded speed" if factor == 1 else f"at {factor:g} times the recorded speed"


def _summarize(running: Replay) -> Iterator[str]:
    served = count_of(len(running.served), "request")
    if running.player is not None:
        streams = sum(stream.refusal is None for stream in running.player.streams.requests)
        served = f"{count_of(streams, 'stream')} and {served}"
    yield f"Served {served}; {count_of(len(running.misses), 'request')} had no match."
    yield from running.faults.summary_lines()
    noun = running.contracts.main.noun
    streams_left = [f"  stream of {noun} {shorten(name)}" for name in running.unfollowed]
    requests_left = [f"  {each.number:>5}  {shorten(f'{each.method} {each.target}')}" for each in running.unconsumed]
    if not streams_left and not requests_left:
        yield "Everything in the recording was requested."
    yield from _list_unrequested(f"the stream of {count_of(len(streams_left), noun)}", streams_left)
    yield from _list_unrequested(count_of(len(requests_left), "recorded exchange"), requests_left)


def _list_unrequested(what: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"Never requested: {what}."
    yield from lines[:_MOST_LISTED]
    if len(lines) > _MOST_LISTED:
        yield f"  and {len(lines) - _MOST_LISTED} more."
