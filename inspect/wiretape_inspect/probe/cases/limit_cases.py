"""Rate limits: only with --limits, because they disturb everybody who uses the same tenant."""

from collections.abc import Awaitable, Callable

from wiretape.contract import LIMITS, RATE_LIMITED
from wiretape.rules import Severity
from wiretape_inspect.probe.probe_case import NotPossible, Prober, case, require
from wiretape_inspect.probe.probe_client import HttpExchange

_LIMIT = 'Limits 1: "Exceeding a limit gives HTTP 429 RATE_LIMITED with Retry-After."'
_WINDOW_SECONDS = max(limit.window_seconds for limit in LIMITS.values())
_RULES = "RATE001 RATE002 RATE003 RATE004"


async def _exceed(probe: Prober, name: str, send: Callable[[], Awaitable[HttpExchange]]) -> None:
    """Send requests until the limit with this name refuses one."""
    limit = require(getattr(probe.file.limits, name), f"limits.{name}")
    clock = probe.runner.log.clock
    began_ns = clock.now_ns()
    for _ in range(limit + 1):
        exchange = await send()
        if exchange.status == 429:
            break
    else:
        # Which operations count towards a limit is not shown.
        took_s = (clock.now_ns() - began_ns) / 1e9
        if took_s >= _WINDOW_SECONDS:
            raise NotPossible(f"{limit + 1} requests took {took_s:.0f} s, longer than the window of a limit")
        raise NotPossible(
            f"none of {limit + 1} requests was refused: they do not count, or the limit is not limits.{name} of "
            "probe.toml"
        )
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
