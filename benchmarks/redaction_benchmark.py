"""Time to record with one credential and with many.

    python benchmarks/redaction_benchmark.py

Each way records the same traffic: requests, each with a stream of some 200-byte events, one chunk an event.  In the
first way, all requests have the same credential; in the second, each has its own, and the recorder has seen thousands
before.  The rounds alternate, and each figure is the median of CPU times of one thread.
"""

import argparse
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import Writer

_EVENT = (
    b"id: evt_%08d\nevent: tool.started\n"
    b'data: {"id":"evt_%08d","sequence":12,"type":"tool.started","session_id":"s_1","run_id":"r_1",'
    b'"content":{"name":"x","input":{"a":1}},"data":{"name":"x"}}\n\n'
)
_COMMIT_EVERY = 10


def traffic(start_ns: int, credentials: list[str], events: int) -> Iterator[list[Observation]]:
    """Yield the observations of one exchange after the other."""
    now = start_ns
    for number, credential in enumerate(credentials, 1):
        headers = (("Authorization", f"Bearer {credential}"), ("Accept", "text/event-stream"), ("Host", "service"))
        request = RequestStarted(number, now + 1, "127.0.0.1", "GET", "http", "service", "/v1/x", "HTTP/1.1", headers)
        response = ResponseStarted(number, now + 2, 200, "OK", "HTTP/1.1", (("Content-Type", "text/event-stream"),))
        chunks = [_EVENT % (each, each) for each in range(events)]
        ends = [len(chunks[0]) * (each + 1) for each in range(events)]
        times = range(now + 3, now + 3 + events)
        run = BytesArrived(number, Side.RESPONSE, 0, b"".join(chunks), ends, times)
        now += events + 10
        yield [request, response, run, ExchangeEnded(number, now, Ending.COMPLETE)]


def record(credentials: list[str], events: int, before: int = 0) -> tuple[float, float]:
    """Record, after `before` requests that are not measured; return CPU seconds to store, and to index as well."""
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer.create(Path(folder, "run.db"), upstream="http://service")
        stored = indexed = 0.0
        for number, exchange in enumerate(traffic(writer.began_ns, credentials, events)):
            begun = time.process_time()
            writer.feed(exchange)
            if number % _COMMIT_EVERY == 0:
                writer.commit()
            done = time.process_time()
            while writer.derive():
                pass
            if number >= before:
                stored += done - begun
                indexed += time.process_time() - begun
        writer.close()
    return stored, indexed


def main() -> None:
    """Print the times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--credentials", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    ways: dict[str, list[tuple[float, float]]] = {"one": [], "many": []}
    known = [secrets.token_urlsafe(30) for _ in range(given.credentials - given.requests)]
    own = [secrets.token_urlsafe(30) for _ in range(given.requests)]
    for _ in range(given.rounds):
        ways["one"].append(record(own[:1] * given.requests, 100))
        ways["many"].append(record(known + own, 100, before=len(known)))
    for name, index in (("store", 0), ("store and index", 1)):
        one, many = (median(times[index] for times in ways[way]) for way in ("one", "many"))
        print(
            f"{name:16} 1 credential {one / given.requests * 1e6:8,.0f} µs a request, "
            f"{given.credentials:,} credentials {many / given.requests * 1e6:8,.0f} µs: {many / one:.2f}"
        )
    stored, _ = record(own, 1)
    print(f"{given.requests} requests with a credential each are stored in {stored:.2f} s")


if __name__ == "__main__":
    main()
