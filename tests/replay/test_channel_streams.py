"""Streams of sessions that are built by hand, over real sockets."""

import asyncio
import json

import pytest
import staging

from wiretape.observations import Ending

STREAM = "/v1/sessions/s1/events/stream"


@pytest.fixture
def entries() -> list:
    """Durable, ephemeral, durable, a comment, durable: positions 0 to 4."""
    return [staging.event(1, 1), staging.delta("hel", 2), staging.event(2, 3), staging.comment(4), staging.event(3, 5)]


@pytest.fixture
def play(tmp_path):
    return lambda entries, **how: staging.playing(tmp_path, entries, **how)


def data(entries, *positions: int) -> list[bytes]:
    return [entries[position].data for position in positions]


@pytest.mark.parametrize("speed", [1000.0, float("inf")])
async def test_the_first_stream_gets_all_entries_in_time(play, entries, speed):
    async with play(entries, speed=speed) as stage:
        client = await stage.stream(deltas=True)

        assert await client.chunks(5) == data(entries, 0, 1, 2, 3, 4)


@pytest.mark.parametrize("deltas", [False, True])
@pytest.mark.parametrize("position", range(6))
async def test_every_cursor_gets_the_events_after_it_at_every_playhead_position(play, entries, position, deltas):
    """The model: durable events after the cursor, and from the playhead on also ephemeral ones."""
    async with play(entries, paused=True) as stage:
        for cursor, at in (("e1", 0), ("e2", 2), ("e3", 4)):
            stage.control.reset()
            stage.control.seek(position=position)
            client = await stage.stream(cursor=cursor, deltas=deltas)
            if at >= position:
                assert client.head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
                continue
            stage.control.seek(position=5)
            wanted = [
                entry.data
                for number, entry in enumerate(entries)
                if number > at and (entry.id or (number >= position and (deltas or entry.type is None)))
            ]
            assert await client.chunks(len(wanted)) == wanted


async def test_an_empty_cursor_gets_the_stream_from_its_beginning(play, entries):
    async with play(entries, paused=True) as stage:
        stage.control.seek(position=5)
        client = await stage.stream(cursor="")

        assert await client.chunks(3) == data(entries, 0, 2, 4)


