"""Reproduce a broken rule: the fewest and simplest steps that still break it, as curl commands and as a tape."""

import re
import shlex
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wiretape.contract import AGENT_CUSTOM_TOOL_USE, AUTHORIZATION
from wiretape.errors import InputError
from wiretape.files import replace_atomically
from wiretape.observations import Observation
from wiretape.recording import RecordingMetadata, RecordingSource, build_recording, open_recording
from wiretape.recording.formats import find_format
from wiretape.rules import Checker
from wiretape_inspect.probe.probe_file import ProbeFile
from wiretape_inspect.probe.probe_runner import ProbeRunner
from wiretape_inspect.probe.probe_steps import NAME, Close, Read, Send, Step, UnknownNameError, names_in
from wiretape_inspect.report.case_results import Reproduction
from wiretape_inspect.trim.minimize import minimize

_MOST_TRIES = 40
_MOST_SECONDS = 60.0
"""For all attempts with one rule."""
_SHORTEST_WAIT_S = 0.05


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

    async def shrink(self, steps: Sequence[Step]) -> tuple[list[Step], list[Observation]] | None:
        """Return the smallest steps that break the rule, and what they showed; None if all steps do not break it."""
        began_s = time.monotonic()
        self._until_s, self._attempt_s = began_s + _MOST_SECONDS, self.runner.options.timeout_s
        kept = list(steps)
        seen = await self._attempt(kept)
        if seen is None:
            return None
        self._attempt_s = min(self._attempt_s, 2 * (time.monotonic() - began_s) + 1)
        for smaller in (_without_each, _simpler):
            index = len(kept)
            while index > 0:
                index = min(index, len(kept)) - 1
                for candidate in smaller(kept, index):
                    found = await self._attempt(candidate)
                    if found is not None:
                        kept, seen = candidate, found
                        break
        return kept, seen

    async def _attempt(self, steps: Sequence[Step]) -> list[Observation] | None:
        """Return what the steps showed if they break the rule."""
        self._tries -= 1
        if self._tries < 0 or time.monotonic() > self._until_s:
            return None
        try:
            seen = await self.runner.repeat(steps, self.case_name, self._attempt_s)
        except (UnknownNameError, TimeoutError):
            return None
        checker = Checker(self.runner.settings)
        found = [finding for one in seen for finding in checker.feed(one)] + checker.finish()
        return seen if self.code in {finding.code for finding in found} else None


def _without_each(steps: Sequence[Step], index: int) -> Iterator[list[Step]]:
    """Yield the steps without one, and without those that need what it produced."""
    kept, missing = list(steps[:index]), _produced(steps[index])
    is_run = any("run-" in name for name in missing)
    for step in steps[index + 1 :]:
        # Without its run, an event never arrives.
        waits_for_run = is_run and isinstance(step, Read) and step.seconds is None
        if names_in(step) & missing or waits_for_run:
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
        found += [replace(step, target=path)] if query else []
        found += [replace(step, headers=needed)] if needed != step.headers else []
        found += [replace(step, body="{}")] if step.body not in {None, "{}"} else []
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
    steps = runner.all_steps(case_name)
    found = await Shrinker(runner, code, case_name).shrink(steps)
    if found is None:
        _write_tape(runner.file, code, list(recorded), tape)
        return Reproduction(code, case_name, tuple(curl_lines(runner.file, steps)), len(steps), None, tape)
    smallest, seen = found
    _write_tape(runner.file, code, seen, tape)
    script = tuple(curl_lines(runner.file, smallest))
    return Reproduction(code, case_name, script, len(smallest), len(steps) - len(smallest), tape)


