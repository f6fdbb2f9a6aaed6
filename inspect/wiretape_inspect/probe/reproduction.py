"""Reproduce a broken rule: the fewest and simplest steps that still break it, as curl commands and as a tape."""

import json
import math
import re
import shlex
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

from wiretape.contract import AGENT_CUSTOM_TOOL_USE, AUTHORIZATION, CURSOR_HEADER, KEEP_ALIVE_SECONDS
from wiretape.errors import InputError
from wiretape.files import replace_atomically
from wiretape.observations import BytesArrived, Observation, RequestStarted, ResponseStarted, Side
from wiretape.recording import RecordingMetadata, RecordingSource, build_recording, open_recording
from wiretape.recording.formats import find_format
from wiretape.rules import CATALOGUE, Checker, Finding
from wiretape_inspect.probe.defect_checks import CALL_ID, DEFECT_CHECKS, Scope
from wiretape_inspect.probe.probe_case import CASES
from wiretape_inspect.probe.probe_file import ProbeFile
from wiretape_inspect.probe.probe_runner import ProbeRunner
from wiretape_inspect.probe.probe_steps import NAME, Close, Read, Send, Step, UnknownNameError, names_in
from wiretape_inspect.report.case_results import SETUP, Reproduction
from wiretape_inspect.trim.minimize import minimize

_MOST_TRIES = 40
_MOST_SECONDS = 60.0
"""For all attempts with one rule."""
_SHORTEST_WAIT_S = 0.05


SESSION_NAME = re.compile(r"<<([a-z-]*session-[0-9]+)>>")


@dataclass(frozen=True, slots=True)
class Defect:
    """What the script has to show."""

    code: str
    request: int
    """The number of the request whose response shows it."""


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
        self._until_s, self._attempt_s = began_s + _MOST_SECONDS, self.runner.options.timeout_s
        kept = await self._attempt(list(steps))
        if kept is None:
            return None
        self._attempt_s = min(self._attempt_s, 2 * (time.monotonic() - began_s) + 1)
        larger = [kept]
        if (found := await self._attempt(_up_to(kept))) is not None:
            larger.append(found)
        for kind, smaller in (
            (Send, _without_each),
            (Send, self._smaller_runs),
            (Read | Close, _without_each),
            (Send | Read, _simpler),
        ):
            index = len(larger[-1].steps)
            while index > 0:
                kept = larger[-1]
                index = min(index, len(kept.steps)) - 1
                for candidate in smaller(kept.steps, index) if isinstance(kept.steps[index], kind) else ():
                    found = await self._attempt(candidate)
                    if found is not None and (smaller != self._smaller_runs or found.size < kept.size):
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
        findings = _check(self.runner, seen)
        # What follows the steps only cleans up.
        requests = [one.exchange for one in seen if isinstance(one, RequestStarted)]
        self.is_impossible |= len(requests) > sum(isinstance(one, ResponseStarted) for one in seen)
        own = set(requests[: sum(isinstance(step, Send) for step in steps)])
        found = next((each for each in findings if each.code == self.code and each.exchange in own), None)
        return None if found is None else Attempt(steps, seen, found)

    def _smaller_runs(self, steps: Sequence[Step], index: int) -> Iterator[list[Step]]:
        """Yield the steps with a run of a kind that does less."""
        step, create = steps[index], self.runner.file.create_run
        if _creates_run(step) and create is not None:
            for body in (self.runner.file.runs.failing, self.runner.file.runs.plain):
                text = json.dumps(create.body | (body or {}), ensure_ascii=False)
                smaller = replace(step, body=text)
                if body is not None and smaller != step:
                    yield [*steps[:index], smaller, *steps[index + 1 :]]


