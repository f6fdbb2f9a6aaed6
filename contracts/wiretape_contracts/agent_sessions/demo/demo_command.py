"""`wiretape demo`: the full tour, on this machine: its client, its steps, the planted faults, and what it prints."""

import asyncio
import shlex
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import aiohttp
import click
import orjson

from wiretape.errors import InputError, missing_package_error
from wiretape.files import PATH, file_errors, path_exists, write_error
from wiretape.http_headers import LAST_EVENT_ID
from wiretape.labels import count_of
from wiretape.observations import BytesArrived, Side, header
from wiretape.recording import Recording, check_output, delete_recording, open_recording
from wiretape.safe_text import printable
from wiretape.sse import Frame, Parser
from wiretape.units import format_size
from wiretape_contracts.agent_sessions import DELTA_TYPES, EVENT_DELTAS, RUN_STARTED, STATUS_IDLE, STREAM
from wiretape_inspect import timeline_text
from wiretape_inspect.child_process import DemoError, run_wiretape
from wiretape_inspect.commands.report import report
from wiretape_inspect.commands.show import timeline_lines
from wiretape_inspect.terminal_output import Line, Part, write_lines

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that stop the demo, besides Ctrl-C."""
_DATA = Path(__file__).parent
SCENARIO = _DATA / "library.toml"
FAULT_SCRIPT = _DATA / "faults.toml"
_STEP_COUNT = 6
_LOOPBACK = ("--listen", "127.0.0.1:0")
# A configuration in the current folder could turn off the rules that find the planted faults.
_NO_CONFIG = "--no-config"


PLANTED = {
    "delta-with-id": ("DUR004",),
    "cut-off": ("SSE002",),
    "sent-twice": ("SEQ001", "SEQ003"),
}
"""The faults of the script, and the rules that find each."""
_EFFECTS = {
    "delta-with-id": (
        "One message.delta has an id, as if it were stored. "
        "A client that saves it as its cursor asks for an event that does not exist."
    ),
    "cut-off": (
        "The connection closes in the middle of message.completed. The client gets that event only after it reconnects."
    ),
    "sent-twice": (
        "The first event after the resume is sent twice. A client that counts or displays events does so twice."
    ),
}
"""What each is, and what it does to clients."""
PLANTED_CODES = {code for codes in PLANTED.values() for code in codes}


USER_AGENT = "wiretape-demo"
"""Identifies the recording of a demo."""
KEY = "wiretape-key"
"""The default key of `wiretape serve`."""
_SESSIONS = "/v1/sessions"
_RUNS = "/v1/sessions/{session_id}/runs"
_STREAM = f"{STREAM.route}?{EVENT_DELTAS}=true"
_UNKNOWN_SESSION = STREAM.route.format(session_id="ses_missing")
_MAX_RECONNECTS = 5


@dataclass(slots=True)
class ReceivedResponse:
    """A response as the client read it."""

    request: str
    status: int = 0
    body: bytes = b""
    is_truncated: bool = False
    """Whether the connection was lost before the response was complete."""

    @property
    def digest(self) -> str:
        """SHA-256 of the body."""
        return sha256(self.body).hexdigest()


class DemoClient:
    """One use of the service at `url`; `responses` are in the order of the requests."""

    def __init__(self, url: str) -> None:
        self.responses: list[ReceivedResponse] = []
        self.events = 0
        self._url = url
        self._session_id = ""
        self._cursor: str | None = None
        self._is_idle = False

    async def run(self) -> None:
        """Make all requests.  Raises aiohttp.ClientError if the service cannot be reached, and DemoError."""
        headers = {"Authorization": f"Bearer {KEY}", "User-Agent": USER_AGENT}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=20)) as http:
            created = await self._request(http, "POST", _SESSIONS, 201)
            self._session_id = orjson.loads(created.body)["id"]
            await self._read_stream(http, create_run=True)
            for _ in range(_MAX_RECONNECTS):
                if not self._is_idle:
                    await self._read_stream(http)
            await self._request(http, "GET", _UNKNOWN_SESSION, 404)

    async def _create_run(self, http: aiohttp.ClientSession, status: int) -> None:
        await self._request(http, "POST", self._target(_RUNS), status, {"input": "When does the library close?"})

    async def _request(
        self, http: aiohttp.ClientSession, method: str, target: str, status: int, body: object = None
    ) -> ReceivedResponse:
        response = self._new_response(f"{method} {target}")
        async with http.request(method, f"{self._url}{target}", json=body) as received:
            response.status, response.body = received.status, await received.read()
        _check_status(response, status)
        return response

    async def _read_stream(self, http: aiohttp.ClientSession, *, create_run: bool = False) -> None:
        """Read the stream from the cursor until the session is idle or the connection is lost.

        With `create_run`, create the run once the stream is open, so that none of its deltas is missed.
        """
        target = self._target(_STREAM)
        response, parser = self._new_response(f"GET {target}"), Parser()
        headers = {LAST_EVENT_ID: self._cursor} if self._cursor is not None else {}
        async with http.get(f"{self._url}{target}", headers=headers) as received:
            response.status = received.status
            _check_status(response, 200)
            if create_run:
                await self._create_run(http, 201)
            try:
                async for data in received.content.iter_any():
                    response.body += data
                    for frame in parser.feed(data):
                        await self._handle(frame, http)
                    if self._is_idle:
                        break
            except aiohttp.ClientPayloadError:
                response.is_truncated = True
            received.close()

    async def _handle(self, frame: Frame, http: aiohttp.ClientSession) -> None:
        if not frame.is_dispatched:
            return
        self.events += 1
        event_type = orjson.loads(frame.data)["type"]
        if frame.id is not None and event_type not in DELTA_TYPES:
            self._cursor = frame.id
        if event_type == RUN_STARTED:
            # A second run while the first is active: the service is busy.
            await self._create_run(http, 409)
        self._is_idle = event_type == STATUS_IDLE

    def _target(self, path: str) -> str:
        return path.format(session_id=self._session_id)

    def _new_response(self, request: str) -> ReceivedResponse:
        response = ReceivedResponse(request)
        self.responses.append(response)
        return response


def _check_status(response: ReceivedResponse, status: int) -> None:
    if response.status != status:
        raise DemoError(f"{printable(response.request)} got status {response.status}, expected {status}.")


@click.command()
@click.option(
    "-o",
    "--output",
    type=PATH,
    default=Path("wiretape-demo.db"),
    show_default=True,
    metavar="FILE",
    help="Recording to write; an existing file is replaced only if an earlier demo wrote it.",
)
@click.pass_context
def demo(ctx: click.Context, output: Path) -> None:
    """Record, check and replay a small service on this machine.

    The demo simulates a service with a few planted faults, records a client that uses it through the proxy, shows the
    timeline and the report, and replays the recording to the same client.
    """
    if find_spec("mitmproxy") is None:
        raise missing_package_error("mitmproxy", "The demo")
    _remove_earlier_demo(output)
    try:
        stopped_by = asyncio.run(_run_until_signal(output))
    except DemoError as error:
        raise click.ClickException(str(error)) from None
    if stopped_by is not None:
        # The exit status that shells give it.
        ctx.exit(128 + stopped_by)


def _remove_earlier_demo(path: Path) -> None:
    """Remove the recording of an earlier demo.  Raises InputError for any other file, or if `path` is not writable."""
    if not path_exists(path):
        check_output(path, append=False)
        return
    try:
        with open_recording(path) as recording:
            agents = {header(exchange.request.headers, "User-Agent") for exchange in recording.exchanges()}
            # An empty recording is from a demo that was interrupted early; nothing is lost with it.
            is_ours = agents == {USER_AGENT} or (not agents and recording.info.ended_ns is not None)
    except InputError:
        is_ours = False
    if not is_ours:
        raise InputError(f"{path} is not a recording of an earlier demo: choose another name for --output.")
    with file_errors(path, write_error):
        delete_recording(path)


async def _run_until_signal(output: Path) -> int | None:
    """Run the demo; return the signal that stopped it, with its child processes stopped, or None."""
    task = asyncio.ensure_future(run_demo(output))
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in _STOP_SIGNALS:
        # nohup ignores SIGHUP.
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
    return received[0] if received else None


async def run_demo(path: Path) -> None:
    """Run all steps.  Raises DemoError if something does not go as planned; leaves no child process behind."""
    started = time.monotonic()
    _print("wiretape records the traffic between a client and the Agent Session Service, checks it, and replays it.")
    _print("This demo does so on this machine only, with its own client and service.")
    first = await _record(path)
    _print_step(4, "What happened, with each finding next to its event", "show", str(path))
    with open_recording(path) as recording:
        write_lines(timeline_lines(recording, recording.exchanges()))
        _print_step(5, "Which rules of the specification were broken", "report", str(path))
        args = [str(path), "--fail-on", "never", _NO_CONFIG]
        report.main(args=args, prog_name="wiretape report", standalone_mode=False)
        findings = _explain_findings(recording)
        second = await _replay(path)
        _compare_responses(recording, first, second)
        _check_key(path)
        _print_summary(first, findings, path, time.monotonic() - started)
    _print_next_commands(path)


async def _record(path: Path) -> list[ReceivedResponse]:
    scenario, faults = str(_relative(SCENARIO)), str(_relative(FAULT_SCRIPT))
    serve = ("serve", scenario, "--faults", faults, "--seed", "0", *_LOOPBACK, _NO_CONFIG)
    _print_step(1, f"A service, simulated from a scenario, with {count_of(len(PLANTED), 'planted fault')}", *serve)
    async with run_wiretape(*serve, on_line=_print_service) as service:
        proxy = ("proxy", await service.address(), *_LOOPBACK, "--output", str(path), _NO_CONFIG)
        _print_step(2, "A proxy that records the traffic and checks it", *proxy)
        async with run_wiretape(*proxy, on_line=partial(_print_output, "proxy")) as recorder:
            url = await recorder.address()
            _print_step(
                3, "A client starts a run and reads its stream; when the connection is lost, the client reconnects"
            )
            responses = await _run_client(url)
            await recorder.stop()
        await service.stop()
    return responses


async def _replay(path: Path) -> list[ReceivedResponse]:
    replay = ("replay", str(path), "--mode", "verbatim", *_LOOPBACK, _NO_CONFIG)
    _print_step(6, "The service is gone; the same client uses the recording instead", *replay)
    async with run_wiretape(*replay, on_line=partial(_print_output, "replay")) as child:
        responses = await _run_client(await child.address())
        await child.stop()
        return responses


async def _run_client(url: str) -> list[ReceivedResponse]:
    client = DemoClient(url)
    try:
        await client.run()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise DemoError(f"The client could not read from {url}: {str(error) or 'it took too long'}.") from None
    lost = sum(response.is_truncated for response in client.responses)
    requests, events = count_of(len(client.responses), "request"), count_of(client.events, "event")
    _print_output("client", f"{requests}, {events} read, {count_of(lost, 'connection')} lost and resumed")
    return client.responses


def _explain_findings(recording: Recording) -> int:
    """Print what was planted and which rules found it; return the number of findings."""
    findings = [finding.code for found in timeline_text.stored_findings(recording).values() for finding in found]
    _print_title("The planted faults, and the rules that found them:")
    for name, codes in PLANTED.items():
        _print(f"  {name:<15}", (" and ".join(codes), "head"))
        _print(f"  {'':<15}{_EFFECTS[name]}")
    missing, extra = PLANTED_CODES - set(findings), set(findings) - PLANTED_CODES
    if missing or extra:
        raise DemoError(f"Planted but not found: {sorted(missing)}; found but not planted: {sorted(extra)}.")
    return len(findings)


def _compare_responses(recording: Recording, first: list[ReceivedResponse], second: list[ReceivedResponse]) -> None:
    """Show that the client got the same bytes twice, and that they are the recorded ones."""
    _print("")
    _print(f"  {'':<3}{'bytes':>7}  {'SHA-256, through the proxy':<30}{'replayed':<10}request")
    same = len(first) == len(second)
    for number, (recorded, replayed) in enumerate(zip(first, second, strict=False), 1):
        equal = recorded == replayed and recorded.digest == replayed.digest == _digest(recording, number)
        same = same and equal
        result = (f"{'the same' if equal else 'DIFFERENT':<10}", "good" if equal else "bad")
        sent = f"{replayed.status} {replayed.request}"
        _print(f"  {number:<3}{len(recorded.body):>7}  {recorded.digest[:24]:<30}", result, sent)
    if not same:
        raise DemoError("The replayed bytes differ from those that came through the proxy.")


def _digest(recording: Recording, number: int) -> str:
    parts = recording.body(number, Side.RESPONSE)
    return sha256(b"".join(part.data for part in parts if isinstance(part, BytesArrived))).hexdigest()


def _check_key(path: Path) -> None:
    if KEY.encode() in path.read_bytes():
        raise DemoError(f"The client's key was not redacted: {path} contains it.")
    _print("")
    _print("  The client's key is not in the recording: a fingerprint replaces it.")


def _print_summary(responses: list[ReceivedResponse], findings: int, path: Path, seconds: float) -> None:
    size = format_size(sum(len(response.body) for response in responses))
    _print_title(f"Done in {seconds:.1f} s. What you saw:")
    for what, summary in {
        "recorded": f"{count_of(len(responses), 'request')} and every byte of the responses ({size}), in {path}",
        "checked": f"{count_of(findings, 'finding')} against the service, for {len(PLANTED)} planted faults",
        "played back": "the same client got the same bytes from the recording alone",
    }.items():
        _print("  ", (f"{what:<13}", "head"), summary)


def _print_next_commands(path: Path) -> None:
    _print_title("Try next:")
    activate = Path(sys.prefix, "bin", "activate")
    if shutil.which("wiretape") is None and activate.exists():
        _print(f"  . {_relative(activate)}    (so that the shell finds wiretape)")
    for command in (
        f"wiretape debug {path} --open    (in a browser: n jumps to the next finding, 4 shows what the client knew)",
        f"wiretape channels {path}",
        f"wiretape show {path} --exchange 2",
        f"wiretape export {path} --format sse --exchange 2",
        f"wiretape replay {path} --mode verbatim --listen 127.0.0.1:8090",
        "wiretape serve hello    (a service to test a client against)",
        "wiretape proxy http://127.0.0.1:9000 --output run.db    (with your own service)",
    ):
        _print(f"  {command}")


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _print_step(number: int, title: str, *command: str) -> None:
    """Print the title of a step, and the `wiretape` command that it runs, if any."""
    _print("")
    _print((f"[{number}/{_STEP_COUNT}] {title}", "head"))
    if command:
        _print(f"      $ {shlex.join(('wiretape', *command))}")
    _print("")


def _print_title(title: str) -> None:
    for line in ("", title, ""):
        _print(line)


def _print(*parts: Part) -> None:
    write_lines([Line(list(parts), "keep")])


def _print_output(name: str, line: str) -> None:
    """Print a line of the output of a child process."""
    _print((f"      {name:<8} {line}", "dim"))


def _print_service(line: str) -> None:
    if line.startswith(("Serving ", "Fault ")):
        _print_output("service", line)
