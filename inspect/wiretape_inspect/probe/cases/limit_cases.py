"""Rate limits: only with --limits, because they disturb everybody who uses the same tenant."""

from collections.abc import Awaitable, Callable

from wiretape.contract import RATE_LIMITED
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_case import Prober, case, require
from wiretape_inspect.probe.probe_client import HttpExchange

_LIMIT = 'Limits 1: "Exceeding a limit gives HTTP 429 RATE_LIMITED with Retry-After."'
_RULES = "RATE001 RATE002 RATE003 RATE004"


async def _exceed(probe: Prober, name: str, send: Callable[[], Awaitable[HttpExchange]]) -> None:
    """Send requests until the limit with this name refuses one."""
    for _ in range(require(getattr(probe.file.limits, name), f"limits.{name}") + 1):
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
    run = probe.ready.run
    await _exceed(probe, "runs", lambda: probe.command(run, "cancel"))


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
    await _exceed(probe, "sessions", lambda: probe.execute(probe.session_step()))
