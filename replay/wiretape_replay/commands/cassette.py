"""`wiretape cassette`: run a command with a tape, and record what the tape lacks."""

import asyncio
import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import click

from wiretape.errors import InputError
from wiretape.files import PATH
from wiretape.labels import count_of
from wiretape.safe_text import printable
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.client_verdict.client_report import VerdictOptions, check_client, read_config
from wiretape_replay.commands.foreground_server import GroupedCommand, log, option_group, options_of, verdict_options
from wiretape_replay.recording_server import Replay, serve_replay
from wiretape_replay.server_options import ReplayOptions
from wiretape_replay.tape_recording import Cassette, RecordMode, default_mode

URL_VARIABLE = "WIRETAPE_URL"
_recording = option_group("Recording")
_MOST_LISTED = 10


@click.command(
    cls=GroupedCommand,
    epilog="Example: wiretape cassette run.tape --upstream https://api.example.com -- npm test",
)
@click.argument("tape", type=PATH)
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND...")
@_recording("--upstream", metavar="URL", required=True, help="URL of the service to record from.")
@_recording(
    "--record",
    type=click.Choice([*map(str, RecordMode)]),
    help="Record nothing, the tape if it does not exist, what it lacks, or everything again.  "
    "[default: once, or none if the variable CI is set]",
)
@options_of(ReplayOptions, for_tests=True)
@partial(verdict_options, without="record")
@click.pass_context
def cassette(
    ctx: click.Context,
    /,
    *,
    tape: Path,
    command: Sequence[str],
    upstream: str,
    record: str | None,
    verdict: VerdictOptions,
    **options: Any,
) -> None:
    """Run COMMAND while TAPE is replayed, and record what it lacks from a service.

    COMMAND finds the address of the replay in the variable WIRETAPE_URL. The tape is written only if COMMAND succeeds
    and the client passes; otherwise what was recorded is kept beside it.

    \b
    Exit status:
      that of COMMAND, or 128 and the number of the signal that ended it;
      1    COMMAND succeeded, but a request had no match, or the client failed
           as --fail-on says
      2    the tape cannot be read or written, or COMMAND cannot be started
    """
    options["contract"] = options["contract"] or read_config(verdict).contracts
    parsed = ReplayOptions(**options)

    def command_line(mode: RecordMode) -> str:
        given = ["wiretape", "cassette", str(tape), "--upstream", upstream, "--record", str(mode), "--", *command]
        return printable(shlex.join(given))

    recorder = Cassette(tape, upstream, RecordMode(record or default_mode()), command=command_line)
    with check_client(verdict) as checked:
        replay, status = asyncio.run(_run(command, parsed, recorder, checked.checker))
        failed = bool(replay.misses) or checked.fails
        if status == 0 and not failed:
            recorder.save()
        for line in [*_summary(replay, recorder), *checked.lines(str(tape))]:
            log(line)
        checked.write_reports()
    ctx.exit(status or int(failed))


async def _run(
    command: Sequence[str], options: ReplayOptions, recorder: Cassette, checker: ClientChecker
) -> tuple[Replay, int]:
    """Run a command while the tape is served; return its exit status."""
    async with serve_replay(recorder.file, options, checker=checker, cassette=recorder) as replay:
        url = replay.url + recorder.upstream.base
        try:
            process = await asyncio.create_subprocess_exec(*command, env={**os.environ, URL_VARIABLE: url})
        except OSError as error:
            raise InputError(f"Cannot run {printable(command[0])}: {error.strerror}.") from None
        # Ctrl-C in a terminal reaches the command as well, which decides whether it ends; the second one kills it.
        interrupts = count()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: process.kill() if next(interrupts) else None)
        loop.add_signal_handler(signal.SIGTERM, process.terminate)
        status = await process.wait()
    return replay, status if status >= 0 else 128 - status


def _summary(replay: Replay, recorder: Cassette) -> Iterator[str]:
    """What was recorded, and what had no match."""
    tape = printable(str(recorder.file))
    if recorder.is_saved:
        yield f"Recorded {count_of(recorder.recorded, 'new exchange')} in {tape}."
    elif recorder.recorded:
        yield recorder.unsaved()
    messages = list(dict.fromkeys(printable(miss.message) for miss in replay.misses))
    yield from messages[:_MOST_LISTED]
    if messages:
        yield f"{count_of(len(replay.misses), 'request')} had no match. {recorder.missing_hint}".rstrip()
