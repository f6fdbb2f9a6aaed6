"""The report as SARIF 2.1.0, for code scanning.

A recording is a database, and what stands at an offset of a stream stands elsewhere in the file.  So each stream
is an artifact of its own, with the name and the bytes that `wiretape export --format sse` would give it.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from wiretape import __version__
from wiretape.rules import CATALOGUE, Rule
from wiretape.safe_text import printable
from wiretape_inspect.report.ascii_json import dump, listed
from wiretape_inspect.report.finding_details import Detail, details
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.recording_report import Report
from wiretape_inspect.report.text_format import see
from wiretape_inspect.rule_explanation import Explanation, about, markdown_lines, text_lines

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LINE_ENDS = ["\r\n", "\n", "\r"]
_INDEX = {code: place for place, code in enumerate(CATALOGUE)}


def sarif_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """The lines of the log: one run, a line for each rule and each result."""
    yield "{"
    yield f'"$schema": {dump(SCHEMA)},'
    yield '"version": "2.1.0",'
    yield '"runs": [{'
    yield '"tool": {"driver": {'
    yield f'"name": "wiretape", "version": {dump(__version__)}, "semanticVersion": {dump(__version__)}, "rules": ['
    yield from listed(_rule(rule, options) for rule in CATALOGUE.values())
    yield "]}},"
    yield '"columnKind": "unicodeCodePoints",'
    # Event streams may end their lines with a carriage return alone.
    yield f'"newlineSequences": {dump(_LINE_ENDS)},'
    yield '"results": ['
    yield from listed(_result(report, detail) for report in reports for detail in details(report))
    yield "]"
    yield "}]}"


def _rule(rule: Rule, options: Options) -> dict[str, Any]:
    explanation = Explanation.of(rule)
    said: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": about(rule)[0]},
        "fullDescription": {"text": " ".join([*about(rule), explanation.why])},
        "help": {
            "text": "\n".join(text_lines(explanation)),
            "markdown": "\n".join(markdown_lines(explanation)),
        },
        "defaultConfiguration": {"level": rule.severity},
        "properties": {
            "tags": ["contract", rule.code.rstrip("0123456789"), rule.side],
            "basis": rule.basis,
            "clause": rule.clause,
            "scope": rule.scope,
            "side": rule.side,
        },
    }
    return said | ({"helpUri": f"{options.docs_url}{rule.code}.md"} if options.docs_url else {})


def _result(report: Report, detail: Detail) -> dict[str, Any]:
    finding = detail.finding
    said: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": _INDEX[finding.code],
        "level": finding.severity,
        "message": {"text": f"{finding.message} See: {see(PurePath(report.file).name, finding)}"},
        "locations": [_location(report, detail)],
        "partialFingerprints": {"wiretape/v1": detail.fingerprint},
        "properties": {"sequence": finding.sequence, "time_ns": finding.time_ns},
    }
    if detail.number in report.suppressed:
        reason = report.suppressed[detail.number]
        said["suppressions"] = [{"kind": "external", "justification": reason or "in the baseline"}]
    return said


def _location(report: Report, detail: Detail) -> dict[str, Any]:
    exchange, event = detail.exchange, detail.finding.event
    path = f"exchange/{exchange.number}" + ("" if event is None else f"/event/{event}")
    request = f"{exchange.request.method} {exchange.request.target}"
    return {
        "physicalLocation": _physical(report, detail),
        "logicalLocations": [
            {
                "fullyQualifiedName": path,
                "name": printable(request)[:200],
                "kind": "exchange" if event is None else "event",
            }
        ],
    }


def _physical(report: Report, detail: Detail) -> dict[str, Any]:
    """Code scanning wants a line, so what is about no event points at the first one."""
    at, name = detail.at, PurePath(report.file).name
    if at is None or at.exported is None:
        return {"artifactLocation": {"uri": quote(name)}, "region": {"startLine": 1}}
    stream = f"{PurePath(name).stem}.exchange-{detail.exchange.number}.sse"
    region = {"startLine": at.line, "byteOffset": at.exported, "byteLength": at.length}
    return {"artifactLocation": {"uri": quote(stream)}, "region": region}
