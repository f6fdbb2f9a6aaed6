"""Streams by the playhead, over real sockets, of sessions made by hand."""

import asyncio
import json

import pytest

from wiretape.observations import Ending
from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.playhead import Step

STREAM = "/v1/sessions/s1/events/stream"


@pytest.fixture
def entries(staging) -> list:
    """Durable, live, durable, a comment, durable: places 0 to 4."""
    return [
        staging.event(1, 1),
        staging.delta("hel", 2),
        staging.event(2, 3),
        staging.comment(4),
        staging.event(3, 5),
    ]


@pytest.fixture
def play(staging, tmp_path):
    return lambda entries, **how: staging.playing(tmp_path, entries, **how)


def data(entries, *places: int) -> list[bytes]:
    return [entries[place].data for place in places]


@pytest.mark.parametrize("speed", [1000.0, float("inf")])
async def test_the_first_stream_gets_everything_as_it_comes(play, entries, speed):
    async with play(entries, speed=speed) as stage:
        client = await stage.stream(deltas=True)

        assert await client.chunks(5) == data(entries, 0, 1, 2, 3, 4)


async def test_deltas_come_only_to_who_asks_for_them(play, entries):
    async with play(entries) as stage:
        client = await stage.stream()

        assert await client.chunks(4) == data(entries, 0, 2, 3, 4)


async def test_a_stream_begins_with_the_durable_events_behind_the_playhead_and_goes_on_live(play, entries):
    async with play(entries, paused=True) as stage:
        stage.drive().seek(3)
        client = await stage.stream(deltas=True)
        assert await client.chunks(2) == data(entries, 0, 2)

        stage.drive().resume()
        assert await client.chunks(2) == data(entries, 3, 4)


@pytest.mark.parametrize("deltas", [False, True])
@pytest.mark.parametrize("place", range(6))
async def test_every_cursor_gets_what_follows_it_wherever_the_playhead_is(play, entries, place, deltas):
    """The model: durable events after the cursor, and from the playhead on also what is not durable."""
    async with play(entries, paused=True) as stage:
        for cursor, at in (("e1", 0), ("e2", 2), ("e3", 4)):
            stage.drive().reset()
            stage.drive().seek(place)
            client = await stage.stream(cursor=cursor, deltas=deltas)
            if at >= place:
                assert client.head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
                continue
            stage.drive().seek(5)
            wanted = [
                entry.data
                for number, entry in enumerate(entries)
                if number > at and (entry.id or (number >= place and (deltas or entry.type is None)))
            ]
            assert await client.chunks(len(wanted)) == wanted


async def test_an_empty_cursor_is_that_of_a_client_that_has_received_nothing(play, entries):
    async with play(entries, paused=True) as stage:
        stage.drive().seek(5)
        client = await stage.stream(cursor="")

        assert await client.chunks(3) == data(entries, 0, 2, 4)


@pytest.mark.parametrize("cursor", ["e3", "nonsense", "E1", "\xe4"])
async def test_a_cursor_that_was_never_given_out_is_refused_in_the_words_of_the_service(play, entries, cursor):
    """Also one that lies ahead of the playhead."""
    async with play(entries, paused=True) as stage:
        stage.drive().seek(3)
        client = await stage.stream(cursor=cursor)
        error = json.loads(await client.body())

    assert client.head.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n")
    assert set(error) == {"error"}
    assert set(error["error"]) == {"code", "message", "request_id"}
    assert (error["error"]["code"], error["error"]["request_id"]) == ("invalid_cursor", "wiretape-1")


@pytest.mark.parametrize(
    "target", ["/v1/sessions/s9/events/stream", "/v1/sessions/s9/runs/r1/cancel", "/v1/sessions/S1/events/stream"]
)
async def test_a_session_that_there_is_not_is_not_found_whatever_is_asked_of_it(play, entries, target):
    async with play(entries) as stage:
        client = await stage.ask(target, method="POST" if target.endswith("cancel") else "GET")
        assert (await client.begun()).startswith(b"HTTP/1.1 404 Not Found\r\n")
        error = json.loads(await client.body())["error"]

    assert error["code"] == "resource_not_found"


async def test_a_known_session_without_streams_is_left_to_the_tape(play, entries):
    async with play(entries, known=["s2"]) as stage:
        client = await stage.ask("/v1/sessions/s2/events/stream")

        assert (await client.begun()).startswith(b"HTTP/1.1 501 ")


