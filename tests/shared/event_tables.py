"""Events and exchanges that TOML files of tests describe."""

import json
from base64 import b64decode
from collections.abc import Iterable
from typing import Any

from wiretape.observations import Ending


def event_chunk(event: str | dict[str, Any]) -> tuple[float, bytes] | int:
    """Return the milliseconds since the event before (`wait`, 1), and the bytes; or how many bytes were lost.

    An event is a table of its JSON, sent with its `type` as name and its `id`, if it has one, as id.  A string, or
    `text`, is a piece of a message.delta of run r1; `raw` and `base64` are exactly these bytes.
    """
    fields = {"text": event} if isinstance(event, str) else dict(event)
    if "lost" in fields:
        return fields["lost"]
    wait = fields.pop("wait", 1)
    if "raw" in fields or "base64" in fields:
        return wait, fields["raw"].encode() if "raw" in fields else b64decode(fields["base64"])
    if "text" in fields and "type" not in fields:
        fields = {"type": "message.delta", "run_id": "r1", "delta": {"text": fields["text"]}}
    lines = [f"event: {fields['type']}", *([f"id: {fields['id']}"] if "id" in fields else [])]
    return wait, "\n".join([*lines, f"data: {json.dumps(fields)}", "", ""]).encode()


def event_chunks(events: Iterable[str | dict[str, Any]]) -> list[tuple[float, bytes] | int]:
    """Return the chunks of events; `times` repeats one."""
    chunks = []
    for event in events:
        fields = event if isinstance(event, str) else dict(event)
        times = 1 if isinstance(fields, str) else fields.pop("times", 1)
        chunks += [event_chunk(fields)] * times
    return chunks


def exchange_arguments(exchange: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `RecordingBuilder.exchange`: those given, and `events` or the JSON of an `answer`."""
    given = {"method": "POST", "headers": []} | exchange if "answer" in exchange else dict(exchange)
    if "answer" in given:
        given["events"] = [{"wait": given.pop("wait", 1), "raw": given.pop("answer")}]
        given["headers"] = [["content-type", "application/json"], *given["headers"]]
    given |= {name: tuple(map(tuple, given[name])) for name in ("headers", "request_headers") if name in given}
    given["chunks"] = event_chunks(given.pop("events", ()))
    if "body" in given:
        given["body"] = given["body"].encode()
    if "ending" in given:
        given["ending"] = Ending(given["ending"])
    return given
