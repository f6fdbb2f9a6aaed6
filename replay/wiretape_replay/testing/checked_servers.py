"""Replays and stand-ins that a test starts, and that check the client that the test runs against them.

Those of one test stop together, and their recordings are kept if the test fails.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson

from wiretape import observations
from wiretape.checker import Settings
from wiretape.config import INCONCLUSIVE, NEVER, Config, find_config, threshold_of
from wiretape.contract import Contract
from wiretape.errors import InputError, RecordingError
from wiretape.labels import count_of
from wiretape.observations import Ending, Headers
from wiretape.rules import Finding, Severity
from wiretape.safe_text import printable, shorten
from wiretape.toml_files import is_toml_text
from wiretape_replay.channel.channel_streams import StreamRequest
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.client_verdict.client_report import ReportRequest, finding_line, inconclusive_lines, write
from wiretape_replay.control.playhead_control import PlayheadControl, StreamHold, tape_element
from wiretape_replay.http_server.http_messages import HttpRequest, ResponseHead
from wiretape_replay.http_server.response_writer import (
    OWN_RESPONSE,
    ExchangeListener,
    ExchangePart,
    FaultInjected,
    RequestBodyPart,
)
from wiretape_replay.loop_thread import shared_thread, start_replay, start_scenario
from wiretape_replay.recording_server import Replay
from wiretape_replay.server_options import ReplayOptions, check_choice
from wiretape_replay.stand_in import ServeOptions, Service
from wiretape_replay.tape_recording import Cassette, RecordMode, default_mode
from wiretape_replay.testing.client_criteria import ClientCriteria, select_options
from wiretape_replay.verbatim.exchange_queues import RecordedRequest
from wiretape_replay.verbatim.verbatim_player import UnmatchedRequest


@dataclass(slots=True)
class ReceivedRequest:
    """A request of the client, and its response so far."""

    number: int
    """From 1; the number of the exchange in findings and reports."""
    method: str
    target: str
    """Path and query."""
    headers: Headers
    status: int | None = None
    """The status of the response, once it has started."""
    faults: list[str] = field(default_factory=list)
    """The faults that changed the response."""
    ending: Ending | None = None
    """How the response ended, once it has."""
    _chunks: list[bytes] = field(default_factory=list, repr=False)

    @property
    def body(self) -> bytes:
        """The body so far, as it was sent."""
        return b"".join(self._chunks)

    @property
    def path(self) -> str:
        """The target without the query."""
        return self.target.partition("?")[0]

    def add(self, part: ExchangePart) -> None:
        """Add what was received or sent next."""
        match part:
            case RequestBodyPart(data):
                self._chunks.append(data)
            case ResponseHead(status=status):
                self.status = status
            case FaultInjected(fault) if fault != OWN_RESPONSE:
                self.faults.append(fault)
            case Ending():
                self.ending = part
            case _:
                pass

    def header(self, name: str) -> str | None:
        """The value of a header, whatever the case of its name; None if it is missing."""
        return observations.header(self.headers, name)

    def json(self) -> Any:
        """The body as JSON.  Raises ValueError if it is not JSON."""
        return json.loads(self.body)


class RequestCollector(ClientChecker):
    """A client checker that collects the requests, and writes its recording only when `keep` is called."""

    def __init__(self, settings: Callable[[Sequence[Contract]], Settings], record: Path) -> None:
        """Raises RecordingError if `record` cannot be written."""
        super().__init__(settings, record=record, deferred=True)
        self.requests: list[ReceivedRequest] = []

    def start_exchange(self, request: HttpRequest) -> ExchangeListener:
        """See TrafficListener."""
        received = ReceivedRequest(len(self.requests) + 1, request.method, request.target, request.headers)
        self.requests.append(received)
        check = super().start_exchange(request)

        def listen(part: ExchangePart) -> None:
            received.add(part)
            check(part)

        return listen


_CHECKS_FAILED = "wiretape's checks failed, so there may be more findings: {}."
_MOST_LISTED = 10
_MOST_LINES = 30
"""How many log lines of a server are shown, counted from the last."""
_TURNS = 20
"""After this many turns, the event loop has noticed the disconnection of a client that disconnected before."""


class CheckedServer:
    """A server in the shared thread that checks its client.  Use it from any other thread."""

    def __init__(
        self,
        server: Replay | Service,
        collector: RequestCollector,
        criteria: ClientCriteria,
        record: Path,
        log_lines: list[str],
    ) -> None:
        self.record = record
        """Where the traffic is recorded if `keep` is called or the test fails."""
        self.lines = log_lines
        """The lines that the command would print, one for each request."""
        self._server = server
        self._collector = collector
        self._criteria = criteria

    @property
    def url(self) -> str:
        """The base URL, without a trailing slash."""
        return self._server.url

    @property
    def control(self) -> PlayheadControl:
        """Moves the playheads."""
        return self._server.control

    def hold(self, **fault: Any) -> AbstractContextManager[StreamHold]:
        """Hold the response that a fault selects, `hold(after={"type": "message.*"})`, during the block."""
        return self.control.hold(**fault)

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests so far, in order."""
        return list(self._collector.requests)

    @property
    def misses(self) -> list[UnmatchedRequest]:
        """The requests without a match, in order; the stand-in has none."""
        return []

    @property
    def cassette(self) -> Cassette | None:
        """What the test records; None if it only replays."""
        return None

    @property
    def findings(self) -> list[Finding]:
        """The findings about the client so far, whether or not the test fails because of them; at most 10,000."""

        async def collect() -> list[Finding]:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            return list(self._collector.client_findings)

        found: list[Finding] = shared_thread().call(collect)
        return found

    @property
    def inconclusive(self) -> Mapping[str, Mapping[str, int]]:
        """The client rules that could not be decided so far: for each code the reasons, and how often each occurred.

        Some rules are decided only when the replay stops.
        """

        async def collect() -> Mapping[str, Mapping[str, int]]:
            return self._collector.inconclusive

        reasons: Mapping[str, Mapping[str, int]] = shared_thread().call(collect)
        return reasons

    @property
    def unused_faults(self) -> list[str]:
        """The names of the faults that have not matched anything so far."""
        return self._server.faults.unused

    @property
    def fault_counts(self) -> dict[str, int]:
        """How often each fault was applied so far, by name."""
        return self._server.faults.counts

    def keep(self) -> None:
        """Record the traffic, from the beginning to the end.  Raises RecordingError."""
        shared_thread().call(self._collector.keep)

    def failure(self) -> str | None:
        """Why the test fails: findings with their report, requests without a match and so on; None if it does not.

        If it fails, the traffic is recorded.
        """
        criteria = self._criteria
        findings = [finding for finding in self.findings if criteria.forbids(finding)]
        inconclusive = {code: reasons for code, reasons in self.inconclusive.items() if code in criteria.rules}
        undecided = list(inconclusive) if criteria.fail_on == INCONCLUSIVE else []
        misses = [] if criteria.allow_misses else self.misses
        unused_faults = [] if criteria.faults_may_miss else self.unused_faults
        failed = self._collector.failed if criteria.fail_on != NEVER else None
        if not (findings or undecided or misses or unused_faults or failed):
            return None
        recording = self.keep_recording()
        report = self._report(findings) if findings else []
        problems = "; ".join(_problems(findings if report else [], undecided, misses, unused_faults))
        if not problems and not failed:
            return None  # all findings are in the baseline
        lines = [f"{problems[0].upper()}{problems[1:]}."] if problems else []
        lines += [_CHECKS_FAILED.format(printable(failed))] if failed else []
        # The report has a line about inconclusive rules.
        lines += ["", *report] if report else inconclusive_lines(inconclusive, self._collector.catalogue)
        lines += self._explain_unused_faults() if unused_faults else []
        return "\n".join([*lines, *_list_misses(misses, self.cassette), recording])

    def summary(self) -> Iterator[str]:
        """What the client did, for a test that failed for another reason."""
        failure = self.failure()
        if failure is not None:
            yield failure
        else:
            yield "The client passed the checks."
            yield from inconclusive_lines(self.inconclusive, self._collector.catalogue)
            yield self.keep_recording()
        yield "Requests:"
        if len(self.lines) > _MOST_LINES:
            yield f"… {len(self.lines) - _MOST_LINES:,} lines before"
        yield from self.lines[-_MOST_LINES:]

    def _explain_unused_faults(self) -> Iterator[str]:
        if hint := self._server.faults.event_types_hint():
            yield hint
        if self.cassette is not None and self.cassette.recorded:
            count = self.cassette.recorded
            forwarded = f"{count_of(count, 'response')} {'was' if count == 1 else 'were'} forwarded"
            yield f"{forwarded}, and faults at events apply only to replayed ones: record first without the fault."

    def keep_recording(self) -> str:
        """Record the traffic, and return a line that names the recording, and what a cassette recorded."""
        try:
            self.keep()
        except RecordingError as error:
            return str(error)
        unsaved = "" if self.cassette is None else self.cassette.unsaved()
        return f"The traffic is recorded in {printable(str(self.record))}. {unsaved}".rstrip()

    def _report(self, findings: Sequence[Finding]) -> list[str]:
        """The lines of the report, none if the baseline has all findings; without a recording, a line for each."""
        if not self.record.exists():
            return [*(finding_line(each) for each in findings), ""]
        criteria, file = self._criteria, self._criteria.config.file
        config = ["--no-config"] if file is None else ["--config", str(file)]
        with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
            path = Path(folder) / "report.txt"
            failed = write(
                [ReportRequest("text", str(path))],
                self.record,
                [*config, *self._collector.report_options],
                rules=criteria.rules,
                fail_on=(
                    threshold_of(criteria.fail_on) or Severity.ERROR
                ).value,  # inconclusive rules are listed anyway
            )
            return path.read_text("utf-8").splitlines() if failed else []


