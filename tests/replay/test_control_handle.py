"""Replays driven from Python: in the event loop, and from threads that have none."""

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
from wiretape_replay.running import shared_thread, start_replay
from wiretape_replay.session.breakpoints import Breakpoint
from wiretape_replay.session.changes import Changes

STREAM = "/v1/sessions/s1/events/stream"
KEY = {"Authorization": "Bearer sk-test"}
PAUSED = ReplayOptions(paused=True)


def frame(number: int, type_: str = "tool.started") -> bytes:
    return (
        f'event: {type_}\nid: e{number}\ndata: {{"id":"e{number}","sequence":{number},"type":"{type_}"}}\n\n'.encode()
    )


@pytest.fixture
def recording(reel):
    reel.exchange([frame(1), frame(2), frame(3, "run.completed")])
    reel.exchange([b"{}"], target="/v1/other", headers=(("Content-Type", "application/json"), ("Content-Length", "2")))
    return reel.close()


def ids(response: httpx.Response) -> list[str]:
    return [line[4:] for line in response.iter_lines() if line.startswith("id: ")]


async def test_in_the_event_loop_a_session_is_driven_while_a_client_reads(recording):
    async with serve_replay(recording, PAUSED) as replay, httpx.AsyncClient(base_url=replay.url) as client:
        session = replay.session()

        async def read() -> str:
            return (await client.get(STREAM, headers=KEY)).text

        reading = asyncio.ensure_future(read())
        state = await session.wait("connected")
        assert (state.streams[0].cursor, state.streams[0].place) == (None, 0)
        point = session.add_breakpoint(sequence=3)
        session.resume()
        assert (await session.wait("breakpoint")).stopped_by == point
        assert session.breakpoints == [point]
        session.remove_breakpoint()
        entry = session.step("durable")
        assert (entry.id, session.state().place) == ("e3", 3)
        session.seek(end=True)

        assert [line for line in (await reading).splitlines() if line.startswith("id:")] == [
            "id: e1",
            "id: e2",
            "id: e3",
        ]


def test_from_a_thread_without_an_event_loop_it_is_the_same(recording):
    with start_replay(recording, PAUSED) as replay:
        session = replay.session("s1")
        session.seek(sequence=1)
        point = session.add_breakpoint(type="run.*")
        with httpx.stream("GET", replay.url + STREAM, headers=KEY) as response:
            session.wait("connected")
            session.resume()
            assert session.wait("breakpoint").stopped_by == point
            session.remove_breakpoint(point)
            assert session.breakpoints == []
            session.pause()
            assert session.step(count=3) is None, "the end of the log came first"
            assert ids(response) == ["e1", "e2", "e3"]

        assert replay.state().requests.streams == 1
        session.reset()
        assert (session.session_id, session.state().place, session.state().status) == ("s1", 0, "paused")
    assert replay.replay.player.streamed[0].place == 1, "what was asked stays readable"


def test_reset_rewinds_the_tape_and_the_faults_too(recording):
    with start_replay(recording) as replay:
        statuses = [httpx.get(replay.url + "/v1/other", headers=KEY).status_code for _ in range(2)]
        replay.reset()
        statuses.append(httpx.get(replay.url + "/v1/other", headers=KEY).status_code)
        assert replay.replay.faults.rewind in replay.replay.control.on_reset

    assert statuses == [200, 501, 200]


def test_several_replays_share_one_thread_and_know_nothing_of_each_other(recording):
    before = threading.active_count()
    shared_thread()
    started = threading.active_count()
    with start_replay(recording, PAUSED) as one, start_replay(recording, PAUSED) as other:
        assert threading.active_count() == started
        one.session().step()

        assert one.url != other.url
        assert (one.session().state().place, other.session().state().place) == (1, 0)
    assert started - before <= 1


def test_many_threads_can_drive_one_replay(recording):
    with start_replay(recording, PAUSED) as replay:
        session = replay.session()
        threads = [threading.Thread(target=session.step) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)

        assert session.state().place == 3


