"""What is wrong with a test's client, in words."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from wiretape import labels
from wiretape.config import NEVER, Config
from wiretape.errors import RecordingError
from wiretape.labels import count_of
from wiretape.rules import Finding, Severity
from wiretape.safe_text import printable
from wiretape_replay.judging.reports import Wanted, write
from wiretape_replay.tape.player import Missed

_CHECKS_FAILED = "The checks of wiretape failed, so there may be more to find: {}."
_LISTED = 10
"""How many misses are told."""


class Measure(Protocol):
    """What a client is measured by."""

    @property
    def config(self) -> Config:
        """Of the rules."""
        ...

    @property
    def fail_on(self) -> str:
        """The test fails by a finding as bad as this or worse."""
        ...

    @property
    def rules(self) -> tuple[str, ...]:
        """The codes of the client's rules that must not be broken."""
        ...

    @property
    def allow_misses(self) -> bool:
        """Whether requests may have no match."""
        ...


def wrong(
    findings: Sequence[Finding],
    misses: Sequence[Missed],
    choices: Measure,
    record: Path,
    keep: Callable[[], None],
    *,
    checks_failed: str | None = None,
) -> str | None:
    """What a test fails by, the report of it included; None when all is well.

    `keep` writes the recording `record`, of which the report is made; that is asked for when something is wrong.
    `checks_failed` is what kept the checks from going on.
    """
    findings = [finding for finding in findings if _counts(finding, choices)]
    misses = [] if choices.allow_misses else misses
    failure = [_CHECKS_FAILED.format(printable(checks_failed))] if checks_failed and choices.fail_on != NEVER else []
    if not findings and not misses and not failure:
        return None
    where = recorded(record, keep)
    report = _report(findings, choices, record) if findings else []
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


def _counts(finding: Finding, choices: Measure) -> bool:
    if choices.fail_on == NEVER or finding.code not in choices.rules:
        return False
    worst_first = list(Severity)
    return worst_first.index(finding.severity) <= worst_first.index(Severity(choices.fail_on))


def recorded(record: Path, keep: Callable[[], None]) -> str:
    """Record what passes, and say where."""
    try:
        keep()
    except RecordingError as error:
        return str(error)
    return f"What passed is recorded in {printable(str(record))}."


def _report(findings: Sequence[Finding], choices: Measure, record: Path) -> list[str]:
    """The lines of the report, empty when all that it finds may be; without a recording a line for each finding."""
    if not record.exists():
        told = (
            labels.finding_line(each.severity, each.code, each.exchange, each.event, each.message) for each in findings
        )
        return [*told, ""]
    file = choices.config.file
    config = ["--no-config"] if file is None else ["--config", str(file)]
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        path = Path(folder) / "report.txt"
        failed = write([Wanted("text", str(path))], record, config, rules=choices.rules, fail_on=choices.fail_on)
        return path.read_text("utf-8").splitlines() if failed else []


def _headline(findings: Sequence[Finding], misses: Sequence[Missed]) -> str:
    codes = list(dict.fromkeys(finding.code for finding in findings))
    broke = [f"the client broke {' and '.join(codes)} ({count_of(len(findings), 'finding')})"] if codes else []
    missed = [f"{count_of(len(misses), 'request')} had no match"] if misses else []
    line = "; ".join([*broke, *missed])
    return f"{line[0].upper()}{line[1:]}."


def _missed(misses: Sequence[Missed]) -> Iterator[str]:
    """What was asked in vain, each request once, and what comes near it."""
    messages = list(dict.fromkeys(printable(missed.message) for missed in misses))
    yield from messages[:_LISTED]
    if len(messages) > _LISTED:
        yield f"… and {len(messages) - _LISTED:,} more"
