"""Traffic of the official clients of OpenAI and Anthropic with stand-ins of these APIs: only its framing is judged."""

import json

import pytest
from invoke import invoke, succeed

from wiretape.checking import check
from wiretape.recording import open_recording

COMPLETION = [
    {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    for choice in (
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None},
        {"index": 0, "delta": {"content": "Grüße"}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
    )
]
USAGE = {"input_tokens": 1, "output_tokens": 1}
MESSAGE = {"id": "m1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": USAGE}
MESSAGE_EVENTS = [
    {"type": "message_start", "message": MESSAGE | {"stop_reason": None, "stop_sequence": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
    {"type": "message_stop"},
]
CHAT = "".join(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in COMPLETION) + "data: [DONE]\n\n"
MESSAGES = "".join(
    f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n" for each in MESSAGE_EVENTS
)
TOO_FAST = {"error": {"message": "Too fast.", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}
EVENTS = len(COMPLETION) + 1 + len(MESSAGE_EVENTS) + 1


def responder(*responses):
    """A behaviour that reads each request with its body, and gives the next response, the last one for ever."""
    left = list(responses)

    def respond(peer):
        sizes = [
            line.partition(b":")[2] for line in peer.head.split(b"\r\n") if line.lower().startswith(b"content-len")
        ]
        peer.exactly(int(sizes[0]) if sizes else 0)
        kind, status, body = left.pop(0) if len(left) > 1 else left[0]
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        peer.send(head.encode() + body)

    return respond


def stream(text):
    return "text/event-stream; charset=utf-8", 200, text.encode()


def document(value, status=200):
    return "application/json", status, json.dumps(value).encode()


@pytest.fixture(scope="module")
def recording(service, start_module_proxy):
    """The recording, made through the real proxy, and its last line."""
    # Importing them takes seconds, which every worker that collects this file would spend.
    import anthropic  # noqa: PLC0415
    import openai  # noqa: PLC0415

    broken = b"data: caf\xe9\nretry: 0\n\ndata: unfinished"
    service.on("/v1/chat/completions", responder(stream(CHAT), document(TOO_FAST, 429)))
    service.on("/v1/messages", responder(stream(MESSAGES)))
    service.on("/v1/models", responder(document({"object": "list", "data": []})))
    service.on("/broken", responder(("text/event-stream", 200, broken)))
    proxy = start_module_proxy(service.url)
    with openai.OpenAI(base_url=f"http://{proxy.address}/v1", api_key="sk-1", max_retries=0) as client:
        ask = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        chunks = list(client.chat.completions.create(**ask))
        assert chunks[1].choices[0].delta.content == "Grüße"
        assert list(client.models.list()) == []
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(**ask)
    with anthropic.Anthropic(base_url=f"http://{proxy.address}", api_key="sk-2") as client:
        ask = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
        with client.messages.stream(**ask) as events:
            assert events.get_final_text() == "Grüße"
    proxy.get("/broken").until(b"unfinished")
    proxy.ended("/broken")
    assert proxy.stop() == 0
    return proxy.file, proxy.lines[-1]


def test_only_true_findings_about_the_framing_are_made(recording):
    file, _ = recording
    result = check(file)
    assert [(finding.exchange, finding.code) for finding in result.findings] == [
        (5, "SSE001"),
        (5, "SSE010"),
        (5, "SSE002"),
    ]
    with open_recording(file) as opened:
        assert list(opened.findings()) == list(result.findings)
    text = invoke("report", file, "--no-config").stdout
    reason = "because their paths are not under /v1/sessions on the upstream"
    assert text.startswith(f"{file}: No exchange is checked as the service's, {reason}. ")
    assert f"scope: 5 exchanges judged by REC and SSE and STR only, {reason}" in text


def test_every_command_counts_the_same_events(recording):
    file, last = recording
    assert f"{EVENTS} events" in last
    assert f"{EVENTS} events in 5 exchanges" in invoke("report", file, "--no-config").stdout
    (session,) = json.loads(invoke("channels", file, "--json").stdout)["channels"]
    assert [session[key] for key in ("streams", "events", "durable", "deltas")] == [3, EVENTS, 0, 0]
    rows = [json.loads(line) for line in invoke("show", file, "--json").stdout.splitlines()]
    ends = [row for row in rows if row["row"] == "end"]
    assert sum(row["durable"] + row["deltas"] + row["ephemeral"] for row in ends) == EVENTS
    assert f"{EVENTS} events of A, {EVENTS} of B" in invoke("diff", file, file).stdout
    assert {"[DONE]", "content_block_delta"} <= set(invoke("show", file).stdout.split())


def test_a_replay_serves_the_streams_again(recording):
    succeed("replay", recording[0], "--verify")


def post(proxy, target, host="service"):
    """Send a request with an empty body, and read its response."""
    client = proxy.connect()
    client.send(f"POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    client.rest()


BROKEN = ("text/html", 500, b"<html>")


def test_appending_to_a_recording_names_both_services(service, tls_service, start_proxy):
    for one in (service, tls_service):
        one.on("/v1/sessions", responder(BROKEN))
    proxy = start_proxy(service.url)
    post(proxy, "/v1/sessions")
    proxy.stop()
    proxy = start_proxy(tls_service.url, "--insecure", "--append")
    post(proxy, "/v1/sessions")
    proxy.stop()
    result = check(proxy.file)
    assert [finding.exchange for finding in result.findings if finding.code == "ERR001"] == [1, 2]
    with open_recording(proxy.file) as opened:
        assert opened.info.upstream == f"{service.url}, {tls_service.url}"
        assert list(opened.findings()) == list(result.findings)


@pytest.mark.parametrize(("base", "codes"), [("/agents", {"ERR001"}), ("/other", set())])
def test_the_option_base_says_which_paths_are_the_services(service, start_proxy, tmp_path, base, codes):
    service.on("/agents/v1/sessions", responder(BROKEN))
    proxy = start_proxy("--mode", "regular", "--confdir", str(tmp_path / "keys"), "--base", base)
    post(proxy, f"{service.url}/agents/v1/sessions", host=service.authority)
    assert proxy.stop() == 0
    with open_recording(proxy.file) as opened:
        assert {finding.code for finding in opened.findings()} & {"ERR001"} == codes
