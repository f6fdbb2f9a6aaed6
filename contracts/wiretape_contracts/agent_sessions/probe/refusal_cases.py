"""Requests that have to be refused: without a valid key, of another tenant, with an error in them, or too many."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from wiretape.http_headers import AUTHORIZATION
from wiretape.rules import Severity
from wiretape_contracts.agent_sessions import (
    AUTHENTICATION_REQUIRED,
    INVALID_REQUEST,
    LIMITS,
    PERMISSION_DENIED,
    RATE_LIMITED,
    RESOURCE_NOT_FOUND,
)
from wiretape_contracts.agent_sessions.probe.prober import Prober, case, require
from wiretape_inspect.probe.probe_case import NotPossible
from wiretape_inspect.probe.probe_client import HttpExchange

_KEYLESS = 'Authentication 2: "A missing or invalid key gives HTTP 401 authentication_required."'
_SCOPED = 'What the service does: "All data is scoped to a tenant and a workspace."'
_ENVELOPE = 'Envelope: "All errors come as a JSON object with one key error."'
_UNKNOWN = 'Stream rule 4: "Unknown session or workspace: resource_not_found (HTTP 404)."'
_LIMIT = 'Limits 1: "Exceeding a limit gives HTTP 429 RATE_LIMITED with Retry-After."'
_WINDOW_SECONDS = max(seconds for _, seconds in LIMITS.values())
_RULES = "ERR001 ERR002 ERR003 ERR004 ERR006 ERR007 ERR008"
_INVALID_KEY = "Bearer this-key-does-not-exist"
_NOWHERE = "probe-does-not-exist"
_keyless_case = partial(case, clause=_KEYLESS, rules="AUTH001 AUTH002", leaves="nothing")
_tenancy_case = partial(case, clause=_SCOPED, rules="ERR004", leaves="nothing")
_error_case = partial(case, clause=_ENVELOPE, rules=_RULES, leaves="nothing")
_limit_case = partial(
    case,
    clause=_LIMIT,
    rules="RATE001 RATE002 RATE003 RATE004",
    leaves="nothing",
    safe=False,
    limits=True,
    severity=Severity.WARNING,
)


@_keyless_case("authentication/stream-without-key", rules=f"AUTH001 AUTH002 {_RULES}")
async def stream_without_key(probe: Prober) -> None:
    """A stream without a key is refused.

    Request the stream of a session without a key.
    """
    stream = await probe.request_stream(probe.ready.session, key=None)
    probe.expect_error(stream.exchange, AUTHENTICATION_REQUIRED)


@_keyless_case("authentication/cancel-without-key")
async def cancel_without_key(probe: Prober) -> None:
    """A command without a key is refused.

    Cancel a run without a key.
    """
    probe.expect_error(await probe.command(probe.ready.run, "cancel", key=None), AUTHENTICATION_REQUIRED)


@_keyless_case(
    "authentication/create-session-without-key", leaves="nothing, or a session if the service does not require a key"
)
async def create_session_without_key(probe: Prober) -> None:
    """A session cannot be created without a key.

    Create a session without a key.
    """
    probe.expect_error(await probe.execute(probe.session_step(key=None)), AUTHENTICATION_REQUIRED)


@_keyless_case(
    "authentication/wrong-scheme",
    clause='Authentication 1: "Every request carries the header Authorization: Bearer <API_KEY>."',
)
async def wrong_scheme(probe: Prober) -> None:
    """An authentication scheme other than Bearer is refused.

    Request a stream with Basic authentication.
    """
    await _expect_invalid(probe, "Basic cHJvYmU6cHJvYmU=")


@_keyless_case("authentication/empty-key")
async def empty_key(probe: Prober) -> None:
    """A header without a key is refused.

    Request a stream with `Authorization: Bearer` and no key.
    """
    await _expect_invalid(probe, "Bearer")


@_keyless_case("authentication/invalid-key", rules="ERR004")
async def invalid_key(probe: Prober) -> None:
    """A key that does not exist is refused.

    Request a stream and cancel a run with a key that does not exist.
    """
    await _expect_invalid(probe, _INVALID_KEY)
    await _expect_invalid(probe, _INVALID_KEY, "POST", f"runs/{probe.ready.run}/cancel")


async def _expect_invalid(probe: Prober, key: str, method: str = "GET", path: str = "events/stream") -> None:
    """Send a request about the ready session with this Authorization, and expect it to be refused."""
    target = f"/v1/sessions/{probe.ready.session}/{path}"
    body = "{}" if method == "POST" else None
    exchange = await probe.send(method, target, key=None, headers=[(AUTHORIZATION, key)], body=body)
    probe.expect_error(exchange, AUTHENTICATION_REQUIRED)


@_keyless_case(
    "authentication/missing-scope",
    clause='Authentication 3: "A key lacking the required scope gives HTTP 403 permission_denied."',
    rules="ERR004",
)
async def missing_scope(probe: Prober) -> None:
    """A key without the required scope is refused.

    Create a session with a key that lacks the scope.
    """
    probe.expect_error(await probe.execute(probe.session_step("limited")), PERMISSION_DENIED)


@_tenancy_case("tenancy/stream")
async def stream_of_other_tenant(probe: Prober) -> None:
    """The stream of another tenant's session is reported as not found.

    Request the stream of another tenant's session.
    """
    refused = await probe.request_stream(probe.ready.session, key="other-tenant")
    probe.expect_error(refused.exchange, RESOURCE_NOT_FOUND)


@_tenancy_case("tenancy/replay")
async def replay_of_other_tenant(probe: Prober) -> None:
    """A valid cursor does not open another tenant's session.

    Request a replay of another tenant's session.
    """
    refused = await probe.request_stream(probe.ready.session, probe.ready.stream.cursor(0), key="other-tenant")
    probe.expect_error(refused.exchange, RESOURCE_NOT_FOUND)


@_tenancy_case("tenancy/commands")
async def commands_of_other_tenant(probe: Prober) -> None:
    """Another tenant's runs are reported as not found.

    Cancel and resume a run of another tenant.
    """
    for name in ("cancel", "resume"):
        probe.expect_error(await probe.command(probe.ready.run, name, key="other-tenant"), RESOURCE_NOT_FOUND)


@_tenancy_case("tenancy/records")
async def records_of_other_tenant(probe: Prober) -> None:
    """Another tenant's records are reported as not found.

    Read a session and a run of another tenant.
    """
    async for refused in probe.read_records(key="other-tenant"):
        probe.expect_error(refused, RESOURCE_NOT_FOUND)


@_error_case("errors/unknown-session", clause=_UNKNOWN)
async def unknown_session(probe: Prober) -> None:
    """The stream of an unknown session is refused.

    Request the stream of an unknown session.
    """
    probe.expect_error((await probe.request_stream(_NOWHERE)).exchange, RESOURCE_NOT_FOUND)


@_error_case("errors/unknown-run")
async def unknown_run(probe: Prober) -> None:
    """Commands for an unknown run are refused.

    Cancel and resume an unknown run.
    """
    for name in ("cancel", "resume"):
        target = f"/v1/sessions/{probe.ready.session}/runs/{_NOWHERE}/{name}"
        probe.expect_refused(await probe.send("POST", target, body={}))


@_error_case("errors/unknown-path")
async def unknown_path(probe: Prober) -> None:
    """An unknown path is refused with an error envelope.

    Request a path that does not exist.
    """
    probe.expect_refused(await probe.send("GET", f"/v1/{_NOWHERE}"))


@_error_case("errors/wrong-method")
async def wrong_method(probe: Prober) -> None:
    """A method that a path does not support is refused with an error envelope.

    Send DELETE to the stream's path.
    """
    probe.expect_refused(await probe.send("DELETE", f"/v1/sessions/{probe.ready.session}/events/stream"))


@case(
    "errors/malformed-json",
    'Codes, invalid_request: "Fix the body or parameter."',
    rules=f"{_RULES} ERR005 ERR009 ERR010",
)
async def malformed_json(probe: Prober) -> None:
    """A body that is not JSON is refused.

    Create runs with a body that is cut off, and with a list.
    """
    session = await probe.create_session()
    for body in ('{"input": ', "[1]"):
        step = replace(probe.run_step(session), body=body)
        probe.expect_error(await probe.execute(step), INVALID_REQUEST)


@_error_case("errors/invalid-parameter", clause='Endpoints, query event_deltas: "boolean"')
async def invalid_parameter(probe: Prober) -> None:
    """A value other than a boolean for a boolean parameter is refused with an error envelope.

    Request a stream with `event_deltas=perhaps`.
    """
    target = f"/v1/sessions/{_NOWHERE}/events/stream?event_deltas=perhaps"
    probe.expect_refused(await probe.send("GET", target))


@_limit_case("limits/events")
async def too_many_streams(probe: Prober) -> None:
    """Streams over the limit are refused.

    Open the stream of a finished session until the limit refuses it.
    """

    async def open_and_close() -> HttpExchange:
        stream = await probe.request_stream(probe.ready.session, probe.ready.stream.cursor(-1))
        await stream.close()
        return stream.exchange

    await _exceed(probe, "events", open_and_close)


@_limit_case("limits/runs")
async def too_many_run_requests(probe: Prober) -> None:
    """Requests for runs over the limit are refused.

    Cancel a completed run until the limit refuses it.
    """
    run = probe.ready.run
    await _exceed(probe, "runs", lambda: probe.command(run, "cancel"))


@_limit_case("limits/sessions", leaves="as many sessions as the limit allows")
async def too_many_sessions(probe: Prober) -> None:
    """Sessions over the limit are refused.

    Create sessions until the limit refuses it.
    """
    await _exceed(probe, "sessions", lambda: probe.execute(probe.session_step()))


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
