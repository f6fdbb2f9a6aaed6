"""The cases, by part of the specification."""

from wiretape_inspect.probe.cases import (  # noqa: F401 - each registers its cases
    authentication_cases,
    concurrency_cases,
    idempotency_cases,
    limit_cases,
    refusal_cases,
    replay_cases,
    run_cases,
    stream_cases,
    tenancy_cases,
    tool_cases,
)