def _creates_run(step: Step) -> TypeGuard[Send]:
    return isinstance(step, Send) and "run-" in (step.id_name or "")


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
        found += [replace(step, is_slow=False)] if step.is_slow else []
        found += [replace(step, target=path)] if query else []
        found += [replace(step, headers=needed)] if needed != step.headers else []
        has_choice = step.body not in {None, "{}"} and not _creates_run(step)
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
    steps, limit_s = runner.all_steps(case_name), runner.options.timeout_s
    # After an attempt, fewer requests are enough to exceed a limit.
    is_repeated = case_name == SETUP or not CASES[case_name].needs_limits
    shrinker = Shrinker(runner, code, case_name)
    found = await shrinker.shrink(steps) if is_repeated else None
    if found is None:
        _write_tape(runner.file, code, list(recorded), tape)
        defect = _recorded_defect(runner, code, steps, recorded)
        script = tuple(curl_lines(runner.file, steps, defect, limit_s))
        held = f"the rule held when {case_name} was repeated"
        problem = f"{case_name} could not be repeated" if shrinker.is_impossible else held
        return Reproduction(code, case_name, script, len(steps), 0, tape, problem if is_repeated else "")
    _write_tape(runner.file, code, found.seen, tape)
    requests = [one.exchange for one in found.seen if isinstance(one, RequestStarted)]
    defect = Defect(code, requests.index(found.finding.exchange) + 1)
    script = tuple(curl_lines(runner.file, found.steps, defect, limit_s))
    return Reproduction(code, case_name, script, len(found.steps), len(steps) - len(found.steps), tape)


def _recorded_defect(
    runner: ProbeRunner, code: str, steps: Sequence[Step], recorded: Sequence[Observation]
) -> Defect | None:
    """Return the defect that a recording of all steps shows; None if its requests are others."""
    sent = [step for step in steps if isinstance(step, Send)]
    made = [one.exchange for one in recorded if isinstance(one, RequestStarted)]
    before = 0 if runner.uses_ready_session(steps) else runner.setup_requests
    requests = made[before : before + len(sent)]
    finding = next((each for each in _check(runner, recorded) if each.code == code and each.exchange in requests), None)
    return None if finding is None else Defect(code, requests.index(finding.exchange) + 1)


def _check(runner: ProbeRunner, seen: Iterable[Observation]) -> list[Finding]:
    checker = Checker(runner.settings)
    return [finding for one in seen for finding in checker.feed(one)] + checker.finish()


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


# As a script.

_HELPERS = r"""FOLDER=$(mktemp -d) && cd "$FOLDER" || exit 2
trap 'kill $(jobs -p) 2>/dev/null; rm -r "$FOLDER"' EXIT
curl -sS -m 10 -o ready.txt "$SERVICE" || exit 2
show() {  # responses, as JSON
  for n in "$@"; do sed 's/\r$//' $n.http | tr '\r' '\n' | jq -Rsc 'split("\n\n") as $b | {
    status: (if $b[1] then $b[0] | split(" ")[1] | tonumber else 0 end), head: $b[0], rest: $b[-1],
    body: ($b[1:] | join("\n\n") | fromjson? // null), comments: [$b[1:][] | split("\n")[] | select(startswith(":"))],
    events: [$b[1:-1][] | split("\n") as $l
      | def get(n): [$l[] | select(startswith(n + ":")) | .[(n | length) + 1:] | ltrimstr(" ")];
      {event: get("event")[-1], id: get("id")[-1], data: (get("data") | join("\n") | fromjson? // null), lines: $l}
      | .type = (.data.type? // .event)]}'; done
}
await() {  # await PROCESS FILTER RESPONSE: wait up to LIMIT seconds, or until the process ends
  for _ in {1..LIMIT0}; do
    show $3 2>/dev/null | jq -e "$2" >/dev/null && return
    kill -0 $1 2>/dev/null || return; sleep 0.1
  done
  echo "Not seen in LIMIT seconds: $2" >&2; exit 2
}"""
"""What every script begins with."""


