"""Sessions: creating and reading them."""

from wiretape_inspect.probe.probe_case import Prober, case

_IDS = 'Session and run records: "Identifiers of sessions, runs and requests are strings."'


@case("sessions/create", _IDS, steps="Create a session.", rules="ERR010")
async def create(probe: Prober) -> None:
    """Two sessions have different ids."""
    ids = {probe.runner.fill(name) for name in (probe.ready.session, await probe.create_session())}
    probe.expect(len(ids) == 2, "Expected two sessions with different ids, got the same id twice.")


@case("sessions/read", _IDS, steps="Read a session and its run.", rules="ERR010", leaves="nothing")
async def read(probe: Prober) -> None:
    """A session and its run can be read."""
    async for record in probe.read_records():
        probe.expect_success(record, "the record")
