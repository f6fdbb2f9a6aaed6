"""Control of playheads from Python: in the event loop, and from other threads."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from wiretape.errors import InputError, RecordingError
from wiretape_replay import ReplayOptions, serve_replay
from wiretape_replay.channel.playhead import Breakpoint
from wiretape_replay.channel.playhead_clock import ChangeNotifier
from wiretape_replay.loop_thread import shared_thread, start_replay

STREAM = "/v1/sessions/s1/events/stream"
KEY = {"Authorization": "Bearer sk-test"}
PAUSED = ReplayOptions(paused=True)


def frame(number: int, type_: str = "tool.started") -> bytes:
    return (
        f'event: {type_}\nid: e{number}\ndata: {{"id":"e{number}","sequence":{number},"type":"{type_}"}}\n\n'.encode()
    )


@pytest.fixture
def recording(builder):
    builder.exchange([frame(1), frame(2), frame(3, "run.completed")])
    builder.exchange(
        [b"{}"], target="/v1/other", headers=(("Content-Type", "application/json"), ("Content-Length", "2"))
    )
    return builder.close()


def ids(response: httpx.Response) -> list[str]:
    return [line[4:] for line in response.iter_lines() if line.startswith("id: ")]


async def test_a_coroutine_moves_the_playhead_while_a_client_reads(recording):
    async with serve_replay(recording, PAUSED) as replay, httpx.AsyncClient(base_url=replay.url) as client:
        control = replay.control

        async def read() -> str:
            return (await client.get(STREAM, headers=KEY)).text

        reading = asyncio.ensure_future(read())
        state = await control.async_wait("connected")
        assert (state.streams[0].cursor, state.streams[0].position) == (None, 0)
        point = control.add_breakpoint(sequence=3)
        control.resume()
        assert (await control.async_wait("breakpoint")).stopped_by == point
        assert control.breakpoints == [point]
        control.remove_breakpoint()
        entry = control.step("durable")
        assert (entry.id, control.channel_state().position) == ("e3", 3)
        control.seek(end=True)

        assert [line for line in (await reading).splitlines() if line.startswith("id:")] == [
            "id: e1",
            "id: e2",
            "id: e3",
        ]


def test_a_thread_without_an_event_loop_moves_the_playhead(recording):
    with start_replay(recording, PAUSED) as replay:
        session = replay.control.channel("s1")
        session.seek(sequence=1)
        point = session.add_breakpoint(type="run.*")
        with httpx.stream("GET", replay.url + STREAM, headers=KEY) as response:
            session.wait("connected")
            session.resume()
            assert session.wait("breakpoint").stopped_by == point
            session.remove_breakpoint(point)
            assert session.breakpoints == []
            session.pause()
            assert session.step(count=3) is None, "the log ends first"
            assert ids(response) == ["e1", "e2", "e3"]

        assert replay.control.state().requests.streams == 1
        session.reset()
        state = session.channel_state()
        assert (session.name, state.position, state.status) == ("s1", 0, "paused")
    assert replay.player.streams.requests[0].position == 1, "the requests stay readable"


def test_a_coroutine_of_another_loop_waits_without_blocking_that_loop(recording):
    async def wait_and_connect(replay) -> str:
        waiting = asyncio.ensure_future(replay.control.async_wait("connected"))
        async with httpx.AsyncClient(base_url=replay.url, headers=KEY) as client, client.stream("GET", STREAM):
            state = await waiting
        with pytest.raises(RuntimeError, match="async_wait"):
            replay.control.wait()
        return state.channel

    with start_replay(recording, PAUSED) as replay:
        assert asyncio.run(wait_and_connect(replay)) == "s1"


def test_reset_rewinds_the_recorded_responses_and_the_faults(recording):
    faults = {"do": "error", "status": 503, "skip": 1, "times": 1}
    with start_replay(recording, ReplayOptions(faults=faults)) as replay:
        for _ in range(2):
            statuses = [httpx.get(replay.url + "/v1/other", headers=KEY).status_code for _ in range(3)]
            assert statuses == [200, 503, 501]
            replay.control.reset()


def test_several_replays_share_one_thread_and_are_independent(recording):
    before = threading.active_count()
    shared_thread()
    started = threading.active_count()
    with start_replay(recording, PAUSED) as one, start_replay(recording, PAUSED) as other:
        assert threading.active_count() == started
        one.control.step()

        assert one.url != other.url
        assert (one.control.channel_state().position, other.control.channel_state().position) == (1, 0)
    assert started - before <= 1


def test_several_threads_can_control_one_replay(recording):
    with start_replay(recording, PAUSED) as replay:
        threads = [threading.Thread(target=replay.control.step) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)

        assert replay.control.channel_state().position == 3


def test_an_error_in_the_block_stops_the_server(recording):
    with pytest.raises(KeyError), start_replay(recording) as replay:
        raise KeyError
    with pytest.raises(httpx.ConnectError):
        httpx.get(replay.url)


def test_feeds_and_waits_over_http_end_with_complete_responses_when_the_replay_ends(recording):
    """If the connections were cut, the last chunks of the responses would be missing."""
    with contextlib.ExitStack() as clients:
        pool = clients.enter_context(ThreadPoolExecutor())
        with start_replay(recording) as replay:
            headers = {"X-Wiretape-Token": replay.token}
            url = replay.url + "/_wiretape/"
            feed = clients.enter_context(httpx.stream("GET", url + "events", headers=headers))
            wait = pool.submit(httpx.post, url + "wait", headers=headers, json={"timeout_s": 600}, timeout=60)
            shared_thread().call(lambda: _two_waiters(replay.control.changes))

        assert wait.result(20).json()["reached"] is False
        assert "event: playhead\n" in feed.read().decode()


async def _two_waiters(changes: ChangeNotifier) -> None:
    async with asyncio.timeout(45):
        while changes.waiting < 2:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)


def test_errors_are_raised_where_the_operation_was_called(recording, tmp_path):
    with pytest.raises(RecordingError), start_replay(tmp_path / "none.db"):
        pass
    with pytest.raises(InputError, match="control token"), start_replay(recording, token=" "):
        pass
    with start_replay(recording, PAUSED) as replay:
        with pytest.raises(InputError, match="Unknown channel s9: use s1"):
            replay.control.channel("s9")
        with pytest.raises(InputError, match="expected exactly one of sequence"):
            replay.control.seek()
        with pytest.raises(InputError, match="There is no such breakpoint"):
            replay.control.remove_breakpoint(Breakpoint(sequence=1))
        with pytest.raises(TimeoutError, match="Channel s1 had no stream after"):
            replay.control.wait("connected", timeout_s=0.01)
    with (
        start_replay(recording, ReplayOptions(mode="verbatim")) as replay,
        pytest.raises(InputError, match="There is no playhead"),
    ):
        replay.control.channel()


def test_operations_run_directly_in_the_thread_of_the_loop(recording):
    """They would wait for themselves if they were sent to the loop."""
    with start_replay(recording, PAUSED) as replay:
        assert shared_thread().call(replay.control.step).id == "e1"
        assert shared_thread().call(replay.control.state).channels[0].position == 1


def test_each_replay_has_its_own_token_unless_one_is_given(recording):
    with (
        start_replay(recording) as one,
        start_replay(recording) as other,
        start_replay(recording, token="mine") as third,
    ):
        assert one.token != other.token
        headers = {"X-Wiretape-Token": third.token}
        assert httpx.get(third.url + "/_wiretape/state", headers=headers).json()["speed"] == "max"
        assert httpx.get(one.url + "/_wiretape/state", headers=headers).status_code == 401


def test_a_program_that_exits_in_the_middle_of_a_replay_prints_nothing(recording):
    program = """