def curl_lines(file: ProbeFile, steps: Sequence[Step], defect: Defect | None, limit_s: float = 30) -> Iterator[str]:
    """Yield the script for bash that executes steps, with curl and jq, and looks for a defect.

    It ends with status 1 if the service has the defect, 0 if it does not, and 2 if the steps are not possible.
    """
    limit = math.ceil(max(limit_s, _SHORTEST_LIMIT_S))
    yield f"( SERVICE=${{SERVICE:-{shlex.quote(file.origin)}}}"
    variables = sorted({file.keys.variable(step.key) or "" for step in steps if isinstance(step, Send) and step.key})
    yield from (f'[ "${name}" ] || {{ echo "{name} is not set." >&2; exit 2; }}' for name in variables)
    yield from _HELPERS.replace("LIMIT0", str(10 * limit)).replace("LIMIT", str(limit)).splitlines()
    script = _Script(file, steps)
    for step in steps:
        yield from script.lines_of(step)
    yield from script.end()
    if defect is not None:
        yield script.check(defect)
    else:
        yield ")"


class _Script:
    """Writes steps as commands."""

    def __init__(self, file: ProbeFile, steps: Sequence[Step]) -> None:
        self._file = file
        self._used = set().union(*map(names_in, steps))
        self._sent: list[Send] = []
        self._streams: dict[str, int] = {}
        """The number of the request for each stream."""
        self._started: dict[int, Send] = {}
        """The requests whose responses are not waited for yet, by their numbers."""

    def lines_of(self, step: Step) -> Iterator[str]:
        """Yield the commands for a step."""
        if isinstance(step, Close):
            yield f"kill ${_variable(step.stream)} 2>/dev/null"
        elif isinstance(step, Read):
            yield f"sleep {step.seconds:g}" if step.seconds is not None else self._await(step.stream, _wanted(step))
        else:
            self._sent.append(step)
            yield from self._send(step, len(self._sent))

    def end(self) -> Iterator[str]:
        """Yield the commands that wait for what still has to arrive."""
        yield from self._wait()
        if self._streams:
            yield "sleep 1"

    def _wait(self) -> Iterator[str]:
        if self._started:
            yield "wait " + " ".join(f"$REQUEST_{number}" for number in self._started)
        for number, step in self._started.items():
            yield from self._set_id(step, number)
        self._started.clear()

    def check(self, defect: Defect) -> str:
        """Return the last line, which looks for a defect."""
        check, number = DEFECT_CHECKS[defect.code], defect.request
        sent = self._sent[number - 1]
        names = SESSION_NAME.findall(sent.target)
        streams = [request for name, request in self._streams.items() if names[:1] == self._sessions_of(request)[:1]]
        shown = {Scope.ALL: [*range(1, len(self._sent) + 1)], Scope.SESSION: [*({*streams} - {number}), number]}
        text = {Scope.EVENT: f".events[] | select({check.filter})", Scope.RESPONSE: f"select({check.filter})"}
        if check.scope is Scope.LINES:
            found = check.filter.replace("{file}", f"{number}.http")
        else:
            options = "-sc" if check.scope in shown else "-c"
            session = _variable(names[0]) if names else ""
            cursor = next((value for name, value in sent.headers if name == CURSOR_HEADER), "")
            given = (("session", f'"${session}"'), ("cursor", self._text(cursor) or "''"))
            options += "".join(f" --arg {name} {value}" for name, value in given if f"${name}" in check.filter)
            numbers = " ".join(map(str, shown.get(check.scope, [number])))
            found = f"show {numbers} | jq {options} {shlex.quote(text.get(check.scope, check.filter))}"
        if defect.code == _ONLY_AT_THE_END:
            found = f"kill -0 ${_variable(sent.stream or '')} 2>/dev/null || {found}"
        # The message of the finding has ids and numbers of another run.
        about = re.split(r"\.\s", CATALOGUE[defect.code].about, maxsplit=1)[0]
        message = shlex.quote(f"{defect.code}: {about.rstrip('.')}.")
        return f"if {{ {found}; }} | grep .; then echo {message}; exit 1; fi )"

    def _sessions_of(self, request: int) -> list[str]:
        return SESSION_NAME.findall(self._sent[request - 1].target)

    def _send(self, step: Send, number: int) -> Iterator[str]:
        command = " ".join(filter(None, self._curl(step, number)))
        if step.stream is not None:
            self._streams[step.stream] = number
            yield f"{command} & {_variable(step.stream)}=$!"
            yield self._await(step.stream, "select(.status > 0)")
            yield from self._wait()
            return
        if step.is_started_only:
            self._started[number] = step
            yield f"{command} & REQUEST_{number}=$!"
            return
        yield command
        yield from self._wait()
        yield from self._set_id(step, number)

    def _set_id(self, step: Send, number: int) -> Iterator[str]:
        """Yield the command that reads the id in a response, if a later step uses it."""
        if step.id_name in self._used and step.id_name is not None:
            path = shlex.quote(f".body{_jq_path(step.id_pointer)} | strings, numbers | @uri")
            found = f"{_variable(step.id_name)}=$(show {number} | jq -er {path})"
            yield f"{found} || {{ echo No id: $(head -n 1 {number}.http) >&2; exit 2; }}"

    def _curl(self, step: Send, number: int) -> Iterator[str]:
        yield "curl -sSND- -m 120"
        if self._file.ca_file is not None:
            yield f"--cacert {shlex.quote(str(Path(self._file.ca_file).absolute()))}"
        if step.is_slow:
            yield "--limit-rate 50k"
        if step.method != "GET":
            yield f"-X {step.method}"
        yield f'"$SERVICE"{self._text(step.target, encoded=True)}'
        if step.key is not None:
            yield f'-H "{AUTHORIZATION}: Bearer ${self._file.keys.variable(step.key)}"'
        for name, value in step.headers:
            yield "--compressed" if name == "Accept-Encoding" else f"-H {self._text(f'{name}: {value}')}"
        if step.body is not None:
            # Without it, old versions of curl first wait for 100 Continue if a body is large.
            yield "-H Expect:" if len(step.body) > _LARGE else ""
            yield f"--data {self._text(step.body)}"
        # With -D, curl writes the head as soon as it arrives.
        yield f"> {number}.http"

    def _await(self, stream: str, wanted: str) -> str:
        return f"await ${_variable(stream)} {self._text(wanted, encoded=True)} {self._streams[stream]}"

    def _text(self, text: str, *, encoded: bool = False) -> str:
        """Quote a text in which names stand for ids; those of sessions and runs may stay percent-encoded."""
        parts = enumerate(NAME.split(text))
        return "".join(self._id(part, encoded) if number % 2 else shlex.quote(part) for number, part in parts if part)

    def _id(self, name: str, encoded: bool) -> str:
        stream, _, part = name.partition(".")
        if not part:
            return f'"${_variable(name)}"' if encoded else f'"$(printf %b "${{{_variable(name)}//%/\\x}}")"'
        kind, number = part.split("-")
        found = ".events[].id | strings" if kind == "id" else _CALLS
        return f'"$(show {self._streams[stream]} | jq -r {shlex.quote(f"[{found}][{int(number) - 1}]")})"'


