"""The results of probe cases: in the recording of `wiretape probe`, and in the report about it."""

import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from wiretape.checker import CATALOGUE, Settings
from wiretape.checker.default_rules import default_contracts
from wiretape.errors import RecordingError
from wiretape.json_codec import members_of
from wiretape.labels import count_of
from wiretape.recording import Recording
from wiretape.rules import Finding, Party, Severity, Tally, Verdict, parse_service_base
from wiretape.safe_text import printable
from wiretape_inspect.terminal_output import Line, labelled, wrapped

SERVICE_RULES = frozenset(
    code for each in default_contracts()[:-1] for code, rule in each.catalogue.items() if rule.side is Party.SERVICE
)
"""The rules that a service can break; the others are about clients and recordings."""
SETUP = "setup/completed-run"
"""The name of what is done before the cases: a session with a completed run."""

_Code = Annotated[str, Meta(pattern="^[A-Z]+[0-9]+$")]


class CaseVerdict(StrEnum):
    """What a case shows."""

    HELD = "held"
    """The service did what the clause requires."""
    BROKEN = "broken"
    """A rule was broken, or the service did something else."""
    INCONCLUSIVE = "inconclusive"
    """The service did not do it within `--timeout`, which may be too short for it."""
    NOT_POSSIBLE = "not possible"
    """The service or the probe file does not have what the case needs."""


@dataclass(frozen=True)
class CaseDescription:
    """What a case states about itself."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9-]+/[A-Za-z0-9-]+$")]
    """Group and name: `replay/after-last-event`."""
    clause: str
    steps: str
    rules: tuple[_Code, ...]
    """Codes of the rules that it is meant to exercise."""
    leaves: str
    """What it leaves behind if sessions cannot be deleted."""
    is_safe: bool
    """Whether it is safe in production."""
    severity: Severity
    """How serious it is if the service does something else, and no rule is broken."""
    about: str
    """What has to be true."""

    @property
    def fingerprint(self) -> str:
        """What identifies it in baselines, SARIF and GitLab."""
        return f"probe/{self.name}"

    @property
    def group(self) -> str:
        """The part of the specification."""
        return self.name.partition("/")[0]


@dataclass(slots=True)
class CaseResult:
    """What happened in a case."""

    case: CaseDescription
    outcome: CaseVerdict = CaseVerdict.HELD
    """What the case itself observed, whatever the rules find in its exchanges."""
    reason: str = ""
    """Why it did not hold."""
    exercised: frozenset[str] = frozenset()
    """Codes of the rules that came up."""
    findings: Mapping[int, Finding] = field(default_factory=dict)
    """The findings about its exchanges, by their indices in the report."""
    is_new: Callable[[int], bool] = lambda _index: True
    """Whether the finding with an index is not in the baseline."""
    is_suppressed: bool = False
    """Whether the case itself is in the baseline."""
    sessions_left: int = 0

    @property
    def verdict(self) -> CaseVerdict:
        """Broken if a rule above a note was broken; otherwise what the case observed."""
        return CaseVerdict.BROKEN if self.broken_rules else self.outcome

    @property
    def is_unexplained(self) -> bool:
        """Whether the service did something else although no rule above a note was broken."""
        return self.outcome is CaseVerdict.BROKEN and not self.broken_rules

    def lacks_verdict(self, threshold: Severity | None, *, on_inconclusive: bool) -> bool:
        """Whether it fails because it is inconclusive: if that is requested, or if nothing could be tested."""
        is_needed = threshold is not None and self.case.name == SETUP
        return self.verdict is CaseVerdict.INCONCLUSIVE and (on_inconclusive or is_needed)

    @property
    def broken_rules(self) -> list[str]:
        """The codes of the broken rules; a note breaks none."""
        return sorted({finding.code for finding in self.findings.values() if finding.severity is not Severity.NOTE})

    @property
    def new_findings(self) -> list[Finding]:
        """The findings that are not in the baseline."""
        return [finding for index, finding in self.findings.items() if self.is_new(index)]

    @property
    def severity(self) -> Severity | None:
        """The worst of its new findings, or that of the case if it is unexplained and new; None if nothing is new."""
        found = [finding.severity for finding in self.new_findings]
        if self.is_unexplained and not self.is_suppressed:
            found.append(self.case.severity)
        return min(found, key=list(Severity).index, default=None)

    @property
    def problem(self) -> str:
        """What is wrong, in one line: the broken rules, and the reason."""
        text = ": ".join(filter(None, (", ".join(self.broken_rules), self.reason)))
        is_known = self.verdict is CaseVerdict.BROKEN and self.severity is None
        return f"{text} (in the baseline)" if is_known else text


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The smallest known way to show a broken rule."""

    code: str
    case: str
    curl: tuple[str, ...]
    """The lines of a shell script."""
    steps: int
    """How many steps it has."""
    removed: int
    """How many steps of the case are not needed."""
    tape: Path
    """The smallest recording, as a tape."""
    problem: str = ""
    """Why these are the steps of the whole case, and the tape is cut from its recording: a clause."""


