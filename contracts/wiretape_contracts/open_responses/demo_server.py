"""A small service with the Responses API, to try the contracts and to test clients: no model, the same text each time.

`python -m wiretape_contracts.open_responses.demo_server` starts it.  What it says depends on words in the input: `fail`
fails, `long` ends as incomplete, `weather` calls the first function of the request, and anything else gets a text.
With `background`, a response goes on without its client, and `GET /v1/responses/{id}?stream=true&starting_after=N`
reads it from there.
"""

import argparse
import asyncio
import copy
import json
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

from aiohttp import web

Json = dict[str, Any]
_PAUSE_S = 0.02
SNAPSHOT: Json = json.loads("""{
    "object": "response", "status": "in_progress", "created_at": 1764288000, "completed_at": null, "output": [],
    "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "usage": null, "reasoning": null,
    "tool_choice": "auto", "parallel_tool_calls": true, "store": true, "temperature": 1, "top_p": 1, "top_logprobs": 0,
    "presence_penalty": 0, "frequency_penalty": 0, "max_output_tokens": null, "max_tool_calls": null,
    "truncation": "disabled", "service_tier": "default", "text": {"format": {"type": "text"}},
    "safety_identifier": null, "prompt_cache_key": null,
    "model": "demo", "tools": [], "background": false, "previous_response_id": null
}""")
"""A response that has begun, without its id."""
_THOUGHTS = ["I look ", "it up."]
_WORDS = ["Good ", "morning", ", ", "Rome", "!"]
_ARGUMENTS = ['{"city"', ': "Rome"}']