def test_it_listens_no_longer_when_the_block_is_left_by_an_error(recording):
    with pytest.raises(KeyError), start_replay(recording) as replay:
        raise KeyError
    with pytest.raises(httpx.ConnectError):
        httpx.get(replay.url)


def test_who_follows_or_waits_over_http_is_let_go_in_an_orderly_way_when_the_block_is_left(recording):
    """Cut off, the answers would lack their last chunk."""
    with contextlib.ExitStack() as clients:
        pool = clients.enter_context(ThreadPoolExecutor())
        with start_replay(recording) as replay:
            headers = {"X-Wiretape-Token": replay.replay.token}
            url = replay.url + "/_wiretape/"
            feed = clients.enter_context(httpx.stream("GET", url + "events", headers=headers))
            wait = pool.submit(httpx.post, url + "wait", headers=headers, json={"timeout_s": 600}, timeout=60)
            replay.call(lambda: _waited_for(replay.replay.control.changes))

        assert wait.result(20).json()["reached"] is False
        assert "event: playhead\n" in feed.read().decode()


async def _waited_for(changes: Changes) -> None:
    async with asyncio.timeout(45):
        while changes.waiting < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)


def test_what_cannot_be_done_says_so_where_it_was_asked(recording, tmp_path):
    with pytest.raises(RecordingError), start_replay(tmp_path / "none.db"):
        pass
    with pytest.raises(InputError, match="control token"), start_replay(recording, token=" "):
        pass
    with start_replay(recording, PAUSED) as replay:
        with pytest.raises(InputError, match="There is no session s9; there is s1"):
            replay.session("s9")
        with pytest.raises(InputError, match="Say one place"):
            replay.session().seek()
        with pytest.raises(InputError, match="There is no such breakpoint"):
            replay.session().remove_breakpoint(Breakpoint(sequence=1))
        with pytest.raises(TimeoutError, match="Session s1 has no stream after"):
            replay.session().wait("connected", timeout_s=0.01)
    with (
        start_replay(recording, ReplayOptions(mode="verbatim")) as replay,
        pytest.raises(InputError, match="There is no playhead"),
    ):
        replay.session()


def test_the_thread_of_the_loop_does_not_wait_for_itself(recording):
    with start_replay(recording, PAUSED) as replay:
        session = replay.session()
        with pytest.raises(RuntimeError, match="wait for itself"):
            replay.call(session.state)


def test_a_token_is_another_for_each_replay_unless_it_is_given(recording):
    with (
        start_replay(recording) as one,
        start_replay(recording) as other,
        start_replay(recording, token="mine") as third,
    ):
        assert one.replay.token != other.replay.token
        headers = {"X-Wiretape-Token": third.replay.token}
        assert httpx.get(third.url + "/_wiretape/state", headers=headers).json()["speed"] == "max"
        assert httpx.get(one.url + "/_wiretape/state", headers=headers).status_code == 401


def test_what_is_asked_over_http_is_what_python_sees(recording):
    with start_replay(recording, ReplayOptions(speed=1, paused=True)) as replay:
        headers = {"X-Wiretape-Token": replay.replay.token}
        httpx.post(replay.url + "/_wiretape/step", json={"to": "durable"}, headers=headers).raise_for_status()
        over_http = httpx.get(replay.url + "/_wiretape/state", headers=headers).json()
        state = replay.state()

    assert over_http["sessions"][0]["place"] == state.sessions[0].place == 1
    assert over_http["sessions"][0]["next"]["id"] == state.sessions[0].next.id == "e2"


def test_a_program_that_ends_in_the_middle_says_nothing_on_its_way_out(recording):
    program = """
import sys
from wiretape_replay.running import start_replay
with start_replay(sys.argv[1]):
    sys.exit(3)
"""
    done = run_program(program, recording)

    assert (done.returncode, done.stderr) == (3, "")