class CheckedReplay(CheckedServer):
    """A replay that checks its client."""

    _server: Replay

    @property
    def replay(self) -> Replay:
        """The replay itself, which runs in the shared thread."""
        return self._server

    @property
    def cassette(self) -> Cassette | None:
        """What the test records; None if it only replays."""
        return self._server.cassette

    @property
    def url(self) -> str:
        """The base URL, without a trailing slash; with the path of the service that a cassette records."""
        return super().url + ("" if self.cassette is None else self.cassette.upstream.base)

    @property
    def streams(self) -> list[StreamRequest]:
        """The requests for streams so far, in order; none in verbatim mode."""
        player = self._server.player
        return [] if player is None else list(player.streams.requests)

    @property
    def misses(self) -> list[UnmatchedRequest]:
        """The requests without a match, in order; they get status 501."""
        return list(self._server.misses)

    @property
    def unconsumed(self) -> list[RecordedRequest]:
        """The recorded requests that the client did not send, in order; in channel mode without streams."""
        return self._server.unconsumed


class CheckedService(CheckedServer):
    """A stand-in that checks its client."""

    _server: Service

    @property
    def key(self) -> str:
        """A valid bearer key."""
        return self._server.key

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every request needs."""
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def streams(self) -> list[StreamRequest]:
        """The requests for streams so far, in order."""
        return list(self._server.streams.requests)


_Checked = TypeVar("_Checked", CheckedReplay, CheckedService)


def _find_scenario(scenario: object, find: Callable[[Path], Path]) -> object:
    """A scenario with its path resolved by `find`, if it is given as a file.  Raises InputError."""
    if isinstance(scenario, Path):
        return find(scenario)
    if isinstance(scenario, str) and not is_toml_text(scenario) and (scenario.endswith(".toml") or "/" in scenario):
        return find(Path(scenario))
    return scenario


def _problems(
    findings: Sequence[Finding],
    inconclusive: Sequence[str],
    misses: Sequence[UnmatchedRequest],
    unused_faults: Sequence[str],
) -> Iterator[str]:
    """The parts of the headline."""
    codes = list(dict.fromkeys(finding.code for finding in findings))
    if codes:
        yield f"the client broke {_name_rules(codes)} ({count_of(len(findings), 'finding')})"
    if inconclusive:
        yield f"{_name_rules(inconclusive)} {'was' if len(inconclusive) == 1 else 'were'} inconclusive"
    if misses:
        yield f"{count_of(len(misses), 'request')} had no match"
    if unused_faults:
        names = " and ".join(shorten(name, 60) for name in unused_faults)
        yield f"the fault{'s' * (len(unused_faults) > 1)} {names} never matched"


def _name_rules(codes: Sequence[str]) -> str:
    return f"rule{'s' * (len(codes) > 1)} {' and '.join(codes)}"


def _list_misses(misses: Sequence[UnmatchedRequest], cassette: Cassette | None) -> Iterator[str]:
    """Each request without a match once, with the recorded requests most similar to it, and how to record them."""
    messages = list(dict.fromkeys(printable(missed.message) for missed in misses))
    yield from messages[:_MOST_LISTED]
    if len(messages) > _MOST_LISTED:
        yield f"… and {len(messages) - _MOST_LISTED:,} more"
    if messages and cassette is not None and cassette.missing_hint:
        yield cassette.missing_hint


class ClientError(AssertionError):
    """The client broke a rule, or sent a request without a match; the message contains the report."""


class ServerGroup:
    """Servers that stop together.  Use it from one thread."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        find: Callable[[Path], Path] = Path,
        find_tape: Callable[[Path], Path] = Path,
        **recording: Any,
    ) -> None:
        """`folder` is for recordings; `find` resolves paths, and `find_tape` those of tapes that may not exist yet.

        `recording` are arguments of cassettes.
        """
        self.servers: list[CheckedServer] = []
        self._folder = folder
        self._config = config
        self._find = find
        self._find_tape = find_tape
        self._recording = recording
        self._stack = ExitStack()
        self._is_reported = False

    def replay(self, recording: Path | str, options: dict[str, Any]) -> CheckedReplay:
        """Start a replay.  Raises InputError."""
        options = {"contract": self._config.contracts} | options
        replay_options = select_options(ReplayOptions, options, self._find, "A replay")
        path, cassette = Path(recording), None
        if (upstream := options.get("upstream")) is not None:
            mode = options.get("record") or default_mode()
            check_choice("record", mode, tuple(RecordMode))
            cassette = Cassette(self._find_tape(path), str(upstream), RecordMode(mode), **self._recording)
        else:
            path = self._find(path)
        return self._start(CheckedReplay, options, partial(start_replay, path, replay_options, cassette=cassette))

    def stream(self, events: Iterable[object], request: str, options: dict[str, Any]) -> CheckedReplay:
        """Start a replay of a stream with these events.  Raises InputError."""
        elements = [tape_element(event) for event in ([events] if isinstance(events, str) else events)]
        try:
            tape = b"tape: 1\n---\n" + orjson.dumps({"request": request, "events": elements})
        except TypeError as error:
            raise InputError(f"Invalid events: {printable(str(error))}.") from None
        with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
            path = Path(folder) / "stream"
            path.write_bytes(tape)
            try:
                return self.replay(path, options)
            except InputError as error:
                raise InputError(re.sub(rf"{re.escape(str(path))}(, line \d+)?", "The events", error.message)) from None

    def serve(self, scenario: Any, options: dict[str, Any]) -> CheckedService:
        """Start a stand-in.  Raises InputError."""
        serve_options = select_options(ServeOptions, {"clock": "virtual"} | options, self._find, "A service")
        found = _find_scenario(scenario, self._find)
        return self._start(CheckedService, options, partial(start_scenario, found, serve_options))

    def _start(
        self,
        type_: type[_Checked],
        options: Mapping[str, Any],
        start: Callable[..., AbstractContextManager[Replay | Service]],
    ) -> _Checked:
        number = len(self.servers) + 1
        record = self._folder / ("replayed.db" if number == 1 else f"replayed-{number}.db")
        config, lines = self._config, list[str]()
        collector = RequestCollector(lambda each: config.with_contracts(each).settings, record)
        running = self._stack.enter_context(start(checker=collector, log=lines.append))
        criteria = ClientCriteria.of(options, config.with_contracts(running.contracts.checked))
        server = type_(running, collector, criteria, record, lines)
        self.servers.append(server)
        return server

    def failure(self) -> str | None:
        """Why the test fails because of its client; None if it does not, or if that was reported before."""
        if self._is_reported:
            return None
        texts = [text for text in (server.failure() for server in self.servers) if text is not None]
        self._is_reported = bool(texts)
        return "\n\n".join(texts) or None

    def check(self) -> None:
        """Raise ClientError if the test fails because of its client."""
        if (text := self.failure()) is not None:
            raise ClientError(text)

    def summary(self) -> str:
        """What the client did, for a test that failed for another reason; empty if that was reported before."""
        if self._is_reported:
            return ""
        self._is_reported = True
        return "\n\n".join("\n".join(server.summary()) for server in self.servers)

    def stop(self) -> None:
        """Stop all servers."""
        self._stack.close()

    def save(self) -> None:
        """Write the tapes of a test that passed, after `stop`.  Raises InputError."""
        for server in self.servers:
            if server.cassette is not None:
                server.cassette.save()

    def recordings(self) -> Iterator[tuple[str, str, int]]:
        """Yield the path of each recording, whether it was `used` or `written`, and when it began (ns since 1970)."""
        replays = (server.replay for server in self.servers if isinstance(server, CheckedReplay))
        for replay in replays:
            is_written = replay.cassette is not None and replay.cassette.is_saved
            yield str(replay.path), "written" if is_written else "used", replay.started_unix_ns

    def delete_recordings(self) -> None:
        """Delete the recordings of a test that passed."""
        for server in self.servers:
            server.record.unlink(missing_ok=True)