@pytest.mark.parametrize(
    ("how", "rest"),
    [
        (Ending.COMPLETE, (b"0\r\n\r\n", None)),
        (Ending.SERVICE_CLOSED, (b"", "closed")),
        (Ending.SERVICE_RESET, (b"", "reset")),
    ],
)
async def test_streams_end_as_the_service_ended_them(play, staging, how, rest):
    entries = [staging.event(1, 1), staging.ending(how, 2), staging.event(2, 3)]
    async with play(entries, paused=True) as stage:
        client = await stage.stream()
        stage.drive().seek(3)
        assert await client.chunk() == entries[0].data

        if rest[1] is None:
            assert await client.chunk() == b""
            client.send(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert (await client.begun()).startswith(b"HTTP/1.1 200"), "the connection stays"
        else:
            assert await client.rest() == rest
        again = await stage.stream(cursor="e1")
        assert await again.chunk() == entries[2].data, "the ending ended those that were connected, not those after it"


async def test_an_ending_ends_every_stream_that_is_connected(play, staging):
    entries = [staging.event(1, 1), staging.ending(Ending.SERVICE_CLOSED, 2)]
    async with play(entries, paused=True) as stage:
        clients = [await stage.stream() for _ in range(3)]
        stage.drive().seek(2)

        for client in clients:
            assert (await client.rest())[1] == "closed"


@pytest.mark.parametrize("at_end", [False, True])
async def test_a_stream_is_kept_alive_while_the_playhead_stands(play, entries, at_end):
    async with play(entries, paused=not at_end, keep_alive_s=0.01) as stage:
        client = await stage.stream(deltas=True)
        if at_end:
            await client.chunks(5)

        assert await client.chunks(3) == [b": keep-alive\n\n"] * 3


async def test_what_is_done_to_a_standing_playhead_does_not_hold_keep_alives_up(play, entries):
    async with play(entries, paused=True, keep_alive_s=0.05) as stage:
        client = await stage.stream()

        async def meddle():
            while True:
                stage.drive().pause()
                await asyncio.sleep(0)

        meddling = asyncio.ensure_future(meddle())
        assert await client.chunks(2) == [b": keep-alive\n\n"] * 2
        meddling.cancel()


async def test_deltas_that_a_client_does_not_get_are_no_sign_of_life_to_it(play, staging):
    entries = [staging.event(1, 1), *(staging.delta(n, 1 + n) for n in range(1, 2000))]
    async with play(entries, speed=1, keep_alive_s=0.02) as stage:
        client = await stage.stream()

        assert await client.chunks(2) == [entries[0].data, b": keep-alive\n\n"]


async def test_a_first_stream_with_a_cursor_begins_behind_its_event(play, entries):
    async with play(entries) as stage:
        client = await stage.stream(cursor="e1", deltas=True)

        assert await client.chunks(4) == data(entries, 1, 2, 3, 4)


async def test_a_playhead_that_was_put_by_hand_stays_where_it_is_put(play, entries):
    async with play(entries, paused=True) as stage:
        client = await stage.stream(cursor="e1")

        assert client.head.startswith(b"HTTP/1.1 400 ")


async def test_keep_alives_come_as_fast_as_the_playhead_moves(play, entries):
    """15 s of its time are 15 ms here."""
    async with play(entries, speed=1000, paused=True) as stage:
        client = await stage.stream()

        assert await client.chunk() == b": keep-alive\n\n"


async def test_however_fast_it_moves_no_stream_is_flooded(play, entries):
    async with play(entries, speed=1e12, paused=True) as stage:
        assert stage.drive().keep_alive_s == 0.01


async def test_a_playhead_that_moves_needs_no_keep_alive(play, staging):
    """The recorded ones are on the log."""
    entries = [staging.event(1, 1), staging.event(2, 200)]
    async with play(entries, speed=1, keep_alive_s=0.01) as stage:
        client = await stage.stream()

        assert await client.chunks(2) == data(entries, 0, 1)


async def test_several_clients_follow_one_playhead(play, entries):
    async with play(entries, paused=True) as stage:
        first = await stage.stream(deltas=True)
        stage.drive().seek(2)
        second = await stage.stream(deltas=True, key="other")
        stage.drive().seek(5)

        assert await first.chunks(5) == data(entries, 0, 1, 2, 3, 4)
        assert await second.chunks(4) == data(entries, 0, 2, 3, 4)


async def test_seeking_back_takes_nothing_back_but_is_not_persisted_any_more(play, entries):
    async with play(entries, paused=True) as stage:
        early = await stage.stream()
        stage.drive().seek(3)
        assert await early.chunks(2) == data(entries, 0, 2)
        stage.drive().seek(1)
        late = await stage.stream()
        assert await late.chunk() == entries[0].data

        stage.drive().seek(5)
        assert await early.chunks(2) == data(entries, 3, 4), "nothing twice"
        assert await late.chunks(3) == data(entries, 2, 3, 4)


async def test_reset_ends_connected_streams_and_persists_nothing(play, entries):
    async with play(entries, paused=True) as stage:
        client = await stage.stream()
        stage.drive().seek(5)
        await client.chunks(4)
        stage.drive().reset()
        assert await client.rest() == (b"", "closed")

        assert (await stage.stream(cursor="e1")).head.startswith(b"HTTP/1.1 400 ")
        client = await stage.stream()
        stage.drive().step(Step.DURABLE)
        assert await client.chunk() == entries[0].data


async def test_a_reset_ends_a_stream_also_while_its_client_is_slow(play, staging):
    big = staging.comment(1, b":" + b"x" * 30_000_000 + b"\n\n")
    async with play([big, staging.event(1, 2)], paused=True) as stage:
        client = await stage.stream()
        stage.drive().seek(1)
        await client._reader.read(1)  # so that it is on its way
        stage.drive().reset()
        rest, how = await client.rest()

    assert how == "closed"
    assert rest.endswith(b"xx\n\n\r\n")


async def test_a_client_that_speaks_http_1_0_gets_the_stream_without_chunks(play, staging):
    entries = [staging.event(1, 1), staging.event(2, 2), staging.ending(Ending.COMPLETE, 3)]
    async with play(entries) as stage:
        client = await stage.stream(version="HTTP/1.0")

        assert b"ransfer-" not in client.head
        assert await client.rest() == (entries[0].data + entries[1].data, "closed")


async def test_a_client_that_leaves_is_forgotten(play, entries):
    async with play(entries, paused=True) as stage:
        client = await stage.stream()
        assert len(stage.player.connected) == 1
        client.leave()
        async with asyncio.timeout(45):
            while stage.player.connected:
                await stage.operations.changes.after(stage.operations.changes.count)


async def test_each_client_that_begins_anew_can_have_a_playhead_of_its_own(play, entries):
    async with play(entries, own=True) as stage:
        first = await stage.stream(deltas=True, key="a")
        second = await stage.stream(deltas=True, key="b")

        assert await first.chunks(5) == data(entries, 0, 1, 2, 3, 4)
        assert await second.chunks(5) == data(entries, 0, 1, 2, 3, 4), "live, not replayed"


async def test_with_own_playheads_a_cursor_goes_on_with_that_of_its_client(play, entries):
    async with play(entries, own=True, paused=True) as stage:
        first = await stage.stream(key="a")
        stage.drive().seek(3)
        await first.chunks(2)
        await stage.stream(key="b")

        again = await stage.stream(key="a", cursor="e1")
        assert await again.chunk() == entries[2].data
        assert (await stage.stream(key="b", cursor="e1")).head.startswith(b"HTTP/1.1 400 ")
        assert (await stage.stream(key="c", cursor="e1")).head.startswith(b"HTTP/1.1 400 ")


async def test_what_was_set_before_the_first_stream_holds_for_its_own_playhead(play, entries):
    async with play(entries, own=True) as stage:
        stage.operations.pause("s1")
        stage.operations.seek("s1", place=2)
        client = await stage.stream(deltas=True)

        assert await client.chunk() == entries[0].data
        assert len(stage.player.drives.all_of(stage.player.sessions["s1"].log)) == 1


async def test_later_playheads_stop_where_those_before_them_did(play, entries):
    async with play(entries, own=True) as stage:
        stage.operations.add_breakpoint(Breakpoint(sequence=2), "s1")
        for key in ("a", "b"):
            client = await stage.stream(key=key)
            assert await client.chunk() == entries[0].data
            assert stage.operations.session_state("s1").status == "breakpoint"


async def test_what_was_asked_for_is_noted(play, entries):
    async with play(entries, paused=True) as stage:
        stage.drive().seek(1)
        await stage.stream(cursor="e1", deltas=True)
        await stage.stream(cursor="e9")

        noted = [(seen.cursor, seen.deltas, seen.place, seen.refusal) for seen in stage.player.streamed]
        assert noted == [("e1", True, 1, None), ("e9", False, 1, "invalid_cursor")]
