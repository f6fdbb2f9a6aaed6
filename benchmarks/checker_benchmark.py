"""Time of the checker for ordinary events, compared with parsing their JSON.

Run it with `python benchmarks/checker_benchmark.py [EVENTS]`.
"""

import sys
import time
from collections.abc import Callable, Iterator

import orjson

from wiretape.checker import Checker
from wiretape.event import TimedFrame
from wiretape.frame_reader import FrameReader
from wiretape.observations import BytesArrived, RequestStarted, ResponseStarted, Side

_CHUNK_EVENTS = 50
_REPEATS = 3


def messages(count: int) -> Iterator[bytes]:
    """Yield an ordinary stream: four deltas of about 200 bytes for each durable event of about 400."""
    for number in range(1, count + 1):
        event = _durable(number) if number % 5 == 0 else _delta(number)
        head = f"id: {event['id']}\n" if "id" in event else ""
        yield f"event: {event['type']}\n{head}data: ".encode() + orjson.dumps(event) + b"\n\n"


def _delta(number: int) -> dict[str, object]:
    text = "a few words of the answer, as a model would give them, piece by piece, " * 2
    return {"type": "message.delta", "run_id": "run_0123456789abcdef", "delta": {"text": f"{text}{number}"}}


def _durable(number: int) -> dict[str, object]:
    call = {"tool_call_id": f"call_{number:012}", "name": "search"}
    return {
        "id": f"evt_{number:016}",
        "sequence": number // 5,
        "type": "tool.started",
        "workspace_id": "ws_0123456789abcdef",
        "session_id": "ses_0123456789abcdef",
        "run_id": "run_0123456789abcdef",
        "created_at": "2025-01-01T00:00:00.123456Z",
        "content": {**call, "input": {"query": "what the specification says"}},
        "data": call,
    }


def runs(count: int) -> list[BytesArrived]:
    """Return the messages as they would arrive, several in a chunk."""
    parts = list(messages(count))
    found, at = [], 0
    for begin in range(0, count, _CHUNK_EVENTS):
        data = b"".join(parts[begin : begin + _CHUNK_EVENTS])
        found.append(BytesArrived(1, Side.RESPONSE, at, data, (at + len(data),), (begin + 10,)))
        at += len(data)
    return found


def frames(body: list[BytesArrived]) -> Iterator[TimedFrame]:
    """Yield the frames of the body."""
    reader = FrameReader()
    for run in body:
        yield from reader.feed(run)


def check(body: list[BytesArrived]) -> None:
    """Check the body as the response to a stream request; there must be no findings."""
    checker = Checker()
    target = "/v1/sessions/ses_0123456789abcdef/events/stream?event_deltas=true"
    checker.feed(RequestStarted(1, 1, "127.0.0.1", "GET", "http", "service", target, "HTTP/1.1", ()))
    checker.feed(ResponseStarted(1, 2, 200, "OK", "HTTP/1.1", (("Content-Type", "text/event-stream"),)))
    assert not [finding for run in body for finding in checker.feed(run)]
    assert checker.events == sum(run.data.count(b"\n\n") for run in body)


def best(function: Callable[[], object], count: int) -> float:
    """Return microseconds per event, the best of several runs."""
    seconds = []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - begun)
    return min(seconds) / count * 1e6


def main(argv: list[str] | None = None) -> None:
    """Print the time per event of each part."""
    arguments = sys.argv[1:] if argv is None else argv
    count = int(arguments[0]) if arguments else 50_000
    body = runs(count)
    data = [seen.frame.data for seen in frames(body)]
    parsing = best(lambda: sum(1 for _ in frames(body)), count)
    loading = best(lambda: [orjson.loads(text) for text in data], count)
    checking = best(lambda: check(body), count)
    print(f"{count} events, {sum(len(run.data) for run in body) / count:.0f} bytes each, on one core:")
    print(f"  orjson.loads alone            {loading:6.2f} µs an event")
    print(f"  bytes to frames               {parsing:6.2f} µs an event")
    print(f"  facts and all stream rules    {checking - parsing:6.2f} µs an event")
    print(f"  together                      {checking:6.2f} µs an event, {1e6 / checking:,.0f} events/s")


if __name__ == "__main__":
    main()
