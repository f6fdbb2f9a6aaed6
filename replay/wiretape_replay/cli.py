"""`wiretape replay`."""

import asyncio
import gc
import signal
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from wiretape.addresses import parse_address
from wiretape.debugger_process import DebuggerProcess
from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.safe_text import shorten
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.client_verdict.client_report import ClientVerdict, fails
from wiretape_replay.common_options import (
    clients,
    control_option,
    debug_option,
    failing,
    faults_option,
    how_to_control,
    judging_options,
    listen_option,
    say,
    serving,
    timing,
)
from wiretape_replay.control.control_access import loopback_url
from wiretape_replay.faults.dry_run import dry_run_lines
from wiretape_replay.option_groups import GroupedCommand, option_group
from wiretape_replay.replay_options import MODES, PLAYHEADS, ReplayOptions
from wiretape_replay.serving import Replay, serve_replay
from wiretape_replay.verbatim.request_matching import Order, Repeat
from wiretape_replay.verify import verify as verify_recording

_LISTED = 20
"""How many exchanges that were never asked for the summary names."""


_matching = option_group("Which recorded answer a request gets (not: streams in session mode)")
_outcome = option_group("What it comes to")


@click.command(cls=GroupedCommand, epilog="Example: wiretape replay run.db --listen 127.0.0.1:8090 --speed max")
@click.argument("recording", metavar="FILE", type=PATH)
@serving(
    "--mode",
    type=click.Choice(MODES),
    default="session",
    show_default=True,
    help="How answers are chosen: streams by a playhead, or everything in recorded order.",
)
@listen_option
@timing("--speed", metavar="1|N|max", default="1", show_default=True, help="As recorded, N times that, at once.")
@timing("--paused", is_flag=True, help="Playheads stand until `wiretape control` moves them.")
@timing(
    "--playhead",
    type=click.Choice(PLAYHEADS),
    default="session",
    show_default=True,
    help="One for all clients of a session, or one for each stream that begins without a cursor.",
)
@_matching("--ignore-query", metavar="NAME", multiple=True, help="A query parameter that does not count. Repeatable.")
@_matching(
    "--ignore-body",
    metavar="PATH",
    multiple=True,
    help="A place in JSON bodies that does not count: '$.at', '$.items[*].id', '$..id' at any depth. Repeatable.",
)
@_matching("--match-header", metavar="NAME", multiple=True, help="A header that counts (none does). Repeatable.")
@_matching(
    "--order",
    type=click.Choice([order.value for order in Order]),
    default="kind",
    show_default=True,
    help="Recorded order within each kind of request, or strictly over all.",
)
@_matching(
    "--repeat",
    type=click.Choice([repeat.value for repeat in Repeat]),
    default="refuse",
    show_default=True,
    help="When all answers were given: a 501, the last again, or all again.",
)
@control_option
@debug_option
@_outcome("--strict", is_flag=True, help="Exit status 1 if a request had no match, or an exchange was never asked for.")
@_outcome(
    "--verify", is_flag=True, help="Serve nobody: replay FILE against itself in verbatim mode, and compare all bytes."
)
@clients(
    "--service",
    metavar="FILE",
    type=PATH,
    help="Keys, their scopes, limits and workspaces, in TOML.  [default: a key is needed, and any is good]",
)
@clients("--limits", is_flag=True, help="Count the published limits for each tenant (with --service: they are anyway).")
@clients("--no-auth", is_flag=True, help="Ask for no key.")
@faults_option
@failing("--dry-run", is_flag=True, help="Do not serve: list what the faults would hit.")
@judging_options
@click.pass_context
def replay(
    ctx: click.Context,
    *,
    recording: Path,
    mode: str,
    listen: str,
    speed: str,
    paused: bool,
    playhead: str,
    ignore_query: tuple[str, ...],
    ignore_body: tuple[str, ...],
    match_header: tuple[str, ...],
    order: str,
    repeat: str,
    control_token: str | None,
    debug: bool,
    strict: bool,
    verify: bool,
    service: Path | None,
    limits: bool,
    no_auth: bool,
    fault_script: Path | None,
    dry_run: bool,
    fail_on: str,
    reports: tuple[str, ...],
    record: Path | None,
    config: Path | None,
    no_config: bool,
) -> None:
    """Play a recording back as an offline service.

    In session mode a stream is given by the playhead, a moment on the session's log that moves at --speed:
    durable events behind it are replayed after the client's Last-Event-ID, what lies ahead comes live.
    Any other request gets the recorded answers of its kind (method, path, query, and body where bodies differ) in
    recorded order; in verbatim mode streams do too, byte for byte and with the ending they had.
    A request that was not recorded gets status 501 and the reason.
    Ctrl-C ends the replay and prints what was asked for, what never was, and which rules the client broke.
    """
    if verify:
        ctx.exit(_verified(ctx, recording))
    if dry_run and fault_script is None:
        raise InputError("--dry-run lists what a fault script would hit: add --faults FILE.")
    options = ReplayOptions(
        mode=mode,
        speed=speed,
        paused=paused,
        playhead=playhead,
        faults=fault_script,
        service=service,
        limits=limits,
        no_auth=no_auth,
        ignore_query=ignore_query,
        ignore_body=ignore_body,
        match_header=match_header,
        order=order,
        repeat=repeat,
    )
    if dry_run:
        for line in dry_run_lines(recording, options.script):
            click.echo(line)
        return
    host, port = parse_address(listen)
    with ClientVerdict.of(reports, record, config, no_config=no_config) as hearing:
        playing = asyncio.run(_replay(recording, options, host, port, hearing.judge, token=control_token, debug=debug))
        for line in hearing.verdict(recording):
            say(line)
        hearing.report(fail_on)
    failed = strict and bool(playing.misses or playing.unconsumed or playing.unfollowed)
    ctx.exit(int(failed or fails(hearing.judge.blame, fail_on)))


