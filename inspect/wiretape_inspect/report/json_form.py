"""The report as JSON, for programs.  The same recording gives the same bytes."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from wiretape import __version__
from wiretape.rules import CATALOGUE, Rule, Tally
from wiretape.text import printable
from wiretape_inspect.report.judging import Report

FORMAT = 1
"""Grows when something is taken away or changes its meaning; new keys may come at any time."""


def json_lines(report: Report) -> Iterator[str]:
    """One JSON object, a line for each rule and each finding, so that two reports can be compared line by line."""
    yield "{"
    yield f'"format": {FORMAT},'
    yield f'"tool": {_dump({"name": "wiretape", "version": __version__})},'
    yield f'"recording": {_dump(_recording(report))},'
    yield '"rules": ['
    yield from _listed(_rule(rule, report.tallies[rule.code]) for rule in CATALOGUE.values())
    yield "],"
    yield '"findings": ['
    yield from _listed(asdict(finding) for finding in report.findings)
    yield "],"
    yield f'"summary": {_dump(_summary(report))}'
    yield "}"


def _dump(value: Any) -> str:
    # ASCII, so that what is recorded can hold nothing that a terminal or an encoding minds.
    return json.dumps(value, ensure_ascii=True)


def _listed(values: Iterable[Any]) -> Iterator[str]:
    """The items of a JSON array, each on a line of its own."""
    last = None
    for value in values:
        if last is not None:
            yield f"{last},"
        last = _dump(value)
    if last is not None:
        yield last


def _recording(report: Report) -> dict[str, Any]:
    info = report.info
    return {
        "file": printable(PurePath(report.file).name),
        "format": info.format,
        "tool": info.tool,
        "upstream": info.upstream,
        "started": info.started.isoformat(timespec="milliseconds"),
        "ended_ns": info.ended_ns,
        "redacted": info.redacted,
    }


def _rule(rule: Rule, tally: Tally) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "side": rule.side,
        "scope": rule.scope,
        "basis": rule.basis,
        "clause": rule.clause,
        "verdict": tally.verdict,
        "exercised": tally.exercised,
        "inconclusive": tally.doubted,
        "findings": tally.findings,
    }


def _summary(report: Report) -> dict[str, Any]:
    return {
        "findings": {"total": len(report.findings), **report.severities},
        "rules": {
            "total": len(CATALOGUE),
            "exercised": report.exercised,
            **{verdict: len(codes) for verdict, codes in report.verdicts.items()},
        },
        "exchanges": report.exchanges,
        "events": report.events,
    }
