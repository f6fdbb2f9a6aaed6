"""Reports of many recordings, made in this process, in several or on a Dask cluster, one recording in each.

The results are the same whatever the number of processes.  The rules for a recording are those of contracts that the
user names, of its own, or that its requests suggest.
"""

import gc
import re
import signal
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import active_children, get_all_start_methods, get_context
from pathlib import Path
from typing import Any, cast

import click

from wiretape.checker import CATALOGUE, Settings, UnknownCodeError, codes_of
from wiretape.checker.default_rules import default_contracts
from wiretape.config import Config, override_base
from wiretape.contract.contract_builder import load_contract, load_recorded
from wiretape.contract.contract_files import CodeUse
from wiretape.contract.contract_model import Contract
from wiretape.errors import InputError
from wiretape.json_codec import members_of
from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Recording, recording_opener, redact_urls
from wiretape.recording.rotated_parts import WholeFiles, find_wholes, open_joined
from wiretape.rules import Finding, Severity, Verdict
from wiretape.rules.engine import Engine
from wiretape.rules.exchange import ScopeCount
from wiretape.safe_text import printable
from wiretape_inspect.report.recording_report import Outcomes, Report, Watch, check_recording
from wiretape_inspect.report.remote_files import absolute_name, is_url, local_copy, shown_name

ANY_STREAM = "sse"
"""The contract of traffic that no other rules are about."""
SMALL = 16 * 1024 * 1024
"""Bytes of bodies that are checked in less time than other processes need to start."""
MOST_FINDINGS = 20_000
"""Findings that a process returns.  A recording with more is checked in this process, which stores them."""
_MOST_WAITING = 64
"""Files that are submitted for a summary before the first of them must be finished."""
_SCHEDULER = re.compile(r"(?:[a-z]+://)?[^/\s]+:\d+(?:/\S*)?")
_SCHEDULER_TIMEOUT_S = 10
_Checked = tuple[list[Finding], Outcomes]


@dataclass(frozen=True, slots=True)
class ChosenRules:
    """The rules for one recording."""

    settings: Settings
    selected: frozenset[str]
    """The codes of the rules to check."""
    foreign: tuple[ScopeCount, ...] = ()
    """Why no exchange is the service's, if that is the reason for the choice."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """Chooses the rules for each recording.

    Contracts of the command line or the configuration come first, then those that the recording stores.  Without any,
    the built-in rules are chosen if an exchange is the service's, and otherwise the contract `sse`.
    """

    config: Config
    contracts: tuple[Contract, ...] = ()
    """Those of the command line, or else of the configuration."""
    base: str | None = None
    """The base of the service, if the command line names it."""
    select: Collection[str] = ()
    ignore: Collection[str] = ()
    code: CodeUse = CodeUse.SKIP
    """What happens to the code that contracts of recordings name."""

    def __post_init__(self) -> None:
        """Raise InputError if the rules are known, but cannot be chosen."""
        if self.is_made:
            self._rules(self.contracts)

    @property
    def is_made(self) -> bool:
        """Whether the rules are the same for every recording."""
        return bool(self.contracts) or self.base is not None

    def rules_for(self, recording: Recording) -> ChosenRules:
        """Return the rules for a recording.  Raises InputError."""
        if self.is_made:
            return self._rules(self.contracts)
        if recording.info.contracts is not None:
            return self._rules(load_recorded(recording.info.contracts, str(recording.path), self.code))
        if foreign := self._foreign_traffic(recording):
            return replace(self._rules((load_contract(ANY_STREAM),)), foreign=foreign)
        return self._rules(())

    def _rules(self, contracts: tuple[Contract, ...]) -> ChosenRules:
        config = self.config.with_contracts(contracts)
        return ChosenRules(override_base(config.settings, self.base), config.rule_codes(self.select, self.ignore))

    def _foreign_traffic(self, recording: Recording) -> tuple[ScopeCount, ...]:
        """Return why no exchange is the service's; empty if one is, there are none, or the user means the service."""
        named = [*(self.select or self.config.select), *(self.ignore or self.config.ignore)]
        is_meant = self.config.settings.base is not None or recording.info.probe is not None
        if is_meant or any(map(_is_about_service, named)):
            return ()
        engine, upstream = Engine((), frozenset(), {}), recording.info.upstream
        traffics = [each.follow(engine, (), self.config.settings, upstream) for each in default_contracts()[:-1]]
        others = 0
        for exchange in recording.exchanges():
            if any(traffic.start(exchange.request) is not None for traffic in traffics):
                return ()
            others += 1
        return tuple(count for traffic in traffics for count in traffic.scopes(others))


