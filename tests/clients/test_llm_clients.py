"""Streams of other APIs are recorded and replayed as channels: driven by the clients that their users have."""

import json
import queue
import threading

import clients
import httpx
import pytest
from click.testing import CliRunner
from running import PATIENCE_S, Running, serve_in_thread
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from wiretape.cli import wiretape
from wiretape.testing import stream

WORDS = ["Grüße", " aus", " Kassel"]
TICKS = 8


async def ticks(request):
    """Eight events with ids; a cursor resumes after it, as it does in the examples of sse-starlette."""
    after = int(request.headers.get("Last-Event-ID", 0))

    async def events():
        for number in range(after + 1, TICKS + 1):
            yield {"id": str(number), "event": "tick", "data": json.dumps({"number": number}), "retry": 20}

    return EventSourceResponse(events())


def completion(prompt):
    texts = [*WORDS, f" {prompt}"]
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None} for text in texts]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    for choice in choices:
        chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


def message(prompt):
    usage = {"input_tokens": 1, "output_tokens": 1}
    about = {"id": "m1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": usage}
    yield {"type": "message_start", "message": about | {"stop_reason": None, "stop_sequence": None}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "ping"}
    for text in (*WORDS, f" {prompt}"):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


async def complete(request):
    asked = await request.json()
    prompt = asked["messages"][0]["content"]
    if not asked.get("stream"):
        return JSONResponse({"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": []})
    return StreamingResponse(completion(prompt), media_type="text/event-stream")


async def converse(request):
    prompt = (await request.json())["messages"][0]["content"]
    frames = (f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in message(prompt))
    return StreamingResponse(frames, media_type="text/event-stream")


APP = Starlette(
    routes=[
        Route("/ticks", ticks),
        Route("/v1/chat/completions", complete, methods=["POST"]),
        Route("/v1/messages", converse, methods=["POST"]),
    ]
)


@pytest.fixture(scope="module")
def upstream():
    with serve_in_thread(APP) as url:
        yield url


def ask_openai(url, prompt="Anna"):
    """Yields the parts of a completion as the client gets them."""
    # Importing the clients takes seconds, which every worker that collects this file would spend.
    import openai  # noqa: PLC0415

    with openai.OpenAI(base_url=f"{url}/v1", api_key="sk-1", max_retries=0) as client:
        messages = [{"role": "user", "content": prompt}]
        for chunk in client.chat.completions.create(model="m", messages=messages, stream=True):
            yield from (choice.delta.content for choice in chunk.choices if choice.delta.content)


def ask_anthropic(url, prompt="Anna"):
    """Yields the parts of a message as the client gets them."""
    import anthropic  # noqa: PLC0415

    with anthropic.Anthropic(base_url=url, api_key="sk-2", max_retries=0) as client:
        messages = [{"role": "user", "content": prompt}]
        with client.messages.stream(model="m", messages=messages, max_tokens=9) as stream:
            yield from stream.text_stream
            assert stream.get_final_message().stop_reason == "end_turn"


ASK = {"openai": ask_openai, "anthropic": ask_anthropic}


@pytest.fixture(scope="module")
def recording(upstream, tmp_path_factory):
    """One stream of each prompt, one of ticks, and a completion that is no stream."""
    file = tmp_path_factory.mktemp("other-apis") / "run.db"
    proxy = Running("proxy", upstream, "--output", file, begin="Listening on ")
    for ask in ASK.values():
        for prompt in ("Anna", "Bert"):
            assert list(ask(proxy.url, prompt)) == [*WORDS, f" {prompt}"]
    body = {"model": "m", "messages": [{"role": "user", "content": "Anna"}]}
    assert httpx.post(f"{proxy.url}/v1/chat/completions", json=body).json()["object"] == "chat.completion"
    assert httpx.get(f"{proxy.url}/ticks").text.count("event: tick") == TICKS
    assert proxy.stop() == 0
    return file


@pytest.fixture
def replay(recording):
    """Start `wiretape replay` with more arguments; it is stopped when the test ends."""
    started = []

    def start(*arguments):
        running = Running("replay", recording, "--control-token", "t", *arguments, begin="Replaying ")
        started.append(running)
        return running

    yield start
    for running in started:
        running.process.kill()
        running.process.communicate()


@pytest.mark.parametrize("name", ASK)
@pytest.mark.parametrize("arguments", [(), ("--contract", "sse")])
def test_the_same_request_opens_the_recorded_stream_each_time(replay, name, arguments):
    running = replay("--speed", "max", *arguments)
    for prompt in ("Anna", "Bert", "Anna", "Anna"):
        assert list(ASK[name](running.url, prompt)) == [*WORDS, f" {prompt}"]


def test_a_request_with_another_body_has_no_match(replay):
    running = replay("--speed", "max")
    body = {"model": "m", "messages": [{"role": "user", "content": "Cleo"}], "stream": True}
    response = httpx.post(f"{running.url}/v1/chat/completions", json=body)
    assert response.status_code == 501
    assert "differs in body: $.messages[0].content" in response.text


