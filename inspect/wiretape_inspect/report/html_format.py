"""The report as one HTML file: the page of the debugger, opened on what was found.

`page_export` says what the page contains; a report adds to it, and leaves something out where a recording is large.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from wiretape.json_output import dump_json
from wiretape.recording import Exchange, Recording
from wiretape.rules import CATALOGUE, Finding, Party, Severity
from wiretape_inspect.page_export import PageContent, document_parts, page_parts
from wiretape_inspect.report.doubts import doubt_lines
from wiretape_inspect.report.evidence import asked, evidence
from wiretape_inspect.report.fingerprint import expectation
from wiretape_inspect.report.json_format import rule_of
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.places import Placed, placed
from wiretape_inspect.report.recording_report import Report
from wiretape_inspect.report.text_format import said, see
from wiretape_inspect.spans import text_of

EACH, MOST = 50, 10_000
"""How many findings of one rule are shown unless all are asked for, and how many of a recording in any case."""
EVENTS, BYTES = 50_000, 64 << 20
"""How many events and bytes of bodies a page holds, of all recordings together; of more only what is near findings."""
_NEAREST, _FARTHEST = 3, 200
"""How far from a finding events may be to be held then: the farther, the fewer findings there are."""


def html_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """The lines of the document."""
    return _lines(page_parts(_documents(reports, options)))


def _lines(parts: Iterator[bytes]) -> Iterator[str]:
    held = list[str]()
    for part in parts:
        first, *others = part.decode().split("\n")
        held.append(first)
        for line in others:
            yield "".join(held)
            held = [line]
    if any(held):
        yield "".join(held)


def _documents(reports: Sequence[Report], options: Options) -> Iterator[tuple[str, Iterator[bytes]]]:
    yield "report", iter([dump_json(_head(reports)).encode()])
    events, size = EVENTS, BYTES
    for number, report in enumerate(reports, 1):
        needed = _size(report)
        whole = report.events <= events and needed <= size
        if whole:
            events, size = events - report.events, size - needed
        yield "data" if number == 1 else f"data-{number}", document_parts(_held(report, options, whole=whole))


def _head(reports: Sequence[Report]) -> dict[str, Any]:
    """What there is to choose from, and where to begin: at the recording that is worst."""
    worst = max(reports, key=lambda report: tuple(report.severities.values()))
    place = "" if worst is reports[0] else f"f={reports.index(worst) + 1}&"
    files = [{"file": one.file, "summary": text_of(said(one)), "severities": _numbers(one)} for one in reports]
    return {
        "format": 1,
        "start": f"{place}findings=1{'' if worst.broken else '&verdicts=1'}",
        "files": files,
    }


def _numbers(report: Report) -> dict[str, int]:
    return {severity.value: number for severity, number in report.severities.items()}


def _size(report: Report) -> int:
    """The bytes of all bodies; of many small exchanges each counts as more, for its head."""
    return sum(each.request_bytes + each.response_bytes + 1000 for each in report.recording.exchanges())


def _held(report: Report, options: Options, *, whole: bool) -> PageContent:
    shown = list(islice(report.firsts(None if options.everything else EACH), MOST))
    found: dict[int, list[Finding]] = {}
    for finding in shown:
        found.setdefault(finding.exchange, []).append(finding)
    radius = None if whole else max(_NEAREST, min(_FARTHEST, EVENTS // (2 * len(shown) or 1)))
    told = {
        "findings": [_finding(report, place) for place in placed(report.recording, enumerate(shown))],
        "rules": {code: _rule(report, code, options) for code in CATALOGUE},
        "report": _about(report, shown, radius),
    }
    chosen = list(report.recording.exchanges()) if whole else _near(report.recording, found)
    return PageContent(report.recording, chosen, found, radius, told)


def _near(recording: Recording, found: dict[int, list[Finding]]) -> list[Exchange]:
    """The exchanges with findings, or else the first one."""
    return [recording.exchange(number) for number in found] or list(islice(recording.exchanges(), 1))


def _about(report: Report, shown: Sequence[Finding], radius: int | None) -> dict[str, Any]:
    number = Counter(finding.code for finding in shown)
    return {
        "file": report.file,
        "summary": text_of(said(report)),
        "severities": _numbers(report),
        "more": {code: all_ - number[code] for code, all_ in report.broken.items() if all_ > number[code]},
        "inconclusive_reasons": [text_of(line) for line in doubt_lines(report)],
        "suppressed": len(report.suppressed),
        "selected": len(report.selected),
        "events": report.events,
        "exchanges": report.exchanges,
        "radius": radius,
    }


def _rule(report: Report, code: str, options: Options) -> dict[str, Any]:
    known = sum(report.known[code, severity] for severity in Severity)
    return {**rule_of(report, CATALOGUE[code], options), "about": CATALOGUE[code].about, "suppressed": known}


def _finding(report: Report, place: Placed) -> dict[str, Any]:
    finding, request, seen = place.finding, place.exchange.request, evidence(report.recording, place)
    expected, actual = expectation(finding.message) or (None, None)
    return {
        **asdict(finding),
        "expected": expected,
        "actual": actual,
        "request": f"{request.method} {request.target}",
        "request_headers": asked(place.exchange) if finding.side is Party.CLIENT else [],
        "end": seen.end,
        "evidence": seen.lines,
        "see": see(report.file, finding),
    }
