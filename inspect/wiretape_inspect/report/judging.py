"""A recording judged: the observations folded by the checker."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from wiretape.observe import Observation
from wiretape.recording import Recording, RecordingInfo
from wiretape.rules import CATALOGUE, Checker, Finding, Severity, Tally, Verdict

_SEVERITIES = list(Severity)


@dataclass(frozen=True, slots=True)
class Report:
    """What a recording shows about every rule."""

    file: str
    """The name of the recording's file, as the user gave it."""
    info: RecordingInfo
    findings: list[Finding]
    """Sorted by exchange, event, offset and code."""
    tallies: dict[str, Tally]
    """For every rule of the catalogue how often it came up, and what came of it."""
    exchanges: int
    events: int

    @property
    def severities(self) -> dict[Severity, int]:
        """How many findings there are of each severity, worst first."""
        counts = Counter(finding.severity for finding in self.findings)
        return {severity: counts[severity] for severity in Severity}

    @property
    def verdicts(self) -> dict[Verdict, list[str]]:
        """The codes of the rules that each verdict was given to."""
        return {verdict: [code for code in CATALOGUE if self.tallies[code].verdict is verdict] for verdict in Verdict}

    @property
    def exercised(self) -> int:
        """How many rules came up and were decided every time, or broken."""
        return len(self.verdicts[Verdict.PASS]) + len(self.verdicts[Verdict.FAIL])

    def reaches(self, threshold: Severity) -> bool:
        """Whether there is a finding as bad as `threshold`, or worse."""
        worst = _SEVERITIES.index(threshold)
        return any(_SEVERITIES.index(finding.severity) <= worst for finding in self.findings)


Watch = Callable[[Iterable[Observation]], Iterable[Observation]]
"""Passes observations on, and may show how far it is."""


def judge(recording: Recording, file: str, watch: Watch = iter) -> Report:
    """Judge a recording by every rule.  Raises RecordingError on a damaged file."""
    checker = Checker()
    findings = list(_found(checker, watch(recording.observations())))
    findings.sort(key=_place)
    return Report(file, recording.info, findings, checker.tallies(), checker.exchanges, checker.events)


def _found(checker: Checker, observations: Iterable[Observation]) -> Iterator[Finding]:
    for observation in observations:
        yield from checker.feed(observation)
    yield from checker.finish()


def _place(finding: Finding) -> tuple[int, int, int, str, str]:
    """What is about no event stands before what is about the first one."""
    return finding.exchange, finding.event or 0, finding.byte_offset or 0, finding.code, finding.message
