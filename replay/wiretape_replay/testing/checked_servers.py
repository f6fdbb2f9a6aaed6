"""A replay and a stand-in that a test starts, and that check the client that the test runs against them."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretape import observations
from wiretape.errors import InputError
from wiretape.observations import Ending, Headers
from wiretape.rules import Finding, Settings
from wiretape.toml_files import is_toml_text
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.control.playhead_control import PlayheadControl
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
from wiretape_replay.server_options import ReplayOptions, ServeOptions
from wiretape_replay.service.scenario_server import Service
from wiretape_replay.service.scenario_steps import Scenario
from wiretape_replay.session.session_streams import StreamRequest
from wiretape_replay.testing.client_criteria import ClientCriteria, failure_message
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

    def __init__(self, settings: Settings, record: Path) -> None:
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

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests so far, in order."""
        return list(self._collector.requests)

    @property
    def streams(self) -> list[StreamRequest]:
        """The requests for streams so far, in order."""
        raise NotImplementedError

    @property
    def misses(self) -> list[UnmatchedRequest]:
        """The requests without a match, in order; the stand-in has none."""
        return []

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
        return failure_message(
            self.findings,
            self.misses,
            self._criteria,
            self.record,
            self.keep,
            inconclusive=self.inconclusive,
            unused_faults=self.unused_faults,
            report_options=self._collector.report_options,
            checks_failed=self._collector.failed,
        )


class CheckedReplay(CheckedServer):
    """A replay that checks its client."""

    _server: Replay

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
        """The recorded requests that the client did not send, in order; in session mode without streams."""
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


@contextmanager
def checked_replay(
    recording: Path, options: ReplayOptions, criteria: ClientCriteria, record: Path
) -> Iterator[CheckedReplay]:
    """Replay a recording until the block is left.  The attributes stay readable afterwards.

    `record` is the path of a new file.  Raises InputError.
    """
    collector, lines = RequestCollector(criteria.config.settings, record), list[str]()
    with start_replay(recording, options, checker=collector, log=lines.append) as replay:
        yield CheckedReplay(replay, collector, criteria, record, lines)


@contextmanager
def checked_service(
    scenario: Scenario | Path | str, options: ServeOptions, criteria: ClientCriteria, record: Path
) -> Iterator[CheckedService]:
    """Play a scenario until the block is left.  The attributes stay readable afterwards.

    `record` is the path of a new file.  Raises InputError.
    """
    collector, lines = RequestCollector(criteria.config.settings, record), list[str]()
    with start_scenario(scenario, options, checker=collector, log=lines.append) as service:
        yield CheckedService(service, collector, criteria, record, lines)


def find_scenario(scenario: object, find: Callable[[Path], Path]) -> Scenario | Path | str:
    """A scenario with its path resolved by `find`, if it is given as a file.  Raises InputError."""
    if isinstance(scenario, Path):
        return find(scenario)
    if isinstance(scenario, str) and not is_toml_text(scenario) and (scenario.endswith(".toml") or "/" in scenario):
        return find(Path(scenario))
    if not isinstance(scenario, Scenario | str):
        raise InputError(
            f"Invalid scenario {scenario!r}: expected the name of a bundled scenario, a TOML file, or TOML text."
        )
    return scenario