_CALLS = (
    f'reduce (.events[] | select(.type == "{AGENT_CUSTOM_TOOL_USE}") | {CALL_ID}) as $id '
    "([]; if index($id) then . else . + [$id] end) | .[]"
)
_LARGE = 1000
"""Bytes of a body."""
_ONLY_AT_THE_END = "SSE002"
"""The rule about the end of a stream, which the script may not close."""
_SHORTEST_LIMIT_S = KEEP_ALIVE_SECONDS + 3


def _wanted(step: Read) -> str:
    """Return the filter for what a step waits for."""
    if step.comment:
        return ".comments[]"
    conditions = []
    if step.until:
        conditions.append(f".type | IN({', '.join(json.dumps(each) for each in step.until)})")
    if step.run is not None:
        conditions.append(f'(.data.run_id? | tostring | @uri) == "{step.run}"')
    wanted = " and ".join(f"({each})" for each in conditions)
    others = [".id"] if step.durable else []
    others += [f'.id == "{step.until_id}"'] if step.until_id is not None else []
    return f".events[] | select({' or '.join(filter(None, [wanted, *others]))})"


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")


def _jq_path(pointer: str) -> str:
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    parts = (
        f"[{key}]" if key.isdigit() else f".{key}" if key.isidentifier() else f"[{json.dumps(key)}]" for key in keys
    )
    return "".join(parts)
