"""Buffer and encode captured traffic in the proxy, and decode it in the recorder process.

The proxy's event loop appends to one flat list, three values an *entry*: time, body key, bytes.  That costs
some 0.1 µs a chunk; a batch of entries is then packed column by column, at C speed, some 0.05 µs a
chunk.  Everything that takes longer (offsets, runs, strictly increasing times) happens in the recorder.

A batch consists of a mark, the number of entries and of bytes of content (`_BATCH_HEAD`), the times (int64, ns of the
monotonic clock), the body keys (uint64), the lengths (uint32), all in the byte order of the machine, and the
contents, joined.  The body key of a chunk is `exchange << 1 | side`; body key 0 marks a message: an observation
as JSON, or the stop message.
"""

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from time import monotonic_ns
from typing import Any, Final

import msgspec

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)

_Sent = RequestStarted | RequestEnded | ResponseStarted | BytesLost | ExchangeEnded

MESSAGE_KEY: Final = 0
"""The body key of an entry that is not a chunk."""

_BATCH_HEAD = struct.Struct("=4sIQ")
_MARK = b"wtb1"
"""What a batch begins with: if bytes are missing before it, the recorder must notice."""
_STOP = "stop"
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind.__name__: msgspec.json.Decoder(kind)
    for kind in (RequestStarted, RequestEnded, ResponseStarted, BytesLost, ExchangeEnded)
}
_MESSAGE_DECODER = msgspec.json.Decoder(tuple[str, msgspec.Raw])
BodyTap = Callable[[bytes], bytes | list[bytes]]
"""The function that mitmproxy calls with each chunk of a streamed body; it forwards what the tap returns."""
_NEVER = 1 << 63
_NO_ENDS: Final[Mapping[tuple[int, Side], int]] = {}
_ROOM_NS = 4
"""What the writer needs before an end or a loss, for the bytes that it held back (see `Writer.feed`)."""


def body_key(exchange: int, side: Side) -> int:
    """Return the key of a body, which all its chunks carry."""
    return exchange << 1 | (side is Side.RESPONSE)


def body_of(key: int) -> tuple[int, Side]:
    """Return the exchange and the side of a body key."""
    return key >> 1, Side.RESPONSE if key & 1 else Side.REQUEST


def encode_observation(observation: Observation) -> bytes:
    """Encode an observation that is not a chunk. Its time is that of the entry."""
    return msgspec.json.encode((type(observation).__name__, observation))


def is_request(message: bytes) -> bool:
    """Whether an encoded observation begins an exchange."""
    return message.startswith(b'["RequestStarted",')


def encode_stop() -> bytes:
    """Encode the message that the proxy stops in an orderly way."""
    return msgspec.json.encode((_STOP, None))


class CaptureBuffer:
    """A flat list of times, body keys and bytes, in order of arrival."""

    def __init__(self) -> None:
        self.due_ns = _NEVER
        """When the buffer should have been flushed."""
        self.on_overdue: Callable[[], None] = lambda: None
        """Called for each chunk that arrives later than that."""
        self._entries: list[Any] = []

    def add_observation(self, observation: Observation) -> None:
        """Append an observation that is not a chunk, with the current time."""
        self.add_message(encode_observation(observation))

    def add_message(self, content: bytes) -> None:
        """Append an encoded message."""
        self._entries += (monotonic_ns(), MESSAGE_KEY, content)

    def add_chunk(self, exchange: int, side: Side, data: bytes) -> None:
        """Append a chunk."""
        self._entries += (monotonic_ns(), body_key(exchange, side), data)

    def body_tap(self, exchange: int, side: Side) -> BodyTap:
        """Return a tap that appends each chunk and forwards it unchanged."""
        # Three appends are faster than one of a tuple, and create nothing for the garbage collector.
        append, now, key = self._entries.append, monotonic_ns, body_key(exchange, side)

        def tap(data: bytes) -> bytes | list[bytes]:
            if not data:
                # The end, or an empty HTTP/2 frame within the body: b"" would end the body of an HTTP/1 client.
                return []
            moment = now()
            append(moment)
            append(key)
            append(data)
            if moment > self.due_ns:
                self.on_overdue()
            return data

        return tap

    def take(self) -> list[Any]:
        """Remove and return all entries."""
        taken = self._entries[:]
        self._entries.clear()
        return taken


