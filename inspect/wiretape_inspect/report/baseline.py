"""Baselines: a file that lists the known findings of a project, how many there may be of each kind, and why.

The file is JSON, so that it can be read, edited and written again without losing anything that a person wrote.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.input_validation import Source, validate
from wiretape.safe_text import printable
from wiretape_inspect.report.case_results import CaseResult
from wiretape_inspect.report.evidence import locate
from wiretape_inspect.report.fingerprint import DefectKind
from wiretape_inspect.report.recording_report import Report

FORMAT = 1
MAX_KINDS = 50_000
"""Kinds of findings in a baseline: nobody would review more."""
_KEY_ORDER = ("code", "request", "about", "tool", "expected", "fingerprint", "count", "reason")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of known finding."""

    fingerprint: str
    code: str
    count: Annotated[int, msgspec.Meta(ge=1)]
    """How many findings there may be, in all recordings of a run."""
    reason: str = ""
    """Why they are accepted; written by people."""
    request: str = ""
    about: str = ""
    tool: str = ""
    expected: str = ""

    @classmethod
    def of(cls, kind: DefectKind, count: int, reason: str) -> "Entry":
        """The entry for `count` findings of a kind."""
        texts = map(printable, (kind.request, kind.about, kind.tool, kind.expected))
        return cls(kind.fingerprint, kind.code, count, reason, *texts)


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    findings: list[Entry]


def load(path: Path, *, to_replace: bool = False) -> list[Entry]:
    """Load the entries of a baseline.  Raises InputError; for a file `to_replace` it tells to choose another name."""
    hint = ", so it is not replaced: choose another name for --write-baseline" if to_replace else ""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        create = " Create it with --write-baseline." if isinstance(error, FileNotFoundError) else ""
        raise InputError(read_error(path, error) + create) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a baseline ({error}){hint}.") from None
    try:
        return _entries(document, path)
    except InputError as error:
        if not to_replace:
            raise
        raise InputError(f"{error.message.rstrip('.')}{hint}.") from None


def _entries(document: object, path: Path) -> list[Entry]:
    if not isinstance(document, dict):
        raise InputError(f"{path} is not a baseline (expected a JSON object).")
    if (version := document.get("format", FORMAT)) != FORMAT:
        raise InputError(f"{path} has format {version!r:.20}; this version of wiretape reads format {FORMAT}.")
    entries = validate(document, _Document, Source(str(path))).findings
    fingerprint, times = next(iter(Counter(entry.fingerprint for entry in entries).most_common(1)), ("", 0))
    if times > 1:
        raise InputError(f"{path} has several entries with the fingerprint {fingerprint}: merge them.")
    return entries


def dump(entries: Iterable[Entry]) -> str:
    """Encode a baseline: entries in a stable order, one key per line, so that changes are easy to review."""
    ordered = sorted(entries, key=lambda e: (e.code, e.request, e.about, e.tool, e.expected, e.fingerprint))
    items = [{key: getattr(entry, key) for key in _KEY_ORDER if getattr(entry, key) != ""} for entry in ordered]
    for item in items:
        item.setdefault("reason", "")
    return json.dumps({"format": FORMAT, "findings": items}, indent=2, ensure_ascii=False) + "\n"


def apply(entries: Sequence[Entry], reports: Sequence[Report]) -> list[Entry]:
    """Suppress the findings that the entries list: the first ones of each kind in the order of the reports.

    Returns the entries that list more findings than there are, each with the number of findings too many.
    """
    left = {entry.fingerprint: entry.count for entry in entries}
    reasons = {entry.fingerprint: entry.reason for entry in entries}

    def known(report: Report) -> Iterator[tuple[int, str]]:
        for located in locate(report.recording, report.findings):
            fingerprint = located.kind.fingerprint
            if left.get(fingerprint, 0) > 0:
                left[fingerprint] -= 1
                yield located.index, reasons[fingerprint]

    for report in reports:
        report.findings.suppress(known(report))
        for result in _case_results([report]):
            if result.is_unexplained and left.get(result.case.fingerprint, 0) > 0:
                left[result.case.fingerprint] -= 1
                result.is_suppressed = True
    checked = _checked_rules(reports)
    return [
        msgspec.structs.replace(entry, count=left[entry.fingerprint])
        for entry in entries
        if left[entry.fingerprint] and entry.code in checked
    ]


def prune(entries: Iterable[Entry], unneeded: Iterable[Entry]) -> list[Entry]:
    """Return the entries without those that are not needed, and with lower counts."""
    surplus = {entry.fingerprint: entry.count for entry in unneeded}
    remaining = [(entry, entry.count - surplus.get(entry.fingerprint, 0)) for entry in entries]
    return [msgspec.structs.replace(entry, count=count) for entry, count in remaining if count > 0]


def build(reports: Sequence[Report], earlier: Iterable[Entry]) -> list[Entry]:
    """Return entries for all findings of the reports.  Raises InputError if they are of more than `MAX_KINDS` kinds.

    Keeps the reasons of `earlier` entries, and earlier entries of rules that were not checked.
    """
    kinds: Counter[DefectKind] = Counter()
    for located in (located for report in reports for located in locate(report.recording, report.findings)):
        kinds[located.kind] += 1
        if len(kinds) > MAX_KINDS:
            raise InputError(
                f"There are more than {MAX_KINDS:,} kinds of findings, too many for a baseline: "
                "exclude rules with --ignore, or fix some findings first."
            )
    older: Mapping[str, Entry] = {entry.fingerprint: entry for entry in earlier}
    built = []
    for kind, count in kinds.items():
        before = older.get(kind.fingerprint)
        built.append(Entry.of(kind, count, before.reason if before else ""))
    cases = [each.case for each in _case_results(reports) if each.is_unexplained]
    times = Counter(case.fingerprint for case in cases)
    for case in {case.fingerprint: case for case in cases}.values():
        before = older.get(case.fingerprint)
        reason = before.reason if before else ""
        built.append(Entry(case.fingerprint, case.name, times[case.fingerprint], reason, expected=case.about))
    checked = _checked_rules(reports)
    return built + [entry for entry in older.values() if entry.code not in checked]


def _checked_rules(reports: Sequence[Report]) -> frozenset[str]:
    """Return the codes of the rules that were checked, and the names of the probe cases that ran."""
    codes = frozenset(code for report in reports for code in report.selected)
    return codes.union(result.case.name for result in _case_results(reports))


def _case_results(reports: Sequence[Report]) -> Iterator[CaseResult]:
    return (result for report in reports if report.cases is not None for result in report.cases.results)
