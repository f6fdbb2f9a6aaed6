"""A recording judged: the observations folded by the checker."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from wiretape.observations import Observation
from wiretape.recording import Recording, RecordingInfo
from wiretape.rules import CATALOGUE, Checker, Finding, Settings, Severity, Tally, Verdict
from wiretape_inspect.report.finding_store import Findings

_SEVERITIES = list(Severity)
_EVERY = frozenset(CATALOGUE)


@dataclass(frozen=True, slots=True)
class Report:
    """What a recording shows about every rule."""

    file: str
    """The name of the recording's file, as the user gave it."""
    recording: Recording
    """Open as long as the report is to be written."""
    findings: Findings
    tallies: dict[str, Tally]
    """For every rule of the catalogue how often it came up, and what came of it."""
    exchanges: int
    events: int
    selected: frozenset[str] = _EVERY
    """The codes of the rules that were asked."""
    settings: Settings = field(default_factory=Settings)
    suppressed: Mapping[int, str] = field(default_factory=dict)
    """For findings that a baseline knows, by their place in `findings`, the reason it gives."""
    known: Counter[tuple[str, Severity]] = field(default_factory=Counter)
    """How many of these there are of each rule and severity."""

    @property
    def info(self) -> RecordingInfo:
        """What the recording says about itself."""
        return self.recording.info

    @property
    def standing(self) -> Iterator[Finding]:
        """The findings that no baseline knows."""
        return (finding for place, finding in enumerate(self.findings) if place not in self.suppressed)

    @property
    def counts(self) -> Counter[tuple[str, Severity]]:
        """How many findings stand of each rule and severity, in the order in which they first come."""
        return self.findings.counts - self.known

    @property
    def broken(self) -> Counter[str]:
        """How many findings stand of each rule that has any, in the order in which they first come."""
        numbers: Counter[str] = Counter()
        for (code, _), number in self.counts.items():
            numbers[code] += number
        return numbers

    @property
    def severities(self) -> dict[Severity, int]:
        """How many findings stand of each severity, worst first."""
        numbers = dict.fromkeys(Severity, 0)
        for (_, severity), number in self.counts.items():
            numbers[severity] += number
        return numbers

    def firsts(self, most: int | None) -> Iterator[Finding]:
        """The first `most` findings of each rule that stand, in order; all of them for None."""
        if most is None:
            yield from self.standing
            return
        left = {code: min(number, most) for code, number in self.broken.items()}
        missing = sum(left.values())
        for finding in self.standing if missing else ():
            if left[finding.code]:
                left[finding.code] -= 1
                missing -= 1
                yield finding
                if not missing:
                    return

    def more(self, most: int | None) -> dict[str, int]:
        """How many findings `firsts` leaves out, for each rule of which it does."""
        return {} if most is None else {code: n - most for code, n in self.broken.items() if n > most}

    @property
    def verdicts(self) -> dict[Verdict, list[str]]:
        """The codes of the selected rules that each verdict was given to."""
        codes = [code for code in CATALOGUE if code in self.selected]
        return {verdict: [code for code in codes if self.tallies[code].verdict is verdict] for verdict in Verdict}

    @property
    def exercised(self) -> int:
        """How many rules came up and were decided every time, or broken."""
        verdicts = self.verdicts
        return len(verdicts[Verdict.PASS]) + len(verdicts[Verdict.FAIL])

    def severity_of(self, code: str) -> Severity:
        """How bad breaking a rule is, as the catalogue or the project has it."""
        return self.settings.severities.get(code, CATALOGUE[code].severity)

    def reaches(self, threshold: Severity) -> bool:
        """Whether a finding stands that is as bad as `threshold`, or worse."""
        return any(as_bad(severity, threshold) for _, severity in self.counts)


def as_bad(severity: Severity, threshold: Severity | None) -> bool:
    """Whether `severity` is `threshold` or worse; nothing is as bad as None."""
    return threshold is not None and _SEVERITIES.index(severity) <= _SEVERITIES.index(threshold)


Watch = Callable[[Iterable[Observation]], Iterable[Observation]]
"""Passes observations on, and may show how far it is."""


def judge(
    recording: Recording,
    file: str,
    watch: Watch = iter,
    *,
    settings: Settings | None = None,
    selected: frozenset[str] = _EVERY,
) -> Report:
    """Judge a recording by the rules of `selected` that are not off.  Raises RecordingError on a damaged file."""
    settings = settings or Settings()
    selected -= settings.off
    checker = Checker(replace(settings, off=_EVERY - selected))
    findings = Findings(_found(checker, watch(recording.observations())))
    tallies = checker.tallies()
    return Report(
        file, recording, findings, tallies, checker.exchanges, checker.events, selected=selected, settings=settings
    )


def _found(checker: Checker, observations: Iterable[Observation]) -> Iterator[Finding]:
    for observation in observations:
        yield from checker.feed(observation)
    yield from checker.finish()
