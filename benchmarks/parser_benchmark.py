"""Time of the event stream parser, in microseconds per frame.

    python benchmarks/parser_benchmark.py

Frames of some 200 bytes with three fields each, as the service sends them.  Best of a few rounds, one thread.
"""

import time
from collections.abc import Sequence

from wiretape.sse import Parser

_FRAME = (
    b"id: evt_00000012\nevent: tool.started\n"
    b'data: {"id":"evt_00000012","sequence":12,"type":"tool.started","session_id":"s_1","run_id":"r_1",'
    b'"content":{"name":"x","input":{"a":1}},"data":{"name":"x"}}\n\n'
)
_FRAMES = 10_000
_ROUNDS = 5
_LINE_ENDS = {"LF": b"\n", "CR LF": b"\r\n", "CR": b"\r"}


def measure(frame: bytes, size: int, frames: int = _FRAMES) -> float:
    """Return the seconds per frame if a stream is fed `size` bytes at a time."""
    stream = frame * frames
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    return min(_seconds(chunks, frames) for _ in range(_ROUNDS)) / frames


def _seconds(chunks: Sequence[bytes], frames: int) -> float:
    begun = time.perf_counter()
    parser = Parser()
    seen = sum(len(parser.feed(chunk)) for chunk in chunks) + len(parser.close())
    took = time.perf_counter() - begun
    assert seen == frames
    return took


def main() -> None:
    print(f"{'µs a frame':12}{'1 MiB':>10}{'64 KiB':>10}{'a frame':>10}{'64 bytes':>10}{'1 byte':>10}")
    for name, end in _LINE_ENDS.items():
        frame = _FRAME.replace(b"\n", end)
        sizes = {1024 * 1024: _FRAMES, 64 * 1024: _FRAMES, len(frame): _FRAMES, 64: _FRAMES // 4, 1: _FRAMES // 50}
        row = "".join(f"{measure(frame, size, frames) * 1e6:10.2f}" for size, frames in sizes.items())
        print(f"{name:12}{row}")


if __name__ == "__main__":
    main()
