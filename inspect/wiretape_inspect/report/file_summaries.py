"""Summaries of many recordings: one for each as soon as it is checked, then totals by rule and by date.

Nothing about a recording is kept but these counts, so memory does not grow with their number.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.recording import open_recording
from wiretape.recording.rotated_parts import RotatedPart, find_empty_part, group_parts
from wiretape.rules import CATALOGUE, Settings, Severity, Verdict
from wiretape.safe_text import printable
from wiretape_inspect.report.parallel_check import Part, open_part
from wiretape_inspect.report.probe_results import applicable
from wiretape_inspect.report.recording_report import check_observations, make_checker, scope_notice
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
        error = values.pop("error")
        return {"file": self.file, "error": error} if error else values


class Totals:
    """Counts over all recordings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._files: Counter[str] = Counter()
        self._rules: dict[str, Counter[str]] = {}
        self._dates: dict[str, Counter[str]] = {}
        self.has_inconclusive = False
        """Whether a rule was inconclusive for a recording."""

    @property
    def unreadable(self) -> int:
        """Number of recordings that cannot be checked."""
        return self._files["unreadable"]

    @property
    def severities(self) -> set[Severity]:
        """The severities of the findings."""
        return {self._settings.severities.get(code, CATALOGUE[code].severity) for code in self._rules}

    def add(self, summary: FileSummary) -> None:
        """Count a recording."""
        self._files["files"] += 1
        if summary.error:
            self._files["unreadable"] += 1
            return
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
    names = list(names)
    parts: list[RotatedPart] = []
    for name in names:
        try:
            parts.append(_read_part(name))
        except InputError as error:
            if (note := find_empty_part(Path(name), names)) is None:
                yield FileSummary(shown_name(name), error=error.message)
            else:
                print_note(note)
    waiting: deque[Callable[[], FileSummary]] = deque()
    for group in group_parts([part._replace(name=shown_name(part.name)) for part in parts]):
        files = [parts[index].name for index in group.members]
        name = shown_name(files[0]) + (f" (+{len(files) - 1})" if len(files) > 1 else "")
        for note in group.notes:
            print_note(note)
        if group.error is not None:
            yield FileSummary(name, error=group.error.message)
            continue
        part = Part(tuple(map(absolute_name, files)), None, settings, selected - settings.off)
        if executor is None:
            yield replace(summarize(name, part), partial=group.partial)
            continue
        future: Future[FileSummary] = executor.submit(summarize, name, part)
        waiting.append(partial(_result, future, group.partial))
        if len(waiting) >= _MOST_WAITING:
            yield waiting.popleft()()
    while waiting:
        yield waiting.popleft()()


def print_note(note: str) -> None:
    """Print a sentence about the parts of a rotated recording."""
    click.echo(printable(note), err=True)


def _result(future: "Future[FileSummary]", missing: str) -> FileSummary:
    return replace(future.result(), partial=missing)


def _read_part(name: str) -> RotatedPart:
    with ExitStack() as opened:
        file = opened.enter_context(local_copy(name)) if is_url(name) else Path(name)
        return RotatedPart.of(name, opened.enter_context(open_recording(file)))


def summarize(name: str, part: Part) -> FileSummary:
    """Check a recording."""
    try:
        with open_part(part) as recording:
            settings, selected = applicable(recording, part.settings, part.selected)
            checker = make_checker(settings, selected, recording.info.upstream)
            found = Counter(finding.code for finding in check_observations(checker, recording.observations()))
            started = recording.info.started
    except InputError as error:
        return FileSummary(name, error=error.message)
    tallies = checker.tallies()
    inconclusive = [code for code in sorted(selected) if tallies[code].verdict is Verdict.INCONCLUSIVE]
    return FileSummary(
        name,
        f"{started:%Y-%m-%d}",
        checker.exchanges,
        checker.events,
        dict(sorted(found.items())),
        inconclusive,
        scope_notice(checker.scopes()),
    )
