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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from wiretape.agent_sessions import (
    AGENT_CUSTOM_TOOL_USE,
    AUTHENTICATION_REQUIRED,
    AUTHORIZATION,
    CURSOR_HEADER,
    DELTA_TYPES,
    ENVELOPE_FIELDS,
    ENVELOPE_KEY,
    ERROR_CODES,
    EVENT_STREAM,
    EVENT_TYPES,
    KEEP_ALIVE_SECONDS,
    LIMITS,
    MESSAGE_COMPLETED,
    MESSAGE_DELTA,
    RATE_LIMITED,
    REASONING_MESSAGE,
    RETRY_AFTER,
    RUN_COMPLETED,
    RUN_NOT_CANCELLABLE,
    RUN_STARTED,
    SANDBOX_PROVISION_FAILED,
    SESSION_BUSY,
    STATUS_IDLE,
    STORED_TYPES,
    TERMINAL_RUN_TYPES,
    TOOL_COMPLETED,
    TOOL_FAILED,
    TOOL_STARTED,
    TOOL_TYPES,
)
from wiretape.rules import CATALOGUE
from wiretape_inspect.probe.probe_file import ProbeFile
from wiretape_inspect.probe.probe_steps import NAME, Close, Read, Send, Step, names_in

_CALL_ID = "(.data.content.tool_call_id? // .data.data.tool_call_id?)"
"""The id of an event's tool call."""
_SESSION_NAME = re.compile(r"<<([a-z-]*session-[0-9]+)>>")


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
        names = _SESSION_NAME.findall(sent.target)
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
        return _SESSION_NAME.findall(self._sent[request - 1].target)

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
    f'reduce (.events[] | select(.type == "{AGENT_CUSTOM_TOOL_USE}") | {_CALL_ID}) as $id '
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


# What shows a broken rule.


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


def _event(condition: str) -> DefectCheck:
    return DefectCheck(Scope.EVENT, condition)


def _stored(condition: str) -> DefectCheck:
    """A condition for the data of durable events."""
    return _event(f".id and (.data | objects | {condition})")


def _response(condition: str) -> DefectCheck:
    return DefectCheck(Scope.RESPONSE, condition)


def _error(condition: str, code: str = "") -> DefectCheck:
    """A condition for the error in an envelope, or only for those with a code."""
    selected = f'select(.code == "{code}") | ' if code else ""
    return _response(f".body.{ENVELOPE_KEY}? | objects | {selected}{condition}")


def _session(text: str) -> DefectCheck:
    return DefectCheck(Scope.SESSION, text)


_BEFORE, _AFTER = "$all[:$at][]", "$all[$at + 1:][]"


def _order(condition: str) -> DefectCheck:
    """A condition for an event of that stream, which may look at those before and after it."""
    return _session(
        f"[.[-1].events[] | {{id, type, run: .data.run_id?, call: {_CALL_ID}, "
        "name: (.data.content.name? // .data.data.name?)}] as $all | range($all | length) as $at "
        f"| $all[$at] | . as {{$id, $run, $call, $name}} | select({condition})"
    )


def _in(names: Iterable[str]) -> str:
    return f"IN({', '.join(json.dumps(name) for name in names)})"


def _types(fields: str) -> str:
    return f"([{fields}] | map(type) | unique)"


_ENDS = f"(.type | {_in(sorted(TERMINAL_RUN_TYPES))})"
_TOOL = f"(.type | {_in(TOOL_TYPES)})"
_TOOL_ENDS = f"(.type | {_in((TOOL_COMPLETED, TOOL_FAILED))})"
_IS_STARTED = f'.type == "{RUN_STARTED}"'
_HAS_ENDED = f".run as $other | any({_BEFORE}; .run == $other and {_ENDS})"
_OF_RUN = '(.run and .type and (.type | test("^(session|sandbox|stream)") | not))'
_IS_OPENED = f'.type == "{TOOL_STARTED}"'
_IS_DELTA = f"(.type | {_in(sorted(DELTA_TYPES))})"
_TEXTS = _in((MESSAGE_COMPLETED, REASONING_MESSAGE))
_HEADER = '(.head | test("(^|\\n){}: *{}"; "i"))'
_PUBLISHED = ", ".join(f"[{limit.requests}, {limit.window_seconds}]" for limit in LIMITS.values())
_STATUSES = json.dumps({code: row.status for code, row in ERROR_CODES.items()})
_BUSY_FIELDS = ("active_run_id", "active_run_status", "recovery")
_KNOWN_IDS = "([.[].events[] | select(.id and .data.sequence?)] | unique_by(.id) | sort_by(.data.sequence) | map(.id))"

