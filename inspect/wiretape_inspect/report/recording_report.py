"""Check a whole recording, and hold what it shows about each rule."""

import sqlite3
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import msgspec

from wiretape.checker import CATALOGUE, Checker, Settings, family_names
from wiretape.checker.default_rules import default_contracts
from wiretape.errors import InputError
from wiretape.observations import Observation, header
from wiretape.recording import Recording
from wiretape.rules import Finding, Rule, ScopeCount, Severity, Tally, Verdict
from wiretape_inspect.report.case_results import (
    CaseResults,
    Coverage,
    applicable,
    case_name_of,
    decode_results,
    why_not_reached,
)
from wiretape_inspect.report.finding_location import LocatedFinding, locate

ALL_RULES = frozenset(CATALOGUE)
"""The codes of all rules."""


_FIELDS = [each.name for each in fields(Finding)]
_COLUMNS, _MARKS = ", ".join(_FIELDS), ", ".join("?" for _ in _FIELDS)
# At the same time, findings about no event come before those about the first event.
_ORDER = "time_ns, exchange, ifnull(event, 0), ifnull(byte_offset, 0), code, message, rowid"


class FindingStore:
    """Findings sorted by time, then by exchange, event, offset and code.  Can be iterated repeatedly.

    A finding that is in the baseline is suppressed, with the reason that the baseline gives; all others are new.

    SQLite keeps a database with an empty name in memory up to 2 MB, and beyond that in a file that is removed with
    the connection, so memory does not grow.  Raises InputError if that file cannot be written.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        # The garbage collector, which runs in any thread, may be what closes it.
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        with _sqlite_errors():
            self._connection.execute("PRAGMA journal_mode = OFF")
            self._connection.execute(f"CREATE TABLE unsorted ({_COLUMNS})")
            # One transaction: without a journal it only saves ending one for each row.
            self._connection.execute("BEGIN")
            self._connection.executemany(f"INSERT INTO unsorted VALUES ({_MARKS})", map(attrgetter(*_FIELDS), findings))  # noqa: S608
            self._connection.execute(f"CREATE TABLE sorted AS SELECT *, NULL AS reason FROM unsorted ORDER BY {_ORDER}")  # noqa: S608
            self._connection.execute("DROP TABLE unsorted")
            self._connection.execute("COMMIT")
            self.counts = self._count("true")
            """The number of findings for each rule and severity, in order of first appearance."""
        self.suppressed_counts: Counter[tuple[str, Severity]] = Counter()
        """The number of these that are suppressed."""

    def __len__(self) -> int:
        return self.counts.total()

    def __iter__(self) -> Iterator[Finding]:
        return self._findings("true")

    def new(self) -> Iterator[Finding]:
        """Yield the findings that are not suppressed."""
        return self._findings("reason IS NULL")

    def reasons(self) -> Iterator[str | None]:
        """Yield why each finding is suppressed; None if it is new."""
        return (reason for (reason,) in self._select("reason", "true"))

    def suppress(self, reasons: Iterable[tuple[int, str]]) -> None:
        """Suppress findings by their indices, each with the reason."""
        rows = ((reason, index + 1) for index, reason in reasons)
        with _sqlite_errors():
            self._connection.execute("BEGIN")
            self._connection.executemany("UPDATE sorted SET reason = ? WHERE rowid = ?", rows)
            self._connection.execute("COMMIT")
            self.suppressed_counts = self._count("reason IS NOT NULL")

    def is_new(self, index: int) -> bool:
        """Whether the finding with this index is not suppressed."""
        return any(self._select("1", f"rowid = {index + 1} AND reason IS NULL"))

    def _count(self, condition: str) -> Counter[tuple[str, Severity]]:
        query = f"SELECT code, severity, count(*) FROM sorted WHERE {condition} GROUP BY code, severity"  # noqa: S608
        counts = self._connection.execute(f"{query} ORDER BY min(rowid)")
        return Counter({(code, Severity(severity)): number for code, severity, number in counts})

    def _findings(self, condition: str) -> Iterator[Finding]:
        for row in self._select(_COLUMNS, condition):
            yield msgspec.convert(dict(zip(_FIELDS, row, strict=True)), Finding)

    def _select(self, columns: str, condition: str) -> Iterator[tuple[Any, ...]]:
        with _sqlite_errors():
            yield from self._connection.execute(f"SELECT {columns} FROM sorted WHERE {condition} ORDER BY rowid")  # noqa: S608


@contextmanager
def _sqlite_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(
            f"Cannot store findings in a temporary file ({error}): set TMPDIR to a folder with more space."
        ) from None


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """How to write a report; each format uses the options that concern it."""

    all_findings: bool = False
    """Show every finding, however many a rule has."""
    statistics: bool = False
    """Count the findings of each rule instead of showing them."""
    threshold: Severity | None = Severity.ERROR
    """Lowest severity of findings that fail; None if none fails."""
    fail_on_inconclusive: bool = False
    """Whether inconclusive rules fail, too."""
    docs_url: str | None = None
    """Where the pages of docs/rules are published; ends with a slash."""
    width: int | None = None
    """Columns of the terminal that the text is written to; None if it is not a terminal."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What checking some observations showed, besides the findings."""

    tallies: dict[str, Tally]
    """For every rule of the catalogue, how often it came up and with what result."""
    exchanges: int
    events: int
    scopes: Sequence[ScopeCount]
    """How many exchanges were judged by which rules, and why."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a recording shows about every rule."""

    file: str
    """The recording's file, as the user named it."""
    recording: Recording
    """Open until the report is written."""
    findings: FindingStore
    outcomes: Outcomes
    """What checking it showed besides the findings."""
    selected: frozenset[str] = ALL_RULES
    """Codes of the rules that were checked."""
    settings: Settings = field(default_factory=Settings)
    cases: CaseResults | None = None
    """The results of the probe cases, if the recording is that of a probe."""
    foreign: Sequence[ScopeCount] = ()
    """Why no exchange is the service's, if a contract was chosen for that reason."""
    partial: str = ""
    """Which parts of a rotated recording are not included, in one sentence."""

    @property
    def catalogue(self) -> Mapping[str, Rule]:
        """The rules by code: the built-in ones, or those of the contract."""
        return self.settings.catalogue

    def families(self, scope: ScopeCount) -> list[str]:
        """Return the families of the rules that judged the exchanges of a scope."""
        others = () if self.settings.contracts else default_contracts()[-1].catalogue
        is_service = scope.reason.is_service or bool(self.foreign)
        applies = {code: is_service or rule.everywhere or code in others for code, rule in self.catalogue.items()}
        return family_names({code: self.catalogue[code] for code in applies if applies[code]})

    @property
    def scopes(self) -> Sequence[ScopeCount]:
        """How many exchanges were judged by which rules, and why."""
        return self.foreign or self.outcomes.scopes

    @property
    def notice(self) -> str:
        """Why no exchange is checked as the service's, and what to do; empty if one is, or if there is none."""
        scopes = self.scopes
        if not scopes or any(scope.reason.is_service for scope in scopes):
            return ""
        reason = " and ".join(scope.text for scope in scopes)
        if self.settings.contracts and not self.foreign:
            return f"Only the framing of streams is checked, because {reason}."
        return (
            f"No exchange is checked as the service's, because {reason}. Use --base PATH_OR_URL: the part before /v1."
        )

    @property
    def coverage(self) -> Coverage:
        """Which rules about the service came up."""
        broken = {code for code, severity in self.findings.counts if severity is not Severity.NOTE}
        return Coverage.of(self.outcomes.tallies, self.selected, broken)

    @property
    def suppressed(self) -> int:
        """The number of findings that are in the baseline."""
        return self.findings.suppressed_counts.total()

    @property
    def counts(self) -> Counter[tuple[str, Severity]]:
        """The number of new findings for each rule and severity, in order of first appearance."""
        return self.findings.counts - self.findings.suppressed_counts

    @property
    def broken(self) -> Counter[str]:
        """The number of new findings for each rule that has any, in order of first appearance."""
        numbers: Counter[str] = Counter()
        for (code, _), number in self.counts.items():
            numbers[code] += number
        return numbers

    @property
    def severities(self) -> dict[Severity, int]:
        """The number of new findings for each severity, worst first."""
        numbers = dict.fromkeys(Severity, 0)
        for (_, severity), number in self.counts.items():
            numbers[severity] += number
        return numbers

    def located_findings(self) -> Iterator[LocatedFinding]:
        """Yield all findings with their locations, and with the reasons why they are suppressed."""
        return locate(self.recording, self.findings, self.findings.reasons())

    def first_findings(self, most: int | None) -> Iterator[Finding]:
        """Yield the first `most` new findings of each rule, in order; all of them for None."""
        if most is None:
            yield from self.findings.new()
            return
        shown = Counter[str]()
        missing = sum(min(number, most) for number in self.broken.values())
        for finding in self.findings.new() if missing else ():
            shown[finding.code] += 1
            if shown[finding.code] <= most:
                yield finding
                missing -= 1
            if not missing:
                return

    def omitted_findings(self, most: int | None) -> dict[str, int]:
        """Return the number of findings that `first_findings` omits, for each rule with more than `most`."""
        return {} if most is None else {code: n - most for code, n in self.broken.items() if n > most}

    @property
    def verdicts(self) -> dict[Verdict, list[str]]:
        """The codes of the selected rules by verdict."""
        codes = [code for code in self.catalogue if code in self.selected]
        return {
            verdict: [code for code in codes if self.outcomes.tallies[code].verdict is verdict] for verdict in Verdict
        }

    @property
    def exercised(self) -> int:
        """The number of rules that held or were broken."""
        verdicts = self.verdicts
        return len(verdicts[Verdict.PASS]) + len(verdicts[Verdict.FAIL])

    def worst_severity(self, code: str) -> Severity:
        """Return the worst severity of the new findings of a rule that has any."""
        return next(severity for severity in Severity if (code, severity) in self.counts)

    def severity_of(self, code: str) -> Severity:
        """Return the severity of a rule in the catalogue or, if set, in the configuration; findings may differ."""
        return self.settings.severities.get(code, self.catalogue[code].severity)

    def fails(self, options: ReportOptions) -> bool:
        """Whether a new finding is severe enough to fail, or an inconclusive rule fails."""
        if options.fail_on_inconclusive and self.verdicts[Verdict.INCONCLUSIVE]:
            return True
        on_inconclusive = options.fail_on_inconclusive
        if self.cases is not None and self.cases.fails(options.threshold, on_inconclusive=on_inconclusive):
            return True
        return any(severity.reaches(options.threshold) for _, severity in self.counts)


