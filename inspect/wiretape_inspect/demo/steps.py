"""The steps of the demo, told as they happen."""

import shutil
import sys
import time
from hashlib import sha256
from pathlib import Path

import aiohttp
import click

from wiretape.observe import BytesArrived, Side
from wiretape.recording import Recording, open_recording
from wiretape.text import printable
from wiretape_inspect import output, timeline
from wiretape_inspect.commands.report import report
from wiretape_inspect.commands.show import lines
from wiretape_inspect.demo.children import DemoError, wiretape
from wiretape_inspect.demo.client import KEY, Answer, Client
from wiretape_inspect.demo.service import StandIn
from wiretape_inspect.words import count

_STEPS = 6
PLANTED = {
    "SEQ001": "tool.completed carries the sequence of the event before it: whoever sorts by it may swap the two.",
    "SEQ002": "The same mistake, seen over the whole session: two ids share one sequence.",
    "DUR004": "One message.delta has an id: a client that saves it as its cursor asks for an event that is not stored.",
    "SSE002": "The service closed the connection in mid-event: the client sees that event only when it has resumed.",
    "ERR004": "resource_not_found came with status 400: a client that goes by the status mends the wrong thing.",
}
"""What the stand-in does wrong, by the rule that finds it."""


async def perform(path: Path) -> None:
    """Do all of it.  Raises DemoError where something does not go as planned, and lets no child live on."""
    began = time.monotonic()
    first = await _record(path)
    _step(4, f"wiretape show {path}: what happened")
    with open_recording(path) as recording:
        output.write_lines(lines(recording, recording.exchanges()))
        _step(5, f"wiretape report {path}: what the specification says to it")
        report.main(args=[str(path), "--fail-on", "never"], prog_name="wiretape report", standalone_mode=False)
        _explain(recording)
        second = await _replay(path)
        _compare(recording, first, second)
    _check_key(path)
    _close(path, time.monotonic() - began)


async def _record(path: Path) -> list[Answer]:
    async with StandIn() as service:
        _step(1, f"A stand-in of the service runs on {service.url}, with a few planted violations.")
        command = ("proxy", service.url, "--listen", "127.0.0.1:0", "--output", str(path))
        _step(2, f"wiretape {' '.join(command)}: records what passes")
        async with wiretape(*command, say=_quote) as proxy:
            url = await proxy.ready()
            _step(3, "A client starts a run and reads its stream through the proxy; the connection is lost on the way.")
            answers = await _visit(url)
            await proxy.stop()
            return answers


async def _replay(path: Path) -> list[Answer]:
    command = ("replay", str(path), "--mode", "tape", "--listen", "127.0.0.1:0")
    _step(6, f"wiretape {' '.join(command)}: the service is gone, the same client asks the recording")
    async with wiretape(*command, say=_quote) as replay:
        answers = await _visit(await replay.ready())
        await replay.stop()
        return answers


async def _visit(url: str) -> list[Answer]:
    client = Client(url)
    try:
        await client.visit()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise DemoError(f"The client could not read from {url}: {str(error) or 'it took too long'}.") from None
    lost = sum(answer.cut for answer in client.answers)
    asked, read = count(len(client.answers), "request"), count(client.events, "event")
    _say(f"      the client: {asked}, {read} read, {count(lost, 'connection')} lost and resumed")
    return client.answers


def _explain(recording: Recording) -> None:
    found = {finding.code for findings in timeline.stored_findings(recording).values() for finding in findings}
    _say("\nWhat was planted, and found:\n")
    for code, why in PLANTED.items():
        _say(f"  {click.style(code, bold=True)}  {why}")
    missing, more = PLANTED.keys() - found, found - PLANTED.keys()
    if missing or more:
        raise DemoError(f"Planted but not found: {_listed(missing)}; found but not planted: {_listed(more)}.")


def _compare(recording: Recording, first: list[Answer], second: list[Answer]) -> None:
    """Show that the client got the same bytes twice, and that they are the recorded ones."""
    _say(f"\n  {'':<3}{'bytes':>7}  {'SHA-256, through the proxy':<30}{'replayed':<10}request")
    same = len(first) == len(second)
    for number, (there, here) in enumerate(zip(first, second, strict=False), 1):
        equal = there == here and there.digest == here.digest == _digest(recording, number)
        same = same and equal
        verdict = click.style(f"{'the same' if equal else 'DIFFERENT':<10}", fg="green" if equal else "red")
        _say(f"  {number:<3}{len(there.body):>7}  {there.digest[:24]:<30}{verdict}{there.status} {there.request}")
    if not same:
        raise DemoError("The replayed bytes differ from those that came through the proxy.")


def _digest(recording: Recording, number: int) -> str:
    parts = recording.body(number, Side.RESPONSE)
    return sha256(b"".join(part.data for part in parts if isinstance(part, BytesArrived))).hexdigest()


def _check_key(path: Path) -> None:
    if KEY.encode() in path.read_bytes():
        raise DemoError(f"The key that the client sent is in {path}.")
    _say("\n  The key that the client sent is not in the recording: a fingerprint stands for it.")


def _close(path: Path, seconds: float) -> None:
    _say(f"\nDone in {seconds:.1f} s. The recording is {path}. Try next:\n")
    program = Path(sys.prefix, "bin", "activate")
    if shutil.which("wiretape") is None and program.exists():
        _say(f"  . {_near(program)}    (so that the shell finds wiretape)")
    for command in (
        f"wiretape sessions {path}",
        f"wiretape show {path} --exchange 2",
        f"wiretape export {path} --format sse --exchange 2",
        f"wiretape replay {path} --mode tape --listen 127.0.0.1:8090",
        "wiretape proxy http://127.0.0.1:9000 --output run.db    (with a service of your own)",
    ):
        _say(f"  {command}")


def _near(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _step(number: int, what: str) -> None:
    _say(f"\n{click.style(f'[{number}/{_STEPS}]', bold=True)} {printable(what)}\n")


def _say(text: str) -> None:
    output.write_lines([text if output.paper().colour else click.unstyle(text)])


def _quote(line: str) -> None:
    """What a child said on stderr."""
    _say(click.style(f"      {printable(line)}", dim=True))


def _listed(codes: set[str]) -> str:
    return ", ".join(sorted(codes)) or "nothing"
