"""Findings that are known: a file says how many there may be of each kind, and why.

The file is JSON, so that it can be read, edited and written again without losing anything that a person put into it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.rules import Severity
from wiretape.safe_text import closest_match, printable
from wiretape_inspect.report.finding_details import details
from wiretape_inspect.report.finding_store import Suppressed
from wiretape_inspect.report.fingerprint import Kind
from wiretape_inspect.report.recording_report import Report

FORMAT = 1
MOST = 50_000
"""How many kinds of findings a baseline is made of: more would be nothing that anybody looks through."""
_TEXTS = ("fingerprint", "code", "request", "about", "tool", "expected", "reason")
_OPTIONAL = {"request", "about", "tool", "expected", "reason"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One kind of finding that is known."""

    fingerprint: str
    code: str
    count: int
    """How many there may be in all recordings of a run."""
    reason: str = ""
    """Why it is let pass; for people to write."""
    request: str = ""
    about: str = ""
    tool: str = ""
    expected: str = ""

    @classmethod
    def of(cls, kind: Kind, count: int, reason: str) -> "Entry":
        """The entry for `count` findings of a kind."""
        texts = map(printable, (kind.request, kind.about, kind.tool, kind.expected))
        return cls(kind.fingerprint, kind.code, count, reason, *texts)


@dataclass(frozen=True, slots=True)
class Applied:
    """What a baseline did to the reports of a run."""

    reports: list[Report]
    unneeded: list[Entry]
    """For entries that know more findings than there were, the entry with the number that was not needed."""


def load(path: Path, *, replacing: bool = False) -> list[Entry]:
    """The entries of a baseline.  Raises InputError; where the file was to be replaced, with a hint about that."""
    said = printable(str(path))
    hint = ", so it is not replaced: give --write-baseline another name" if replacing else ""
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        make = " Make it with --write-baseline." if isinstance(error, FileNotFoundError) else ""
        raise InputError(read_error(path, error) + make) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{said} is no baseline ({printable(str(error))}){hint}.") from None
    if not isinstance(document, dict) or not isinstance(document.get("findings"), list):
        raise InputError(f"{said} is no baseline (it has no list `findings`){hint}.")
    if others := [printable(key) for key in document if key not in {"format", "findings"}]:
        raise InputError(f"{said} is no baseline (there is no key `{others[0]}` in one){hint}.")
    if document.get("format") != FORMAT:
        raise InputError(f"{said} has format {document.get('format')!r:.20}; this version of wiretape reads {FORMAT}.")
    entries = [_entry(said, number, item) for number, item in enumerate(document["findings"], 1)]
    if repeated := [print_ for print_, times in Counter(e.fingerprint for e in entries).items() if times > 1]:
        raise InputError(f"{said} has two entries with the fingerprint {printable(repeated[0])}: make them one.")
    return entries


def _entry(said: str, number: int, item: Any) -> Entry:
    where = f"{said}, entry {number}"
    if not isinstance(item, dict):
        raise InputError(f"{where} is no object.")
    known = [*_TEXTS, "count"]
    for key in item:
        if key not in known:
            similar = closest_match(key, known)
            hint = f"; did you mean `{similar}`?" if similar else "."
            raise InputError(f"{where}: there is no key `{printable(key)}`{hint}")
    for key in _TEXTS:
        if not isinstance(item.get(key, "" if key in _OPTIONAL else None), str):
            raise InputError(f"{where}: `{key}` has to be a text.")
    count = item.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(f"{where}: `count` has to be a whole number, 1 or more.")
    return Entry(**item)


def dumped(entries: Iterable[Entry]) -> str:
    """The text of a baseline: entries in a stable order, one key a line, so that changes are easy to review."""
    ordered = sorted(entries, key=lambda e: (e.code, e.request, e.about, e.tool, e.expected, e.fingerprint))
    found = [{name: getattr(entry, name) for name in _ORDER if getattr(entry, name) != ""} for entry in ordered]
    for item in found:
        item.setdefault("reason", "")
    return json.dumps({"format": FORMAT, "findings": found}, indent=2, ensure_ascii=False) + "\n"


_ORDER = ("code", "request", "about", "tool", "expected", "fingerprint", "count", "reason")


def apply(entries: Sequence[Entry], reports: Sequence[Report]) -> Applied:
    """Mark the findings that the entries know, the first ones of each kind in the order of the reports."""
    left = {entry.fingerprint: entry.count for entry in entries}
    reasons = {entry.fingerprint: entry.reason for entry in entries}
    marked = []
    for report in reports:
        suppressed = Suppressed(len(report.findings))
        known: Counter[tuple[str, Severity]] = Counter()
        for detail in details(report):
            print_ = detail.fingerprint
            if left.get(print_, 0) > 0:
                left[print_] -= 1
                suppressed.add(detail.number, reasons[print_])
                known[detail.finding.code, detail.finding.severity] += 1
        marked.append(replace(report, suppressed=suppressed, known=known))
    asked = frozenset(code for report in reports for code in report.selected)
    unneeded = [
        replace(entry, count=left[entry.fingerprint])
        for entry in entries
        if left[entry.fingerprint] and entry.code in asked
    ]
    return Applied(marked, unneeded)


def pruned(entries: Iterable[Entry], unneeded: Iterable[Entry]) -> list[Entry]:
    """The entries without what was not needed."""
    spare = {entry.fingerprint: entry.count for entry in unneeded}
    lowered = [replace(entry, count=entry.count - spare.get(entry.fingerprint, 0)) for entry in entries]
    return [entry for entry in lowered if entry.count > 0]


def _kinds(reports: Sequence[Report]) -> Counter[Kind]:
    kinds: Counter[Kind] = Counter()
    for detail in (detail for report in reports for detail in details(report)):
        kinds[detail.kind] += 1
        if len(kinds) > MOST:
            raise InputError(
                f"There are more than {MOST:,} kinds of findings, too many for a baseline: "
                "leave rules out with --ignore, or mend them first."
            )
    return kinds


def of_reports(reports: Sequence[Report], earlier: Iterable[Entry]) -> list[Entry]:
    """Entries for all findings of the reports.  Raises InputError when they are of more than `MOST` kinds.

    Reasons that `earlier` entries give are kept, and so are entries of rules that were not asked this time.
    """
    kinds = _kinds(reports)
    older: Mapping[str, Entry] = {entry.fingerprint: entry for entry in earlier}
    asked = frozenset(code for report in reports for code in report.selected)
    made = []
    for kind, number in kinds.items():
        before = older.get(kind.fingerprint)
        made.append(Entry.of(kind, number, before.reason if before else ""))
    return made + [entry for entry in older.values() if entry.code not in asked]