import sys
from wiretape_replay.loop_thread import start_replay
with start_replay(sys.argv[1]):
    sys.exit(3)
"""
    done = run_program(program, recording)

    assert (done.returncode, done.stderr) == (3, "")


def run_program(program: str, recording) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", program, str(recording)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_wait_can_be_interrupted_without_ending_the_replay(recording):
    """Ctrl-C and the time limits of test runners interrupt it."""
    program = """
import json, signal, sys
from wiretape_replay import ReplayOptions
from wiretape_replay.loop_thread import start_replay
signal.signal(signal.SIGALRM, signal.default_int_handler)
with start_replay(sys.argv[1], ReplayOptions(paused=True)) as replay:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        replay.control.wait("connected", timeout_s=60)
    except KeyboardInterrupt:
        print(json.dumps(replay.control.channel_state().position))
"""
    done = run_program(program, recording)

    assert (json.loads(done.stdout), done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda control: control.seek(position=9), "Invalid position 9: expected a number from 0 to 4"),
        (lambda control: control.advance(1), "Only virtual time can be advanced"),
        (lambda control: control.add_breakpoint(type="tool.startd"), r"'tool.startd'; did you mean tool.started\?$"),
        (lambda control: control.add_breakpoint(type=""), "Unknown event type ''"),
        (lambda control: control.add_breakpoint(finding="seq"), r"rule code 'seq'; did you mean SEQ\?$"),
        (lambda control: control.add_breakpoint(finding="SEQ00l"), r"'SEQ00l'; did you mean SEQ00\d\?$"),
        (lambda control: control.add_breakpoint(finding="XYZ"), r"rule code 'XYZ'\.$"),
        (lambda control: control.add_breakpoint(Breakpoint(sequence="1")), "expected a whole number, got '1'"),
        (lambda control: control.add_breakpoint(Breakpoint(sequence=1), sequence=2), "not both"),
    ],
)
def test_invalid_operations_are_refused_in_one_sentence_and_move_nothing(recording, do, message):
    with start_replay(recording, PAUSED) as replay:
        with pytest.raises(InputError, match=message):
            do(replay.control)
        assert (replay.control.channel_state().position, replay.control.breakpoints) == (0, [])


def test_a_breakpoint_is_removed_by_object_or_by_its_conditions(recording):
    with start_replay(recording, PAUSED) as replay:
        control = replay.control
        first, second = control.add_breakpoint(type="tool.*"), control.add_breakpoint(Breakpoint(sequence=2))
        control.remove_breakpoint(type="tool.*")
        assert (first, control.breakpoints) == (Breakpoint(type="tool.*"), [second])
        control.remove_breakpoint(second)
        assert control.breakpoints == []


def test_a_breakpoint_may_have_a_type_that_only_the_recording_has(builder):
    builder.exchange([frame(1), frame(2, "tool.vanished")])
    with start_replay(builder.close(), PAUSED) as replay:
        assert replay.control.add_breakpoint(type="tool.vanished") in replay.control.breakpoints


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "tap"}, "Invalid mode 'tap': expected channel or verbatim"),
        ({"mode": "verbatim", "paused": True}, "Verbatim mode has no playhead"),
        ({"mode": "verbatim", "playhead": "connection"}, "Verbatim mode has no playhead"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        ReplayOptions(**options)


@pytest.mark.parametrize("port", [-1, 65536, 99999, "80"])
def test_invalid_ports_are_refused(recording, port):
    with pytest.raises(InputError, match="Invalid port"), start_replay(recording, port=port):
        pass
