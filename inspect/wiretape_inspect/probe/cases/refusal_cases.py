"""Error envelopes: requests that have to be refused, whatever the state of a session is."""

from dataclasses import replace

from wiretape.contract import INVALID_REQUEST, RESOURCE_NOT_FOUND
from wiretape_inspect.probe.probe_case import Prober, case

_ENVELOPE = 'Envelope: "All errors come as a JSON object with one key error."'
_UNKNOWN = 'Stream rule 4: "Unknown session or workspace: resource_not_found (HTTP 404)."'
_RULES = "ERR001 ERR002 ERR003 ERR004 ERR006 ERR007 ERR008"
_NOWHERE = "probe-does-not-exist"


@case(
    "errors/unknown-session",
    _UNKNOWN,
    steps="Request the stream of an unknown session.",
    rules=_RULES,
    leaves="nothing",
)
async def unknown_session(probe: Prober) -> None:
    """The stream of an unknown session is refused."""
    stream = await probe.request_stream(_NOWHERE)
    probe.expect_error(stream.exchange, RESOURCE_NOT_FOUND)


@case("errors/unknown-run", _ENVELOPE, steps="Cancel and resume an unknown run.", rules=_RULES, leaves="nothing")
async def unknown_run(probe: Prober) -> None:
    """Commands for an unknown run are refused."""
    for name in ("cancel", "resume"):
        target = f"/v1/sessions/{probe.ready.session}/runs/{_NOWHERE}/{name}"
        probe.expect_refused(await probe.send("POST", target, body={}))


@case("errors/unknown-path", _ENVELOPE, steps="Request a path that does not exist.", rules=_RULES, leaves="nothing")
async def unknown_path(probe: Prober) -> None:
    """An unknown path gets an error envelope."""
    probe.expect_refused(await probe.send("GET", f"/v1/{_NOWHERE}"))


@case("errors/wrong-method", _ENVELOPE, steps="Send DELETE to the stream's path.", rules=_RULES, leaves="nothing")
async def wrong_method(probe: Prober) -> None:
    """A method that a path does not support gets an error envelope."""
    probe.expect_refused(await probe.send("DELETE", f"/v1/sessions/{probe.ready.session}/events/stream"))


@case(
    "errors/malformed-json",
    'Codes, invalid_request: "Fix the body or parameter."',
    steps="Create runs with a body that is cut off, and with a list.",
    rules=f"{_RULES} ERR005 ERR009 ERR010",
)
async def malformed_json(probe: Prober) -> None:
    """A body that is not JSON is refused."""
    session = await probe.create_session()
    for body in ('{"input": ', "[1]"):
        step = replace(probe.run_step(session), body=body)
        probe.expect_error(await probe.execute(step), INVALID_REQUEST)


@case(
    "errors/invalid-parameter",
    'Endpoints, query event_deltas: "boolean"',
    steps="Request a stream with `event_deltas=perhaps`.",
    rules=_RULES,
    leaves="nothing",
)
async def invalid_parameter(probe: Prober) -> None:
    """A parameter that is not a boolean gets an error envelope."""
    target = f"/v1/sessions/{_NOWHERE}/events/stream?event_deltas=perhaps"
    probe.expect_refused(await probe.send("GET", target))
