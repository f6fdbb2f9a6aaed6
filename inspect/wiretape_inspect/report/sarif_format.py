"""The report as SARIF 2.1.0, for code scanning.

A recording is a database, in which offsets of a stream mean nothing.  So each stream is an artifact of its own, with
the name and the bytes that `wiretape export --format sse` would write.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from wiretape import __version__
from wiretape.json_codec import members_of
from wiretape.rules import Rule, RuleSet
from wiretape.safe_text import printable
from wiretape_inspect.report.baseline import fingerprint_of
from wiretape_inspect.report.case_results import CaseResult
from wiretape_inspect.report.finding_location import LocatedFinding, SourceMap
from wiretape_inspect.report.json_format import array_items, ascii_json
from wiretape_inspect.report.recording_report import Report, ReportOptions
from wiretape_inspect.report.text_format import show_command
from wiretape_inspect.rule_output import markdown_lines, paragraphs, text_lines

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LINE_ENDS = ["\r\n", "\n", "\r"]


def sarif_lines(reports: Sequence[Report], options: ReportOptions) -> Iterator[str]:
    """Yield the lines of the log: one run, with each rule and each result on its own line."""
    yield "{"
    yield f'"$schema": {ascii_json(SCHEMA)},'
    yield '"version": "2.1.0",'
    yield '"runs": [{'
    yield '"tool": {"driver": {'
    version = ascii_json(__version__)
    yield f'"name": "wiretape", "version": {version}, "semanticVersion": {version}, "rules": ['
    cases = [(report, result) for report in reports if report.cases for result in report.cases.unexplained]
    rules = {
        code: (rule, report.settings.contract_of(code)) for report in reports for code, rule in report.catalogue.items()
    }
    codes, documents = list(rules), [_rule(*rule, options) for rule in rules.values()]
    by_name = {result.case.name: result for _, result in cases}
    yield from array_items([*documents, *map(_case_rule, by_name.values())])
    yield "]}},"
    if notices := [{"level": "warning", "message": {"text": each.notice}} for each in reports if each.notice]:
        run = {"executionSuccessful": True, "toolExecutionNotifications": notices}
        yield f'"invocations": {ascii_json([run])},'
    yield '"columnKind": "unicodeCodePoints",'
    # Event streams may end their lines with a carriage return alone.
    yield f'"newlineSequences": {ascii_json(_LINE_ENDS)},'
    yield '"results": ['
    found = (result for report in reports for result in _results(report, codes))
    yield from array_items(chain(found, (_case_result(report, result) for report, result in cases)))
    yield "]"
    yield "}]}"


def _rule(rule: Rule, contract: RuleSet | None, options: ReportOptions) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": paragraphs(rule)[0]},
        "fullDescription": {"text": " ".join([*paragraphs(rule), rule.explanation.why])},
        "help": {
            "text": "\n".join(map(str, text_lines(rule, contract=contract))),
            "markdown": "\n".join(markdown_lines(rule, contract)),
        },
        "defaultConfiguration": {"level": rule.severity},
        "properties": {
            "tags": ["contract", rule.code.rstrip("0123456789"), rule.side],
            **members_of(rule, "basis", "clause", "scope", "side"),
        },
    }
    return document | ({"helpUri": f"{options.docs_url}{rule.code}.md"} if options.docs_url else {})


def _case_rule(result: CaseResult) -> dict[str, Any]:
    """The rule of a probe case."""
    case = result.case
    return {
        "id": case.fingerprint,
        "shortDescription": {"text": case.about},
        "fullDescription": {"text": f"{case.about} {case.steps} {case.clause}"},
        "defaultConfiguration": {"level": case.severity},
        "properties": {"tags": ["probe", case.group], "clause": case.clause, "side": "service"},
    }


def _case_result(report: Report, result: CaseResult) -> dict[str, Any]:
    """A probe case in which the service did something else; its location is the recording."""
    artifact = {"uri": quote(PurePath(report.file).name)}
    return {
        "ruleId": result.case.fingerprint,
        "level": result.case.severity,
        "message": {"text": result.reason},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": 1}}}],
        "partialFingerprints": {"wiretape/v1": result.case.fingerprint},
    }


def _results(report: Report, codes: Sequence[str]) -> Iterator[dict[str, Any]]:
    source = SourceMap(report.recording.path)
    return (_result(report, located, source, codes) for located in report.located_findings())


def _result(report: Report, located: LocatedFinding, source: SourceMap, codes: Sequence[str]) -> dict[str, Any]:
    finding = located.finding
    document: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": finding.severity,
        "message": {"text": f"{finding.message} See: {show_command(PurePath(report.file).name, finding)}"},
        "locations": [_location(report, located, source)],
        "partialFingerprints": {"wiretape/v1": fingerprint_of(located)},
        "properties": {"sequence": finding.sequence, "time_ns": finding.time_ns},
    }
    if (reason := located.suppressed_by) is not None:
        document["suppressions"] = [{"kind": "external", "justification": reason or "in the baseline"}]
    return document


def _location(report: Report, located: LocatedFinding, source: SourceMap) -> dict[str, Any]:
    exchange, event = located.exchange, located.finding.event
    path = f"exchange/{exchange.number}" + ("" if event is None else f"/event/{event}")
    request = f"{exchange.request.method} {exchange.request.target}"
    return {
        "physicalLocation": _physical(report, located, source),
        "logicalLocations": [
            {
                "fullyQualifiedName": path,
                "name": printable(request)[:200],
                "kind": "exchange" if event is None else "event",
            }
        ],
    }


def _physical(report: Report, located: LocatedFinding, source: SourceMap) -> dict[str, Any]:
    name, line, column = source.find_in_code(report.file, located)
    region = {"startLine": line}
    if column is not None:
        region["startColumn"] = column
    elif (frame := located.frame) is not None:
        region |= {"byteOffset": frame.exported, "byteLength": len(frame.seen.frame.raw)}
    return {"artifactLocation": {"uri": quote(name)}, "region": region}
