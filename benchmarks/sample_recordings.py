"""The recordings that benchmarks read.  Another wiretape makes its own, as formats may differ.

python benchmarks/sample_recordings.py FUNCTION PATH ARGUMENTS, with the Python of the other wiretape
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

from proxy_targets import OURS, PROGRAMS
from sample_events import event

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer

SECOND = 10**9
HEAD = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
JSON_TARGET = "/v1/sessions/s0"
STREAMS = 10
CHUNK_NS = 200_000
RUN = 50


def record(program: str, function: str, path: Path, *arguments: object) -> Path:
    """Let a program make a recording by a function of this module, with arguments that are JSON; return its path."""
    if program == OURS:
        _FUNCTIONS[function](path, *arguments)
        return path
    path = path.with_name(f"older-{path.name}")
    command: list[str | Path] = [PROGRAMS[program].with_name("python"), __file__, function, path, json.dumps(arguments)]
    subprocess.run(command, check=True)
    return path


def sessions(path: Path, streams: int, events: int, gap_ns: int, ending: str, answer: str | None = None) -> None:  # noqa: PLR0917 - JSON on the command line
    """Record `streams` sessions with one stream each, all at the same time: `events` events `gap_ns` apart.

    Each event carries its recorded time as `t`.  With `answer`, a JSON document, GET /v1/sessions/s0 is answered, too.
    """
    writer = Writer.create(path, upstream="http://bench")
    clock = iter(range(writer.began_ns + 10, 2**62, 10))
    for number in range(streams):
        target = f"/v1/sessions/s{number}/events/stream?event_deltas=true"
        writer.feed(begun(number + 1, target, HEAD, clock))
    if answer is not None:
        document = answer.encode()
        headers = (("Content-Type", "application/json"), ("Content-Length", str(len(document))))
        writer.feed(begun(streams + 1, JSON_TARGET, headers, clock))
        size, now = len(document), next(clock)
        writer.feed([BytesArrived(streams + 1, Side.RESPONSE, 0, document, (size,), (now,))])
        writer.feed([ExchangeEnded(streams + 1, next(clock), Ending.COMPLETE)])
    base = next(clock) + 1000
    sizes = [0] * streams
    for at in range(events):
        for number in range(streams):
            now = base + at * gap_ns + number * 10
            data = event(b"s%d" % number, at, now)
            begin, sizes[number] = sizes[number], sizes[number] + len(data)
            writer.feed([BytesArrived(number + 1, Side.RESPONSE, begin, data, (sizes[number],), (now,))])
        if at * streams % 5000 < streams:
            store(writer)
    end = base + events * gap_ns
    writer.feed(ExchangeEnded(number + 1, end + 10 * number, Ending(ending)) for number in range(streams))
    store(writer)
    writer.close(end + SECOND)


def begun(exchange: int, target: str, headers: Headers, clock: Iterator[int]) -> list[Observation]:
    """Return a request and the beginning of its response."""
    key = (("Authorization", "Bearer wt-bench-0123456789"),)
    return [
        RequestStarted(exchange, next(clock), "127.0.0.1", "GET", "http", "bench", target, "HTTP/1.1", key),
        RequestEnded(exchange, next(clock)),
        ResponseStarted(exchange, next(clock), 200, "OK", "HTTP/1.1", headers),
    ]


def long_streams(path: Path, events: int) -> None:
    """Record ten streams with as many events in all."""
    writer = Writer.create(path, upstream="http://bench")
    for number, seen in enumerate(_long_traffic(writer.began_ns, events)):
        writer.feed([seen])
        if number % 200 == 0:
            store(writer)
    writer.close(2**62)


def _long_traffic(began_ns: int, events: int) -> Iterator[Observation]:
    """Yield ten streams of ten sessions at once, one event per chunk, with keep-alives every fifteen seconds."""
    clock = iter(range(began_ns + 1, 2**62, CHUNK_NS))
    offsets = dict.fromkeys(range(1, STREAMS + 1), 0)
    numbers = dict.fromkeys(offsets, 0)
    key = (("Authorization", "Bearer wt-bench-0123456789"),)
    for stream in offsets:
        target = f"/v1/sessions/s{stream}/events/stream?event_deltas=true"
        yield RequestStarted(stream, next(clock), "127.0.0.1", "GET", "http", "bench", target, "HTTP/1.1", key)
        yield RequestEnded(stream, next(clock))
        kind = (("Content-Type", "text/event-stream"),)
        yield ResponseStarted(stream, next(clock), 200, "OK", "HTTP/1.1", kind)
    for _ in range(events // STREAMS // RUN):
        for stream, offset in offsets.items():
            session = b"s%d" % stream
            chunks = [event(session, numbers[stream] + number, 0) for number in range(RUN)]
            ends = list(accumulate(map(len, chunks), initial=offset))[1:]
            times = [next(clock) for _ in chunks]
            yield BytesArrived(stream, Side.RESPONSE, offset, b"".join(chunks), ends, times)
            numbers[stream] += RUN
            offsets[stream] = ends[-1]
    for stream in offsets:
        yield ExchangeEnded(stream, next(clock), Ending.COMPLETE)


def store(writer: Writer) -> None:
    writer.commit()
    while writer.derive():
        pass


_FUNCTIONS: dict[str, Callable[..., None]] = {"sessions": sessions, "long_streams": long_streams}

if __name__ == "__main__":
    _, function, path, arguments = sys.argv
    _FUNCTIONS[function](Path(path), *json.loads(arguments))