def pack_batch(entries: list[Any]) -> bytes:
    """Pack a flat list of times, body keys and bytes in turn."""
    contents: list[bytes] = entries[2::3]
    lengths = array("I", map(len, contents))
    columns = array("q", entries[::3]).tobytes() + array("Q", entries[1::3]).tobytes() + lengths.tobytes()
    return b"".join((_BATCH_HEAD.pack(_MARK, len(contents), sum(lengths)), columns, *contents))


def drop_chunks(entries: list[Any], why: str) -> list[Any]:
    """Replace all chunks of each body by one loss."""
    sizes = _body_sizes(entries)
    kept: list[Any] = []
    for index in range(0, len(entries), 3):
        time_ns, key, content = entries[index : index + 3]
        if key == MESSAGE_KEY:
            kept += (time_ns, key, content)
        elif count := sizes.pop(key, 0):
            exchange, side = body_of(key)
            kept += (time_ns, MESSAGE_KEY, encode_observation(BytesLost(exchange, 0, side, 0, count, why)))
    return kept


def count_body_bytes(entries: list[Any]) -> int:
    """Count the bytes of bodies in entries."""
    return sum(_body_sizes(entries).values())


def count_requests(entries: list[Any]) -> int:
    """Count the requests that begin in entries."""
    contents = zip(entries[1::3], entries[2::3], strict=True)
    return sum(key == MESSAGE_KEY and is_request(content) for key, content in contents)


def _body_sizes(entries: list[Any]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for key, content in zip(entries[1::3], entries[2::3], strict=True):
        if key != MESSAGE_KEY:
            sizes[key] = sizes.get(key, 0) + len(content)
    return sizes


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries as columns, their contents joined."""

    times: Sequence[int]
    keys: Sequence[int]
    lengths: Sequence[int]
    content: bytes

    def entries(self) -> list[Any]:
        """Return the entries as they were packed."""
        contents = _divide(self.content, self.lengths)
        return [value for entry in zip(self.times, self.keys, contents, strict=True) for value in entry]


def _divide(content: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    for end, length in zip(accumulate(lengths), lengths, strict=True):
        yield content[end - length : end]


class BatchReader:
    """Splits the bytes of the pipe into batches."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Batch]:
        """Yield the batches that `data` completes.  Raises ValueError for anything else than a batch."""
        self._buffer += data
        while (size := self._first_size()) is not None:
            with memoryview(self._buffer) as view, view[:size] as whole:
                batch = _unpack_batch(whole)
            del self._buffer[:size]
            yield batch

    def _first_size(self) -> int | None:
        """Return the size of the first batch in the buffer once it is complete."""
        if len(self._buffer) < _BATCH_HEAD.size:
            return None
        mark, count, volume = _BATCH_HEAD.unpack_from(self._buffer)
        if mark != _MARK:
            raise ValueError("bytes are missing before a batch")
        size: int = _BATCH_HEAD.size + 20 * count + volume
        return size if len(self._buffer) >= size else None


def _unpack_batch(whole: memoryview) -> Batch:
    _mark, count, _volume = _BATCH_HEAD.unpack_from(whole)
    at = _BATCH_HEAD.size
    columns: list[array[int]] = []
    for typecode, size in (("q", 8), ("Q", 8), ("I", 4)):
        columns.append(array(typecode, whole[at : at + size * count].tobytes()))
        at += size * count
    times, keys, lengths = columns
    return Batch(times, keys, lengths, whole[at:].tobytes())


@dataclass(slots=True)
class _Chunks:
    """Chunks of one body."""

    parts: list[bytes] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)


