"""The messages of a stream, closely, in blocks."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wiretape.frame_reader import FrameReader, SeenFrame
from wiretape.observations import BytesArrived, BytesLost, Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import jsonlines
from wiretape_inspect.embedding.near import Near
from wiretape_inspect.embedding.packing import packed
from wiretape_inspect.exporting import content
from wiretape_inspect.place import Chunk, chunks_in

_EVENTS, _CHARACTERS = 256, 2 << 20
"""How much a block holds, at most about."""
LARGE = 256 << 10
"""Bytes of an event that is left out, where not all events are held."""


@dataclass(slots=True)
class _Block:
    first: int
    last: int = 0
    details: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, event: int, text: str) -> None:
        self.last = event
        self.details.append(text)
        self.size += len(text)

    @property
    def full(self) -> bool:
        return len(self.details) >= _EVENTS or self.size >= _CHARACTERS

    def text(self) -> str:
        whole = b"".join(packed([f"[{','.join(self.details)}]".encode()])).decode()
        return f'{{"first":{self.first},"last":{self.last},"gzip":"{whole}"}}'


def blocks(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], near: Near | None = None
) -> Iterator[str]:
    """The blocks of a stream, each as JSON; `findings` are those of the exchange.  With `near` of some events only."""
    block: _Block | None = None
    for event, told in details(recording, exchange, findings, near):
        if block is not None and event != block.last + 1:
            yield block.text()
            block = None
        block = block or _Block(event)
        block.add(event, jsonlines.dump(told))
        if block.full:
            yield block.text()
            block = None
    if block is not None:
        yield block.text()


def details(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], near: Near | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each message by its number, or those `near` that are not large, without what a client knew then."""
    about: dict[int, list[Finding]] = {}
    for finding in findings:
        about.setdefault(finding.event or 0, []).append(finding)
    since_ns = exchange.response.time_ns if exchange.response else exchange.request.time_ns
    for seen, came in _with_chunks(exchange, recording.body(exchange.number, Side.RESPONSE)):
        if seen.event is None:
            continue
        if near is not None and seen.event > near.last:
            return
        if near is None or (seen.event in near and len(seen.frame.raw) <= LARGE):
            told = jsonlines.detail(exchange, seen, since_ns, tuple(about.get(seen.event, ())), came)
            yield seen.event, told | content(seen.frame.raw, parse=False)
        since_ns = seen.time_ns


def _with_chunks(
    exchange: Exchange, body: Iterator[BytesArrived | BytesLost]
) -> Iterator[tuple[SeenFrame, list[Chunk]]]:
    """Each frame, and the chunks that it came in."""
    reader, near = FrameReader(exchange.content_encoding), deque[Chunk]()
    for part in body:
        if isinstance(part, BytesArrived):
            near.extend(chunks_in(part))
            frames = reader.feed(part)
        else:
            frames = reader.skip(part)
        yield from ((seen, _of(seen, near)) for seen in frames)
    yield from ((seen, _of(seen, near)) for seen in reader.close())


def _of(seen: SeenFrame, near: "deque[Chunk]") -> list[Chunk]:
    """The chunks of a frame; those before it are forgotten."""
    start, end = seen.frame.start, seen.frame.end
    while near and near[0][1] <= start:
        near.popleft()
    came = []
    for chunk in near:
        if chunk[0] >= end:
            break
        came.append(chunk)
    return came
