"""The steps of the demo, told as they happen."""

import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import aiohttp
import click

from wiretape.observations import BytesArrived, Side
from wiretape.recording import Recording, open_recording
from wiretape.safe_text import printable
from wiretape_inspect import output, timeline
from wiretape_inspect.commands.report import report
from wiretape_inspect.commands.show import lines
from wiretape_inspect.demo.children import DemoError, wiretape
from wiretape_inspect.demo.client import KEY, Answer, Client
from wiretape_inspect.demo.planted import CODES, FAULTS, PLANTED, SCENARIO
from wiretape_inspect.words import amount, count

_STEPS = 6
_LOOPBACK = ("--listen", "127.0.0.1:0")
# Rules that are switched off where the demo is run would not find what is planted.
_AS_IT_COMES = "--no-config"
_WORTH_TELLING = re.compile(r"(Serving|Fault) ")


async def perform(path: Path) -> None:
    """Do all of it.  Raises DemoError where something does not go as planned, and lets no child live on."""
    began = time.monotonic()
    _say("wiretape records what passes between a client and the Agent Session Service, judges it, and plays it back.")
    _say("Here it does so on this machine only, with a client and a service of its own.")
    first = await _record(path)
    _step(4, "What happened, with what was found where it was found", "show", str(path))
    with open_recording(path) as recording:
        output.write_lines(lines(recording, recording.exchanges()))
        _step(5, "What the specification says to it", "report", str(path))
        args = [str(path), "--fail-on", "never", _AS_IT_COMES]
        report.main(args=args, prog_name="wiretape report", standalone_mode=False)
        findings = _explain(recording)
        second = await _replay(path)
        _compare(recording, first, second)
        _check_key(path)
        _sum_up(first, findings, path, time.monotonic() - began)
    _go_on(path)


async def _record(path: Path) -> list[Answer]:
    serve = ("serve", str(_near(SCENARIO)), "--faults", str(_near(FAULTS)), *_LOOPBACK, _AS_IT_COMES)
    _step(1, f"A service, played by a scenario, with {count(len(PLANTED), 'fault')} planted", *serve)
    async with wiretape(*serve, say=_quote("service", _WORTH_TELLING)) as service:
        proxy = ("proxy", await service.ready(), *_LOOPBACK, "--output", str(path), _AS_IT_COMES)
        _step(2, "A proxy, which records and checks what passes", *proxy)
        async with wiretape(*proxy, say=_quote("proxy")) as recorder:
            url = await recorder.ready()
            _step(
                3,
                "A client starts a run and reads its stream; the connection is lost on the way, and it comes back",
            )
            answers = await _visit(url)
            await recorder.stop()
        await service.stop()
    return answers


async def _replay(path: Path) -> list[Answer]:
    replay = ("replay", str(path), "--mode", "tape", *_LOOPBACK, _AS_IT_COMES)
    _step(6, "The service is gone; the same client asks the recording", *replay)
    async with wiretape(*replay, say=_quote("replay")) as child:
        answers = await _visit(await child.ready())
        await child.stop()
        return answers


async def _visit(url: str) -> list[Answer]:
    client = Client(url)
    try:
        await client.visit()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise DemoError(f"The client could not read from {url}: {str(error) or 'it took too long'}.") from None
    lost = sum(answer.cut for answer in client.answers)
    asked, read = count(len(client.answers), "request"), count(client.events, "event")
    _quote("client")(f"{asked}, {read} read, {count(lost, 'connection')} lost and resumed")
    return client.answers


def _explain(recording: Recording) -> int:
    """Say what was planted, and which rules found it; how many findings there are."""
    findings = [finding.code for found in timeline.stored_findings(recording).values() for finding in found]
    _say("\nWhat was planted, and the rules that found it:\n")
    for planted in PLANTED:
        _say(f"  {planted.fault:<15}{click.style(' and '.join(planted.codes), bold=True)}")
        _say(f"  {'':<15}{planted.what} {planted.harm}")
    missing, more = CODES - set(findings), set(findings) - CODES
    if missing or more:
        raise DemoError(f"Planted but not found: {_listed(missing)}; found but not planted: {_listed(more)}.")
    return len(findings)


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


def _sum_up(answers: list[Answer], findings: int, path: Path, seconds: float) -> None:
    """Say in three lines what was shown."""
    size = amount(sum(len(answer.body) for answer in answers))
    _say(f"\nDone in {seconds:.1f} s. What you saw:\n")
    for what, told in (
        ("recorded", f"{count(len(answers), 'request')} and every byte of the answers ({size}), in {path}"),
        ("judged", f"{count(findings, 'finding')} against the service, for {count(len(PLANTED), 'planted fault')}"),
        ("played back", "the same client got the same bytes from the recording alone"),
    ):
        _say(f"  {click.style(f'{what:<13}', bold=True)}{printable(told)}")


def _go_on(path: Path) -> None:
    _say("\nTry next:\n")
    program = Path(sys.prefix, "bin", "activate")
    if shutil.which("wiretape") is None and program.exists():
        _say(f"  . {_near(program)}    (so that the shell finds wiretape)")
    for command in (
        f"wiretape debug {path} --open    (in a browser: n goes to the next finding, 4 tells what the client knew)",
        f"wiretape sessions {path}",
        f"wiretape show {path} --exchange 2",
        f"wiretape export {path} --format sse --exchange 2",
        f"wiretape replay {path} --mode tape --listen 127.0.0.1:8090",
        "wiretape serve hello    (a service to try a client on)",
        "wiretape proxy http://127.0.0.1:9000 --output run.db    (with a service of your own)",
    ):
        _say(f"  {command}")


def _near(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _step(number: int, what: str, *command: str) -> None:
    """Say what comes, and the `wiretape` command that does it, if it is one."""
    _say(f"\n{click.style(f'[{number}/{_STEPS}] {what}', bold=True)}")
    if command:
        _say(f"      $ {printable(shlex.join(('wiretape', *command)))}")
    _say("")


def _say(text: str) -> None:
    output.write_lines([text if output.paper().colour else click.unstyle(text)])


def _quote(who: str, worth: re.Pattern[str] | None = None) -> Callable[[str], None]:
    """Tells what `who` said, as far as it is worth it."""

    def say(line: str) -> None:
        if worth is None or worth.match(line):
            _say(click.style(f"      {who:<8} {printable(line)}", dim=True))

    return say


def _listed(codes: set[str]) -> str:
    return ", ".join(sorted(codes)) or "nothing"
