"""The cases, by part of the specification."""

from wiretape_inspect.probe.cases import (
    authentication_cases as authentication_cases,
)
from wiretape_inspect.probe.cases import (
    concurrency_cases as concurrency_cases,
)
from wiretape_inspect.probe.cases import (
    idempotency_cases as idempotency_cases,
)
from wiretape_inspect.probe.cases import (
    limit_cases as limit_cases,
)
from wiretape_inspect.probe.cases import (
    refusal_cases as refusal_cases,
)
from wiretape_inspect.probe.cases import (
    replay_cases as replay_cases,
)
from wiretape_inspect.probe.cases import (
    run_cases as run_cases,
)
from wiretape_inspect.probe.cases import (
    session_cases as session_cases,
)
from wiretape_inspect.probe.cases import (
    stream_cases as stream_cases,
)
from wiretape_inspect.probe.cases import (
    tenancy_cases as tenancy_cases,
)
from wiretape_inspect.probe.cases import (
    tool_cases as tool_cases,
)
