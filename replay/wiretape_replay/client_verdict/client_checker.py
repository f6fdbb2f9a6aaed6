"""The client checker: listens to the traffic, checks it when streams pause, and can record it.

It attributes findings to the client, the recorded service, or an injected fault.
"""

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import ParamSpec
from urllib.parse import urlsplit

from wiretape.addresses import Upstream, join_upstreams
from wiretape.bounded_dict import put_bounded
from wiretape.checker import Checker, Settings
from wiretape.contract import Contract
from wiretape.contract.recorded_contracts import dump_contracts
from wiretape.errors import RecordingError
from wiretape.files import exists_error, path_exists
from wiretape.observations import BytesArrived, Observation, RequestStarted, ResponseStarted, header
from wiretape.recording import Writer, check_output
from wiretape.rules import Finding, Party, Rule, Severity, Verdict
from wiretape_replay.client_verdict.traffic_buffer import ObservationBuilder, TrafficBuffer
from wiretape_replay.http_server.http_messages import HttpRequest
from wiretape_replay.http_server.response_writer import OWN_RESPONSE, ExchangeListener
from wiretape_replay.replayed_contracts import ReplayedContracts

_P = ParamSpec("_P")
_QUIET_NS = 20_000_000
"""If nothing was sent for this long, everything that waits is checked."""
_OLDEST_NS = 3_000_000_000
"""If streams never pause, traffic of this age is checked in slices."""
_SLICE_NS = 400_000
"""Duration of a slice, without its last chunks: streams wait for less than a millisecond."""
_PAUSE_NS = 2_000_000
"""Pause between slices; shorter if more traffic waits."""
_MOST_WAITING = 64 * 1024 * 1024
"""Bytes that may wait; beyond, every write waits for the checks."""
_MOST_CHUNKS = 4
"""Chunks of a response that are checked between two readings of the clock."""
_MOST_HELD = 16 * 1024 * 1024
"""Bytes of a deferred recording that are held in memory; with more, the file is created."""
_OBSERVATION_BYTES = 512
"""Memory that an observation takes besides its data, roughly."""


_MOST_KEPT = 10_000
"""Findings kept for each party; all are counted."""
_MOST_EXCHANGES = 65_536
"""Exchanges whose channel is kept."""
_OWN_HEADER = "x-wiretape"


@dataclass(slots=True)
class FindingCounts:
    """Findings about one party, or caused by faults; all are counted, and the first are kept."""

    kept: list[Finding] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    """The number of findings of each rule."""
    severities: Counter[Severity] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self.codes[finding.code] += 1
        self.severities[finding.severity] += 1
        if len(self.kept) < _MOST_KEPT:
            self.kept.append(finding)

    def reaches(self, threshold: Severity) -> bool:
        """Whether a finding is at least as severe as `threshold`."""
        return any(severity.reaches(threshold) for severity in self.severities)

    def __len__(self) -> int:
        return self.codes.total()


class Attribution:
    """Findings by who caused them.

    A finding about the service is attributed to the last fault before it in its exchange or else in its channel,
    because the effect of a fault can show on another connection.
    """

    def __init__(self) -> None:
        self.client = FindingCounts()
        self.service = FindingCounts()
        """Findings about the service in the recording itself."""
        self.injected = FindingCounts()
        self.faults: list[tuple[Finding, str]] = []
        """Findings that a fault caused, and that fault."""
        self.channel_of: Callable[[str], str | None] = lambda _: None
        """Returns the channel that a target names."""
        self._channels: dict[int, str | None] = {}
        self._by_exchange: dict[int, list[tuple[int, str]]] = {}
        self._by_channel: dict[str, list[tuple[int, str]]] = {}
        self._own: dict[int, None] = {}
        """Exchanges whose response comes from wiretape."""

    def observe(self, seen: Observation) -> None:
        """Remember the channel that an exchange names, and whether its response comes from wiretape."""
        if isinstance(seen, RequestStarted):
            put_bounded(self._channels, seen.exchange, self.channel_of(seen.target), _MOST_EXCHANGES)
        elif isinstance(seen, ResponseStarted) and header(seen.headers, _OWN_HEADER) is not None:
            put_bounded(self._own, seen.exchange, None, _MOST_EXCHANGES)

    def add_fault(self, exchange: int, time_ns: int, fault: str) -> None:
        """Remember that a fault changes a response after `time_ns`."""
        if fault == OWN_RESPONSE:
            put_bounded(self._own, exchange, None, _MOST_EXCHANGES)
            return
        self._by_exchange.setdefault(exchange, []).append((time_ns, fault))
        channel = self._channels.get(exchange)
        if channel is not None:
            self._by_channel.setdefault(channel, []).append((time_ns, fault))

    def add(self, finding: Finding) -> None:
        """Attribute a finding."""
        if finding.side is Party.CLIENT:
            self.client.add(finding)
            return
        if finding.side is not Party.SERVICE or finding.exchange in self._own:
            return
        fault = self._fault(finding)
        if fault is None:
            self.service.add(finding)
            return
        self.injected.add(finding)
        if len(self.faults) < _MOST_KEPT:
            self.faults.append((finding, fault))

    def _fault(self, finding: Finding) -> str | None:
        channel = self._channels.get(finding.exchange)
        for faults in (self._by_exchange.get(finding.exchange, []), self._by_channel.get(channel or "", [])):
            before = bisect_left(faults, finding.time_ns, key=itemgetter(0))
            if before:
                return faults[before - 1][1]
        return None


