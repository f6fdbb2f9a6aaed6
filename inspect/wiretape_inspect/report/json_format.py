"""The report as JSON for programs.  The same recording always gives the same bytes.

`report.schema.json` describes it.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import file_digest
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

import msgspec

from wiretape import __version__
from wiretape.event import Event
from wiretape.json_codec import members_of
from wiretape.rules import Rule, ScopeCount, Severity, Tally
from wiretape.safe_text import printable
from wiretape_inspect.report.baseline import fingerprint_of
from wiretape_inspect.report.case_results import case_document, probe_document
from wiretape_inspect.report.evidence import bytes_at, split_message
from wiretape_inspect.report.finding_location import LocatedFinding
from wiretape_inspect.report.recording_report import Report, ReportOptions, total_severities
from wiretape_inspect.report.text_format import show_command
from wiretape_inspect.rule_output import rule_facts

FORMAT = 1
"""Increases when a key is removed or changes its meaning; keys may be added at any time."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the report."""
    document: dict[str, Any] = json.loads(files(__package__).joinpath("report.schema.json").read_text("utf-8"))
    return document


def json_lines(reports: Sequence[Report], options: ReportOptions) -> Iterator[str]:
    """Yield one JSON object, with each rule and each finding on its own line, so that reports are easy to compare.

    For one recording it is the report itself; for several it holds their `reports`.
    """
    yield "{"
    yield f'"format": {FORMAT},'
    yield f'"tool": {ascii_json(_TOOL)},'
    if len(reports) == 1:
        yield from _member_lines(reports[0], options)
        yield "}"
        return
    yield '"reports": ['
    for number, report in enumerate(reports, 1):
        yield "{"
        yield from _member_lines(report, options)
        yield "}," if number < len(reports) else "}"
    yield "],"
    yield f'"summary": {ascii_json(_total(reports))}'
    yield "}"


def ndjson_lines(reports: Sequence[Report], options: ReportOptions) -> Iterator[str]:
    """Yield one JSON object per line; `kind` is recording, rule, finding, case, probe or summary."""
    for report in reports:
        for name, value in _members(report, options):
            head: dict[str, Any] = {"kind": name.removesuffix("s")}
            head |= {"format": FORMAT, "tool": _TOOL} if name == "recording" else {"file": _file(report)}
            for document in [value] if isinstance(value, dict) else value:
                yield ascii_json({**head, **document})