def _write_tape(file: ProbeFile, code: str, seen: list[Observation], path: Path) -> None:
    try:
        observations = minimize(lambda: iter(seen), code, upstream=file.base_url).observations
    except InputError:
        # It shows only with the base URL of the probe file.
        observations = seen
    metadata = RecordingMetadata(file.base_url, time.time_ns())
    with tempfile.TemporaryDirectory(prefix="wiretape-") as folder:
        recording_path = Path(folder) / "smallest.db"
        build_recording(RecordingSource(metadata, iter(observations)), recording_path)
        with open_recording(recording_path) as recording, replace_atomically(path, 0o600) as out:
            out.writelines(find_format("tape").writer().write(recording, None))


# As curl commands.


def curl_lines(file: ProbeFile, steps: Sequence[Step]) -> Iterator[str]:
    """Yield a shell script that executes steps; it needs curl, and jq if ids have to be read."""
    yield f"SERVICE={shlex.quote(file.origin)}"
    used = set().union(*map(names_in, steps))
    for step in steps:
        if isinstance(step, Send):
            yield _curl(file, step if step.id_name in used else replace(step, id_name=None))
        elif isinstance(step, Close):
            yield f"kill ${_variable(step.stream)}"
        elif step.seconds is not None:
            yield f"sleep {step.seconds:g}"
        else:
            yield f"until grep -q {_pattern(step)} {step.stream}.sse; do sleep 0.1; done"


def _curl(file: ProbeFile, step: Send) -> str:
    parts = ["curl -sS"]
    if step.stream is not None:
        parts.append("-N")
    elif step.id_name is None:
        parts.append("-i")
    if step.method != "GET":
        parts.append(f"-X {step.method}")
    parts.append(f'"$SERVICE"{_shell_text(step.target)}')
    if step.key is not None:
        variable = getattr(file.keys, step.key.replace("-", "_"))
        parts.append(f'-H "{AUTHORIZATION}: Bearer ${variable}"')
    parts += [f"-H {_shell_text(f'{name}: {value}')}" for name, value in step.headers]
    if step.body is not None:
        parts.append(f"--data {_shell_text(step.body)}" if len(step.body) < _MOST_SHOWN else "--data @large-body.json")
    command = " ".join(parts)
    if step.stream is not None:
        return f"{command} > {step.stream}.sse & {_variable(step.stream)}=$!"
    if step.id_name is not None:
        path = shlex.quote(_jq_path(step.id_pointer))
        return f"{_variable(step.id_name)}=$({command} | tee /dev/stderr | jq -r {path})"
    return f"{command} &" if step.is_started_only else command


_MOST_SHOWN = 2000
"""Bytes of a body that a command contains."""


def _shell_text(text: str) -> str:
    """Quote a text in which names stand for ids."""
    parts = enumerate(NAME.split(text))
    return "".join(_shell_id(part) if number % 2 else shlex.quote(part) for number, part in parts if part)


def _shell_id(name: str) -> str:
    stream, _, part = name.partition(".")
    if not part:
        return f'"${_variable(name)}"'
    kind, number = part.split("-")
    if kind == "id":
        return f"\"$(sed -n 's/^id: *//p' {stream}.sse | sed -n {number}p)\""
    field = '"tool_call_id": *"[^"]*"'
    calls = f"grep {AGENT_CUSTOM_TOOL_USE} {stream}.sse"
    return f'"$({calls} | grep -o {shlex.quote(field)} | cut -d\'"\' -f4 | uniq | sed -n {number}p)"'


def _pattern(step: Read) -> str:
    if step.comment:
        return "'^:'"
    if step.until_id is not None:
        return f'"^id: *"{_shell_text(step.until_id)}'
    if step.durable:
        return "'^id:'"
    if not step.until and step.run is not None:
        return f'"\\"run_id\\": *\\""{_shell_text(step.run)}'
    types = "\\|".join(map(re.escape, step.until))
    return shlex.quote(f"^event: *\\({types}\\)")


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")


def _jq_path(pointer: str) -> str:
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    parts = (f"[{key}]" if key.isdigit() else f".{key}" if key.isidentifier() else f'["{key}"]' for key in keys)
    path = "".join(parts)
    return path if path.startswith(".") else f".{path}"
