"""Check recordings in several processes, also of a Dask cluster: different files, and independent sessions of a file.

A part follows all exchanges of its file, but reads the event streams of its own sessions only.  The rules ask about
other sessions in few cases: if they did, or if the checker may have had to drop state, the whole file is one part
after all.  So the results are the same whatever the number of processes.
"""

import gc
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import active_children, get_all_start_methods, get_context
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

from wiretape.contract import CURSOR_HEADER, cursor_in
from wiretape.errors import InputError
from wiretape.observations import header
from wiretape.recording import Recording, open_recording, redact_urls
from wiretape.recording.rotated_parts import open_joined
from wiretape.rules import Finding, Settings
from wiretape_inspect.report.finding_store import FindingStore
from wiretape_inspect.report.probe_results import applicable
from wiretape_inspect.report.recording_report import (
    ALL_RULES,
    Outcomes,
    Report,
    check_observations,
    check_recording,
    make_checker,
)
from wiretape_inspect.report.remote_files import is_url, local_copy

SMALL = 16 * 1024 * 1024
"""Bytes of bodies that are checked in less time than other processes need to start."""
MOST_FINDINGS = 20_000
"""Findings that a process returns.  A file with more in one part is checked in this process, which stores them."""
_SCHEDULER = re.compile(r"(?:[a-z]+://)?[^/\s]+:\d+(?:/\S*)?")
_MOST_EXCHANGES = 4000
"""A checker keeps the state of at least so many sessions and clients."""
_MOST_EVENTS = 200_000
"""The durable events that a checker keeps."""
_SCHEDULER_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Part:
    """What one process checks."""

    sources: tuple[str, ...]
    """The path or URL of the recording, or those of the files of a rotated one."""
    exchanges: frozenset[int] | None
    """The numbers of the exchanges to judge; None for all."""
    settings: Settings
    selected: frozenset[str]


def check_part(part: Part) -> "PartResult | None":
    """Check a part of a recording; return None if it has more findings than should be held in memory."""
    with open_part(part) as recording:
        checker = make_checker(part.settings, part.selected, recording.info.upstream, part.exchanges)
        findings = list(islice(check_observations(checker, recording.observations()), MOST_FINDINGS + 1))
    return (findings, Outcomes.of(checker)) if len(findings) <= MOST_FINDINGS else None


@contextmanager
def open_part(part: Part) -> Iterator[Recording]:
    """Open the recording of a part.  Raises InputError."""
    with ExitStack() as opened, rare_collections():
        files = [opened.enter_context(local_copy(each)) if is_url(each) else Path(each) for each in part.sources]
        recordings = [opened.enter_context(open_recording(file)) for file in files]
        yield recordings[0] if len(recordings) == 1 else opened.enter_context(open_joined(recordings))


PartResult = tuple[list[Finding], Outcomes]


@dataclass(slots=True)
class _File:
    """One file, and the parts of it that were checked."""

    name: str
    recording: Recording
    volume: int
    settings: Settings
    selected: frozenset[str]
    parts: int = 0
    unfinished: int = 0
    """Parts that were submitted and have no result yet."""
    results: list[PartResult] = field(default_factory=list)
    report: Report | None = None
    has_failed: bool = False

    def add(self, result: PartResult | None) -> None:
        """Add the result of a part.  Raises InputError if the file is damaged."""
        if result is not None:
            self.results.append(result)
        elif self.parts:
            self.parts = 0
            self.report = check_recording(self.recording, self.name, settings=self.settings, selected=self.selected)

    def is_complete(self) -> bool:
        """Whether all parts were checked."""
        return self.parts > 0 and len(self.results) == self.parts

    def must_repeat(self) -> bool:
        """Whether the parts, which all were checked, depend on each other."""
        outcomes = [outcomes for _, outcomes in self.results]
        return self.parts > 1 and self.is_complete() and not _are_independent(outcomes)

    def make_report(self) -> None:
        """Make the report from the results."""
        findings = FindingStore(finding for found, _ in self.results for finding in found)
        outcomes = Outcomes.merge([outcomes for _, outcomes in self.results])
        self.report = Report(
            self.name, self.recording, findings, outcomes, selected=self.selected, settings=self.settings
        )
        self.results.clear()