def run_program(program: str, recording) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", program, str(recording)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_wait_can_be_interrupted_without_ending_the_replay(recording):
    """As Ctrl-C and the time limits of test runners do it."""
    program = """
import json, signal, sys
from wiretape_replay import ReplayOptions
from wiretape_replay.running import start_replay
signal.signal(signal.SIGALRM, signal.default_int_handler)
with start_replay(sys.argv[1], ReplayOptions(paused=True)) as replay:
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        replay.session().wait("connected", timeout_s=60)
    except KeyboardInterrupt:
        print(json.dumps(replay.session().state().place))
"""
    done = run_program(program, recording)

    assert (json.loads(done.stdout), done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda session: session.step("x"), "has to be one of event, durable, finding, not 'x'"),
        (lambda session: session.step(count=0), "a whole number from 1 to 100000, not 0"),
        (lambda session: session.step(count="2"), "a whole number, not '2'"),
        (lambda session: session.seek(place="1"), "a whole number, not '1'"),
        (lambda session: session.seek(sequence=1.5), "a whole number, not 1.5"),
        (lambda session: session.seek(time_s="1"), "a number, not '1'"),
        (lambda session: session.seek(event=1), "a text, not 1"),
        (lambda session: session.wait("never"), "one of standing, breakpoint, end, connected, not 'never'"),
        (lambda session: session.wait(timeout_s="1"), "a number, not '1'"),
        (lambda session: session.add_breakpoint(), "has to say a type"),
        (lambda session: session.add_breakpoint(type="tool.startd"), r"'tool.startd', did you mean tool.started\?$"),
        (lambda session: session.add_breakpoint(type=""), "There is no event type ''"),
        (
            lambda session: session.add_breakpoint(finding="seq"),
            r"code begins with 'seq', did you mean SEQ\?$",
        ),
        (lambda session: session.add_breakpoint(finding="SEQ00l"), r"'SEQ00l', did you mean SEQ00\d\?$"),
        (lambda session: session.add_breakpoint(finding="XYZ"), r"begins with 'XYZ'\.$"),
        (lambda session: session.add_breakpoint(sequence="1"), "a whole number, not '1'"),
        (lambda session: session.add_breakpoint(Breakpoint(sequence=1), sequence=2), "but not both"),
        (lambda session: session.remove_breakpoint(type="tool.*"), "There is no such breakpoint"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence_and_moves_nothing(recording, do, said):
    with start_replay(recording, PAUSED) as replay:
        session = replay.session()
        with pytest.raises(InputError, match=said):
            do(session)
        assert (session.state().place, session.breakpoints) == (0, [])


def test_a_breakpoint_is_named_by_itself_or_by_its_words_in_both_ways(recording):
    with start_replay(recording, PAUSED) as replay:
        session = replay.session()
        first, second = session.add_breakpoint(type="tool.*"), session.add_breakpoint(Breakpoint(sequence=2))
        session.remove_breakpoint(type="tool.*")
        assert (first, session.breakpoints) == (Breakpoint(type="tool.*"), [second])
        session.remove_breakpoint(second)
        assert session.breakpoints == []


def test_a_type_that_only_the_recording_has_can_be_stopped_at(reel):
    reel.exchange([frame(1), frame(2, "tool.vanished")])
    with start_replay(reel.close(), PAUSED) as replay:
        assert replay.session().add_breakpoint(type="tool.vanished") in replay.session().breakpoints


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "tap"}, "Invalid mode 'tap': expected session or verbatim"),
        ({"mode": "verbatim", "paused": True}, "Verbatim mode has no playhead"),
        ({"mode": "verbatim", "playhead": "connection"}, "Verbatim mode has no playhead"),
    ],
)
def test_options_that_cannot_be_are_refused(options, said):
    with pytest.raises(InputError, match=said):
        ReplayOptions(**options)


@pytest.mark.parametrize("port", [-1, 65536, 99999, "80"])
def test_a_port_that_there_is_not_is_refused(recording, port):
    with pytest.raises(InputError, match="Invalid port"), start_replay(recording, port=port):
        pass