def _verified(ctx: click.Context, recording: Path) -> int:
    """Replay the recording against itself; returns the exit status."""
    given = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name not in {"recording", "verify"}
        and ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
    ]
    if given:
        raise InputError(f"--verify asks for everything itself: leave {' and '.join(given)} out.")
    found = asyncio.run(verify_recording(recording))
    for line in found.lines:
        say(line)
    return int(not found.same)


async def _replay(
    recording: Path,
    options: ReplayOptions,
    host: str,
    port: int,
    judge: ClientChecker,
    *,
    token: str | None,
    debug: bool,
) -> Replay:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serve_replay(recording, options, host=host, port=port, log=say, judge=judge, token=token) as playing:
        say(f"Replaying {shorten(str(recording))} ({_held(playing)}) on {playing.url} {options.pace}; Ctrl-C to stop.")
        if playing.player is not None:
            say(how_to_control(playing.url, playing.token, chosen=token is not None))
        for sentence in playing.warnings:
            say(sentence)
        companion = DebuggerProcess(say)
        if debug:
            driven = loopback_url(playing.url) if playing.player is not None else None
            companion.start(recording, replay=driven, token=playing.token)
        gc.freeze()  # what was read stays: looking through it for garbage would hold all streams up
        await stop.wait()
        await companion.stop()
    _summarise(playing)
    return playing


def _held(playing: Replay) -> str:
    exchanges = _count(len(playing.verbatim.queues), "exchange")
    if playing.player is None:
        return exchanges
    return f"{_count(len(playing.player.sessions), 'session')}, {exchanges} besides"


def _summarise(playing: Replay) -> None:
    served = _count(len(playing.served), "request")
    if playing.player is not None:
        given = [stream for stream in playing.player.streams.requests if stream.refusal is None]
        served = f"{_count(len(given), 'stream')} and {served}"
    say(f"Served {served}; {_count(len(playing.misses), 'request')} had no match.")
    if (summary := playing.faults.summary()) is not None:
        say(summary)
    streams = [f"  stream of session {shorten(session_id)}" for session_id in playing.unfollowed]
    exchanges = [f"  {entry.number:>5}  {shorten(f'{entry.method} {entry.target}')}" for entry in playing.unconsumed]
    if not streams and not exchanges:
        say("Everything recorded was asked for.")
    _list("the stream of {}", "session", streams)
    _list("{}", "recorded exchange", exchanges)


def _list(of: str, what: str, lines: Sequence[str]) -> None:
    """Say what nobody asked for, as far as there is any."""
    if lines:
        say(f"Never asked for: {of.format(_count(len(lines), what))}.")
    for line in lines[:_LISTED]:
        say(line)
    if len(lines) > _LISTED:
        say(f"  and {len(lines) - _LISTED} more.")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