class Response:
    """One response: its events so far, for all who read it."""

    def __init__(self, number: int, request: Json) -> None:
        self.request = request
        self.events: list[Json] = []
        self.changed = asyncio.Condition()
        self.is_done = False
        """Whether it has its last event."""
        self.snapshot: Json = copy.deepcopy(SNAPSHOT) | {
            "id": f"resp_{number}",
            "model": request.get("model") or "demo",
            "tools": request.get("tools") or [],
            "previous_response_id": request.get("previous_response_id"),
            "background": bool(request.get("background")),
        }

    async def write(self) -> None:
        """Write its events, with pauses."""
        for type_, fields in self._events():
            event = {"type": type_, "sequence_number": len(self.events), **copy.deepcopy(fields)}
            await asyncio.sleep(_PAUSE_S)
            async with self.changed:
                self.events.append(event)
                self.changed.notify_all()
        async with self.changed:
            self.is_done = True
            self.changed.notify_all()

    async def read(self, after: int) -> AsyncIterator[Json]:
        """Yield the events behind a sequence number, as they come."""
        while True:
            async with self.changed:
                await self.changed.wait_for(lambda: len(self.events) > after + 1 or self.is_done)
            if len(self.events) <= (after := after + 1):
                return
            yield self.events[after]

    def _events(self) -> Iterator[tuple[str, Json]]:
        given = json.dumps(self.request.get("input") or "")
        yield "response.created", {"response": self.snapshot}
        yield "response.in_progress", {"response": self.snapshot}
        if "weather" in given and "function_call_output" not in given and self.snapshot["tools"]:
            yield from self._reasoning()
            yield from self._call(self.snapshot["tools"][0]["name"])
        else:
            yield from self._message(
                is_whole="fail" not in given, status="incomplete" if "long" in given else "completed"
            )
        if "fail" in given:
            error = {"type": "server_error", "code": "server_error", "message": "The model failed.", "param": None}
            yield "error", {"error": error}
            self.snapshot |= {"status": "failed", "error": {"code": error["code"], "message": error["message"]}}
        elif "long" in given:
            self.snapshot |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        else:
            self.snapshot |= {"status": "completed", "completed_at": 1764288001}
        yield f"response.{self.snapshot['status']}", {"response": self.snapshot}

    def _item(
        self, item: Json, final: Json, inside: Iterator[tuple[str, Json]], *, is_whole: bool = True
    ) -> Iterator[tuple[str, Json]]:
        index = len(self.snapshot["output"])
        yield "response.output_item.added", {"output_index": index, "item": item}
        for type_, fields in inside:
            yield type_, {"item_id": item["id"], "output_index": index, **fields}
        if is_whole:
            self.snapshot["output"].append(item | final)
            yield "response.output_item.done", {"output_index": index, "item": item | final}

    def _reasoning(self) -> Iterator[tuple[str, Json]]:
        def part(text: str) -> Json:
            return {"summary_index": 0, "part": {"type": "summary_text", "text": text}}

        def inside() -> Iterator[tuple[str, Json]]:
            yield "response.reasoning_summary_part.added", part("")
            for text in _THOUGHTS:
                yield "response.reasoning_summary_text.delta", {"summary_index": 0, "delta": text}
            yield "response.reasoning_summary_text.done", {"summary_index": 0, "text": "".join(_THOUGHTS)}
            yield "response.reasoning_summary_part.done", part("".join(_THOUGHTS))

        item = {"id": f"rs_{self.snapshot['id']}", "type": "reasoning", "summary": []}
        yield from self._item(item, {"summary": [part("".join(_THOUGHTS))["part"]]}, inside())

    def _call(self, name: str) -> Iterator[tuple[str, Json]]:
        def inside() -> Iterator[tuple[str, Json]]:
            for text in _ARGUMENTS:
                yield "response.function_call_arguments.delta", {"delta": text}
            yield "response.function_call_arguments.done", {"arguments": "".join(_ARGUMENTS)}

        item = {"id": f"fc_{self.snapshot['id']}", "type": "function_call", "call_id": "call_1", "name": name}
        final = {"arguments": "".join(_ARGUMENTS), "status": "completed"}
        yield from self._item(item | {"arguments": "", "status": "in_progress"}, final, inside())

    def _message(self, *, is_whole: bool, status: str) -> Iterator[tuple[str, Json]]:
        words = _WORDS if status == "completed" else _WORDS[:2]

        def part(text: str) -> Json:
            return {"content_index": 0, "part": {"type": "output_text", "text": text, "annotations": []}}

        def inside() -> Iterator[tuple[str, Json]]:
            yield "response.content_part.added", part("")
            for text in words:
                yield "response.output_text.delta", {"content_index": 0, "delta": text, "logprobs": []}
            if is_whole:
                yield "response.output_text.done", {"content_index": 0, "text": "".join(words), "logprobs": []}
                yield "response.content_part.done", part("".join(words))

        item = {
            "id": f"msg_{self.snapshot['id']}",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        final = {"status": status, "content": [part("".join(words))["part"]]}
        yield from self._item(item, final, inside(), is_whole=is_whole)


def make_app() -> web.Application:
    """Return the service."""
    numbers, responses, tasks = count(1), dict[str, Response](), set[asyncio.Task[None]]()

    async def create(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        response = Response(next(numbers), body)
        responses[response.snapshot["id"]] = response
        task = asyncio.ensure_future(response.write())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if body.get("stream"):
            return await _stream(request, response, -1)
        if not body.get("background"):
            await task
        return web.json_response(response.snapshot)

    async def retrieve(request: web.Request) -> web.StreamResponse:
        response = responses.get(request.match_info["id"])
        if response is None:
            error = {
                "type": "invalid_request_error",
                "code": "response_not_found",
                "message": "There is no such response.",
            }
            return web.json_response({"error": error | {"param": None}}, status=404)
        if request.query.get("stream") != "true":
            return web.json_response(response.snapshot)
        return await _stream(request, response, int(request.query.get("starting_after", -1)))

    app = web.Application()
    app.router.add_post("/v1/responses", create)
    app.router.add_get("/v1/responses/{id}", retrieve)
    return app


async def _stream(request: web.Request, response: Response, after: int) -> web.StreamResponse:
    stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await stream.prepare(request)
    with suppress(ConnectionResetError):  # the client is gone
        async for event in response.read(after):
            await stream.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await stream.write(b"data: [DONE]\n\n")
    return stream


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Serve a small Responses API for demonstrations and tests.")
    parser.add_argument("--port", type=int, default=8000)
    sock = socket.create_server(("127.0.0.1", parser.parse_args().port))
    sys.stdout.write(f"Serving the Responses API on http://127.0.0.1:{sock.getsockname()[1]}/v1; Ctrl-C to stop.\n")
    sys.stdout.flush()
    web.run_app(make_app(), sock=sock, print=None)


if __name__ == "__main__":
    main()
