"""Baselines: a file that lists the known findings of a project, how many there may be of each kind, and why.

The file is JSON, so that it can be read, edited and written again without losing anything that a person wrote.
A fingerprint is what stays the same of a finding when the same defect is recorded again.
"""

import json
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import click
import msgspec

from wiretape.contract.contract_facts import ContractChoice
from wiretape.errors import InputError
from wiretape.event import Event
from wiretape.files import check_writable, path_exists, read_error
from wiretape.http_headers import AUTHORIZATION, LAST_EVENT_ID, RETRY_AFTER
from wiretape.input_validation import Source, validate
from wiretape.labels import count_of
from wiretape.safe_text import printable
from wiretape_inspect.atomic_output import open_output
from wiretape_inspect.report.case_results import CaseDescription, CaseResult
from wiretape_inspect.report.evidence import split_message
from wiretape_inspect.report.finding_location import LocatedFinding, locate
from wiretape_inspect.report.recording_report import Report

FORMAT = 1
MAX_KINDS = 50_000
"""Kinds of findings in a baseline: nobody would review more."""
_QUOTED = re.compile(r"`([^`]*)`")
_NUMBER = re.compile(r"\d[\d.,]*(?<![.,])")
_INDEX = re.compile(r"\[\d+\]")
_VERSION = re.compile(r"v\d+")
_LONG_SEGMENT = 20
_COMMON_NAMES = frozenset(
    {LAST_EVENT_ID, AUTHORIZATION, RETRY_AFTER, "Content-Type"}
    | {"event", "id", "data", "retry", "error", "sequence", "type", "delta", "details"}
)
"""Names that messages about any API quote."""
# A recording with many findings has few kinds of them.
_CACHE_SIZE = 4096


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One kind of known finding.  The order of the members is that of the keys, and of the entries."""

    code: str
    request: str = ""
    """Method and path, with `{…}` in place of identifiers."""
    about: str = ""
    """The type of the event, or the status of the response; empty if there is neither."""
    tool: str = ""
    """The tool that the event is about; empty for other events."""
    expected: str = ""
    """What was expected, without recorded values."""
    fingerprint: str
    count: Annotated[int, msgspec.Meta(ge=1)]
    """How many findings there may be, in all recordings of a run."""
    reason: str = ""
    """Why they are accepted; written by people."""


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    findings: list[Entry]


class BaselineUse:
    """The baselines of a command: the one to apply, which may be pruned, and the one to write."""

    def __init__(self, applied: Path | None, written: Path | None, *, prune: bool, strict: bool) -> None:
        """Load them; if `strict`, entries that are no longer needed fail.  Raises InputError."""
        self._applied = applied
        self._written = written
        self._prune = prune
        self._strict = strict
        self._earlier = [] if written is None else _load_replaced(written)
        self._entries = [] if applied is None else load(applied)
        self._unneeded: list[Entry] = []

    def apply(self, reports: Sequence[Report]) -> None:
        """Suppress the findings that are in the baseline."""
        if self._applied is not None:
            self._unneeded = apply(self._entries, reports)

    def write(self, reports: Sequence[Report]) -> bool:
        """Write a baseline of the findings in the reports; return whether one was requested.  Raises InputError."""
        if self._written is None:
            return False
        built = build(reports, [*self._entries, *self._earlier])
        _write(self._written, built)
        count = count_of(sum(entry.count for entry in built), "finding")
        click.echo(f"Wrote {count} to {printable(str(self._written))}.", err=True)
        return True

    def report_unneeded(self) -> bool:
        """Print which entries are no longer needed, or remove them; return whether they fail."""
        if not self._unneeded or self._applied is None:
            return False
        number = len(self._unneeded)
        noun, verb = ("entry", "is") if number == 1 else ("entries", "are")
        codes = ", ".join(sorted({printable(entry.code) for entry in self._unneeded}))
        if self._prune:
            _write(self._applied, prune(self._entries, self._unneeded))
            click.echo(f"Removed {number:,} baseline {noun} that {verb} no longer needed ({codes}).", err=True)
            return False
        kept = f"{number:,} baseline {noun} {verb} no longer needed ({codes})"
        click.echo(f"{kept}; --prune-baseline removes {'it' if number == 1 else 'them'}.", err=True)
        return self._strict


def _load_replaced(path: Path) -> list[Entry]:
    """Load a baseline that will be replaced, if it exists.  Raises InputError, also if it cannot be written."""
    if path_exists(path) and not path.is_file():
        raise InputError(f"{path} is not a regular file: choose another name for --write-baseline.")
    check_writable(path)
    return load(path, to_replace=True) if path_exists(path) else []


def _write(path: Path, entries: Iterable[Entry]) -> None:
    """Write a baseline that everybody can read; an error never loses the reasons that people wrote."""
    mode = stat.S_IMODE(path.stat().st_mode) if path_exists(path) else 0o666
    with open_output(path, force=True, mode=mode) as file:
        file.write(dump(entries).encode("utf-8", "replace"))


def load(path: Path, *, to_replace: bool = False) -> list[Entry]:
    """Load the entries of a baseline.  Raises InputError; for a file `to_replace` it tells to choose another name."""
    try:
        return _entries(json.loads(path.read_text("utf-8")), path)
    except OSError as error:
        create = " Create it with --write-baseline." if isinstance(error, FileNotFoundError) else ""
        raise InputError(read_error(path, error) + create) from None
    except (ValueError, RecursionError) as error:
        problem = f"{path} is not a baseline ({error})"
    except InputError as error:
        problem = error.message.rstrip(".")
    hint = ", so it is not replaced: choose another name for --write-baseline" if to_replace else ""
    raise InputError(f"{problem}{hint}.")


def _entries(document: object, path: Path) -> list[Entry]:
    if not isinstance(document, dict):
        raise InputError(f"{path} is not a baseline (expected a JSON object).")
    if (version := document.get("format", FORMAT)) != FORMAT:
        raise InputError(f"{path} has format {version!r:.20}; this version of wiretape reads format {FORMAT}.")
    entries = validate(document, _Document, Source(str(path))).findings
    for fingerprint, times in Counter(entry.fingerprint for entry in entries).most_common(1):
        if times > 1:
            raise InputError(f"{path} has several entries with the fingerprint {fingerprint}: merge them.")
    return entries


def dump(entries: Iterable[Entry]) -> str:
    """Encode a baseline: entries in a stable order, one key per line, so that changes are easy to review."""
    ordered = sorted(entries, key=msgspec.structs.astuple)
    items = [{**msgspec.to_builtins(entry), "reason": entry.reason} for entry in ordered]
    return json.dumps({"format": FORMAT, "findings": items}, indent=2, ensure_ascii=False) + "\n"


def apply(entries: Sequence[Entry], reports: Sequence[Report]) -> list[Entry]:
    """Suppress the findings that the entries list: the first ones of each kind in the order of the reports.

    Returns the entries that list more findings than there are, each with the number of findings too many.
    """
    left = {entry.fingerprint: entry.count for entry in entries}
    reasons = {entry.fingerprint: entry.reason for entry in entries}

    def is_known(fingerprint: str) -> bool:
        known = left.get(fingerprint, 0) > 0
        if known:
            left[fingerprint] -= 1
        return known

    for report in reports:
        fingerprints = (fingerprint_of(located) for located in locate(report.recording, report.findings))
        report.findings.suppress((index, reasons[each]) for index, each in enumerate(fingerprints) if is_known(each))
        for result in _case_results([report]):
            result.is_suppressed = result.is_unexplained and is_known(result.case.fingerprint)
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
    found: dict[str, Entry] = {}
    counts: Counter[str] = Counter()
    for entry in (entry for report in reports for entry in _found_entries(report)):
        found.setdefault(entry.fingerprint, entry)
        counts[entry.fingerprint] += 1
        if len(found) > MAX_KINDS:
            raise InputError(
                f"There are more than {MAX_KINDS:,} kinds of findings, too many for a baseline: "
                "exclude rules with --ignore, or fix some findings first."
            )
    older = {entry.fingerprint: entry for entry in earlier}
    reasons = {fingerprint: entry.reason for fingerprint, entry in older.items()}
    checked = _checked_rules(reports)
    built = [
        msgspec.structs.replace(each, count=counts[key], reason=reasons.get(key, "")) for key, each in found.items()
    ]
    return built + [entry for entry in older.values() if entry.code not in checked]


def _found_entries(report: Report) -> Iterator[Entry]:
    """Yield an entry for each finding, and for each probe case that no rule explains."""
    yield from map(_entry_of, locate(report.recording, report.findings))
    yield from (_entry_of_case(each.case) for each in _case_results([report]) if each.is_unexplained)


def _entry_of_case(case: CaseDescription) -> Entry:
    return Entry(code=case.name, expected=case.about, fingerprint=case.fingerprint, count=1)


def _checked_rules(reports: Sequence[Report]) -> frozenset[str]:
    """Return the codes of the rules that were checked, and the names of the probe cases that ran."""
    codes = frozenset(code for report in reports for code in report.selected)
    return codes.union(result.case.name for result in _case_results(reports))


def _case_results(reports: Sequence[Report]) -> Iterator[CaseResult]:
    return (result for report in reports if report.cases is not None for result in report.cases.results)


def fingerprint_of(located: LocatedFinding) -> str:
    """Return 32 hexadecimal digits that findings of the same defect have in common."""
    return _entry_of(located).fingerprint


def _entry_of(located: LocatedFinding) -> Entry:
    finding, exchange, event = located.finding, located.exchange, located.event
    about = event.type if event is not None else ""
    if finding.event is None and exchange.response is not None and not exchange.is_stream:
        about = f"status {exchange.response.status}"
    contracts = exchange.contracts
    request = request_template(exchange.request.method, exchange.request.target, contracts)
    tool = _title_of(event) if event is not None else ""
    return _entry(finding.code, request, about, tool, expected_pattern(finding.message, names_of(contracts)))


def _title_of(event: Event) -> str:
    """Return what people call the entity that an event opens or closes."""
    for entity in event.format.entities:
        if entity.title is not None and (entity.opens.matches(event.type) or entity.closes.matches(event.type)):
            title = entity.title.read(event.value)
            return title if isinstance(title, str) else ""
    return ""


@lru_cache(_CACHE_SIZE)
def _entry(code: str, request: str, about: str, tool: str, expected: str) -> Entry:
    parts = {"about": about, "code": code, "expected": expected, "request": request, "tool": tool}
    fingerprint = sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    return Entry(**{name: printable(text) for name, text in parts.items()}, fingerprint=fingerprint, count=1)


@lru_cache(_CACHE_SIZE)
def expected_pattern(message: str, names: frozenset[str]) -> str:
    """Return what was expected, or the whole message, without recorded values and numbers.

    `names` are those of the specification, which are not recorded values.
    """

    def generalize(quoted: re.Match[str]) -> str:
        name = _INDEX.sub("[]", quoted[1])
        is_name = name in names or all(part in names for part in name.replace("[]", "").split("."))
        return f"`{name}`" if is_name else "`…`"

    parts = split_message(message)
    return _NUMBER.sub("#", _QUOTED.sub(generalize, parts[0] if parts else message)).replace("# bytes", "# byte")


@lru_cache(_CACHE_SIZE)
def request_template(method: str, target: str, contracts: ContractChoice) -> str:
    """Return a request with its identifiers replaced: `GET /chats/{chat}/events`."""
    found = contracts.find(method, target)
    if found is not None:
        return f"{method} {found.operation.pattern.route}"
    path = target.partition("?")[0].partition("#")[0]
    return f"{method} {'/'.join(map(_segment, path.split('/')))}"


def _segment(segment: str) -> str:
    if _VERSION.fullmatch(segment):
        return segment
    return "{}" if len(segment) >= _LONG_SEGMENT or any(map(str.isdigit, segment)) else segment


@lru_cache(_CACHE_SIZE)
def names_of(contracts: ContractChoice) -> frozenset[str]:
    """Return the names that specifications give to types, codes, fields and headers."""
    return contracts.names | _COMMON_NAMES
