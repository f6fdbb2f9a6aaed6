"""What `wiretape probe` runs."""

from wiretape.agent_sessions import AGENT_CUSTOM_TOOL_USE
from wiretape_contracts.agent_sessions.probe import (  # noqa: F401 - they register the cases
    refusal_cases,
    replay_cases,
    run_cases,
    stream_cases,
    tool_cases,
)
from wiretape_contracts.agent_sessions.probe.defect_checks import SCRIPT_FACTS
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

SUITE = ProbeSuite(
    cases=CASES,
    setup=SETUP_CASE,
    make_prober=Prober,
    read_file=read_probe_file,
    read_keys=keys_of,
    discover=discover_file,
    find_values={"call": find_calls},
    unknown_value=f"Expected a tool_call_id in {AGENT_CUSTOM_TOOL_USE}.",
    make_smaller=make_smaller_runs,
    script=SCRIPT_FACTS,
)
