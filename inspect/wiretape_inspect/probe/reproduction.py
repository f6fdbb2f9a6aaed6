"""Reproduce a broken rule: the fewest and simplest steps that still break it, as curl commands and as a tape."""

import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wiretape.checker import Checker
from wiretape.errors import InputError
from wiretape.files import replace_atomically
from wiretape.observations import BytesArrived, Observation, RequestStarted, ResponseStarted, Side, header
from wiretape.recording import Recording, RecordingMetadata, RecordingSource, build_recording, open_recording
from wiretape.recording.formats import find_format
from wiretape.rules import Finding, Severity
from wiretape_inspect.minimize import minimize
from wiretape_inspect.probe.probe_runner import ProbeRunner, uses_setup
from wiretape_inspect.probe.probe_steps import Close, Read, Send, Step, UnknownNameError, names_in
from wiretape_inspect.probe.reproduction_script import Defect, curl_lines
from wiretape_inspect.report import Report, check_recording
from wiretape_inspect.report.case_results import SETUP, CaseResults, Reproduction, case_name_of
from wiretape_inspect.report.recording_report import add_cases

_MOST_TRIES = 40
_MOST_SECONDS = 60.0
"""For all attempts with one rule."""
_SHORTEST_WAIT_S = 0.05


@dataclass(frozen=True, slots=True)
class Attempt:
    """Steps that break a rule, and what they showed."""

    steps: list[Step]
    seen: list[Observation]
    finding: Finding

    @property
    def size(self) -> int:
        """Bytes of all responses."""
        return sum(len(one.data) for one in self.seen if isinstance(one, BytesArrived) and one.side is Side.RESPONSE)


@dataclass(slots=True)
class Shrinker:
    """Repeats the steps of a case without some of them, as long as a rule stays broken."""

    runner: ProbeRunner
    code: str
    case_name: str
    _tries: int = _MOST_TRIES
    _until_s: float = 0.0
    _attempt_s: float = 0.0
    """The longest that an attempt may take: longer than the first one did."""
    is_impossible: bool = False
    """Whether an attempt ended before its last step, or lacks a response."""

    async def shrink(self, steps: Sequence[Step]) -> Attempt | None:
        """Return the smallest steps that break the rule whenever they are repeated; None if all steps do not."""
        began_s = time.monotonic()
        self._until_s, self._attempt_s = began_s + _MOST_SECONDS, self.runner.setup.options.timeout_s
        kept = await self._attempt(list(steps))
        if kept is None:
            return None
        self._attempt_s = min(self._attempt_s, 2 * (time.monotonic() - began_s) + 1)
        larger = [kept]
        if (found := await self._attempt(_up_to(kept))) is not None:
            larger.append(found)
        for kind, smaller in (
            (Send, _without_each),
            (Send, self._smaller),
            (Read | Close, _without_each),
            (Send | Read, _simpler),
        ):
            index = len(larger[-1].steps)
            while index > 0:
                kept = larger[-1]
                index = min(index, len(kept.steps)) - 1
                for candidate in smaller(kept.steps, index) if isinstance(kept.steps[index], kind) else ():
                    found = await self._attempt(candidate)
                    if found is not None and (smaller != self._smaller or found.size < kept.size):
                        larger.append(found)
                        # A step can be simpler in several ways.
                        index += smaller is _simpler
                        break
        return await self._confirm(larger)

    async def _confirm(self, larger: list[Attempt]) -> Attempt:
        """Return the smallest attempt that breaks the rule once more; the first one if none does."""
        while len(larger) > 1:
            self._tries = max(self._tries, 1)
            self._until_s = math.inf
            if (found := await self._attempt(larger[-1].steps)) is not None:
                return found
            larger.pop()
        return larger[0]

    async def _attempt(self, steps: list[Step]) -> Attempt | None:
        """Return what the steps showed if they break the rule."""
        self._tries -= 1
        if self._tries < 0 or time.monotonic() > self._until_s:
            return None
        try:
            seen = await self.runner.repeat(steps, self.case_name, self._attempt_s)
        except (UnknownNameError, TimeoutError):
            self.is_impossible = True
            return None
        requests = _requests(seen)
        self.is_impossible |= len(requests) > sum(isinstance(one, ResponseStarted) for one in seen)
        # What follows the steps only cleans up.
        found = _find(self.runner, seen, self.code, requests[: sum(isinstance(step, Send) for step in steps)])
        return None if found is None else Attempt(steps, seen, found)

    def _smaller(self, steps: Sequence[Step], index: int) -> Iterator[list[Step]]:
        """Yield the steps with a request that lets the service do less."""
        step, setup = steps[index], self.runner.setup
        for smaller in setup.suite.make_smaller(setup.file, step) if isinstance(step, Send) else ():
            if smaller != step:
                yield [*steps[:index], smaller, *steps[index + 1 :]]