def ascii_json(value: Any) -> str:
    """Encode a value in one line of ASCII, so that nothing recorded can upset a terminal or an encoding."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def array_items(values: Iterable[Any]) -> Iterator[str]:
    """Yield the items of a JSON array, each on its own line."""
    last = None
    for value in values:
        if last is not None:
            yield f"{last},"
        last = ascii_json(value)
    if last is not None:
        yield last


_TOOL = {"name": "wiretape", "version": __version__}


def _members(report: Report, options: ReportOptions) -> Iterator[tuple[str, dict[str, Any] | Iterator[dict[str, Any]]]]:
    """Yield the members of a report: an object, or the items of an array."""
    yield "recording", _recording(report)
    yield "rules", (rule_document(report, rule, options) for rule in report.catalogue.values())
    yield "findings", (finding_document(report, located) for located in report.located_findings())
    if report.cases is not None:
        yield "cases", map(case_document, report.cases.results)
        yield "probe", probe_document(report.cases, report.coverage)
    yield "summary", _summary(report)


def _member_lines(report: Report, options: ReportOptions) -> Iterator[str]:
    for name, value in _members(report, options):
        comma = "" if name == "summary" else ","
        if isinstance(value, dict):
            yield f'"{name}": {ascii_json(value)}{comma}'
        else:
            yield f'"{name}": ['
            yield from array_items(value)
            yield f"]{comma}"


def _file(report: Report) -> str:
    return printable(PurePath(report.file).name)


def _recording(report: Report) -> dict[str, Any]:
    info = report.recording.info
    return {
        "file": _file(report),
        "sha256": _digest(report.recording.path),
        **members_of(info, "format", "tool", "upstream", "ended_ns", "redacted"),
        "started": info.started.isoformat(timespec="milliseconds"),
        **({"partial": printable(report.partial)} if report.partial else {}),
    }


def _digest(path: Path) -> str | None:
    """Hash the file; None while part of the recording is in a write-ahead log next to it."""
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        return None
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def rule_document(report: Report, rule: Rule, options: ReportOptions) -> dict[str, Any]:
    """Return a rule of the catalogue, and what the recording shows about it."""
    tally: Tally = report.outcomes.tallies[rule.code]
    return {
        **rule_facts(rule),
        "severity": report.severity_of(rule.code),
        "url": f"{options.docs_url}{rule.code}.md" if options.docs_url else None,
        "selected": rule.code in report.selected,
        "verdict": tally.verdict,
        "exercised": tally.exercised,
        "inconclusive": tally.inconclusive,
        "inconclusive_reasons": [{"reason": reason, "count": count} for reason, count in tally.reasons.items()],
        "findings": tally.findings,
    }


def finding_document(report: Report, located: LocatedFinding) -> dict[str, Any]:
    """Return a finding with its evidence."""
    frame, finding, request = located.frame, located.finding, located.exchange.request
    event, reason = located.event, located.suppressed_by
    data = bytes_at(report.recording, located)
    expected, actual = split_message(finding.message) or (None, None)
    return {
        **msgspec.to_builtins(finding),
        "time": report.recording.info.iso_time(finding.time_ns),
        "request": {"method": request.method, "target": request.target},
        "type": (event.type or None) if event else None,
        "sse_id": event.id if event else None,
        "byte_length": len(frame.seen.frame.raw) if frame else None,
        "base64": None if data is None else b64encode(data).decode(),
        "expected": expected,
        "actual": actual,
        "related": [_related(located.before)] if located.before else [],
        "fingerprint": fingerprint_of(located),
        "suppressed_by": None if reason is None else {"kind": "baseline", "reason": reason},
        "see": show_command(PurePath(report.file).name, finding),
    }


def _related(before: Event) -> dict[str, Any]:
    return {
        "what": "the previous event",
        "event": before.number,
        "type": before.type or None,
        "sse_id": before.id,
        "sequence": before.sequence,
        "byte_offset": before.frame.start,
    }


def _summary(report: Report) -> dict[str, Any]:
    return {
        "findings": _finding_counts(report.severities, report.suppressed),
        "rules": {
            "total": len(report.catalogue),
            "selected": len(report.selected),
            "exercised": report.exercised,
            **{verdict: len(codes) for verdict, codes in report.verdicts.items()},
        },
        "exchanges": report.outcomes.exchanges,
        "events": report.outcomes.events,
        "scope": [_scope(report, scope) for scope in report.scopes],
        "notice": printable(report.notice) or None,
    }


def _scope(report: Report, scope: ScopeCount) -> dict[str, Any]:
    return {
        "families": report.families(scope),
        "exchanges": scope.exchanges,
        "reason": printable(scope.text),
    }


def _finding_counts(severities: dict[Severity, int], suppressed: int) -> dict[str, int]:
    """Return the number of findings: all, new ones of each severity, and those in the baseline."""
    return {
        "total": sum(severities.values()) + suppressed,
        **{severity.value: number for severity, number in severities.items()},
        "suppressed": suppressed,
    }


def _total(reports: Sequence[Report]) -> dict[str, Any]:
    return {
        "findings": _finding_counts(total_severities(reports), sum(report.suppressed for report in reports)),
        "recordings": len(reports),
        "exchanges": sum(report.outcomes.exchanges for report in reports),
        "events": sum(report.outcomes.events for report in reports),
    }
