"""The events of the benchmarks: four deltas, then a durable event."""

DELTA = (
    b'event: message.delta\ndata: {"type":"message.delta","run_id":"run_1",'
    b'"delta":{"text":"a few words of text %d "},"t":%d}\n\n'
)
DURABLE = (
    b'id: evt_%d\nevent: message.completed\ndata: {"id":"evt_%d","sequence":%d,"type":"message.completed",'
    b'"workspace_id":"ws_1","session_id":"%s","run_id":"run_1","created_at":"2026-01-01T00:00:00Z",'
    b'"content":[{"type":"text","text":"the whole message, in more words than its pieces"}],"data":{},"t":%d}\n\n'
)


def event(session: bytes, number: int, now_ns: int) -> bytes:
    """Return event `number` (from 0) of a session, with the time at which it was created."""
    if number % 5 < 4:
        return DELTA % (number, now_ns)
    return DURABLE % (number, number, number // 5 + 1, session, now_ns)
