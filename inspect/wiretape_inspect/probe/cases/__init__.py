"""The cases, by part of the specification."""

from wiretape_inspect.probe.cases import (  # noqa: F401 - each registers its cases
    refusal_cases,
    replay_cases,
    run_cases,
    stream_cases,
    tool_cases,
)
