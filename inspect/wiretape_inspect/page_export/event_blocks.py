"""The messages of a stream in full, in compressed blocks that the page unpacks when it needs them."""

import zlib
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wiretape.frame_reader import FrameReader, SeenFrame
from wiretape.json_codec import dump_json
from wiretape.observations import BytesArrived, BytesLost, Side
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import timeline_json
from wiretape_inspect.event_detail import Chunk, chunks_of
from wiretape_inspect.event_export import content
from wiretape_inspect.page_export.event_window import EventWindow

LARGE = 256 << 10
"""Events and bodies with more bytes are left out of a page that does not contain all events."""
_BLOCK_EVENTS, _BLOCK_CHARACTERS = 256, 2 << 20
"""About how much a block contains at most."""
_GZIP_WINDOW = 31
"""The wbits of zlib for a gzip container, whose header then contains no time."""
_GZIP_LEVEL = 6


@dataclass(slots=True)
class _Block:
    first: int
    last: int = 0
    events: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, event: int, text: str) -> None:
        self.last = event
        self.events.append(text)
        self.size += len(text)

    @property
    def is_full(self) -> bool:
        return len(self.events) >= _BLOCK_EVENTS or self.size >= _BLOCK_CHARACTERS

    def json(self) -> str:
        packed = b"".join(pack([f"[{','.join(self.events)}]".encode()])).decode()
        return f'{{"first":{self.first},"last":{self.last},"gzip":"{packed}"}}'


def event_blocks(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], window: EventWindow | None = None
) -> Iterator[str]:
    """Yield the blocks of a stream as JSON; `findings` are those of the exchange.  Without a window: all events."""
    block: _Block | None = None
    for event, document in event_documents(recording, exchange, findings, window):
        if block is not None and (block.is_full or event != block.last + 1):
            yield block.json()
            block = None
        block = block or _Block(event)
        block.add(event, dump_json(document))
    if block is not None:
        yield block.json()


def event_documents(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], window: EventWindow | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each message with its number, without the state of the client; with a window, no large ones."""
    by_event: dict[int, list[Finding]] = {}
    for finding in findings:
        by_event.setdefault(finding.event or 0, []).append(finding)
    since_ns = exchange.response.time_ns if exchange.response else exchange.request.time_ns
    for seen, chunks in _frames_with_chunks(exchange, recording.body(exchange.number, Side.RESPONSE)):
        if seen.event is None:
            continue
        if window is not None and seen.event > window.last:
            return
        if window is None or (seen.event in window and len(seen.frame.raw) <= LARGE):
            document = timeline_json.event_document(
                exchange, seen, since_ns, tuple(by_event.get(seen.event, ())), chunks
            )
            yield seen.event, document | content(seen.frame.raw, parse=False)
        since_ns = seen.time_ns


def _frames_with_chunks(
    exchange: Exchange, body: Iterator[BytesArrived | BytesLost]
) -> Iterator[tuple[SeenFrame, list[Chunk]]]:
    """Yield each frame with the chunks that it arrived in."""
    reader, recent = FrameReader(exchange.content_encoding), deque[Chunk]()
    for part in body:
        if isinstance(part, BytesArrived):
            recent.extend(chunks_of(part))
            frames = reader.feed(part)
        else:
            frames = reader.skip(part)
        yield from ((seen, _chunks_of(seen, recent)) for seen in frames)
    yield from ((seen, _chunks_of(seen, recent)) for seen in reader.close())


def _chunks_of(seen: SeenFrame, recent: "deque[Chunk]") -> list[Chunk]:
    """Return the chunks of a frame, and drop the chunks before it."""
    start, end = seen.frame.start, seen.frame.end
    while recent and recent[0][1] <= start:
        recent.popleft()
    chunks = []
    for chunk in recent:
        if chunk[0] >= end:
            break
        chunks.append(chunk)
    return chunks


def pack(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the joined parts as gzip in base64, while they are made."""
    rest = b""
    for data in _compress(parts):
        rest += data
        whole = len(rest) // 3 * 3
        yield b64encode(rest[:whole])
        rest = rest[whole:]
    yield b64encode(rest)


def _compress(parts: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW)
    for part in parts:
        yield compressor.compress(part)
    yield compressor.flush()
