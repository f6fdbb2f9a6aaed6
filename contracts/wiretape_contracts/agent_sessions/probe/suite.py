"""What `wiretape probe` runs: the cases, what they need, and what shows a broken rule in a script."""

import json
import re
from pathlib import Path

from wiretape.http_headers import RETRY_AFTER
from wiretape.sse import EVENT_STREAM
from wiretape.toml_files import read_toml
from wiretape_contracts import agent_sessions
from wiretape_contracts.agent_sessions import KEEP_ALIVE_SECONDS
from wiretape_contracts.agent_sessions.probe import (  # noqa: F401 - they register the cases
    refusal_cases,
    replay_cases,
    run_cases,
    stream_cases,
    tool_cases,
)
from wiretape_contracts.agent_sessions.probe.discovery import discover_file
from wiretape_contracts.agent_sessions.probe.probe_file import keys_of, read_probe_file
from wiretape_contracts.agent_sessions.probe.prober import (
    CASES,
    SETUP_CASE,
    Prober,
    find_calls,
    make_smaller_runs,
)
from wiretape_inspect.probe.probe_case import ProbeSuite
from wiretape_inspect.probe.reproduction_script import DefectCheck, Scope, ScriptFacts

_NAME = re.compile(r"<([A-Za-z_]{2,})>")
_WRAPPED = {"stored": Scope.EVENT, "error": Scope.RESPONSE, "order": Scope.SESSION}
"""What the filters get that have a wrapper."""
_FACTS = {
    "error": agent_sessions.ENVELOPE_KEY,
    "event_stream": EVENT_STREAM,
    "limits": ", ".join(f"[{requests}, {seconds}]" for requests, seconds in agent_sessions.LIMITS.values()),
    "retry_after": RETRY_AFTER,
    "statuses": json.dumps(agent_sessions.ERROR_CODES),
}
"""Facts that stand in a filter otherwise than as JSON."""


def _read_script_facts() -> ScriptFacts:
    """The filters of `defect_checks.toml`, with what their names stand for."""
    document = read_toml(Path(__file__).with_name("defect_checks.toml"))
    definitions, wrappers = _FACTS | document["definitions"], document["wrappers"]

    def expand(text: str) -> str:
        joined = " ".join(line.strip() for line in text.strip().splitlines())
        return _NAME.sub(lambda match: expand(definitions.get(match[1]) or _fact_as_json(match[1])), joined)

    def read_check(kind: str, text: str) -> DefectCheck:
        wrapped = wrappers[kind].replace("<filter>", text.strip()) if kind in _WRAPPED else text
        return DefectCheck(_WRAPPED.get(kind) or Scope[kind.upper()], expand(wrapped))

    checks = {code: read_check(*item) for code, row in document["checks"].items() for item in row.items()}
    return ScriptFacts(
        checks=checks, values={"call": expand("<calls>")}, run=".data.run_id?", shortest_limit_s=KEEP_ALIVE_SECONDS + 3
    )


def _fact_as_json(name: str) -> str:
    """A fact, or all of its values, as JSON."""
    value = getattr(agent_sessions, name)
    values = [value] if isinstance(value, str) else sorted(value) if isinstance(value, frozenset) else value
    return ", ".join(map(json.dumps, values))


SUITE = ProbeSuite(
    cases=CASES,
    setup=SETUP_CASE,
    make_prober=Prober,
    read_file=read_probe_file,
    read_keys=keys_of,
    discover=discover_file,
    find_values={"call": find_calls},
    unknown_value=f"Expected a tool_call_id in {agent_sessions.AGENT_CUSTOM_TOOL_USE}.",
    make_smaller=make_smaller_runs,
    script=_read_script_facts(),
)
