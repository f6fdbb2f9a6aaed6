"""Rate limits: only with --limits, because they disturb everybody who uses the same tenant."""

from collections.abc import Awaitable, Callable

from wiretape.contract import RATE_LIMITED
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_case import NotPossible, Prober, case
from wiretape_inspect.probe.probe_client import HttpExchange

_LIMIT = 'Limits 1: "Exceeding a limit gives HTTP 429 RATE_LIMITED with Retry-After."'
_RULES = "RATE001 RATE002 RATE003 RATE004"


async def _exceed(probe: Prober, name: str, send: Callable[[], Awaitable[HttpExchange]]) -> None:
    """Send requests until the limit with this name refuses one."""
    limit = getattr(probe.file.limits, name)
    if limit is None:
        raise NotPossible(f"probe.toml has no limits.{name}")
    for _ in range(limit + 1):
        exchange = await send()
        if exchange.status == 429:
            break
    probe.expect_error(exchange, RATE_LIMITED)


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

    async def open_and_close() -> HttpExchange:
        stream = await probe.request_stream(probe.ready.session, probe.ready.cursor(-1))
        await stream.close()
        return stream.exchange

    await _exceed(probe, "events", open_and_close)


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
    ready = probe.ready
    await _exceed(probe, "runs", lambda: probe.command(ready.run, "cancel", session=ready.session))


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
    await _exceed(probe, "sessions", probe.try_session)
