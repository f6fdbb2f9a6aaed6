"""What is wrong with a test's client, in words."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from wiretape import labels
from wiretape.config import NEVER
from wiretape.errors import RecordingError
from wiretape.labels import count_of
from wiretape.rules import Finding, Severity
from wiretape.safe_text import printable
from wiretape_replay.client_verdict.client_report import ReportRequest, write
from wiretape_replay.testing.choices import ClientCriteria
from wiretape_replay.verbatim.verbatim_player import UnmatchedRequest

_CHECKS_FAILED = "The checks of wiretape failed, so there may be more to find: {}."
_LISTED = 10
"""How many misses are told."""


def wrong(
    findings: Sequence[Finding],
    misses: Sequence[UnmatchedRequest],
    criteria: ClientCriteria,
    record: Path,
    keep: Callable[[], None],
    *,
    checks_failed: str | None = None,
) -> str | None:
    """What a test fails by, the report of it included; None when all is well.

    `keep` writes the recording `record`, of which the report is made; that is asked for when something is wrong.
    `checks_failed` is what kept the checks from going on.
    """
    findings = [finding for finding in findings if _counts(finding, criteria)]
    misses = [] if criteria.allow_misses else misses
    failure = [_CHECKS_FAILED.format(printable(checks_failed))] if checks_failed and criteria.fail_on != NEVER else []
    if not findings and not misses and not failure:
        return None
    where = recorded(record, keep)
    report = _report(findings, criteria, record) if findings else []
    if not report and not misses and not failure:
        return None  # a baseline knows of it
    return "\n".join(
        [
            *([_headline(findings if report else [], misses)] if report or misses else []),
            *failure,
            *([""] if report else []),
            *report,
            *_missed(misses),
            where,
        ]
    )


def _counts(finding: Finding, criteria: ClientCriteria) -> bool:
    if criteria.fail_on == NEVER or finding.code not in criteria.rules:
        return False
    worst_first = list(Severity)
    return worst_first.index(finding.severity) <= worst_first.index(Severity(criteria.fail_on))


def recorded(record: Path, keep: Callable[[], None]) -> str:
    """Record what passes, and say where."""
    try:
        keep()
    except RecordingError as error:
        return str(error)
    return f"What passed is recorded in {printable(str(record))}."


def _report(findings: Sequence[Finding], criteria: ClientCriteria, record: Path) -> list[str]:
    """The lines of the report, empty when all that it finds may be; without a recording a line for each finding."""
    if not record.exists():
        told = (
            labels.finding_line(each.severity, each.code, each.exchange, each.event, each.message) for each in findings
        )
        return [*told, ""]
    file = criteria.config.file
    config = ["--no-config"] if file is None else ["--config", str(file)]
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        path = Path(folder) / "report.txt"
        failed = write(
            [ReportRequest("text", str(path))], record, config, rules=criteria.rules, fail_on=criteria.fail_on
        )
        return path.read_text("utf-8").splitlines() if failed else []


def _headline(findings: Sequence[Finding], misses: Sequence[UnmatchedRequest]) -> str:
    codes = list(dict.fromkeys(finding.code for finding in findings))
    broke = [f"the client broke {' and '.join(codes)} ({count_of(len(findings), 'finding')})"] if codes else []
    missed = [f"{count_of(len(misses), 'request')} had no match"] if misses else []
    line = "; ".join([*broke, *missed])
    return f"{line[0].upper()}{line[1:]}."


def _missed(misses: Sequence[UnmatchedRequest]) -> Iterator[str]:
    """What was asked in vain, each request once, and what comes near it."""
    messages = list(dict.fromkeys(printable(missed.message) for missed in misses))
    yield from messages[:_LISTED]
    if len(messages) > _LISTED:
        yield f"… and {len(messages) - _LISTED:,} more"
