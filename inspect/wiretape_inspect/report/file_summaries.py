"""Summaries of many recordings: one for each as soon as it is checked, then totals by rule and by date.

Nothing about a recording is kept but these counts, so memory does not grow with their number.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.recording import Recording, open_recording
from wiretape.recording.rotated_parts import find_wholes
from wiretape.rules import Settings, Severity, Verdict
from wiretape.safe_text import printable
from wiretape_inspect.report.parallel_check import Task, open_files
from wiretape_inspect.report.recording_report import check_recording
from wiretape_inspect.report.remote_files import absolute_name, is_url, local_copy, shown_name

_MOST_WAITING = 64
"""Files that are submitted before the first of them must be finished."""


@dataclass(frozen=True, slots=True)
class FileSummary:
    """What checking one recording showed."""

    file: str
    """Its path or URL; of a rotated recording that of the first file, and the number of the others."""
    date: str = ""
    """The day on which it began, in UTC."""
    exchanges: int = 0
    events: int = 0
    findings: dict[str, int] = field(default_factory=dict)
    """Number of findings by rule."""
    severities: frozenset[Severity] = frozenset()
    """The severities of the findings, which are not part of its JSON."""
    inconclusive: Sequence[str] = ()
    """The codes of inconclusive rules."""
    notice: str = ""
    """Why no exchange was checked as the service's, and what to do; empty if one was."""
    partial: str = ""
    """Which parts of a rotated recording are not included."""
    error: str = ""
    """Why the file cannot be checked; the other fields are empty then."""

    def document(self) -> dict[str, object]:
        """Return it as JSON."""
        values = {key: value for key, value in asdict(self).items() if value or key not in {"notice", "partial"}}
        error, _ = values.pop("error"), values.pop("severities")
        return {"file": self.file, "error": error} if error else values


class Totals:
    """Counts over all recordings."""

    def __init__(self) -> None:
        self._files: Counter[str] = Counter()
        self._rules: dict[str, Counter[str]] = {}
        self._dates: dict[str, Counter[str]] = {}
        self.severities: set[Severity] = set()
        """The severities of the findings."""
        self.has_inconclusive = False
        """Whether a rule was inconclusive for a recording."""

    @property
    def unreadable(self) -> int:
        """Number of recordings that cannot be checked."""
        return self._files["unreadable"]

    def add(self, summary: FileSummary) -> None:
        """Count a recording."""
        self._files["files"] += 1
        if summary.error:
            self._files["unreadable"] += 1
            return
        self.severities |= summary.severities
        self.has_inconclusive |= bool(summary.inconclusive)
        found = sum(summary.findings.values())
        counts = {"exchanges": summary.exchanges, "events": summary.events, "findings": found}
        self._files.update(counts)
        self._dates.setdefault(summary.date, Counter()).update({"files": 1, **counts})
        for code, count in summary.findings.items():
            self._rules.setdefault(code, Counter()).update({"files": 1, "findings": count})

    def document(self) -> dict[str, object]:
        """Return the totals as JSON."""
        names = ("files", "unreadable", "exchanges", "events", "findings")
        return {
            "total": {name: self._files[name] for name in names},
            "rules": {code: dict(self._rules[code]) for code in sorted(self._rules)},
            "dates": {date: dict(self._dates[date]) for date in sorted(self._dates)},
        }


def summarize_files(
    names: Iterable[str], executor: Executor | None, settings: Settings, selected: frozenset[str]
) -> Iterator[FileSummary]:
    """Check recordings and yield their summaries, in the order of their names; the unreadable ones come first.

    `executor` None means this process.  The files of a rotated recording are checked as one.
    """
    failed: list[FileSummary] = []
    wholes = find_wholes(
        list(names),
        _open_file,
        note=print_note,
        fail=lambda name, error: failed.append(FileSummary(name, error=error.message)),
        shown_name=shown_name,
    )
    waiting: deque[Callable[[], FileSummary]] = deque()
    for whole in wholes:
        while failed:
            yield failed.pop(0)
        task = Task(tuple(map(absolute_name, whole.files)), settings, selected - settings.off)
        if executor is None:
            yield replace(summarize(whole.name, task), partial=whole.partial)
            continue
        future: Future[FileSummary] = executor.submit(summarize, whole.name, task)
        waiting.append(partial(_result, future, whole.partial))
        if len(waiting) >= _MOST_WAITING:
            yield waiting.popleft()()
    yield from failed
    while waiting:
        yield waiting.popleft()()


def print_note(note: str) -> None:
    """Print a sentence about the parts of a rotated recording."""
    click.echo(printable(note), err=True)


def _result(future: "Future[FileSummary]", missing: str) -> FileSummary:
    return replace(future.result(), partial=missing)


@contextmanager
def _open_file(name: str) -> Iterator[Recording]:
    with ExitStack() as opened:
        file = opened.enter_context(local_copy(name)) if is_url(name) else Path(name)
        yield opened.enter_context(open_recording(file))


def summarize(name: str, task: Task) -> FileSummary:
    """Check a recording."""
    try:
        with open_files(task) as recording:
            report = check_recording(recording, name, settings=task.settings, selected=task.selected)
            date = f"{recording.info.started:%Y-%m-%d}"
    except InputError as error:
        return FileSummary(name, error=error.message)
    return FileSummary(
        name,
        date,
        report.outcomes.exchanges,
        report.outcomes.events,
        dict(sorted(report.broken.items())),
        frozenset(severity for _, severity in report.counts),
        sorted(report.verdicts[Verdict.INCONCLUSIVE]),
        report.notice,
    )