def _is_about_service(prefix: str) -> bool:
    """Whether only rules about the service have codes with a prefix."""
    try:
        return not any(CATALOGUE[code].everywhere for code in codes_of(prefix))
    except UnknownCodeError:
        return False


@contextmanager
def open_files(sources: Iterable[str]) -> Iterator[Recording]:
    """Open the recording at a path or URL, or at those of the files of a rotated one.  Raises InputError."""
    with ExitStack() as opened, rare_collections():
        recordings = [opened.enter_context(open_file(source)) for source in sources]
        yield opened.enter_context(open_joined(recordings))


@contextmanager
def open_file(name: str) -> Iterator[Recording]:
    """Open the recording at a path or URL.  Raises InputError."""
    with (
        local_copy(name) if is_url(name) else nullcontext(Path(name)) as file,
        recording_opener(file) as opening,
        opening() as recording,
    ):
        yield recording


def check_recordings(
    wholes: Sequence[tuple[WholeFiles, Recording]],
    jobs: int,
    dask: str | None,
    rules: RuleChoice,
    *,
    advance: Callable[[int], None],
    fail: Callable[[InputError], None],
) -> Iterator[Report]:
    """Check recordings in `jobs` processes or on the cluster with the scheduler `dask`, and yield their reports.

    `advance` is called with the bytes of the bodies that were checked, and `fail` with the error of each recording that
    is damaged and therefore has no report.
    """
    volumes = [body_bytes(recording) for _, recording in wholes]
    is_small = len(wholes) == 1 or sum(volumes) <= SMALL
    with executor_for(1 if is_small else jobs, dask) as executor:
        futures: dict[int, Future[_Checked | None]] = {}
        if executor is not None:
            # The largest come first, so that no process is left alone with one at the end.
            for index in sorted(range(len(wholes)), key=lambda index: -volumes[index]):
                sources = _sources(*wholes[index], is_remote=dask is not None)
                futures[index] = executor.submit(check_files, sources, rules)
        for index, (whole, recording) in enumerate(wholes):
            try:
                checked = futures[index].result() if executor is not None else None
                watch: Watch = partial(_watch, advance) if executor is None else iter
                with rare_collections():
                    report = _check(recording, whole.name, rules, watch, checked)
                yield replace(report, partial=whole.partial)
            except InputError as error:
                fail(error)
            if executor is not None:
                advance(volumes[index])


def _check(
    recording: Recording, name: str, rules: RuleChoice, watch: Watch = iter, checked: _Checked | None = None
) -> Report:
    chosen = rules.rules_for(recording)
    return check_recording(
        recording,
        name,
        watch,
        settings=chosen.settings,
        selected=chosen.selected,
        foreign=chosen.foreign,
        checked=checked,
    )


def _watch(advance: Callable[[int], None], observations: Iterable[Observation]) -> Iterator[Observation]:
    for observation in observations:
        if isinstance(observation, BytesArrived):
            advance(len(observation.data))
        yield observation


def check_files(sources: Sequence[str], rules: RuleChoice) -> _Checked | None:
    """Check a recording; return None if it has more findings than should be held in memory."""
    with open_files(sources) as recording:
        report = _check(recording, "", rules)
        return (list(report.findings), report.outcomes) if len(report.findings) <= MOST_FINDINGS else None


def _sources(whole: WholeFiles, recording: Recording, *, is_remote: bool) -> tuple[str, ...]:
    """Return what another process reads."""
    if is_remote:
        return tuple(map(absolute_name, whole.files))
    return (str(recording.database if recording.database.exists() else recording.path),)