DEFECT_CHECKS = {
    "SSE001": DefectCheck(Scope.LINES, "LC_ALL=C.UTF-8 grep -axv '.*' {file}"),
    "SSE002": _response('.rest | test("(^|\\n)(event|id|data)")'),
    "SSE003": _event('any(.lines[]; test("^(event|id|data|retry)?(:|$)") | not)'),
    "SSE004": DefectCheck(Scope.LINES, "grep -aP '^id:.*\\x00' {file} | tr '\\0' '?'"),
    "SSE005": _event('[.lines[] | select(test("^(event|id|data)")) | split(":")[0]] | length != (unique | length)'),
    "SSE006": _event('(.event // "") == "" and any(.lines[]; startswith("data"))'),
    "SSE007": _response(f".status == 200 and ({_HEADER.format('content-type', EVENT_STREAM)} | not)"),
    "SSE008": _event('(.event or .id) and all(.lines[]; startswith("data") | not)'),
    "SSE009": _response(_HEADER.format("content-encoding", "[^i]")),
    "SSE010": _event('any(.lines[]; startswith("retry"))'),
    "SSE011": _event('(.id // "") | test("[^!-~]")'),
    "EVT001": _event('any(.lines[]; startswith("data")) and (.data | type) != "object"'),
    "EVT002": _event(f".data.type? and (.type | {_in(EVENT_TYPES)} | not)"),
    "EVT003": _event(".event and .data.type? and .event != .data.type"),
    "EVT004": _stored(
        f'({_types(".type, .workspace_id, .session_id, .run_id, .created_at")} != ["string"] '
        f'or {_types(".data")} != ["object"] or has("content") == false)'
    ),
    "EVT005": _stored(
        '.created_at | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9.]+)?(Z|[+]00:?00)$") | not'
    ),
    "EVT006": _stored(
        f'if .type | {_TEXTS} then (.content | type) != "array" or any(.content[]; type != "object") '
        'else .content | type | IN("array", "object") | not end'
    ),
    "EVT007": _event(
        f"{_IS_OPENED} and (.data | {_types('.content.tool_call_id, .content.name, .data.tool_call_id, .data.name')} "
        '!= ["string"] or (.content.input | type) != "object")'
    ),
    "EVT008": _event(
        f"{_IS_OPENED} and (.data | [.content.tool_call_id, .content.name] != [.data.tool_call_id, .data.name])"
    ),
    "EVT009": _event(".id and (.data.session_id? | tostring | @uri) != $session"),
    "EVT010": _session("[.[].events[] | select(.id) | .data.workspace_id] | unique | select(length > 1)"),
    "EVT011": _event(
        f'{_IS_DELTA} and ((.data.run_id | type) != "string" or (.data.delta | type) != "object" '
        f'or (.type == "{MESSAGE_DELTA}" and (.data.delta.text | type) != "string"))'
    ),
    "EVT012": DefectCheck(
        Scope.LINES,
        "sed -n 's/^data: *//p' {file} | while read -r line; do "
        "jq -c --stream 'select(length == 2)[0]' <<<\"$line\" 2>/dev/null | sort | uniq -d; done",
    ),
    "DUR001": _stored('(.sequence | type) != "number"'),
    "DUR002": _event(f"(.id | not) and .data.sequence? and ({_IS_DELTA} | not)"),
    "DUR003": _event(".id and .id != .data.id"),
    "DUR004": _event(f"{_IS_DELTA} and .id"),
    "DUR005": _event(f"{_IS_DELTA} and .data.sequence"),
    "DUR006": _event(f"(.type | {_in(sorted(STORED_TYPES))}) and (.id | not)"),
    "DUR007": _event(_IS_DELTA),
    "SEQ001": _session(
        ".[-1].events | map(.data.sequence? | numbers) | [.[:-1], .[1:]] | transpose[] | select(.[0] >= .[1])"
    ),
    "SEQ002": _session(
        "[.[].events[] | select(.id and .data.sequence?)] | group_by(.data.sequence)[] | map(.id) | unique "
        "| select(length > 1)"
    ),
    "SEQ003": _session(".[-1].events | map(.id // empty) | group_by(.)[] | select(length > 1)"),
    "SEQ004": _session(
        ".[-1].events | map(.data.sequence? | numbers) | [.[:-1], .[1:]] | transpose[] | select(.[0] + 1 < .[1])"
    ),
    "SEQ005": _session(
        ".[-1].events | map(.data.created_at? | strings) | [.[:-1], .[1:]] | transpose[] | select(.[0] > .[1])"
    ),
    "RES001": _session(
        f"{_KNOWN_IDS} as $known | ($known | index($cursor)) as $at | .[-1].events[].id "
        "| select(. and IN($known[:$at + 1][]))"
    ),
    "RES002": _session(
        f"{_KNOWN_IDS} as $known | ($known | index($cursor)) as $at | [.[-1].events[].id] as $got "
        "| $known[$at + 1:][] | select(IN($got[]) | not)"
    ),
    "RES003": _session("[.[].events[] | select(.id)] | group_by(.id)[] | map(.data) | unique | select(length > 1)"),
    "RES004": _session(
        "[.[:-1][].events[].id | strings] as $known | .[-1].events | map(.id) "
        "| .[index(null) // length:][] | select(. and IN($known[]))"
    ),
    "RES005": _response(".status >= 400"),
    "RES006": _response(".status == 200"),
    "RUN001": _order(f"{_IS_STARTED} and any({_BEFORE}; .run != $run and {_IS_STARTED} and ({_HAS_ENDED} | not))"),
    "RUN002": _order(f"{_OF_RUN} and ({_ENDS} | not) and any({_BEFORE}; .run == $run and {_ENDS})"),
    "RUN003": _order(f"{_ENDS} and any({_BEFORE}; .run == $run and .id != $id and {_ENDS})"),
    "RUN004": _order(f'.type == "{STATUS_IDLE}" and any({_BEFORE}; {_IS_STARTED} and ({_HAS_ENDED} | not))'),
    "RUN005": _order(f"{_OF_RUN} and any({_AFTER}; .run == $run and {_IS_STARTED})"),
    "RUN006": _error(f'.code == "{RUN_NOT_CANCELLABLE}"'),
    "RUN007": _session(
        f".[-1].body.{ENVELOPE_KEY}?.active_run_id? as $busy | .[:-1][].events[] "
        f"| select($busy and .data.run_id? == $busy and {_ENDS})"
    ),
    "TOOL001": _event(f"{_TOOL} and ({_CALL_ID} | not)"),
    "TOOL002": _order(f"{_TOOL_ENDS} and .call and all({_BEFORE}; .call != $call)"),
    "TOOL003": _order(f"{_TOOL_ENDS} and .call and any({_BEFORE}; .call == $call and .id != $id and {_TOOL_ENDS})"),
    "TOOL004": _order(f"{_TOOL} and .name and any({_BEFORE}; .call == $call and .name and .name != $name)"),
    "TOOL005": _order(
        f'.type == "{RUN_COMPLETED}" and any({_BEFORE}; {_TOOL} and .run == $run and .call as $call '
        f"| all({_BEFORE}; .call != $call or ({_TOOL_ENDS} | not)))"
    ),
    "KAL001": _response(".comments == []"),
    "KAL002": _event(f"(.type // .event) and (.type | {_in(EVENT_TYPES)} | not)"),
    "KAL003": _event('all(.lines[]; startswith(":"))'),
    "ERR001": _response(f'.status >= 400 and (.body.{ENVELOPE_KEY}? | type) != "object"'),
    "ERR002": _error(f'{_types(", ".join(f".{name}" for name in ENVELOPE_FIELDS))} != ["string"]'),
    "ERR003": _error(f"{_STATUSES}[.code] == null"),
    "ERR004": _response(f'.status != ({_STATUSES}[.body.{ENVELOPE_KEY}?.code? // ""] // .status)'),
    "ERR005": _error(
        f'.code != "{RATE_LIMITED}" and .details != null and (.details | type != "array" '
        f'or any(.[]; {_types(".path?, .reason?")} != ["string"]))'
    ),
    "ERR006": _response(f'.status >= 400 and (.body | keys) != ["{ENVELOPE_KEY}"]'),
    "ERR007": _error(
        f'keys - {json.dumps(ENVELOPE_FIELDS)} - if .code == "{SESSION_BUSY}" then {json.dumps(_BUSY_FIELDS)} '
        f'elif .code == "{SANDBOX_PROVISION_FAILED}" then [] else ["details"] end != []'
    ),
    "ERR008": _response(
        f".status >= 400 and ({_HEADER.format('content-type', 'application/([a-z.-]+[+])?json')} | not)"
    ),
    "ERR009": DefectCheck(
        Scope.ALL, f"map(.body.{ENVELOPE_KEY}?.request_id? | strings) | group_by(.)[] | select(length > 1)"
    ),
    "ERR010": _response(f".status < 400 and .body.{ENVELOPE_KEY}?"),
    "BUSY001": _error(f'{_types(".active_run_id, .active_run_status")} != ["string"]', SESSION_BUSY),
    "BUSY002": _error(
        '[.recovery[]? | strings] | (any(contains("/cancel")) and any(contains("/resume"))) | not', SESSION_BUSY
    ),
    "BUSY003": _error(
        ". as $error | any($session, (.active_run_id, .active_run_status | strings | @uri); . as $part "
        "| $error.message | @uri | contains($part) | not)",
        SESSION_BUSY,
    ),
    "RATE001": _response(".status == 429 and (" + _HEADER.format(RETRY_AFTER, "[0-9]+") + " | not)"),
    "RATE002": _error(f'{_types(".details | .limit?, .window_seconds?, .retry_after?")} != ["number"]', RATE_LIMITED),
    "RATE003": _response(
        f'(.head | capture("{RETRY_AFTER}: *(?<s>[0-9]+)"; "i").s | tonumber) '
        f"!= .body.{ENVELOPE_KEY}?.details?.retry_after?"
    ),
    "RATE004": _error(f"[.details.limit, .details.window_seconds] | IN({_PUBLISHED}) | not", RATE_LIMITED),
    "AUTH001": _response(".status < 400"),
    "AUTH002": _response(f'.status != 401 or .body.{ENVELOPE_KEY}?.code? != "{AUTHENTICATION_REQUIRED}"'),
}
"""Every rule about the service."""
