"""Reproductions as scripts for bash: the steps of a case with curl and jq, and what shows the broken rule.

The script saves each response with its head, and its function `show` prints responses as JSON: `status`, `head`,
`body` (null unless it is JSON), `events`, `comments`, and in `rest` what follows the last event.
An event has `event`, `id`, `type`, `data` (null unless it is JSON) and its `lines`.  The script ends with a filter for
jq, one for each rule, which prints what is wrong.
"""

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from wiretape.checker import CATALOGUE
from wiretape.http_headers import AUTHORIZATION, LAST_EVENT_ID
from wiretape_inspect.probe.probe_client import ProbeTarget
from wiretape_inspect.probe.probe_steps import NAME, Close, Read, Send, Step, names_in


class Scope(Enum):
    """What a filter gets."""

    EVENT = auto()
    """Each event of the response that the finding is about: a condition."""
    RESPONSE = auto()
    """That response: a condition."""
    SESSION = auto()
    """A list of all streams of its session, that response last.

    `$cursor` is its cursor, and `$session` the percent-encoded id of the session; the other scopes have them, too.
    """
    ALL = auto()
    """A list of all responses, in the order of the requests."""
    LINES = auto()
    """A command for the shell instead of a filter; `{file}` is the file with the response."""


@dataclass(frozen=True, slots=True)
class DefectCheck:
    """What shows a broken rule."""

    scope: Scope
    filter: str


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """What a contract tells about its events and rules, as filters for jq."""

    checks: Mapping[str, DefectCheck]
    """What shows a broken rule, by code."""
    values: Mapping[str, str]
    """Values of the events of a response that steps can name, besides ids."""
    run: str
    """The run of an event."""
    shortest_limit_s: float
    """The least time to wait for something: longer than any pause of a stream."""


@dataclass(frozen=True, slots=True)
class Defect:
    """What the script has to show."""

    code: str
    request: int
    """The number of the request whose response shows it."""


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


def curl_lines(
    facts: ScriptFacts, target: ProbeTarget, steps: Sequence[Step], defect: Defect | None, limit_s: float = 30
) -> Iterator[str]:
    """Yield the script for bash that executes steps, with curl and jq, and looks for a defect.

    It ends with status 1 if the service has the defect, 0 if it does not, and 2 if the steps are not possible.
    """
    limit = math.ceil(max(limit_s, facts.shortest_limit_s))
    yield f"( SERVICE=${{SERVICE:-{shlex.quote(target.origin)}}}"
    variables = sorted({target.key_variable(step.key) or "" for step in steps if isinstance(step, Send) and step.key})
    yield from (f'[ "${name}" ] || {{ echo "{name} is not set." >&2; exit 2; }}' for name in variables)
    yield from _HELPERS.replace("LIMIT0", str(10 * limit)).replace("LIMIT", str(limit)).splitlines()
    script = _Script(facts, target, steps)
    for step in steps:
        yield from script.lines_of(step)
    yield from script.end()
    if defect is not None:
        yield script.check(defect)
    else:
        yield ")"


class _Script:
    """Writes steps as commands."""

    def __init__(self, facts: ScriptFacts, target: ProbeTarget, steps: Sequence[Step]) -> None:
        self._facts = facts
        self._target = target
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
            yield (
                f"sleep {step.seconds:g}" if step.seconds is not None else self._await(step.stream, self._wanted(step))
            )
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
        check, number = self._facts.checks[defect.code], defect.request
        sent = self._sent[number - 1]
        names = NAME.findall(sent.target)
        streams = [request for name, request in self._streams.items() if names[:1] == self._sessions_of(request)[:1]]
        shown = {Scope.ALL: [*range(1, len(self._sent) + 1)], Scope.SESSION: [*({*streams} - {number}), number]}
        text = {Scope.EVENT: f".events[] | select({check.filter})", Scope.RESPONSE: f"select({check.filter})"}
        if check.scope is Scope.LINES:
            found = check.filter.replace("{file}", f"{number}.http")
        else:
            options = "-sc" if check.scope in shown else "-c"
            session = _variable(names[0]) if names else ""
            cursor = next((value for name, value in sent.headers if name == LAST_EVENT_ID), "")
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
        return NAME.findall(self._sent[request - 1].target)

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
        if self._target.ca_file is not None:
            yield f"--cacert {shlex.quote(str(Path(self._target.ca_file).absolute()))}"
        if step.is_slow:
            yield "--limit-rate 50k"
        if step.method != "GET":
            yield f"-X {step.method}"
        yield f'"$SERVICE"{self._text(step.target, encoded=True)}'
        if step.key is not None:
            yield f'-H "{AUTHORIZATION}: Bearer ${self._target.key_variable(step.key)}"'
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

    def _wanted(self, step: Read) -> str:
        """Return the filter for what a step waits for."""
        if step.comment:
            return ".comments[]"
        conditions = []
        if step.until:
            conditions.append(f".type | IN({', '.join(json.dumps(each) for each in step.until)})")
        if step.run is not None:
            conditions.append(f'({self._facts.run} | tostring | @uri) == "{step.run}"')
        wanted = " and ".join(f"({each})" for each in conditions)
        others = [".id"] if step.durable else []
        others += [f'.id == "{step.until_id}"'] if step.until_id is not None else []
        return f".events[] | select({' or '.join(filter(None, [wanted, *others]))})"

    def _text(self, text: str, *, encoded: bool = False) -> str:
        """Quote a text in which names stand for ids; those of sessions and runs may stay percent-encoded."""
        parts = enumerate(NAME.split(text))
        return "".join(self._id(part, encoded) if number % 2 else shlex.quote(part) for number, part in parts if part)

    def _id(self, name: str, encoded: bool) -> str:
        stream, _, part = name.partition(".")
        if not part:
            return f'"${_variable(name)}"' if encoded else f'"$(printf %b "${{{_variable(name)}//%/\\x}}")"'
        kind, number = part.split("-")
        found = ".events[].id | strings" if kind == "id" else self._facts.values[kind]
        return f'"$(show {self._streams[stream]} | jq -r {shlex.quote(f"[{found}][{int(number) - 1}]")})"'


_LARGE = 1000
"""Bytes of a body."""
_ONLY_AT_THE_END = "SSE002"
"""The rule about the end of a stream, which the script may not close."""


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")


def _jq_path(pointer: str) -> str:
    keys = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    parts = (
        f"[{key}]" if key.isdigit() else f".{key}" if key.isidentifier() else f"[{json.dumps(key)}]" for key in keys
    )
    return "".join(parts)