def _up_to(attempt: Attempt) -> list[Step]:
    """Return the steps without the requests that followed the defect, and without what needs these."""
    last = sum(isinstance(one, RequestStarted) and one.time_ns <= attempt.finding.time_ns for one in attempt.seen)
    sent = 0
    kept: list[Step] = []
    for step in attempt.steps:
        sent += isinstance(step, Send)
        if sent <= last or not isinstance(step, Send):
            kept.append(step)
    known = {name for step in kept if isinstance(step, Send) for name in _produced(step)}
    return [step for step in kept if names_in(step) <= known]


def _without_each(steps: Sequence[Step], index: int) -> Iterator[list[Step]]:
    """Yield the steps without one, and without those that need what it produced."""
    kept, missing = list(steps[:index]), _produced(steps[index])
    removed = steps[index]
    is_cause = isinstance(removed, Send) and removed.causes_events
    for step in steps[index + 1 :]:
        # Without its cause, an event never arrives.
        waits = is_cause and isinstance(step, Read) and step.seconds is None
        if names_in(step) & missing or waits:
            missing |= _produced(step)
        else:
            kept.append(step)
    yield kept


def _produced(step: Step) -> set[str]:
    return {name for name in (step.id_name, step.stream) if name} if isinstance(step, Send) else set()


def _simpler(steps: Sequence[Step], index: int) -> Iterator[list[Step]]:
    """Yield the steps with one of them simpler, the simplest first."""
    step = steps[index]
    found: list[Step] = []
    if isinstance(step, Send):
        path, _, query = step.target.partition("?")
        needed = tuple((name, value) for name, value in step.headers if name not in {"Accept", "Content-Type"})
        found += [replace(step, is_slow=False)] if step.is_slow else []
        found += [replace(step, target=path)] if query else []
        found += [replace(step, headers=needed)] if needed != step.headers else []
        has_choice = step.body not in {None, "{}"} and not step.causes_events
        found += [replace(step, body="{}")] if has_choice else []
    elif isinstance(step, Read) and step.seconds is not None and step.seconds > _SHORTEST_WAIT_S:
        found += [replace(step, seconds=_SHORTEST_WAIT_S), replace(step, seconds=step.seconds / 2)]
    for simpler in found:
        yield [*steps[:index], simpler, *steps[index + 1 :]]


async def reproduce(
    runner: ProbeRunner, code: str, case_name: str, recorded: Sequence[Observation], tape: Path
) -> Reproduction:
    """Find the smallest reproduction of a rule that a case broke, and write its tape.  Raises InputError.

    If the rule holds when the case is repeated, the tape has what was `recorded` of the case.
    """
    setup = runner.setup
    all_steps = steps = runner.all_steps(case_name)
    # After an attempt, fewer requests are enough to exceed a limit.
    is_repeated = case_name == SETUP or not setup.suite.cases[case_name].needs_limits
    shrinker = Shrinker(runner, code, case_name)
    found = await shrinker.shrink(steps) if is_repeated else None
    problem = ""
    if found is None:
        seen, defect = recorded, _recorded_defect(runner, code, steps, recorded)
        held = f"the rule held when {case_name} was repeated"
        problem = f"{case_name} could not be repeated" if shrinker.is_impossible else held
    else:
        steps, seen = found.steps, found.seen
        defect = Defect(code, _requests(seen).index(found.finding.exchange) + 1)
    _write_tape(setup.file.base_url, code, seen, tape)
    script = tuple(curl_lines(setup.suite.script, setup.file, steps, defect, setup.options.timeout_s))
    removed = len(all_steps) - len(steps)
    return Reproduction(code, case_name, script, len(steps), removed, tape, problem if is_repeated else "")


