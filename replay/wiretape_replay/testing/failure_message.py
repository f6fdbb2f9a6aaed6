"""The message of a test that fails because of its client."""

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
from wiretape_replay.testing.client_criteria import ClientCriteria
from wiretape_replay.verbatim.verbatim_player import UnmatchedRequest

_CHECKS_FAILED = "The checks of wiretape failed, so there may be more findings: {}."
_MOST_LISTED = 10


def failure_message(
    findings: Sequence[Finding],
    misses: Sequence[UnmatchedRequest],
    criteria: ClientCriteria,
    record: Path,
    keep: Callable[[], None],
    *,
    checks_failed: str | None = None,
) -> str | None:
    """Why a test fails, with the report on the client; None if it does not fail.

    If it fails, `keep` is called to write the recording `record`, from which the report is made.
    `checks_failed` is the error that stopped the checks.
    """
    findings = [finding for finding in findings if _is_failure(finding, criteria)]
    misses = [] if criteria.allow_misses else misses
    checks = [_CHECKS_FAILED.format(printable(checks_failed))] if checks_failed and criteria.fail_on != NEVER else []
    if not findings and not misses and not checks:
        return None
    recording = keep_recording(record, keep)
    report = _report(findings, criteria, record) if findings else []
    if not report and not misses and not checks:
        return None  # all findings are in the baseline
    headline = [_headline(findings if report else [], misses)] if report or misses else []
    return "\n".join([*headline, *checks, *([""] if report else []), *report, *_list_misses(misses), recording])


def keep_recording(record: Path, keep: Callable[[], None]) -> str:
    """Write the recording, and return a sentence that names it."""
    try:
        keep()
    except RecordingError as error:
        return str(error)
    return f"The traffic is recorded in {printable(str(record))}."


def _is_failure(finding: Finding, criteria: ClientCriteria) -> bool:
    if criteria.fail_on == NEVER or finding.code not in criteria.rules:
        return False
    most_severe_first = list(Severity)
    return most_severe_first.index(finding.severity) <= most_severe_first.index(Severity(criteria.fail_on))


def _report(findings: Sequence[Finding], criteria: ClientCriteria, record: Path) -> list[str]:
    """The lines of the report, none if the baseline has all findings; without a recording, a line for each finding."""
    if not record.exists():
        lines = [
            labels.finding_line(each.severity, each.code, each.exchange, each.event, each.message) for each in findings
        ]
        return [*lines, ""]
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
    broken = [f"the client broke {' and '.join(codes)} ({count_of(len(findings), 'finding')})"] if codes else []
    missed = [f"{count_of(len(misses), 'request')} had no match"] if misses else []
    line = "; ".join([*broken, *missed])
    return f"{line[0].upper()}{line[1:]}."


def _list_misses(misses: Sequence[UnmatchedRequest]) -> Iterator[str]:
    """Each request without a match once, with the recorded requests most similar to it."""
    messages = list(dict.fromkeys(printable(missed.message) for missed in misses))
    yield from messages[:_MOST_LISTED]
    if len(messages) > _MOST_LISTED:
        yield f"… and {len(messages) - _MOST_LISTED:,} more"
