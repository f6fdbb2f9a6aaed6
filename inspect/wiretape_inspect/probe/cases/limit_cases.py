"""Rate limits: only with --limits, because they disturb everybody who uses the same tenant."""

from wiretape.contract import RATE_LIMITED
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_case import NotPossible, Prober, case

_LIMIT = 'Limits 1: "Exceeding a limit gives HTTP 429 RATE_LIMITED with Retry-After."'
_RULES = "RATE001 RATE002 RATE003 RATE004"


@case(
    "limits/events",
    _LIMIT,
    steps="Open the stream of a finished session until the limit refuses it.",
    rules=_RULES,
    leaves="nothing",
    safe=False,
    limits=True,
    severity=Severity.WARNING,
)
async def events(probe: Prober) -> None:
    """Too many streams are refused."""
    limit = probe.file.limits.events
    if limit is None:
        raise NotPossible("probe.toml has no limits.events")
    for _ in range(limit + 1):
        stream = await probe.request_stream(probe.ready.session, probe.ready.cursor(-1))
        await stream.close()
        if stream.exchange.status == 429:
            break
    probe.expect_error(stream.exchange, RATE_LIMITED)


@case(
    "limits/runs",
    _LIMIT,
    steps="Cancel a completed run until the limit refuses it.",
    rules=_RULES,
    leaves="nothing",
    safe=False,
    limits=True,
    severity=Severity.WARNING,
)
async def runs(probe: Prober) -> None:
    """Too many requests for runs are refused."""
    limit, ready = probe.file.limits.runs, probe.ready
    if limit is None:
        raise NotPossible("probe.toml has no limits.runs")
    for _ in range(limit + 1):
        response = await probe.command(ready.run, "cancel", session=ready.session)
        if response.status == 429:
            break
    probe.expect_error(response, RATE_LIMITED)


@case(
    "limits/sessions",
    _LIMIT,
    steps="Create sessions until the limit refuses it.",
    rules=_RULES,
    leaves="as many sessions as the limit allows",
    safe=False,
    limits=True,
    severity=Severity.WARNING,
)
async def sessions(probe: Prober) -> None:
    """Too many sessions are refused."""
    limit = probe.file.limits.sessions
    if limit is None:
        raise NotPossible("probe.toml has no limits.sessions")
    for _ in range(limit + 1):
        response = await probe.try_session()
        if response.status == 429:
            break
    probe.expect_error(response, RATE_LIMITED)
