"""Bytes that services send over HTTP/1.1."""

import json

STREAM = "/v1/sessions/s1/events/stream"
EVENT_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = EVENT_STREAM + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
"""What ends a chunked body."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def durable_event(number: int, kind: str = "", *, session: str = "s1", run: str = "r1", **changes: object) -> bytes:
    """Return a valid event with the sequence `number`, but for some fields; the first one begins the run."""
    document = {
        "id": f"e{number}",
        "sequence": number,
        "type": kind or ("run.started" if number == 1 else "reasoning.message"),
        "workspace_id": "w1",
        "session_id": session,
        "run_id": run,
        "created_at": "2025-01-01T00:00:00Z",
        "content": [],
        "data": {},
    } | changes
    return f"event: {document['type']}\nid: {document['id']}\ndata: {json.dumps(document)}\n\n".encode()


def chunks_of(body: bytes) -> list[bytes]:
    """Return the data of each HTTP chunk; every chunk has to be complete."""
    found = []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        assert body[length : length + 2] == b"\r\n"
        found.append(body[:length])
        body = body[length + 2 :]
    return found