def check_recordings(
    named: Sequence[tuple[str, Recording]],
    executor: Executor,
    jobs: int,
    settings: Settings,
    selected: frozenset[str] = ALL_RULES,
    *,
    sources_of: Callable[[Recording], tuple[str, ...]] | None = None,
    advance: Callable[[int], None],
    fail: Callable[[InputError], None],
) -> list[Report]:
    """Check recordings, each with the name of its file, by `jobs` parts at a time.

    `sources_of` returns what the executor's processes read, if they are on other machines; a file is then one part.
    `advance` is called with the bytes of the bodies that were checked, and `fail` with the error of each file that is
    damaged and therefore has no report.
    """
    selected -= settings.off
    files = [
        _File(name, recording, body_bytes(recording), *applicable(recording, settings, selected))
        for name, recording in named
    ]
    futures: dict[Future[PartResult | None], _File] = {}
    done: SimpleQueue[Future[PartResult | None]] = SimpleQueue()

    def submit(file: _File, parts: Sequence[frozenset[int] | None]) -> None:
        file.parts = file.unfinished = len(parts)
        file.results.clear()
        for exchanges in parts:
            sources = (sources_of or _local_source)(file.recording)
            part = Part(sources, exchanges, file.settings, file.selected)
            future = executor.submit(check_part, part)
            futures[future] = file
            future.add_done_callback(done.put)

    share = max(SMALL, sum(file.volume for file in files) // (2 * jobs))
    # The largest come first, so that no process is left alone with one at the end.
    for file in sorted(files, key=lambda file: -file.volume):
        is_split = sources_of is None and file.volume > share
        submit(file, (is_split and split_sessions(file.recording, jobs)) or [None])
    while futures:
        future = done.get()
        file = futures.pop(future)
        file.unfinished -= 1
        try:
            file.add(future.result())
        except InputError as error:
            if not file.has_failed:
                fail(error)
            file.has_failed, file.parts = True, 0
        if file.must_repeat():
            submit(file, [None])
        elif file.is_complete():
            file.make_report()
        if not file.unfinished:
            advance(file.volume)
    return [file.report for file in files if file.report is not None]


def _local_source(recording: Recording) -> tuple[str, ...]:
    return (str(recording.database if recording.database.exists() else recording.path),)


def split_sessions(recording: Recording, parts: int) -> list[frozenset[int]]:
    """Divide the exchanges of a recording into parts of about the same size, each with whole sessions.

    Returns nothing if the recording cannot be divided, or if its index shows that the parts would not be independent,
    so that checking them would be in vain.
    """
    if recording.info.ended_ns is None:
        # It may still grow.
        return []
    sizes: dict[str | None, int] = {}
    numbers: dict[str | None, list[int]] = {}
    cursors: set[tuple[str, str | None]] = set()
    for count, exchange in enumerate(recording.exchanges()):
        if count >= _MOST_EXCHANGES:
            return []
        session = exchange.session_id
        sizes[session] = sizes.get(session, 0) + exchange.request_bytes + exchange.response_bytes
        numbers.setdefault(session, []).append(exchange.number)
        if (cursor := cursor_in(header(exchange.request.headers, CURSOR_HEADER))) is not None:
            cursors.add((cursor, session))
    if recording.has_more_event_ids(_MOST_EVENTS):
        return []
    known = recording.sessions_of_ids({cursor for cursor, _ in cursors}) if cursors else set()
    if {cursor for cursor, _ in cursors - known} & {cursor for cursor, _ in known}:
        # Whether a cursor is that of another session is known only where both are checked.
        return []
    divided: list[list[int]] = [[] for _ in range(parts)]
    volumes = [0] * parts
    for session in sorted(sizes, key=lambda session: (-sizes[session], session or "")):
        smallest = volumes.index(min(volumes))
        divided[smallest] += numbers[session]
        volumes[smallest] += sizes[session]
    found = [frozenset(part) for part in divided if part]
    return found if len(found) > 1 else []


def _are_independent(parts: Sequence[Outcomes]) -> bool:
    """Whether no rule asked about a session of another part, and no state can have been dropped."""
    unknown = frozenset[int]().union(*(part.unknown_cursors for part in parts))
    found = frozenset[int]().union(*(part.found_cursors for part in parts))
    return not unknown & found and sum(part.kept_events for part in parts) <= _MOST_EVENTS


def body_bytes(recording: Recording) -> int:
    """Return the recorded bytes of all bodies."""
    return sum(exchange.request_bytes + exchange.response_bytes for exchange in recording.exchanges())


@contextmanager
def process_pool(jobs: int) -> Iterator[Executor]:
    """Run processes on this machine; they end with the block.  Raises InputError if one of them is killed."""
    method = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
    context = get_context(method)
    context.set_forkserver_preload([__name__])
    # Ctrl-C ends them at once and without a traceback.
    pool = ProcessPoolExecutor(jobs, context, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL))
    try:
        yield pool
    except BrokenProcessPool:
        raise InputError(
            "A process that checked a recording was killed, perhaps for lack of memory: use fewer --jobs."
        ) from None
    except BaseException:
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Run tasks on the cluster whose scheduler is at `address`; an exception cancels them.  Raises InputError.

    Dask runs the tasks of a worker that is lost again on others.
    """
    shown = redact_urls(address)
    if _SCHEDULER.fullmatch(address) is None:
        raise InputError(
            f"Invalid address {shown!r}: expected the address of a Dask scheduler, for example tcp://127.0.0.1:8786."
        )
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("--dask needs Dask: install wiretape[dask].") from None
    try:
        client: Any = cast("Any", Client)(address, timeout=_SCHEDULER_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = redact_urls((str(error).strip().splitlines() or ["it does not respond"])[0]).rstrip(".")
        raise InputError(f"No Dask scheduler at {shown}: {reason}.") from None
    try:
        executor = client.get_executor(pure=False)
        try:
            yield executor
        except ImportError as error:
            raise InputError(
                f"The workers of {shown} cannot check recordings ({error}): install the same version of wiretape there."
            ) from None
        finally:
            executor.shutdown(wait=False)
    finally:
        client.close()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely: the checker makes hardly any cycles, and searching for them takes a tenth of its time."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
