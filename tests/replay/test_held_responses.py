"""Responses that faults hold, added while a replay or a stand-in runs, until somebody says how they go on."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import httpx
import pytest
from click.testing import CliRunner

from wiretape.cli import wiretape
from wiretape.errors import InputError
from wiretape.observations import Ending
from wiretape.testing import ClientError
from wiretape.testing import serve as serve_scenario
from wiretape.testing import stream as serve_stream

TARGET = "/v1/responses"
HEADERS = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
DELTA = {"type": "response.output_text.delta"}


def event(**document):
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), json.dumps(document).encode())


FRAMES = [
    event(type="response.created", response={"id": "resp_1"}),
    *(event(type="response.output_text.delta", item_id="m1", delta=text) for text in ("Gr", "üße", " aus", " Kassel")),
    event(type="response.completed", response={"id": "resp_1"}),
]


@pytest.fixture(params=["channel", "verbatim"])
def replay(request, builder, serve):
    builder.exchange(FRAMES, method="POST", target=TARGET, headers=HEADERS, body=b"{}")
    return serve(builder.close(), mode=request.param, contract="openai", repeat="cycle")


@pytest.fixture
def ask(call):
    def _ask(replay, **options):
        client = call(replay.url, **options)
        client.post(TARGET, b"{}")
        return client

    return _ask


END = b"0\r\n\r\n"


def chunked(*frames):
    return b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames)


SELECTORS = {
    "the third delta": ({"after": DELTA | {"nth": 3}}, 4),
    "an event by its number": ({"before": {"event": 2}}, 1),
    "a text of several deltas": ({"after": {"text": "üße au"}}, 4),
    "a text of a whole event": ({"after": {"text": "resp_1"}}, 1),
    "one of several texts": ({"after": {"text": ["nowhere", "Kass"]}}, 5),
    "a time": ({"after": {"time": 0.0065}}, 4),
    "times that are fewer": ({"after": DELTA, "skip": 1}, 3),
}


@pytest.mark.parametrize(("where", "before"), SELECTORS.values(), ids=SELECTORS)
def test_a_held_stream_goes_on_when_it_is_released(replay, ask, where, before):
    with replay.control.hold(**where) as held:
        client = ask(replay)
        held.wait()
        assert client.read_to(chunked(*FRAMES[:before])).endswith(chunked(*FRAMES[:before]))
        held.release()
        assert client.read_to(END) == chunked(*FRAMES[before:]) + END
    assert replay.faults.counts == {held.name: 1}


NEXT = {
    "closed": (lambda held: held.cut(), b"", "closed"),
    "reset": (lambda held: held.cut("reset"), b"", "reset"),
    "lines": (lambda held: (held.send("data: one\n\n"), held.cut()), chunked(b"data: one\n\n"), "closed"),
    "an element": (
        lambda held: (held.send({"data": {"type": "error"}, "event": None}), held.cut()),
        chunked(b'data: {"type":"error"}\n\n'),
        "closed",
    ),
}


@pytest.mark.parametrize(("do", "data", "how"), NEXT.values(), ids=NEXT)
@pytest.mark.parametrize("early", [False, True], ids=["held", "not yet held"])
def test_what_happens_to_a_held_stream(replay, ask, do, data, how, early):
    """What is done before the stream is held happens as soon as it is."""
    with replay.control.hold(after={"event": 2}) as held:
        if early:
            do(held)
            client = ask(replay)
        else:
            client = ask(replay)
            held.wait()
            do(held)
        seen = client.read()
    assert (seen.body, seen.how) == (chunked(*FRAMES[:2]) + data, how)


def test_only_the_stream_that_matched_is_held(replay, ask):
    with replay.control.hold(after={"event": 1}) as held:
        first = ask(replay)
        held.wait()
        assert [(each.fault, each.connection) for each in replay.control.state().held] == [(held.name, 1)]
        assert ask(replay).read_to(END).endswith(chunked(*FRAMES) + END)
    assert first.read_to(END).endswith(chunked(*FRAMES) + END)  # the block released it
    assert replay.control.state().held == ()


def test_a_stream_in_the_middle_is_held_by_a_fault_that_is_added_then(replay, ask):
    control = replay.control
    with control.hold(after={"event": 1}) as first, control.hold(after=DELTA) as other:
        client = ask(replay)
        first.wait()
        with control.hold(after=DELTA | {"nth": 2}) as third:
            first.release()
            other.wait()
            other.release()
            third.wait()
            third.cut()
            assert client.read().body == chunked(*FRAMES[:3])


def test_a_verbatim_stream_that_was_sent_without_faults_is_held_from_the_next_frame_on(builder, serve, call):
    """The replay waits for the client to read, because the first chunks are longer than all buffers."""
    long, last = b": " + b"x" * 1_000_000 + b"\n\n", b"data: last\n\n"
    builder.exchange([long] * 32 + [last], target="/", headers=HEADERS)
    replay = serve(builder.close())
    client = call(replay.url)
    client.ask("/")
    client.read_past(b"\r\n\r\n")
    with replay.control.hold(before={"event": 1}) as held:
        rest = client.read_to(chunked(long) * 32)
        held.wait()
        assert last not in rest
        held.cut()
        assert client.read().data == b""


def test_a_whole_response_is_held_before_it_starts(replay, ask):
    with replay.control.hold(operation="POST /v1/responses") as held:
        client = ask(replay)
        held.wait()
        with pytest.raises(InputError, match="holds responses before they start"):
            held.send("data: one")
        held.release()
        assert client.read_to(END).endswith(chunked(*FRAMES) + END)


def test_a_reset_cuts_held_streams_and_removes_added_faults(replay, ask):
    control = replay.control
    with control.hold(after={"event": 1}, name="first") as held, control.hold(after={"event": 2}, times=9):
        client = ask(replay)
        held.wait()
        control.reset()
        assert client.read().body == chunked(FRAMES[0])
        assert ask(replay).read_to(END).endswith(chunked(*FRAMES) + END)
        with control.hold(after={"event": 1}, name="first") as again:
            ask(replay)
            again.wait()
    assert replay.faults.unused == ["hold-1"]


def test_faults_of_every_kind_can_be_added(replay, ask):
    name = replay.control.add_fault({"do": "drop", "after": DELTA | {"nth": 2}})
    assert ask(replay).read().body == chunked(*FRAMES[:3])
    assert ask(replay).read_to(END).endswith(END)  # it applies once
    replay.control.add_fault({"do": "error", "status": 503})
    assert b" 503 " in ask(replay).read_past(END[-4:])
    assert replay.faults.counts == {name: 1, "error-2": 1}


ERRORS = {
    "a misspelt key": ({"aftr": {}}, 'fault: aftr: unknown key where do = "hold"; did you mean after?'),
    "a misspelt selector": ({"after": {"nht": 2}}, "fault: after.nht: unknown key; did you mean nth?"),
    "an impossible number": ({"after": {"nth": 0}}, "fault: after.nth: expected a whole number of at least 1, got 0."),
    "another action": ({"do": "drop"}, "hold() only holds: add any other fault with control.add_fault()."),
    "a name twice": ({"name": "held"}, "There is a fault held already: choose another name."),
}


@pytest.mark.parametrize(("fault", "message"), ERRORS.values(), ids=ERRORS)
def test_an_invalid_fault_is_an_error_of_one_sentence(replay, fault, message):
    control = replay.control
    with control.hold(name="held"), pytest.raises(InputError) as refused, control.hold(**fault):
        pass
    start, _, end = message.partition("*")
    assert refused.value.message.startswith(start)
    assert refused.value.message.endswith(end)


STEPS = {
    "nothing is held": (lambda control: control.release(), "No response is held now."),
    "a misspelt name": (lambda control: control.cut(fault="hedl"), "Unknown fault hedl; did you mean held?"),
    "another fault": (lambda control: control.release(fault="late"), "The fault late does not hold responses."),
    "a misspelt event": (
        lambda control: control.send({"dta": {}}, fault="held"),
        "event: dta: unknown key; did you mean data?",
    ),
    "a fault that does not hold": (
        lambda control: control.wait_held("late"),
        "The fault late does not hold responses.",
    ),
    "not a held response": (
        lambda control: control.wait_held("nobody"),
        "Unknown fault nobody; choose one of late, held.",
    ),
}


@pytest.mark.parametrize(("do", "message"), STEPS.values(), ids=STEPS)
def test_a_step_that_cannot_be_done_is_an_error_of_one_sentence(replay, do, message):
    replay.control.add_fault({"do": "drop", "after": {"event": 9}, "name": "late"})
    with replay.control.hold(name="held"), pytest.raises(InputError) as refused:
        do(replay.control)
    assert refused.value.message == message


def test_what_is_done_after_the_only_response_went_on_is_an_error(replay, ask):
    with replay.control.hold(after={"event": 1}) as held:
        client = ask(replay)
        held.wait()
        held.release()
        client.read_to(END)
        for do in (held.cut, held.wait):
            with pytest.raises(
                InputError, match=f"The fault {held.name} holds no response any more: it went on, or its client left."
            ):
                do()
    with pytest.raises(TimeoutError, match="No response was held after 0 s"):
        replay.control.wait_held(timeout_s=0)


def test_everything_works_over_http_without_sleeping(replay, ask):
    http = httpx.Client(base_url=replay.url, headers={"X-Wiretape-Token": replay.token})

    def steer(operation, method="POST", **parameters):
        response = http.request(method, f"/_wiretape/{operation}", json=parameters)
        return response.status_code, response.json()

    _, added = steer("fault", fault={"do": "hold", "after": {"type": "response.created"}})
    name = added["fault"]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(steer, "wait", until="held", fault=name, timeout_s=30)
        client = ask(replay)
        _, waited = waiting.result(30)
    assert (waited["reached"], [each["fault"] for each in waited["held"]]) == (True, [name])
    assert steer("send", event="data: one", fault=name)[0] == 200
    assert steer("cut", how="reset")[0] == 200
    assert (client.read().body, steer("state", "GET")[1]["held"]) == (chunked(FRAMES[0], b"data: one\n\n"), [])
    assert steer("wait", until="held", timeout_s=0)[1]["reached"] is False
    assert steer("fault", "DELETE", fault=name)[0] == 200
    status, refused = steer("fault", "DELETE", fault=name)
    assert (status, refused["error"]["message"]) == (400, f"Unknown fault {name}: there is no fault now.")
    status, refused = steer("fault", fault={"do": "hold", "aftr": {}})
    assert (status, refused["error"]["message"]) == (
        400,
        'fault: aftr: unknown key where do = "hold"; did you mean after?',
    )
    assert steer("wait", until="stopped", fault=name)[0] == 400
    http.close()


def test_the_command_steers_streams(replay, ask):
    def run(*args):
        done = CliRunner().invoke(wiretape, ["control", replay.url, *args], env={"WIRETAPE_TOKEN": replay.token})
        return done.exit_code, done.output

    assert "fault: hold-1\n" in run("fault", 'do = "hold", after = { type = "response.created" }')[1]
    client = ask(replay)
    assert "held by hold-1" in run("wait", "held", "--fault", "hold-1")[1]
    assert run("send", "data: one")[0] == 0
    assert run("cut", "drop", "--fault", "hold-1")[0] == 0
    assert client.read().body == chunked(FRAMES[0], b"data: one\n\n")
    assert run("release") == (2, "Error: No response is held now.\n")
    assert run("wait", "held", "--timeout", "0")[1].endswith("Error: No response was held after 0 s.\n")
    status, output = run("fault", "do = hold")
    assert (status, "expected keys and values such as do" in output) == (2, True)


# Written streams, and the stand-in.


@pytest.mark.parametrize("mode", ["channel", "verbatim"])
def test_a_client_that_leaves_while_it_is_held_is_recorded_so(mode):
    with (
        serve_stream(["data: one", {"data": {"n": 2}}], mode=mode) as service,
        service.hold(after={"event": 1}) as held,
    ):
        with httpx.stream("GET", service.url) as response:
            lines = response.iter_lines()  # the client leaves when it is deleted
            assert next(lines) == "data: one"
            held.wait()
        assert service.findings == []
        assert service.requests[0].ending is Ending.CLIENT_CLOSED
        assert service.control.state().held == ()


def test_a_block_can_end_while_a_stream_is_held(call):
    with serve_stream(["data: one"]) as service:
        service.control.add_fault({"do": "hold", "after": {}})
        client = call(service.url)
        client.ask("/")
        service.control.wait_held()
    assert client.read().body == chunked(b"data: one\n\n")


async def test_coroutines_hold_a_written_stream_of_their_own_client():
    with serve_stream(["data: one", "id: 2\ndata: two\n\n"], "POST /chat") as service:
        async with aiohttp.ClientSession(service.url) as session:
            with service.hold(after={"event": 1}) as held:
                reading = asyncio.ensure_future((await session.post("/chat", json={"text": "Hello"})).read())
                await held.async_wait()
                held.send("data: between")
                held.release()
                assert await reading == b"data: one\n\ndata: between\n\nid: 2\ndata: two\n\n"


BAD_EVENTS = {
    "a misspelt key": ([{"dta": 1}], "The events: events[0].dta: unknown key; did you mean data?"),
    "not JSON": ([{"data": {1, 2}}], "Invalid events: Type is not JSON serializable: set."),
}


@pytest.mark.parametrize(("events", "message"), BAD_EVENTS.values(), ids=BAD_EVENTS)
def test_invalid_events_are_an_error_of_one_sentence(events, message):
    with pytest.raises(InputError) as refused, serve_stream(events):
        pass
    assert refused.value.message == message


def test_a_single_event_is_a_stream():
    with serve_stream("data: one") as service:
        assert httpx.get(service.url).text == "data: one\n\n"


@pytest.mark.parametrize("mode", ["channel", "verbatim"])
def test_a_hold_that_never_matches_fails_the_test_and_names_the_types_that_occurred(mode):
    events = ["event: ping\ndata: {}", "data: one", "event: ping\ndata: {}"]
    missed = pytest.raises(ClientError, match=r"The fault hold-1 never matched\.\nEvents had the types ping, message\.")
    with missed, serve_stream(events, mode=mode) as service, service.hold(after={"type": "*.delta"}):
        assert "data: one" in httpx.get(service.url).text
    with (
        pytest.raises(ClientError) as missed,
        serve_stream(events, mode=mode) as service,
        service.hold(after={"event": 4}),
    ):
        httpx.get(service.url)
    assert "Events had" not in str(missed.value)


def test_virtual_time_passes_while_a_stream_of_the_stand_in_is_held():
    with serve_scenario("hello") as service, httpx.Client(base_url=service.url, headers=service.headers) as client:
        session = client.post("/v1/sessions").json()["id"]
        stream = client.stream("GET", f"/v1/sessions/{session}/events/stream")
        with service.hold(after={"type": "run.started"}) as held, stream as response:
            lines = response.iter_lines()
            run = httpx.post(f"{service.url}/v1/sessions/{session}/runs", headers=service.headers).json()["id"]
            held.wait()
            service.control.advance(60)
            path = f"{service.url}/v1/sessions/{session}/runs/{run}"
            assert httpx.get(path, headers=service.headers).json()["status"] == "completed"
            assert next(line for line in lines if line.startswith("event: ")) == "event: run.started"
            held.release()
            assert "event: run.completed" in lines
            service.control.advance(5)
