"""Check recordings in several processes, also of a Dask cluster, one recording in each.

The results are the same whatever the number of processes.
"""

import gc
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_all_start_methods, get_context
from pathlib import Path
from typing import Any, cast

from wiretape.errors import InputError
from wiretape.recording import Recording, open_recording, redact_urls
from wiretape.recording.rotated_parts import open_joined
from wiretape.rules import Finding, Settings
from wiretape_inspect.report.case_results import applicable
from wiretape_inspect.report.finding_store import FindingStore
from wiretape_inspect.report.recording_report import ALL_RULES, Outcomes, Report, check_recording
from wiretape_inspect.report.remote_files import is_url, local_copy

SMALL = 16 * 1024 * 1024
"""Bytes of bodies that are checked in less time than other processes need to start."""
MOST_FINDINGS = 20_000
"""Findings that a process returns.  A recording with more is checked in this process, which stores them."""
_SCHEDULER = re.compile(r"(?:[a-z]+://)?[^/\s]+:\d+(?:/\S*)?")
_SCHEDULER_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Task:
    """What one process checks."""

    sources: tuple[str, ...]
    """The path or URL of the recording, or those of the files of a rotated one."""
    settings: Settings
    selected: frozenset[str]


def check_files(task: Task) -> tuple[list[Finding], Outcomes] | None:
    """Check a recording; return None if it has more findings than should be held in memory."""
    with open_files(task) as recording:
        report = check_recording(recording, "", settings=task.settings, selected=task.selected)
        return (list(report.findings), report.outcomes) if len(report.findings) <= MOST_FINDINGS else None


@contextmanager
def open_files(task: Task) -> Iterator[Recording]:
    """Open the recording of a task.  Raises InputError."""
    with ExitStack() as opened, rare_collections():
        files = [opened.enter_context(local_copy(each)) if is_url(each) else Path(each) for each in task.sources]
        recordings = [opened.enter_context(open_recording(file)) for file in files]
        yield recordings[0] if len(recordings) == 1 else opened.enter_context(open_joined(recordings))


def check_recordings(
    named: Sequence[tuple[str, Recording]],
    executor: Executor,
    settings: Settings,
    selected: frozenset[str] = ALL_RULES,
    *,
    sources_of: Callable[[Recording], tuple[str, ...]] | None = None,
    advance: Callable[[int], None],
    fail: Callable[[InputError], None],
) -> list[Report]:
    """Check recordings, each with the name of its file.

    `sources_of` returns what the executor's processes read, if they are on other machines.  `advance` is called with
    the bytes of the bodies that were checked, and `fail` with the error of each recording that is damaged and therefore
    has no report.
    """
    selected -= settings.off
    sources_of = sources_of or _local_source
    tasks = [Task(sources_of(recording), *applicable(recording, settings, selected)) for _, recording in named]
    volumes = [body_bytes(recording) for _, recording in named]
    # The largest come first, so that no process is left alone with one at the end.
    largest_first = sorted(range(len(named)), key=lambda index: -volumes[index])
    futures = {executor.submit(check_files, tasks[index]): index for index in largest_first}
    reports: dict[int, Report] = {}
    for future in as_completed(futures):
        index = futures[future]
        (name, recording), task = named[index], tasks[index]
        try:
            if (result := future.result()) is None:
                reports[index] = check_recording(recording, name, settings=task.settings, selected=task.selected)
            else:
                found, outcomes = result
                reports[index] = Report(
                    name, recording, FindingStore(found), outcomes, selected=task.selected, settings=task.settings
                )
        except InputError as error:
            fail(error)
        advance(volumes[index])
    return [reports[index] for index in sorted(reports)]


def _local_source(recording: Recording) -> tuple[str, ...]:
    return (str(recording.database if recording.database.exists() else recording.path),)


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