def _recorded_defect(
    runner: ProbeRunner, code: str, steps: Sequence[Step], recorded: Sequence[Observation]
) -> Defect | None:
    """Return the defect that a recording of all steps shows; None if its requests are others."""
    before = 0 if uses_setup(steps) else runner.setup_requests
    requests = _requests(recorded)[before : before + sum(isinstance(step, Send) for step in steps)]
    finding = _find(runner, recorded, code, requests)
    return None if finding is None else Defect(code, requests.index(finding.exchange) + 1)


def _requests(seen: Sequence[Observation]) -> list[int]:
    """The numbers of the exchanges, in the order of their requests."""
    return [one.exchange for one in seen if isinstance(one, RequestStarted)]


def _find(runner: ProbeRunner, seen: Sequence[Observation], code: str, requests: Collection[int]) -> Finding | None:
    """The first finding of a rule about one of some requests."""
    findings = list(Checker(runner.setup.selected_settings).check(seen))
    return next((each for each in findings if each.code == code and each.exchange in requests), None)


def _write_tape(base_url: str, code: str, seen: Sequence[Observation], path: Path) -> None:
    try:
        observations: Sequence[Observation] = minimize(lambda: iter(seen), code, upstream=base_url).observations
    except InputError:
        # It shows only with the base URL of the probe file.
        observations = seen
    metadata = RecordingMetadata(base_url, time.time_ns())
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        recording_path = Path(folder) / "smallest.db"
        build_recording(RecordingSource(metadata, iter(observations)), recording_path)
        with open_recording(recording_path) as recording, replace_atomically(path, 0o600) as out:
            out.writelines(find_format("tape").write(recording, None))


async def judge(
    recording: Recording,
    cases: CaseResults,
    runner: ProbeRunner,
    apply_baseline: Callable[[Sequence[Report]], object] = lambda _reports: None,
) -> Report:
    """Check the recording of a probe, apply a baseline, and reproduce each rule that is broken besides."""
    setup = runner.setup
    report = check_recording(recording, str(setup.record), settings=setup.settings, selected=setup.selected)
    report = add_cases(report, cases)
    apply_baseline([report])
    reproductions = []
    for code in report.broken if setup.options.shrink else ():
        found = [each.case.name for each in cases.results if any(one.code == code for one in each.findings.values())]
        name = min(found, key=lambda name: (len(runner.all_steps(name)), name), default=None)
        if name is not None:
            tape = setup.record.with_name(f"{setup.record.stem}.{code}.tape")
            recorded = _observations_of_cases(recording, {name, SETUP})
            reproduction = await reproduce(runner, code, name, recorded, tape)
            # A note that does not come again, such as a gap due to another session, is not worth a script.
            if reproduction.problem and (code, Severity.NOTE) in report.counts:
                tape.unlink()
            else:
                reproductions.append(reproduction)
    assert report.cases is not None  # noqa: S101 - just set
    return replace(report, cases=replace(report.cases, reproductions=reproductions))


def _observations_of_cases(recording: Recording, cases: Collection[str]) -> list[Observation]:
    """Return what a recording has of some cases."""
    agents = ((each.number, header(each.request.headers, "User-Agent")) for each in recording.exchanges())
    numbers = {number for number, agent in agents if case_name_of(agent) in cases}
    return [seen for seen in recording.observations() if seen.exchange in numbers]
