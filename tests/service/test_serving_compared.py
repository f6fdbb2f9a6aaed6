"""Two recordings of one scenario are equal for `wiretape diff`, except ids and times."""

import json

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape

NORMALIZED = ("--normalize", "ids,times")


@pytest.fixture
def played(serve, tmp_path):
    """Record a client of an application tool that is refused, sends a result, loses the stream and resumes."""

    async def play(seed, celsius=21.5):
        before = set(tmp_path.glob("passed-*.db"))
        async with serve("application-tool", virtual=True, seed=seed) as stage:
            session = await stage.session()
            stream = await stage.stream(session)
            run = await stage.run(session)
            events = await stream.until("agent.custom_tool_use")
            stream.close()
            assert (await stage.post(f"{session}/runs")).code == "SESSION_BUSY"
            call = events[-1]["content"]["tool_call_id"]
            again = await stage.stream(session, events[0]["id"])
            body = {"tool_call_id": call, "output": {"celsius": celsius}}
            assert (await stage.post(f"{run}/resume", body)).status == 200
            await again.until("session.status_idle")
            again.close()
            for _ in range(2):
                # Answers show that the service has heard of the end of the stream, which came before.
                assert (await stage.get(run)).status == 200
        (made,) = set(tmp_path.glob("passed-*.db")) - before
        return made

    return play


def diff(*args):
    result = CliRunner().invoke(wiretape, ["diff", *map(str, args), "--json"])
    rows = [json.loads(line) for line in result.output.splitlines()]
    return result.exit_code, rows[1:-1], rows[-1]


async def test_two_seeds_of_one_scenario_are_equal_after_normalizing_ids_and_times(played):
    first, second = await played(1), await played(2)
    status, found, total = diff(first, second, *NORMALIZED)
    assert (status, found, total["equal"]) == (0, [], True)
    assert total["exchanges"] == 8
    assert min(total["events"].values()) > 5
    assert diff(first, second)[0] == 1, "without normalization they are not"


async def test_only_the_differences_of_the_client_are_found(played):
    status, found, _ = diff(await played(1), await played(2, celsius=22), *NORMALIZED)
    places = {field["path"] for row in found for field in row["fields"]}
    assert (status, {row["kind"] for row in found}) == (1, {"changed"})
    assert places == {"request body $.output.celsius", "$.content.output.celsius"}
