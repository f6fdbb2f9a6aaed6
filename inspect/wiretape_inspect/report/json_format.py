"""The report as JSON, for programs.  The same recording gives the same bytes.

`report.schema.json` beside this module describes it.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, timedelta
from hashlib import file_digest
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from wiretape import __version__
from wiretape.rules import CATALOGUE, Rule, Severity, Tally
from wiretape.safe_text import printable
from wiretape_inspect.report.ascii_json import dump, listed
from wiretape_inspect.report.finding_details import At, Detail, details
from wiretape_inspect.report.fingerprint import expectation
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.recording_report import Report
from wiretape_inspect.report.text_format import see

FORMAT = 1
"""Grows when something is taken away or changes its meaning; new keys may come at any time."""


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `json_lines` writes."""
    document: dict[str, Any] = json.loads(files(__package__).joinpath("report.schema.json").read_text("utf-8"))
    return document


def json_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """One JSON object, a line for each rule and each finding, so that two reports can be compared line by line.

    Of one recording it is the report itself; of several it holds their `reports`.
    """
    yield "{"
    yield f'"format": {FORMAT},'
    yield f'"tool": {dump(_TOOL)},'
    if len(reports) == 1:
        yield from _report(reports[0], options)
        yield "}"
        return
    yield '"reports": ['
    for number, report in enumerate(reports, 1):
        yield "{"
        yield from _report(report, options)
        yield "}," if number < len(reports) else "}"
    yield "],"
    yield f'"summary": {dump(_total(reports))}'
    yield "}"


def ndjson_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """A JSON object a line; `kind` says whether it is a recording, a rule, a finding or a summary."""
    for report in reports:
        yield dump({"kind": "recording", "format": FORMAT, "tool": _TOOL, **_recording(report)})
        file = {"file": _file(report)}
        for rule in CATALOGUE.values():
            yield dump({"kind": "rule", **file, **rule_of(report, rule, options)})
        for detail in details(report):
            yield dump({"kind": "finding", **file, **finding(report, detail)})
        yield dump({"kind": "summary", **file, **_summary(report)})


_TOOL = {"name": "wiretape", "version": __version__}


def _report(report: Report, options: Options) -> Iterator[str]:
    yield f'"recording": {dump(_recording(report))},'
    yield '"rules": ['
    yield from listed(rule_of(report, rule, options) for rule in CATALOGUE.values())
    yield "],"
    yield '"findings": ['
    yield from listed(finding(report, detail) for detail in details(report))
    yield "],"
    yield f'"summary": {dump(_summary(report))}'


def _file(report: Report) -> str:
    return printable(PurePath(report.file).name)


def _recording(report: Report) -> dict[str, Any]:
    info = report.info
    return {
        "file": _file(report),
        "sha256": _digest(report.recording.path),
        "format": info.format,
        "tool": info.tool,
        "upstream": info.upstream,
        "started": info.started.isoformat(timespec="milliseconds"),
        "ended_ns": info.ended_ns,
        "redacted": info.redacted,
    }


def _digest(path: Path) -> str | None:
    """Of the file; None while part of the recording is in a write-ahead log beside it."""
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        return None
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def rule_of(report: Report, rule: Rule, options: Options) -> dict[str, Any]:
    """One rule of the catalogue, and what the recording shows about it."""
    tally: Tally = report.tallies[rule.code]
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": report.severity_of(rule.code),
        "side": rule.side,
        "scope": rule.scope,
        "basis": rule.basis,
        "clause": rule.clause,
        "url": f"{options.docs_url}{rule.code}.md" if options.docs_url else None,
        "selected": rule.code in report.selected,
        "verdict": tally.verdict,
        "exercised": tally.exercised,
        "inconclusive": tally.inconclusive,
        "inconclusive_reasons": [{"reason": reason, "count": times} for reason, times in tally.reasons.items()],
        "findings": tally.findings,
    }


def finding(report: Report, detail: Detail) -> dict[str, Any]:
    """One finding with its evidence."""
    at, found = detail.at, detail.finding
    said = expectation(found.message)
    when = report.info.started + timedelta(microseconds=found.time_ns // 1000)
    return {
        **asdict(found),
        "time": f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "request": {"method": detail.exchange.request.method, "target": detail.exchange.request.target},
        "type": at.type if at else None,
        "sse_id": at.id if at else None,
        "byte_length": at.length if at else None,
        "base64": b64encode(at.data).decode() if at else None,
        "expected": said[0] if said else None,
        "actual": said[1] if said else None,
        "related": [_related(detail.before)] if detail.before else [],
        "fingerprint": detail.fingerprint,
        "suppressed_by": _suppression(report, detail),
        "see": see(PurePath(report.file).name, found),
    }


def _related(before: At) -> dict[str, Any]:
    return {
        "what": "the message before",
        "event": before.event,
        "type": before.type,
        "sse_id": before.id,
        "sequence": before.sequence,
        "byte_offset": before.offset,
    }


def _suppression(report: Report, detail: Detail) -> dict[str, str] | None:
    reason = report.suppressed.get(detail.number)
    return None if reason is None else {"kind": "baseline", "reason": reason}


def _summary(report: Report) -> dict[str, Any]:
    return {
        "findings": _counted(report.severities, len(report.suppressed)),
        "rules": {
            "total": len(CATALOGUE),
            "selected": len(report.selected),
            "exercised": report.exercised,
            **{verdict: len(codes) for verdict, codes in report.verdicts.items()},
        },
        "exchanges": report.exchanges,
        "events": report.events,
    }


def _counted(severities: dict[Severity, int], suppressed: int) -> dict[str, int]:
    """How many findings there are, how many of each severity stand, and how many a baseline knows."""
    return {
        "total": sum(severities.values()) + suppressed,
        **{severity.value: number for severity, number in severities.items()},
        "suppressed": suppressed,
    }


def _total(reports: Sequence[Report]) -> dict[str, Any]:
    severities = {severity: sum(report.severities[severity] for report in reports) for severity in Severity}
    return {
        "findings": _counted(severities, sum(len(report.suppressed) for report in reports)),
        "recordings": len(reports),
        "exchanges": sum(report.exchanges for report in reports),
        "events": sum(report.events for report in reports),
    }
