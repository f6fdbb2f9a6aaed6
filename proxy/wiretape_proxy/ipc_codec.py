"""Encode captured traffic in the proxy, and decode it in the recorder process.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
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


def pack_batch(entries: list[Any]) -> bytes:
    """Pack a flat list of times, body keys and bytes in turn."""
    contents: list[bytes] = entries[2::3]
    lengths = array("I", map(len, contents))
    columns = array("q", entries[::3]).tobytes() + array("Q", entries[1::3]).tobytes() + lengths.tobytes()
    return b"".join((_BATCH_HEAD.pack(_MARK, len(contents), sum(lengths)), columns, *contents))


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries as columns, their contents joined."""

    times: Sequence[int]
    keys: Sequence[int]
    lengths: Sequence[int]
    content: bytes

    def entries(self) -> list[Any]:
        """Return the entries as they were packed."""
        entries: list[Any] = []
        at = 0
        for time_ns, key, length in zip(self.times, self.keys, self.lengths, strict=True):
            entries += (time_ns, key, self.content[at : at + length])
            at += length
        return entries


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

    def feed(self, batch: Batch) -> Iterator[Observation]:
        """Yield the observations of a batch in the order of their entries."""
        begin = at = 0
        for key, group in groupby(batch.keys):
            if key == MESSAGE_KEY:
                for _ in group:
                    end = at + batch.lengths[begin]
                    yield from self._message(batch.times[begin], batch.content[at:end])
                    begin, at = begin + 1, end
            else:
                until = begin + sum(1 for _ in group)
                lengths = batch.lengths[begin:until]
                end = at + sum(lengths)
                yield self._run(key, batch.times[begin:until], lengths, batch.content[at:end])
                begin, at = until, end

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

    def _run(self, key: int, times: Sequence[int], lengths: Sequence[int], data: bytes) -> BytesArrived:
        exchange, side = body_of(key)
        start = self._ends.get(key, 0)
        ends = list(accumulate(lengths, initial=start))[1:]
        self._ends[key] = ends[-1]
        moments = [self.time_at(time_ns) for time_ns in times]
        return BytesArrived(exchange + self._exchange_offset, side, start, data, ends, moments)

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
