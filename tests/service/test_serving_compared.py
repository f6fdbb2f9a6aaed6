"""Two recordings of one scenario are equal for `wiretape diff`, except ids and times."""

import itertools
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.observations import BytesArrived, Side
from wiretape.recording import Writer, open_recording

NORMALIZED = ("--normalize", "ids,times")
HOUR_NS = 3_600_000_000_000


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


@pytest.mark.parametrize("kind", ["missing", "changed", "moved", "time"])
async def test_only_the_planted_difference_is_found(played, tmp_path, kind):
    planted, event = _planted(kind, await played(2), tmp_path / "planted.db")
    status, found, total = diff(await played(1), planted, *NORMALIZED, "--timing", "1h")
    assert (status, total["differences"]) == (1, dict.fromkeys(total["differences"], 0) | {kind: 1})
    (row,) = found
    assert (row["what"], row["type"]) == ("event", event["type"])
    assert row["sequence"] == event["sequence"]
    assert [field["path"] for field in row["fields"]] == (["$.planted"] if kind == "changed" else [])
    assert round((row["later_ns"] or 0) / HOUR_NS) == (10 if kind == "time" else 0)


def _planted(kind, path, to):
    """A copy of the recording with one planted difference in its last stream, and the event with the difference."""
    with open_recording(path) as recording:
        seen = list(recording.observations())
        number = max(exchange.number for exchange in recording.exchanges() if exchange.is_stream)
        frames = list(recording.frames(number))
    stored = [place for place, one in enumerate(frames) if one.frame.id]
    # Events may have come in one chunk, which can only be late as a whole.
    place = next(
        at for at, before in zip(stored[1:], stored, strict=False) if frames[at].time_ns > frames[before].time_ns
    )
    chunks = [[one.time_ns, one.frame.raw] for one in frames]
    event = json.loads(frames[place].frame.data)
    if kind == "missing":
        del chunks[place]
    elif kind == "changed":
        event["planted"] = True
        chunks[place][1] = f"event: {event['type']}\nid: {event['id']}\ndata: {json.dumps(event)}\n\n".encode()
    elif kind == "moved":
        after = stored[stored.index(place) + 1]
        chunks[place][1], chunks[after][1] = chunks[after][1], chunks[place][1]
    late = frames[place].time_ns if kind == "time" else 2**62
    _write(to, [one for one in seen if not _is_body(one, number)], number, chunks, late)
    return to, event


def _is_body(one, number):
    return isinstance(one, BytesArrived) and (one.exchange, one.side) == (number, Side.RESPONSE)


def _write(to, others, number, chunks, late):
    """A recording of observations and the chunks of one body; from `late` on, everything is ten hours later."""
    body, start = [], 0
    for time_ns, group in itertools.groupby(chunks, key=lambda chunk: chunk[0]):
        data = b"".join(raw for _, raw in group)
        body.append(BytesArrived(number, Side.RESPONSE, start, data, (start + len(data),), (time_ns,)))
        start += len(data)
    writer = Writer.create(to, upstream="http://service.test")
    moved = [_delayed(one, 10 * HOUR_NS) if one.time_ns >= late else one for one in (*others, *body)]
    writer.feed(sorted(moved, key=lambda one: one.time_ns))
    writer.close(max(one.time_ns for one in moved) + 1)


def _delayed(one, by_ns):
    if isinstance(one, BytesArrived):
        return replace(one, times=[time + by_ns for time in one.times])
    return replace(one, time_ns=one.time_ns + by_ns)
