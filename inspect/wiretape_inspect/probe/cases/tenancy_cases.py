"""Tenancy: a key of another tenant must not see a session."""

from wiretape.contract import RESOURCE_NOT_FOUND
from wiretape_inspect.probe.probe_case import Prober, case

_SCOPED = 'What the service does: "All data is scoped to a tenant and a workspace."'


@case(
    "tenancy/stream", _SCOPED, steps="Request the stream of another tenant's session.", rules="ERR004", leaves="nothing"
)
async def stream(probe: Prober) -> None:
    """The stream of another tenant's session does not exist."""
    refused = await probe.request_stream(probe.ready.session, key="other-tenant")
    await refused.close()
    probe.expect_error(refused.exchange, RESOURCE_NOT_FOUND)


@case(
    "tenancy/replay", _SCOPED, steps="Request a replay of another tenant's session.", rules="ERR004", leaves="nothing"
)
async def replay(probe: Prober) -> None:
    """A valid cursor does not open another tenant's session."""
    refused = await probe.request_stream(probe.ready.session, probe.ready.cursor(0), key="other-tenant")
    await refused.close()
    probe.expect_error(refused.exchange, RESOURCE_NOT_FOUND)


@case("tenancy/commands", _SCOPED, steps="Cancel and resume a run of another tenant.", rules="ERR004", leaves="nothing")
async def commands(probe: Prober) -> None:
    """The runs of another tenant do not exist."""
    for name in ("cancel", "resume"):
        refused = await probe.command(probe.ready.run, name, key="other-tenant")
        probe.expect_error(refused, RESOURCE_NOT_FOUND)


@case("tenancy/records", _SCOPED, steps="Read a session and a run of another tenant.", rules="ERR004", leaves="nothing")
async def records(probe: Prober) -> None:
    """The records of another tenant do not exist."""
    async for refused in probe.read_records(key="other-tenant"):
        probe.expect_error(refused, RESOURCE_NOT_FOUND)