def control(running, *arguments):
    """Run `wiretape control`; the document that it prints."""
    result = CliRunner().invoke(
        wiretape, ["control", running.url, *map(str, arguments), "--token", "t", "--json"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class InBackground:
    """Reads an iterator in a thread; `next` is its next part, then how it ended."""

    def __init__(self, parts) -> None:
        self._parts = queue.Queue()
        threading.Thread(target=self._read, args=[parts], daemon=True).start()

    def _read(self, parts) -> None:
        try:
            for part in parts:
                self._parts.put(part)
            self._parts.put("end")
        except Exception as error:  # noqa: BLE001 - whatever the client raises
            self._parts.put(type(error).__name__)

    def next(self):
        return self._parts.get(timeout=PATIENCE_S)


PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


@pytest.mark.parametrize(
    ("name", "before", "type_"), [("openai", 0, "message"), ("anthropic", 3, "content_block_delta")]
)
def test_stepping_sends_one_event_after_the_other(replay, name, before, type_):
    running = replay("--paused")
    heard = InBackground(ASK[name](running.url))
    channel = ["--channel", PATHS[name]]
    control(running, "wait", "connected", *channel)
    if before:
        control(running, "step", "event", "--count", before, *channel)
    for word in WORDS:
        assert control(running, "step", *channel)["stepped"]["type"] == type_
        assert heard.next() == word
    control(running, "resume", *channel)
    assert [heard.next(), heard.next()] == [" Anna", "end"]


def test_a_breakpoint_stops_every_stream_before_its_event(replay):
    running = replay("--speed", "max")
    channel = ["--channel", PATHS["anthropic"]]
    control(running, "break", "--type", "message_delta", *channel)
    for _ in range(2):
        heard = InBackground(ask_anthropic(running.url))
        assert [heard.next() for _ in range(4)] == [*WORDS, " Anna"]
        state = control(running, "wait", "breakpoint", *channel)["channels"][0]
        assert (state["next"]["type"], state["status"]) == ("message_delta", "breakpoint")
        control(running, "resume", *channel)
        assert heard.next() == "end"


FAULTS = {
    "by number": ("openai", 'do = "drop"\nafter = { event = 2 }', WORDS[:2], "RemoteProtocolError"),
    "literal": ("openai", 'do = "corrupt"\nhow = "json"\nat = { event = 3 }', WORDS[:2], "JSONDecodeError"),
    "by type": ("anthropic", 'do = "reset"\nbefore = { type = "content_block_stop" }', None, "ReadError"),
    "instead of the stream": ("anthropic", 'do = "error"\nstatus = 429', [], "RateLimitError"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_hits_the_first_stream_and_the_next_request_gets_a_whole_one(replay, tmp_path, case):
    name, fault, words, error = FAULTS[case]
    script = tmp_path / "faults.toml"
    script.write_text(f'[[fault]]\n{fault}\ntimes = 1\noperation = "POST {PATHS[name]}"\n', "utf-8")
    running = replay("--speed", "max", "--faults", script, "--strict")
    words = [*WORDS, " Anna"] if words is None else words
    heard = InBackground(ASK[name](running.url))
    assert [heard.next() for _ in range(len(words) + 1)] == [*words, error]
    assert list(ASK[name](running.url)) == [*WORDS, " Anna"]
    running.stop()
    assert "Faults injected: fault-1 1 time." in running.lines


@pytest.mark.parametrize("where", ["event = 3", 'id = "3"'])
def test_npm_eventsource_resumes_a_channel_with_its_cursor(replay, tmp_path, where):
    client = next(each for each in clients.CLIENTS if each.name == "npm eventsource")
    if (why := client.missing()) is not None:
        pytest.skip(why)
    script = tmp_path / "faults.toml"
    script.write_text(f'[[fault]]\ndo = "drop"\nafter = {{ {where} }}\ntimes = 1\n', "utf-8")
    running = replay("--speed", "max", "--faults", script)
    told = clients.Told(f"{running.url}/ticks", str(TICKS), ("tick",))
    assert [line["id"] for line in client.follow(told)] == [str(number) for number in range(1, TICKS + 1)]
    (state,) = control(running, "state", "--channel", "/ticks")["channels"]
    assert state["at_end"]
    assert running.stop() == 0
    assert any("/ticks → channel /ticks after 3, playhead at" in line for line in running.lines)
    assert "The client broke no rules." in running.lines


WRITTEN = {
    "openai": (list(completion("Anna")), {"event": 3}),
    "anthropic": ([f"event: {each['type']}\ndata: {json.dumps(each)}" for each in message("Anna")], {"text": "Kassel"}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_stream_breaks_where_a_test_holds_and_cuts_it(name):
    events, after = WRITTEN[name]
    with stream(events, f"POST {PATHS[name]}") as service, service.hold(after=after) as held:
        parts = ASK[name](service.url)
        assert [next(parts) for _ in WORDS] == WORDS
        held.wait()
        held.cut()
        with pytest.raises(httpx.RemoteProtocolError):
            next(parts)
        assert list(ASK[name](service.url)) == [*WORDS, " Anna"]


def test_npm_eventsource_resumes_a_written_stream_that_a_test_cuts():
    client = next(each for each in clients.CLIENTS if each.name == "npm eventsource")
    if (why := client.missing()) is not None:
        pytest.skip(why)
    ticks = [f"id: {number}\nevent: tick\nretry: 20\ndata: {number}" for number in range(1, TICKS + 1)]
    with stream(ticks, "GET /ticks") as service, service.hold(after={"id": "3"}) as held:
        held.cut()
        told = clients.Told(f"{service.url}/ticks", str(TICKS), ("tick",))
        assert [line["id"] for line in client.follow(told)] == [str(number) for number in range(1, TICKS + 1)]
        assert [request.header("Last-Event-ID") for request in service.requests[:2]] == [None, "3"]