@pytest.mark.parametrize("cursor", ["e3", "nonsense", "E1", "\xe4"])
async def test_a_cursor_that_was_not_issued_is_refused_with_the_error_of_the_service(play, entries, cursor):
    """This includes a cursor ahead of the playhead."""
    async with play(entries, paused=True) as stage:
        stage.control.seek(position=3)
        client = await stage.stream(cursor=cursor)
        error = json.loads(await client.body())

    assert client.head.startswith(b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n")
    assert set(error) == {"error"}
    assert set(error["error"]) == {"code", "message", "request_id"}
    assert (error["error"]["code"], error["error"]["request_id"]) == ("invalid_cursor", "wiretape-1")


@pytest.mark.parametrize(
    "target", ["/v1/sessions/s9/events/stream", "/v1/sessions/s9/runs/r1/cancel", "/v1/sessions/S1/events/stream"]
)
async def test_every_request_for_an_unknown_session_is_not_found(play, entries, target):
    async with play(entries) as stage:
        client = await stage.ask(target, method="POST" if target.endswith("cancel") else "GET")
        assert (await client.begun()).startswith(b"HTTP/1.1 404 Not Found\r\n")
        error = json.loads(await client.body())["error"]

    assert error["code"] == "resource_not_found"


async def test_requests_for_a_session_without_streams_go_to_the_recorded_responses(play, entries):
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
async def test_streams_end_as_the_service_ended_them(play, how, rest):
    entries = [staging.event(1, 1), staging.ending(how, 2), staging.event(2, 3)]
    async with play(entries, paused=True) as stage:
        client = await stage.stream()
        stage.control.seek(position=3)
        assert await client.chunk() == entries[0].data

        if rest[1] is None:
            assert await client.chunk() == b""
            client.send(f"GET {STREAM} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert (await client.begun()).startswith(b"HTTP/1.1 200"), "the connection stays open"
        else:
            assert await client.rest() == rest
        again = await stage.stream(cursor="e1")
        assert await again.chunk() == entries[2].data, "the ending applies to connected streams only"


@pytest.mark.parametrize("at_end", [False, True])
async def test_a_stream_gets_keep_alives_while_the_playhead_is_stopped(play, entries, at_end):
    async with play(entries, paused=not at_end, keep_alive_s=0.01) as stage:
        client = await stage.stream(deltas=True)
        if at_end:
            await client.chunks(5)

        assert await client.chunks(3) == [b": keep-alive\n\n"] * 3


async def test_moving_a_stopped_playhead_does_not_delay_keep_alives(play, entries):
    async with play(entries, paused=True, keep_alive_s=0.05) as stage:
        client = await stage.stream()

        async def meddle():
            while True:
                stage.control.pause()
                await asyncio.sleep(0)

        meddling = asyncio.ensure_future(meddle())
        assert await client.chunks(2) == [b": keep-alive\n\n"] * 2
        meddling.cancel()


async def test_deltas_that_a_client_does_not_get_do_not_delay_its_keep_alives(play):
    entries = [staging.event(1, 1), *(staging.delta(n, 1 + n) for n in range(1, 2000))]
    async with play(entries, speed=1, keep_alive_s=0.02) as stage:
        client = await stage.stream()

        assert await client.chunks(2) == [entries[0].data, b": keep-alive\n\n"]


async def test_a_first_stream_with_a_cursor_begins_after_its_event(play, entries):
    async with play(entries) as stage:
        client = await stage.stream(cursor="e1", deltas=True)

        assert await client.chunks(4) == data(entries, 1, 2, 3, 4)


async def test_a_first_stream_does_not_move_a_playhead_that_was_moved_by_hand(play, entries):
    async with play(entries) as stage:
        stage.control.seek(position=1)
        client = await stage.stream(cursor="e2")

        assert client.head.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(("speed", "interval_s"), [(1000, 0.015), (1e12, 0.01)])
async def test_keep_alives_are_as_fast_as_the_playhead_down_to_a_shortest_interval(play, entries, speed, interval_s):
    async with play(entries, speed=speed, paused=True) as stage:
        assert stage.clock().keep_alive_s == interval_s


async def test_a_moving_playhead_adds_no_keep_alives(play):
    """The recorded ones are on the log."""
    entries = [staging.event(1, 1), staging.event(2, 200)]
    async with play(entries, speed=1, keep_alive_s=0.01) as stage:
        client = await stage.stream()

        assert await client.chunks(2) == data(entries, 0, 1)


async def test_after_seeking_back_streams_repeat_nothing_and_cursors_ahead_are_refused(play, entries):
    async with play(entries, paused=True) as stage:
        early = await stage.stream()
        stage.control.seek(position=3)
        assert await early.chunks(2) == data(entries, 0, 2)
        stage.control.seek(position=1)
        late = await stage.stream()
        assert await late.chunk() == entries[0].data

        stage.control.seek(position=5)
        assert await early.chunks(2) == data(entries, 3, 4), "nothing twice"
        assert await late.chunks(3) == data(entries, 2, 3, 4)


async def test_reset_ends_connected_streams_and_leaves_nothing_persisted(play, entries):
    async with play(entries, paused=True) as stage:
        client = await stage.stream()
        stage.control.seek(position=5)
        await client.chunks(4)
        stage.control.reset()
        assert await client.rest() == (b"", "closed")

        assert (await stage.stream(cursor="e1")).head.startswith(b"HTTP/1.1 400 ")
        client = await stage.stream()
        stage.control.step("durable")
        assert await client.chunk() == entries[0].data


async def test_reset_ends_the_stream_of_a_slow_client(play):
    big = staging.comment(1, b":" + b"x" * 30_000_000 + b"\n\n")
    async with play([big, staging.event(1, 2)], paused=True) as stage:
        client = await stage.stream()
        stage.control.seek(position=1)
        await client._reader.read(1)  # so that it is on its way
        stage.control.reset()
        rest, how = await client.rest()

    assert how == "closed"
    assert rest.endswith(b"xx\n\n\r\n")


async def test_an_http_1_0_client_gets_the_stream_without_chunks(play):
    entries = [staging.event(1, 1), staging.event(2, 2), staging.ending(Ending.COMPLETE, 3)]
    async with play(entries) as stage:
        client = await stage.stream(version="HTTP/1.0")

        assert b"ransfer-" not in client.head
        assert await client.rest() == (entries[0].data + entries[1].data, "closed")


async def test_a_client_that_leaves_is_no_longer_connected(play, entries):
    async with play(entries, paused=True) as stage:
        client = await stage.stream()
        assert len(stage.player.streams.connected) == 1
        client.leave()
        async with asyncio.timeout(45):
            while stage.player.streams.connected:
                await stage.control.changes.wait(stage.control.changes.count)


async def test_each_client_without_a_cursor_can_have_its_own_playhead(play, entries):
    async with play(entries, own=True) as stage:
        first = await stage.stream(deltas=True, key="a")
        second = await stage.stream(deltas=True, key="b")

        assert await first.chunks(5) == data(entries, 0, 1, 2, 3, 4)
        assert await second.chunks(5) == data(entries, 0, 1, 2, 3, 4), "live, not replayed"


async def test_a_client_that_resumes_keeps_its_own_playhead(play, entries):
    async with play(entries, own=True, paused=True) as stage:
        first = await stage.stream(key="a")
        stage.control.seek(position=3)
        await first.chunks(2)
        await stage.stream(key="b")

        again = await stage.stream(key="a", cursor="e1")
        assert await again.chunk() == entries[2].data
        assert (await stage.stream(key="b", cursor="e1")).head.startswith(b"HTTP/1.1 400 ")
        assert (await stage.stream(key="c", cursor="e1")).head.startswith(b"HTTP/1.1 400 ")


async def test_the_first_client_gets_the_playhead_that_was_moved_before(play, entries):
    async with play(entries, own=True) as stage:
        stage.control.channel("s1").pause()
        stage.control.channel("s1").seek(position=2)
        client = await stage.stream(deltas=True)

        assert await client.chunk() == entries[0].data
        assert len(stage.player.streams.playheads.of_channel(stage.player.channels["s1"].log)) == 1


async def test_new_playheads_have_the_breakpoints_of_the_latest(play, entries):
    async with play(entries, own=True) as stage:
        stage.control.channel("s1").add_breakpoint(sequence=2)
        for key in ("a", "b"):
            client = await stage.stream(key=key)
            assert await client.chunk() == entries[0].data
            assert stage.control.channel("s1").channel_state().status == "breakpoint"


async def test_stream_requests_are_recorded(play, entries):
    async with play(entries, paused=True) as stage:
        stage.control.seek(position=1)
        await stage.stream(cursor="e1", deltas=True)
        await stage.stream(cursor="e9")

        noted = [(seen.cursor, seen.deltas, seen.position, seen.refusal) for seen in stage.player.streams.requests]
        assert noted == [("e1", True, 1, None), ("e9", False, 1, "invalid_cursor")]
