"""Authentication: keys that are missing, wrong, or without a scope."""

from wiretape.contract import AUTHENTICATION_REQUIRED, AUTHORIZATION, PERMISSION_DENIED
from wiretape_inspect.probe.probe_case import Prober, case

_KEYLESS = 'Authentication 2: "A missing or invalid key gives HTTP 401 authentication_required."'
_RULES = "ERR001 ERR002 ERR003 ERR004 ERR006 ERR007 ERR008"
_INVALID_KEY = "Bearer this-key-does-not-exist"


@case(
    "authentication/stream-without-key",
    _KEYLESS,
    steps="Request the stream of a session without a key.",
    rules=f"AUTH001 AUTH002 {_RULES}",
    leaves="nothing",
)
async def stream_without_key(probe: Prober) -> None:
    """A stream without a key is refused."""
    stream = await probe.request_stream(probe.ready.session, key=None)
    probe.expect_error(stream.exchange, AUTHENTICATION_REQUIRED)


@case(
    "authentication/cancel-without-key",
    _KEYLESS,
    steps="Cancel a run without a key.",
    rules="AUTH001 AUTH002",
    leaves="nothing",
)
async def cancel_without_key(probe: Prober) -> None:
    """A command without a key is refused."""
    response = await probe.command(probe.ready.run, "cancel", key=None)
    probe.expect_error(response, AUTHENTICATION_REQUIRED)


@case(
    "authentication/create-session-without-key",
    _KEYLESS,
    steps="Create a session without a key.",
    rules="AUTH001 AUTH002",
    leaves="nothing, or a session if the service does not require a key",
)
async def create_session_without_key(probe: Prober) -> None:
    """A session cannot be created without a key."""
    probe.expect_error(await probe.execute(probe.session_step(key=None)), AUTHENTICATION_REQUIRED)


@case(
    "authentication/wrong-scheme",
    'Authentication 1: "Every request carries the header Authorization: Bearer <API_KEY>."',
    steps="Request a stream with Basic authentication.",
    rules="AUTH001 AUTH002",
    leaves="nothing",
)
async def wrong_scheme(probe: Prober) -> None:
    """An authentication scheme other than Bearer is refused."""
    headers = [(AUTHORIZATION, "Basic cHJvYmU6cHJvYmU=")]
    target = f"/v1/sessions/{probe.ready.session}/events/stream"
    probe.expect_error(await probe.send("GET", target, key=None, headers=headers), AUTHENTICATION_REQUIRED)


@case(
    "authentication/empty-key",
    _KEYLESS,
    steps="Request a stream with `Authorization: Bearer` and no key.",
    rules="AUTH001 AUTH002",
    leaves="nothing",
)
async def empty_key(probe: Prober) -> None:
    """A header without a key is refused."""
    target = f"/v1/sessions/{probe.ready.session}/events/stream"
    response = await probe.send("GET", target, key=None, headers=[(AUTHORIZATION, "Bearer")])
    probe.expect_error(response, AUTHENTICATION_REQUIRED)


@case(
    "authentication/invalid-key",
    _KEYLESS,
    steps="Request a stream and cancel a run with a key that does not exist.",
    rules="ERR004",
    leaves="nothing",
)
async def invalid_key(probe: Prober) -> None:
    """A key that does not exist is refused."""
    headers = [(AUTHORIZATION, _INVALID_KEY)]
    base = f"/v1/sessions/{probe.ready.session}"
    stream = await probe.send("GET", f"{base}/events/stream", key=None, headers=headers)
    probe.expect_error(stream, AUTHENTICATION_REQUIRED)
    cancel = await probe.send("POST", f"{base}/runs/{probe.ready.run}/cancel", key=None, headers=headers, body={})
    probe.expect_error(cancel, AUTHENTICATION_REQUIRED)


@case(
    "authentication/missing-scope",
    'Authentication 3: "A key lacking the required scope gives HTTP 403 permission_denied."',
    steps="Create a session with a key that lacks the scope.",
    rules="ERR004",
    leaves="nothing",
)
async def missing_scope(probe: Prober) -> None:
    """A key without the required scope is refused."""
    probe.expect_error(await probe.execute(probe.session_step("limited")), PERMISSION_DENIED)
