"""The report as JUnit XML: a suite for each recording, a case for each rule."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from wiretape.rules import CATALOGUE, Finding, Rule, Verdict
from wiretape.safe_text import printable
from wiretape_inspect.humanize import count
from wiretape_inspect.report.doubts import doubts
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.recording_report import Report, as_bad
from wiretape_inspect.report.text_format import see

LINES = 200
"""How many findings of one rule are listed."""
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_NEVER = "not exercised: it never came up, so the recording proves nothing about it"


def junit_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """The lines of the XML document.

    JUnit knows no severities, so a case fails when a finding reaches the threshold; lesser ones are its output.
    """
    root = ET.Element("testsuites", name="wiretape")
    for report in reports:
        _suite(root, report, options)
    ET.indent(root)
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield from ET.tostring(root, encoding="unicode").split("\n")


def _suite(root: ET.Element, report: Report, options: Options) -> None:
    suite = ET.SubElement(root, "testsuite", name=_text(printable(report.file)))
    by_rule: dict[str, list[Finding]] = {}
    for finding in report.firsts(LINES):
        by_rule.setdefault(finding.code, []).append(finding)
    rules = [rule for rule in CATALOGUE.values() if rule.code in report.selected]
    for rule in rules:
        _case(suite, report, rule, by_rule.get(rule.code, []), options)
    failures, skipped = (len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "skipped"))
    numbers = {"tests": len(rules), "failures": failures, "errors": 0, "skipped": skipped}
    suite.attrib.update({name: str(number) for name, number in numbers.items()})


def _case(suite: ET.Element, report: Report, rule: Rule, findings: list[Finding], options: Options) -> None:
    family = rule.code.rstrip("0123456789")
    case = ET.SubElement(suite, "testcase", classname=f"contract.{family}", name=f"{rule.code} {rule.name}")
    verdict = report.tallies[rule.code].verdict
    severities = [severity for code, severity in report.counts if code == rule.code]
    if any(as_bad(severity, options.threshold) for severity in severities):
        said = f"{count(report.broken[rule.code], 'finding')}: {findings[0].message}"
        failure = ET.SubElement(case, "failure", type=report.severity_of(rule.code), message=_text(said))
        failure.text = _listed(report, rule, findings)
    elif findings:
        ET.SubElement(case, "system-out").text = _listed(report, rule, findings)
    elif verdict is Verdict.FAIL:
        ET.SubElement(case, "skipped", message="all its findings are known to the baseline")
    elif verdict is Verdict.NOT_EXERCISED:
        ET.SubElement(case, "skipped", message=_NEVER)
    elif verdict is Verdict.INCONCLUSIVE:
        ET.SubElement(case, "skipped", message=f"inconclusive: {doubts(report, rule.code)}")


def _listed(report: Report, rule: Rule, findings: list[Finding]) -> str:
    lines = []
    for finding in findings:
        lines += [f"{finding.severity}: {finding.message}", f"  see: {see(report.file, finding)}"]
    if left := report.broken[rule.code] - len(findings):
        lines.append(f"… and {left:,} more")
    lines += [f"clause: {rule.clause} ({rule.basis})", f"explain: wiretape rule {rule.code}"]
    return _text("\n".join(lines))


def _text(text: str) -> str:
    """`text` without the characters that XML cannot hold, not even as a reference."""
    return _NO_XML.sub("\ufffd", text)
