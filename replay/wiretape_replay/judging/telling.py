"""What is said at the end about the client, and about whom else there are findings."""

from collections.abc import Iterator

from wiretape import labels
from wiretape.labels import count_of
from wiretape.rules import CATALOGUE, Finding, Severity
from wiretape_replay.judging.blame import Blame, Findings

NEVER = "never"


def verdict(blame: Blame, recording: str) -> Iterator[str]:
    """The lines of the verdict; `recording` is the name of what was played, safe to show."""
    if blame.client:
        rules = count_of(len(blame.client.codes), "rule")
        yield f"The client broke {rules} ({count_of(len(blame.client), 'finding')}):"
        for finding in _first_of_each(blame.client):
            yield f"  {_told(finding)}{_more(blame.client.codes[finding.code] - 1)}"
    else:
        yield "The client broke no rule."
    if blame.service or blame.injected:
        yield _of_the_service(blame, recording)


def fails(blame: Blame, fail_on: str) -> bool:
    """Whether the client did something as bad as `fail_on`, or worse."""
    return fail_on != NEVER and blame.client.reaches(Severity(fail_on))


def _of_the_service(blame: Blame, recording: str) -> str:
    injected = count_of(len(blame.injected), "finding")
    if not blame.service:
        return f"Faults that were injected brought about {injected} against the service."
    rules, findings = count_of(len(blame.service.codes), "rule"), count_of(len(blame.service), "finding")
    more = f", and {injected} more came of faults that were injected" if blame.injected else ""
    return f"What was replayed breaks {rules} of the service ({findings}; see `wiretape report {recording}`){more}."


def _first_of_each(findings: Findings) -> list[Finding]:
    """The first finding of each rule, the worst rules first."""
    first: dict[str, Finding] = {}
    for finding in findings.kept:
        first.setdefault(finding.code, finding)
    worst, order = list(Severity), list(CATALOGUE)
    return sorted(first.values(), key=lambda finding: (worst.index(finding.severity), order.index(finding.code)))


def _told(finding: Finding) -> str:
    return labels.finding_line(finding.severity, finding.code, finding.exchange, finding.event, finding.message)


def _more(number: int) -> str:
    return f" (and {number:,} more)" if number else ""