class ObservationDecoder:
    """Turns batches into observations: numbers exchanges, counts offsets, makes times increase strictly."""

    def __init__(
        self, *, base_ns: int, last_ns: int, first_exchange: int, ends: Mapping[tuple[int, Side], int] = _NO_ENDS
    ) -> None:
        """`base_ns`: the monotonic clock at time 0 of the recording; `last_ns`: the recording's latest time so far.

        `ends` is how far bodies of the recording that continue were seen.
        """
        self.stopped = False
        """Whether the stop message arrived."""
        self.lost_bytes = 0
        """Bytes that the proxy dropped."""
        self.last_ns = last_ns
        self._base_ns = base_ns
        self._exchange_offset = first_exchange - 1
        self._ends = {body_key(number - self._exchange_offset, side): end for (number, side), end in ends.items()}

    def feed(self, batches: Iterable[Batch]) -> Iterator[Observation]:
        """Yield the observations of batches: the messages, and before each of them one run for each body."""
        runs: dict[int, _Chunks] = {}
        for batch in batches:
            begin = at = 0
            for key, group in groupby(batch.keys):
                until = begin + sum(1 for _ in group)
                times, lengths = batch.times[begin:until], batch.lengths[begin:until]
                end = at + sum(lengths)
                content = batch.content[at:end]
                begin, at = until, end
                if key == MESSAGE_KEY:
                    yield from self._take(runs)
                    for time_ns, message in zip(times, _divide(content, lengths), strict=True):
                        yield from self._message(time_ns, message)
                else:
                    chunks = runs.setdefault(key, _Chunks())
                    chunks.parts.append(content)
                    chunks.lengths += lengths
                    chunks.times += [self.time_at(time_ns) for time_ns in times]
        yield from self._take(runs)

    def end_of(self, exchange: int, side: Side) -> int:
        """Return how far a body arrived so far; 0 if it has ended."""
        return self._ends.get(body_key(exchange - self._exchange_offset, side), 0)

    def lose_until(self, exchange: int, side: Side, end: int, why: str) -> Iterator[BytesLost]:
        """Yield the loss of what a body lacks up to `end`, unless it has ended."""
        key = body_key(exchange - self._exchange_offset, side)
        count = end - self._ends.get(key, end)
        if count > 0:
            self.last_ns += _ROOM_NS
            yield BytesLost(exchange, self.time_at(0), side, self._skip(key, count), count, why)

    def time_at(self, clock_ns: int) -> int:
        """Convert a time of the monotonic clock into one of the recording, later than all before."""
        # Two entries can have the same time if the clock is coarse.
        self.last_ns = max(clock_ns - self._base_ns, self.last_ns + 1)
        return self.last_ns

    def _take(self, runs: dict[int, _Chunks]) -> Iterator[BytesArrived]:
        for key, chunks in runs.items():
            exchange, side = body_of(key)
            start, *ends = accumulate(chunks.lengths, initial=self._ends.get(key, 0))
            self._ends[key] = ends[-1]
            yield BytesArrived(
                exchange + self._exchange_offset, side, start, b"".join(chunks.parts), ends, chunks.times
            )
        runs.clear()

    def _message(self, clock_ns: int, content: bytes) -> Iterator[Observation]:
        name, fields = _MESSAGE_DECODER.decode(content)
        if name == _STOP:
            self.stopped = True
            return
        sent: _Sent = _DECODERS[name].decode(fields)
        if isinstance(sent, BytesLost | RequestEnded | ExchangeEnded):
            self.last_ns += _ROOM_NS
        if isinstance(sent, BytesLost):
            sent = replace(sent, start=self._skip(body_key(sent.exchange, sent.side), sent.count))
        if isinstance(sent, ExchangeEnded):
            for side in Side:
                self._ends.pop(body_key(sent.exchange, side), None)
        yield replace(sent, exchange=sent.exchange + self._exchange_offset, time_ns=self.time_at(clock_ns))

    def _skip(self, key: int, count: int) -> int:
        """Count lost bytes of a body; return where they begin."""
        start = self._ends.get(key, 0)
        self._ends[key] = start + count
        self.lost_bytes += count
        return start