@contextmanager
def replay(recording: Path | str, **options: Any) -> Iterator[CheckedReplay]:
    """Replay a recording until the block is left, and check the client.

    Takes the fields of ReplayOptions, and `fail_on`, `allow`, `allow_misses` and `faults_may_miss`.  With `upstream`,
    the recording is a tape that is recorded from there, as `record` says: see RecordMode.  Paths are
    relative to the current folder.  Raises InputError for invalid options and files, and ClientError at the end if the
    client broke a rule, a request had no match, or a fault never matched.  An exception of the block gets the
    same text as a note.  If anything fails, the traffic stays recorded in a temporary folder.
    """
    with _checked_group() as group:
        yield group.replay(recording, options)


@contextmanager
def stream(events: Iterable[object], request: str = "GET /", **options: Any) -> Iterator[CheckedReplay]:
    """Serve a stream with these events until the block is left, and check the client.

    An event is its lines, or an element of a tape.  Everything else is as with `replay`.
    """
    with _checked_group() as group:
        yield group.stream(events, request, options)


@contextmanager
def serve(scenario: Any = None, **options: Any) -> Iterator[CheckedService]:
    """Play a scenario as the stand-in until the block is left, and check the client.

    Takes the fields of ServeOptions, and `fail_on`, `allow` and `faults_may_miss`; time is virtual by default.
    Everything else is as with `replay`.
    """
    with _checked_group() as group:
        yield group.serve(scenario, options)


@contextmanager
def _checked_group() -> Iterator[ServerGroup]:
    config = find_config(Path.cwd())
    folder = Path(tempfile.mkdtemp(prefix="wiretape-"))
    group = ServerGroup(folder, config)
    try:
        try:
            yield group
        finally:
            group.stop()
        group.check()
        group.save()
        group.delete_recordings()
    except Exception as error:
        if text := group.summary():
            error.add_note(text)
        raise
    finally:
        with suppress(OSError):  # it contains recordings
            folder.rmdir()
