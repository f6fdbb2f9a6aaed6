"""Small APIs whose streams a contract can be learned from: each call returns the events of one stream."""

import json
from pathlib import Path

from wiretape.traffic_builder import TrafficBuilder

DONE = "[DONE]"


def responses(random, name):
    """A response with items and parts, in the shape of Open Responses."""
    events = []

    def send(type_, **fields):
        events.append({"type": type_, "sequence_number": len(events), **fields})

    response = {"id": f"resp_{name}", "object": "response", "model": "m"}
    send("response.created", response={**response, "status": "in_progress"})
    for index in range(random.randint(1, 2)):
        item = {"id": f"msg_{name}_{index}", "type": "message", "role": "assistant"}
        send("response.output_item.added", output_index=index, item={**item, "content": []})
        content = []
        for part in range(random.randint(1, 2)):
            place = {"item_id": item["id"], "output_index": index, "content_index": part}
            words = [f"word{random.randint(0, 99)} " for _ in range(random.randint(2, 4))]
            whole = {"type": "output_text", "text": "".join(words)}
            send("response.content_part.added", **place, part={"type": "output_text", "text": ""})
            for word in words:
                send("response.output_text.delta", **place, delta=word)
            send("response.output_text.done", **place, text=whole["text"])
            send("response.content_part.done", **place, part=whole)
            content.append(whole)
        send("response.output_item.done", output_index=index, item={**item, "content": content})
    send("response.completed", response={**response, "status": "completed", "usage": {"output_tokens": len(events)}})
    return [*events, DONE]


def runs(random, name):
    """A run with steps, messages and tool calls, in the shape of AG-UI."""
    run = {"threadId": f"t{name}", "runId": f"r{name}"}
    events = [{"type": "RUN_STARTED", **run}]
    for index in range(random.randint(2, 3)):
        step, message, call = {"stepName": f"s{index}"}, {"messageId": f"m{name}_{index}"}, f"c{name}_{index}"
        events += [{"type": "STEP_STARTED", **step}, {"type": "TEXT_MESSAGE_START", **message, "role": "assistant"}]
        for _ in range(random.randint(2, 3)):
            events.append({"type": "TEXT_MESSAGE_CONTENT", **message, "delta": f"word{random.randint(0, 99)} "})
        events.append({"type": "TEXT_MESSAGE_END", **message})
        if index != 1:
            events.append({"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "search"})
            events += [{"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": text} for text in ('{"q":', "1}")]
            events.append({"type": "TOOL_CALL_END", "toolCallId": call})
        events.append({"type": "STEP_FINISHED", **step})
    return [*events, {"type": "RUN_FINISHED", **run}]


def completions(random, name):
    """A chat completion in chunks, as OpenAI's API and many others send it."""
    head = {"id": f"chatcmpl-{name}", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f"word{random.randint(0, 99)} "} for _ in range(random.randint(2, 5))]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return [*({**head, "choices": [choice]} for choice in choices), DONE]


def ticks(_random, _name):
    """Numbered events with ids, as in the examples of sse-starlette."""
    return [{"number": number} for number in range(1, 9)]


REQUESTS = {
    responses: ("POST", "/v1/responses"),
    runs: ("POST", "/agent"),
    completions: ("POST", "/v1/chat/completions"),
    ticks: ("GET", "/ticks"),
}


def body_of(api, events):
    """Return the body with some events."""
    blocks = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        line = f"event: {event['type']}\n" if api is responses and event != DONE else ""
        line = f"id: {event['number']}\nevent: tick\n" if api is ticks else line
        blocks.append(f"{line}data: {data}\n\n")
    return "".join(blocks).encode()


def record_streams(path: Path, api, streams, request=None) -> Path:
    """Write a recording of streams of an API, each a list of events or a body."""
    traffic = TrafficBuilder()
    for stream in streams:
        body = stream if isinstance(stream, bytes) else body_of(api, stream)
        traffic.request(*(request or REQUESTS[api])).respond_stream().send(body).end()
    return traffic.write(path)
