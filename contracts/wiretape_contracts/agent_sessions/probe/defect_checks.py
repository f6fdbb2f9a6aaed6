"""What shows a broken rule in the script of a reproduction: a filter for jq for each rule about the service."""

import json
from collections.abc import Iterable

from wiretape.agent_sessions import (
    AGENT_CUSTOM_TOOL_USE,
    AUTHENTICATION_REQUIRED,
    DELTA_TYPES,
    ENVELOPE_FIELDS,
    ENVELOPE_KEY,
    ERROR_CODES,
    EVENT_TYPES,
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
from wiretape.sse import EVENT_STREAM
from wiretape_inspect.probe.reproduction_script import DefectCheck, Scope, ScriptFacts

_CALL_ID = "(.data.content.tool_call_id? // .data.data.tool_call_id?)"
"""The id of an event's tool call."""


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

_CHECKS = {
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
_CALLS = (
    f'reduce (.events[] | select(.type == "{AGENT_CUSTOM_TOOL_USE}") | {_CALL_ID}) as $id '
    "([]; if index($id) then . else . + [$id] end) | .[]"
)
SCRIPT_FACTS = ScriptFacts(checks=_CHECKS, values={"call": _CALLS}, run=".data.run_id?")
