"""httpx with httpx-sse: the loop that its users write.  See eventsource.mjs for what is told and what is written."""

import json
import sys

import httpx
from httpx_sse import connect_sse

told = json.loads(sys.argv[1])
cursor = ""
with httpx.Client(timeout=None) as client:  # noqa: S113 - a stream may be silent
    while cursor != told["last"]:
        headers = {"Authorization": f"Bearer {told['key']}"} | ({"Last-Event-ID": cursor} if cursor else {})
        try:
            with connect_sse(client, "GET", told["url"], headers=headers) as source:
                for event in source.iter_sse():
                    print(json.dumps({"type": event.event, "id": event.id, "data": event.data}), flush=True)
                    cursor = event.id or cursor
                    if cursor == told["last"]:
                        break
        except httpx.TransportError:
            continue