def total_severities(reports: Iterable[Report]) -> dict[Severity, int]:
    """Return the number of new findings of several reports for each severity, worst first."""
    found = [report.severities for report in reports]
    return {severity: sum(numbers[severity] for numbers in found) for severity in Severity}


Watch = Callable[[Iterable[Observation]], Iterable[Observation]]
"""Passes observations on unchanged, for example to show progress."""


def check_recording(
    recording: Recording,
    file: str,
    watch: Watch = iter,
    *,
    settings: Settings | None = None,
    selected: frozenset[str] = ALL_RULES,
    foreign: Sequence[ScopeCount] = (),
    checked: tuple[Iterable[Finding], Outcomes] | None = None,
) -> Report:
    """Check a recording by the `selected` rules that are not off.  Raises RecordingError if the file is damaged.

    `foreign` tells why no exchange is the service's, if the rules were chosen for that reason.

    `checked` are the findings and the outcomes, if another process found them.
    """
    settings, selected = applicable(recording, settings or Settings(), selected)
    selected -= settings.off
    if checked is None:
        checker = Checker(
            replace(settings, off=frozenset(settings.catalogue) - selected), upstream=recording.info.upstream
        )
        findings = FindingStore(checker.check(watch(recording.observations())))
        outcomes = Outcomes(checker.tallies(), checker.exchanges, checker.events, checker.scopes())
    else:
        findings, outcomes = FindingStore(checked[0]), checked[1]
    return Report(file, recording, findings, outcomes, selected=selected, settings=settings, foreign=foreign)


def add_cases(report: Report, cases: CaseResults | None = None) -> Report:
    """Return a report with the results of probe cases, by default those in the recording.  Raises RecordingError.

    A finding belongs to the case that sent the request.
    """
    cases = cases or decode_results(report.recording)
    if cases is None:
        return report
    agents = ((each.number, header(each.request.headers, "User-Agent")) for each in report.recording.exchanges())
    names = {number: case_name_of(agent) for number, agent in agents}
    by_case: dict[str | None, dict[int, Finding]] = {}
    for index, finding in enumerate(report.findings):
        by_case.setdefault(names.get(finding.exchange), {})[index] = finding
    for result in cases.results:
        result.findings = by_case.get(result.case.name, {})
        result.is_new = report.findings.is_new
    not_reached = {code: why_not_reached(code, cases.results) for code in report.coverage.not_reached}
    return replace(report, cases=replace(cases, not_reached=not_reached))