class ClientChecker:
    """Checks the client, and records the traffic.  Use it in the event loop's thread only.

    Traffic is buffered, and checked when nothing was sent for a moment, so that checking does not delay streams.
    """

    def __init__(
        self,
        settings: Settings | Callable[[Sequence[Contract]], Settings] | None = None,
        *,
        record: Path | None = None,
        deferred: bool = False,
        on_finding: Callable[[Finding], None] = lambda _: None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`settings` may depend on the contracts of the traffic.

        `record` is the path of a new recording; with `deferred`, the file is created when `keep` is called.

        `on_finding` is called with each finding about the client.  `clock` returns nanoseconds.
        Raises RecordingError if the recording cannot be created.
        """
        if record is not None:
            if path_exists(record):
                raise RecordingError(exists_error(record, "--record"))
            check_output(record, append=False)
        self.attribution = Attribution()
        """The findings so far, by who caused them."""
        self._is_checking = True
        self.failed: str | None = None
        """The error that stopped the checks."""
        self._record = record
        self._deferred = deferred
        self.on_finding = [on_finding]
        """Called with each finding about the client; append to it."""
        self._create: Callable[[], Writer] | None = None
        """Creates the recording."""
        self._writer: Writer | None = None
        self._held: list[Observation] = []
        """What a deferred recording will have, as long as its file was not created."""
        self._held_findings: list[Finding] = []
        self._held_bytes = 0
        self._ended_ns: int | None = None
        self._settings_for = settings if callable(settings) else (settings or Settings()).with_contracts
        self.settings = self._settings_for(())
        """Those of the checks."""
        self._checker = Checker(self.settings)
        self._key_rules: tuple[str, ...] = ()
        """The codes of rules that apply only where requests need a key, if they do not."""
        self._observer = ObservationBuilder("")
        self._numbers = count(1)
        self._buffer = TrafficBuffer(clock, _MOST_WAITING, self._schedule)
        self.use_clock(clock)
        self._timer: asyncio.Handle | None = None
        self._finished = False

    def use_clock(self, clock: Callable[[], int]) -> None:
        """Measure time by another clock (ns).  Call this before any traffic."""
        self._buffer.clock, self._began_ns = clock, clock()

    @property
    def report_options(self) -> list[str]:
        """The options with which `wiretape report` judges the recorded traffic as this checker does."""
        ignored = [code for code in self._key_rules if self.catalogue[code].side is Party.CLIENT]
        options = ["--ignore", ",".join(ignored)] if ignored else []
        base = self.settings.base
        return options if base is None or base.origin is None else [*options, "--base", str(replace(base, origin=None))]

    @property
    def catalogue(self) -> Mapping[str, Rule]:
        """The rules by code."""
        return self._checker.catalogue

    def open(
        self, url: str, contracts: ReplayedContracts, bases: Collection[str] = ("",), *, needs_key: bool = True
    ) -> None:
        """Start; `url` is the address of the replay, and `bases` are the base paths of the service that it replays.

        `needs_key` says whether requests need a key.  Raises RecordingError if the recording cannot be written, and
        InputError if the settings do not fit the contracts.
        """
        upstream = join_upstreams(f"{url}{base}" for base in sorted(bases)) or url
        self.settings = self._settings_for(contracts.checked)
        self.attribution.channel_of = contracts.find_channel
        if not needs_key:
            prefixes = contracts.key_rules
            self._key_rules = tuple(code for code in self.settings.catalogue if code.startswith(prefixes))
        # The replay stands in for the origin that is configured.
        base = None if self.settings.base is None else replace(self.settings.base, origin=None)
        echoes = frozenset().union(*(each.echoes for each in contracts.checked))
        settings = replace(self.settings, off=self.settings.off | echoes | {*self._key_rules}, base=base)
        self._checker = Checker(settings, upstream=upstream)
        self._observer = ObservationBuilder(urlsplit(url).netloc, self._began_ns)
        if self._record is not None:
            self._create = partial(
                Writer.create,
                self._record,
                upstream=upstream,
                started_unix_ns=time.time_ns(),
                contracts=dump_contracts(contracts.checked),
            )
            if not self._deferred:
                self._create_file()
        self._buffer.keeps_request_ends = self._create is not None

    def record_into(self, writer: Writer, upstream: Upstream) -> None:
        """Start, and only record the traffic of a service, unchecked.  Its times follow those in the recording."""
        self._is_checking = False
        self._numbers = count(writer.first_exchange)
        self._began_ns = writer.began_clock_ns - writer.began_ns
        self._observer = ObservationBuilder(
            upstream.authority, self._began_ns, scheme=upstream.scheme, last_ns=writer.last_ns
        )
        self._writer = writer

    def keep(self) -> None:
        """Create the file of a deferred recording, also after `finish`.  Raises RecordingError."""
        self.check_all()
        self._create_file()

    def start_exchange(self, request: HttpRequest) -> ExchangeListener:
        """See TrafficListener."""
        number = next(self._numbers)
        self._buffer.add(number, request)
        return partial(self._buffer.add, number)

    def check_all(self) -> None:
        """Check all traffic so far."""
        while self._buffer:
            self._check_next()
        if self._writer is not None:
            self._writer.commit()

    def finish(self) -> None:
        """Check the rest, and close the recording.  Finishing again does nothing."""
        if self._finished:
            return
        self._finished = True
        if self._timer is not None:
            self._timer.cancel()
        self.check_all()
        self._add_findings(self._check(self._checker.finish))
        self._ended_ns = max(self._buffer.clock() - self._began_ns, self._observer.last_ns + 1)
        if self._writer is not None:
            self._writer.close(self._ended_ns)

    @property
    def client_findings(self) -> Sequence[Finding]:
        """The findings about the client so far, at most 10,000."""
        self.check_all()
        return self.attribution.client.kept

    @property
    def inconclusive(self) -> Mapping[str, Mapping[str, int]]:
        """The inconclusive client rules so far: for each code the reasons, and how often each occurred."""
        catalogue = self._checker.catalogue
        return {
            code: dict(tally.reasons)
            for code, tally in self._checker.tallies().items()
            if tally.verdict is Verdict.INCONCLUSIVE and catalogue[code].side is Party.CLIENT
        }

    def _schedule(self) -> None:
        if self._buffer.waiting_bytes > _MOST_WAITING:
            self._check_slice()
        if self._timer is None and not self._finished:
            self._timer = asyncio.get_running_loop().call_later(_QUIET_NS / 1e9, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now_ns, pause_ns = self._buffer.clock(), _QUIET_NS
        has_more = bool(self._buffer)
        if self._buffer:
            quiet = now_ns - self._buffer.last_ns >= _QUIET_NS
            if quiet or now_ns - self._buffer.first_ns > _OLDEST_NS:
                self._check_slice()
                has_more = bool(self._buffer) or self._writer is not None
                pause_ns = 0 if quiet else int(_PAUSE_NS * max(0, 1 - self._buffer.waiting_bytes / _MOST_WAITING))
        elif self._writer is not None:
            with suppress(RecordingError):  # somebody deleted the file
                has_more, pause_ns = self._writer.derive(), 0
        if has_more:
            self._timer = asyncio.get_running_loop().call_later(pause_ns / 1e9, self._tick)

    def _check_slice(self) -> None:
        """Check traffic for the duration of a slice."""
        until_ns = self._buffer.clock() + _SLICE_NS
        while self._buffer and self._buffer.clock() < until_ns:
            self._check_next()
        if self._writer is not None:
            self._writer.commit()

    def _check_next(self) -> None:
        seen = self._observer.observe(self._buffer.take_run(_MOST_CHUNKS))
        if isinstance(seen, tuple):
            exchange, injected = seen
            self.attribution.add_fault(exchange, self._observer.last_ns, injected.fault)
            return
        self.attribution.observe(seen)
        if self._writer is not None:
            self._writer.feed([seen])
        elif self._create is not None:
            self._hold(seen)
        if findings := self._check(self._checker.feed, seen):
            self._add_findings(findings)

    def _check(self, check: Callable[_P, list[Finding]], *args: _P.args, **kwargs: _P.kwargs) -> list[Finding]:
        if self.failed is not None or not self._is_checking:
            return []
        try:
            return check(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - a defect of a rule must not end the replay
            self.failed = f"{type(error).__name__}: {error}"
            return []

    def _add_findings(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            self.attribution.add(finding)
            if finding.side is Party.CLIENT:
                for tell in self.on_finding:
                    tell(finding)
        if self._writer is not None:
            self._writer.add_findings(findings)
        elif self._create is not None:
            self._held_findings += findings

    def _hold(self, seen: Observation) -> None:
        self._held.append(seen)
        self._held_bytes += _OBSERVATION_BYTES + (len(seen.data) if isinstance(seen, BytesArrived) else 0)
        if self._held_bytes > _MOST_HELD:
            self._create_file()

    def _create_file(self) -> None:
        """Create the file, and store what was held; nothing if there is one.  Raises RecordingError."""
        if self._writer is not None or self._create is None:
            return
        self._writer = self._create()
        self._writer.feed(self._held)
        self._writer.commit()
        self._writer.add_findings(self._held_findings)
        self._held, self._held_findings = [], []
        if self._ended_ns is not None:
            self._writer.close(self._ended_ns)