def body_bytes(recording: Recording) -> int:
    """Return the recorded bytes of all bodies."""
    return sum(exchange.request_bytes + exchange.response_bytes for exchange in recording.exchanges())


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What checking one recording showed."""

    document: dict[str, Any]
    """The summary as JSON, or the file and the error."""
    severities: frozenset[Severity] = frozenset()
    """The severities of the findings."""


def summarize_files(names: Iterable[str], executor: Executor | None, rules: RuleChoice) -> Iterator[FileSummary]:
    """Check recordings and yield their summaries, in the order of their names; the unreadable ones come first.

    `executor` None means this process.  The files of a rotated recording are checked as one.  Nothing about a recording
    is kept but these counts, so memory does not grow with their number.
    """
    failed: deque[FileSummary] = deque()

    def fail(name: str, error: InputError) -> None:
        failed.append(FileSummary({"file": name, "error": error.message}))

    waiting: deque[Future[FileSummary]] = deque()
    for whole in find_wholes(list(names), open_file, note=print_note, fail=fail, shown_name=shown_name):
        while failed:
            yield failed.popleft()
        absolute = replace(whole, files=tuple(map(absolute_name, whole.files)))
        if executor is None:
            yield summarize(absolute, rules)
            continue
        waiting.append(executor.submit(summarize, absolute, rules))
        if len(waiting) >= _MOST_WAITING:
            yield waiting.popleft().result()
    yield from failed
    yield from (future.result() for future in waiting)


def print_note(note: str) -> None:
    """Print a sentence about the parts of a rotated recording."""
    click.echo(printable(note), err=True)


def summarize(whole: WholeFiles, rules: RuleChoice) -> FileSummary:
    """Check a recording."""
    try:
        with open_files(whole.files) as recording:
            report = _check(recording, whole.name, rules)
            date = f"{recording.info.started:%Y-%m-%d}"
    except InputError as error:
        return FileSummary({"file": whole.name, "error": error.message})
    doubts = {"notice": report.notice, "partial": whole.partial}
    document = {
        "file": whole.name,
        "date": date,
        **members_of(report.outcomes, "exchanges", "events"),
        "findings": dict(sorted(report.broken.items())),
        "inconclusive": sorted(report.verdicts[Verdict.INCONCLUSIVE]),
        **{name: sentence for name, sentence in doubts.items() if sentence},
    }
    return FileSummary(document, frozenset(severity for _, severity in report.counts))


class Totals:
    """Counts over all recordings, by rule and by date."""

    def __init__(self) -> None:
        self._total = Counter(files=0, unreadable=0, exchanges=0, events=0, findings=0)
        self._rules: dict[str, Counter[str]] = {}
        self._dates: dict[str, Counter[str]] = {}
        self.severities: set[Severity] = set()
        """The severities of the findings."""
        self.has_inconclusive = False
        """Whether a rule was inconclusive for a recording."""

    @property
    def unreadable(self) -> int:
        """Number of recordings that cannot be checked."""
        return self._total["unreadable"]

    def add(self, summary: FileSummary) -> None:
        """Count a recording."""
        document = summary.document
        if "error" in document:
            self._total.update(files=1, unreadable=1)
            return
        self.severities |= summary.severities
        self.has_inconclusive |= bool(document["inconclusive"])
        found = document["findings"]
        counts = {"files": 1, "exchanges": document["exchanges"], "events": document["events"]}
        counts["findings"] = sum(found.values())
        self._total.update(counts)
        self._dates.setdefault(document["date"], Counter()).update(counts)
        for code, count in found.items():
            self._rules.setdefault(code, Counter()).update(files=1, findings=count)

    def document(self) -> dict[str, object]:
        """Return the totals as JSON."""
        return {
            "total": self._total,
            "rules": dict(sorted(self._rules.items())),
            "dates": dict(sorted(self._dates.items())),
        }


def executor_for(jobs: int, dask: str | None) -> AbstractContextManager[Executor | None]:
    """Return what runs tasks on the cluster with the scheduler `dask` or in `jobs` processes; None for this process."""
    if dask is not None:
        return dask_executor(dask)
    return process_pool(jobs) if jobs > 1 else nullcontext()


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
