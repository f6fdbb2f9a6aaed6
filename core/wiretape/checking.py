"""Check a recording, observations, or the bytes of one stream with the rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from wiretape.checker import BUILT_IN, Checker, Settings
from wiretape.contract.contract_facts import given_or_detected
from wiretape.observations import Observation
from wiretape.recording import Recording, open_recording, settings_of
from wiretape.rules import Finding, Rule, Verdict
from wiretape.traffic_builder import TrafficBuilder


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings, and the verdict of each rule."""

    findings: tuple[Finding, ...]
    """In the order in which they became certain."""
    verdicts: Mapping[str, Verdict]
    """By rule code."""
    exchanges: int
    events: int

    @property
    def is_conforming(self) -> bool:
        """Whether there are no findings.  Rules that were not exercised prove nothing: see `verdicts`."""
        return not self.findings


def check(
    source: Recording | Path | str | Iterable[Observation],
    *,
    settings: Settings | None = None,
    rules: Iterable[Rule] = BUILT_IN,
) -> CheckResult:
    """Run the rules over a recording, a file in any format that can be opened, or observations in order of time.

    The upstream of a recording decides which exchanges are the service's; observations without a recording are taken
    for traffic of the service alone.  Without settings, a recording is checked with its own contract, if it has one.
    Raises InputError if a file cannot be opened.
    """
    if isinstance(source, str | Path):
        with open_recording(Path(source)) as recording:
            return check(recording, settings=settings, rules=rules)
    if isinstance(source, Recording):
        if settings is None and rules is BUILT_IN:
            settings = settings_of(source.info.contracts)
        observations, upstream = source.observations(), source.info.upstream
    else:
        observations, upstream = iter(source), None
    checker = Checker(settings, rules=rules, upstream=upstream)
    findings = tuple(checker.check(observations))
    return CheckResult(findings, checker.verdicts(), checker.exchanges, checker.events)


def check_stream(
    body: bytes, *, target: str | None = None, settings: Settings | None = None, rules: Iterable[Rule] = BUILT_IN
) -> CheckResult:
    """Run the rules over the raw bytes of one event stream, as if a client had requested `target` and read it all.

    Without a target, it is the example of the contract.  The bytes arrive at once, so rules about time are not
    exercised.
    """
    if target is None:
        target = given_or_detected((settings or Settings()).contracts).example_target
    traffic = TrafficBuilder()
    traffic.request("GET", target).respond_stream().send(body).end()
    return check(traffic.observations(), settings=settings, rules=rules)