@dataclass(frozen=True, slots=True)
class CaseResults:
    """The results of all cases, in the order in which they began."""

    results: Sequence[CaseResult]
    seed: int
    reproductions: Sequence[Reproduction] = ()
    not_reached: Mapping[str, str] = field(default_factory=dict)
    """Why a rule did not come up, by its code."""

    @property
    def counts(self) -> dict[CaseVerdict, int]:
        """How many cases have each verdict."""
        return {verdict: sum(result.verdict is verdict for result in self.results) for verdict in CaseVerdict}

    @property
    def sessions_left(self) -> int:
        """How many sessions the cases left behind."""
        return sum(result.sessions_left for result in self.results)

    @property
    def unexplained(self) -> Iterator[CaseResult]:
        """The cases in which the service did something else although no rule was broken; new ones only."""
        return (result for result in self.results if result.is_unexplained and not result.is_suppressed)

    def fails(self, threshold: Severity | None, *, on_inconclusive: bool = False) -> bool:
        """Whether one of those is severe enough to fail, or a case lacks a verdict."""
        return any(result.case.severity.reaches(threshold) for result in self.unexplained) or any(
            result.lacks_verdict(threshold, on_inconclusive=on_inconclusive) for result in self.results
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which rules about the service came up, and with what result."""

    held: list[str]
    broken: list[str]
    inconclusive: list[str]
    """Those that could not be decided at least once, even if they held otherwise."""
    not_reached: list[str]
    noted: list[str]
    """Those with notes only, which break no case."""

    @classmethod
    def of(cls, tallies: Mapping[str, Tally], selected: frozenset[str], broken: Container[str]) -> "Coverage":
        """Count each selected rule by its verdict, as the summary of the report does.

        `broken` are those with findings above a note.
        """
        codes: dict[Verdict, list[str]] = {verdict: [] for verdict in Verdict}
        for code in sorted(SERVICE_RULES & selected):
            codes[tallies[code].verdict].append(code)
        failed = codes[Verdict.FAIL]
        return cls(
            codes[Verdict.PASS],
            [code for code in failed if code in broken],
            codes[Verdict.INCONCLUSIVE],
            codes[Verdict.NOT_EXERCISED],
            [code for code in failed if code not in broken],
        )

    def __str__(self) -> str:
        exercised = len(self.held) + len(self.broken) + len(self.noted)
        rules = count_of(exercised + len(self.inconclusive) + len(self.not_reached), "rule")
        noted = f", {len(self.noted)} with notes only" if self.noted else ""
        inconclusive = f"{len(self.inconclusive)} inconclusive, " if self.inconclusive else ""
        return (
            f"{exercised} of {rules} about the service exercised: {len(self.held)} held, {len(self.broken)} broken"
            f"{noted}; {inconclusive}{len(self.not_reached)} not reached"
        )


def case_lines(cases: CaseResults, coverage: Coverage) -> Iterator[Line]:
    """Yield the cases that did not hold, the coverage, how to reproduce broken rules, and the totals of the cases."""
    for verdict in (CaseVerdict.BROKEN, CaseVerdict.INCONCLUSIVE, CaseVerdict.NOT_POSSIBLE):
        names: dict[tuple[str, Severity | None], list[str]] = {}
        for result in cases.results:
            if result.verdict is verdict:
                names.setdefault((result.problem, result.severity), []).append(result.case.name)
        for (problem, severity), (first, *others) in names.items():
            text = f"{problem} ({', '.join([first, *others])})" if others else f"{first}: {problem}"
            yield labelled((f"{verdict:<13} ", severity or "dim"), text if severity else (text, "dim"))
    yield labelled(("coverage: ", "dim"), f"{coverage}")
    by_reason: dict[str, list[str]] = {}
    for code in coverage.not_reached:
        by_reason.setdefault(cases.not_reached.get(code, ""), []).append(code)
    for reason, codes in by_reason.items():
        yield labelled(("not reached: ", "dim"), (f"{', '.join(codes)}, because {reason}", "dim"))
    for each in cases.reproductions:
        tape = shlex.quote(str(each.tape))
        if each.problem:
            text = f"{each.problem}; wiretape show {tape}; the requests of that case:"
            yield labelled((f"reproduce {each.code}: ", "dim"), text)
        else:
            smaller = f", {count_of(each.removed, 'step')} fewer than {each.case}" if each.removed else ""
            yield labelled(
                (f"reproduce {each.code}: ", "dim"), f"{count_of(each.steps, 'step')}{smaller}; wiretape show {tape}"
            )
        yield from (Line([("    " + line, "dim")], "keep") for line in each.curl)
    yield wrapped(totals(cases))


def totals(cases: CaseResults) -> str:
    """Return how many cases have each verdict."""
    counts = ", ".join(f"{number} {verdict}" for verdict, number in cases.counts.items() if number) or "none ended"
    left = count_of(cases.sessions_left, "session")
    return f"{count_of(len(cases.results), 'case')}: {counts} · seed {cases.seed} · left behind: {left}"


def case_document(result: CaseResult) -> dict[str, Any]:
    """Return a case for programs."""
    case = result.case
    return {
        "name": case.name,
        "verdict": result.verdict,
        "severity": result.severity,
        "reason": result.reason or None,
        "broken": result.broken_rules,
        "exercised": sorted(result.exercised),
        "findings": len(result.findings),
        "in_baseline": result.verdict is CaseVerdict.BROKEN and result.severity is None,
        **members_of(case, "about", "clause", "steps", "leaves"),
        "safe": case.is_safe,
    }


def probe_document(cases: CaseResults, coverage: Coverage) -> dict[str, Any]:
    """Return everything except the cases for programs."""
    return {
        "seed": cases.seed,
        "sessions_left": cases.sessions_left,
        "cases": cases.counts,
        "coverage": asdict(coverage)
        | {"not_reached": {code: cases.not_reached.get(code, "") for code in coverage.not_reached}},
        "reproductions": [
            {
                **members_of(each, "code", "case", "steps"),
                "removed_steps": None if each.problem else each.removed,
                "tape": each.tape.name,
                "curl": list(each.curl),
            }
            for each in cases.reproductions
        ],
    }


# In the recording of a probe.

_AGENT = "wiretape-probe"
_IS_NEW = "a session is new if its sequences begin with 0 or 1, or the path of create-session.request ends in /sessions"
_REMEDIES = {
    **dict.fromkeys(("EVT007", "EVT008", "TOOL001", "TOOL004", "TOOL005"), "let the run of runs.plain call a tool"),
    "RUN003": "the service need not store these events",
    "RUN005": _IS_NEW,
    "TOOL002": f"let the run of runs.plain call a tool; {_IS_NEW}",
    "TOOL003": "let the run of runs.plain call a tool; the service need not store these events",
    "RUN004": "the service may not send it",
    "ERR005": "the specification does not require details",
    "SSE010": "the specification does not define it",
}
"""What to change, or why it is not a defect, if the cases held without exercising a rule."""


class _StoredCase(msgspec.Struct):
    """A case and its result as they are stored.  The file may come from a stranger."""

    case: CaseDescription
    outcome: CaseVerdict
    reason: str
    exercised: frozenset[_Code]
    sessions_left: int


class _StoredProbe(msgspec.Struct):
    """What is stored."""

    base_url: str
    seed: int
    cases: list[_StoredCase]


def user_agent(case_name: str) -> str:
    """The User-Agent of a case's requests, which shows in logs and recordings whose they are."""
    return f"{_AGENT} ({case_name})"


def case_name_of(agent: str | None) -> str | None:
    """Return the name of the case whose request it is; None if it is not the probe's."""
    text = agent or ""
    return text[len(_AGENT) + 2 : -1] if text.startswith(f"{_AGENT} (") and text.endswith(")") else None


def encode_results(cases: CaseResults, base_url: str) -> str:
    """Encode the results of a probe of the service at `base_url`, without what the recording shows."""
    stored = msgspec.convert(cases.results, list[_StoredCase], from_attributes=True)
    return msgspec.json.encode(_StoredProbe(base_url, cases.seed, stored)).decode()


def _decode(recording: Recording) -> _StoredProbe | None:
    text = recording.info.probe
    if text is None:
        return None
    try:
        stored = msgspec.json.decode(text, type=_StoredProbe)
        parse_service_base(stored.base_url)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RecordingError(f"{recording.path} has invalid results of wiretape probe: {error}.") from None
    return stored


def decode_results(recording: Recording) -> CaseResults | None:
    """Decode the results in a recording; None if it is not that of a probe.  Raises RecordingError."""
    stored = _decode(recording)
    if stored is None:
        return None
    results = []
    for each in stored.cases:
        texts = {name: printable(getattr(each.case, name)) for name in ("clause", "steps", "leaves", "about")}
        case = replace(each.case, **texts)  # type: ignore[arg-type]  # all of them are strings
        results.append(CaseResult(case, each.outcome, each.reason, each.exercised, sessions_left=each.sessions_left))
    return CaseResults(results, stored.seed)


def applicable(recording: Recording, settings: Settings, selected: frozenset[str]) -> tuple[Settings, frozenset[str]]:
    """Return the settings and the rules for a recording.  Raises RecordingError.

    A probe breaks the rules about clients on purpose, and knows the base of the service.
    """
    stored = _decode(recording)
    if stored is None or settings.contracts:
        return settings, selected
    return replace(settings, base=settings.base or parse_service_base(stored.base_url)), selected & SERVICE_RULES


def why_not_reached(code: str, results: Sequence[CaseResult]) -> str:
    """Return why no case exercised a rule: a clause that can follow `because`."""
    meant = [result for result in results if code in result.case.rules]
    if any(result.verdict is CaseVerdict.HELD for result in meant) or not meant:
        why = CATALOGUE[code].explanation.not_exercised.rstrip(".")
        remedy = _REMEDIES.get(code) if meant or code == "SSE010" else "no case that ran is meant to exercise it"
        return f"{why[:1].lower()}{why[1:]}" + (f" ({remedy})" if remedy else "")
    if any(result.verdict is CaseVerdict.BROKEN for result in meant):
        return "the cases that were to exercise it are broken"
    return "; ".join(dict.fromkeys(result.reason.rstrip(".") for result in meant))
