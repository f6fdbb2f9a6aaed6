"""What the proxy's event loop notes, and how it crosses the pipe to the recorder.

The loop appends to one flat list, three values a *note*: when, about what, and bytes.  That costs
it some 0.1 µs a chunk; a batch of notes is then packed column by column, at C speed, some 0.05 µs a
chunk.  Everything that takes longer (offsets, runs, times that strictly increase) is done by the
recorder, in a process of its own.

A batch: how many notes and how many bytes of content follow (`_HEAD`), then the times (int64, ns of the
monotonic clock), the subjects (uint64), the lengths (uint32), in the byte order of the machine, and the
content of all notes joined.  The subject of a chunk is `exchange << 1 | side`; subject 0 is an observation
as JSON, or a word to the recorder.
"""

import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, Final

import orjson

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)

WORD: Final = 0
"""The subject of a note that is no chunk."""

_HEAD = struct.Struct("=IQ")
_KINDS = {kind.__name__: kind for kind in (RequestStarted, RequestEnded, ResponseStarted, BytesLost, ExchangeEnded)}
_STOP = "stop"
_ENDS = frozenset({BytesLost.__name__, ExchangeEnded.__name__})
_ROOM_NS = 2
"""What the writer needs before an end or a loss, for the bytes that it held back (see `Writer.feed`)."""


def subject(exchange: int, side: Side) -> int:
    """What a chunk of this body is noted under."""
    return exchange << 1 | (side is Side.RESPONSE)


def body_of(subject: int) -> tuple[int, Side]:
    """The exchange and the side that a chunk's subject names."""
    return subject >> 1, Side.RESPONSE if subject & 1 else Side.REQUEST


def put(observation: Observation) -> bytes:
    """An observation that is no chunk, as the content of a note; its time is that of the note."""
    return orjson.dumps([type(observation).__name__, observation])


def put_stop() -> bytes:
    """The word that the proxy ends in good order: what follows, if anything, is the end of the pipe."""
    return orjson.dumps([_STOP, None])


def pack(notes: list[Any]) -> bytes:
    """A batch of notes, a flat list of times, subjects and bytes in turn, as bytes for the pipe."""
    contents: list[bytes] = notes[2::3]
    lengths = array("I", map(len, contents))
    columns = array("q", notes[::3]).tobytes() + array("Q", notes[1::3]).tobytes() + lengths.tobytes()
    return b"".join((_HEAD.pack(len(contents), sum(lengths)), columns, *contents))


@dataclass(frozen=True, slots=True)
class Batch:
    """Notes as columns, their contents joined."""

    times: Sequence[int]
    subjects: Sequence[int]
    lengths: Sequence[int]
    content: bytes


class Unpacker:
    """Cuts what comes out of the pipe into batches."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Batch]:
        """The batches that `data` completes.  A batch cut off by the end of the pipe is never given."""
        self._buffer += data
        while (size := self._whole()) is not None:
            with memoryview(self._buffer) as view, view[:size] as whole:
                batch = _unpack(whole)
            del self._buffer[:size]
            yield batch

    def _whole(self) -> int | None:
        """How long the first batch in the buffer is, once all of it is there."""
        if len(self._buffer) < _HEAD.size:
            return None
        count, volume = _HEAD.unpack_from(self._buffer)
        size: int = _HEAD.size + 20 * count + volume
        return size if len(self._buffer) >= size else None


def _unpack(whole: memoryview) -> Batch:
    count, _volume = _HEAD.unpack_from(whole)
    at = _HEAD.size
    columns: list[array[int]] = []
    for typecode, size in (("q", 8), ("Q", 8), ("I", 4)):
        columns.append(array(typecode, whole[at : at + size * count].tobytes()))
        at += size * count
    times, subjects, lengths = columns
    return Batch(times, subjects, lengths, whole[at:].tobytes())


class Assembler:
    """Turns notes back into observations: numbers exchanges on, counts offsets, makes times increase."""

    def __init__(self, *, base_ns: int, last_ns: int, first_exchange: int) -> None:
        """`base_ns`: what the monotonic clock said at time 0 of the recording; `last_ns`: its latest time so far."""
        self.stopped = False
        """Whether the proxy said that it ends in good order."""
        self.lost_bytes = 0
        """How many bytes the proxy left out."""
        self.last_ns = last_ns
        self._base_ns = base_ns
        self._before = first_exchange - 1
        self._ends: dict[int, int] = {}

    def feed(self, batch: Batch) -> Iterator[Observation]:
        """The observations of one batch, in the order in which they were noted."""
        begin = at = 0
        for about, group in groupby(batch.subjects):
            if about == WORD:
                for _ in group:
                    end = at + batch.lengths[begin]
                    yield from self._word(batch.times[begin], batch.content[at:end])
                    begin, at = begin + 1, end
            else:
                until = begin + sum(1 for _ in group)
                lengths = batch.lengths[begin:until]
                end = at + sum(lengths)
                yield self._run(about, batch.times[begin:until], lengths, batch.content[at:end])
                begin, at = until, end

    def now(self, clock_ns: int) -> int:
        """The time in the recording at `clock_ns` of the monotonic clock, later than all that was given out."""
        return self._time(clock_ns)

    def _time(self, clock_ns: int) -> int:
        # Two notes can carry the same time where the clock is coarse.
        self.last_ns = max(clock_ns - self._base_ns, self.last_ns + 1)
        return self.last_ns

    def _run(self, about: int, times: Sequence[int], lengths: Sequence[int], data: bytes) -> BytesArrived:
        exchange, side = body_of(about)
        start = self._ends.get(about, 0)
        ends = list(accumulate(lengths, initial=start))[1:]
        self._ends[about] = ends[-1]
        moments = [self._time(time_ns) for time_ns in times]
        return BytesArrived(exchange + self._before, side, start, data, ends, moments)

    def _word(self, clock_ns: int, content: bytes) -> Iterator[Observation]:
        name, fields = orjson.loads(content)
        if name == _STOP:
            self.stopped = True
            return
        number = fields["exchange"]
        if name in _ENDS:
            self.last_ns += _ROOM_NS
        fields |= {"exchange": number + self._before, "time_ns": self._time(clock_ns)}
        if "headers" in fields:
            fields["headers"] = _headers(fields["headers"])
        if name == BytesLost.__name__:
            fields |= self._gap(subject(number, Side(fields["side"])), fields["count"])
        if name == ExchangeEnded.__name__:
            fields["ending"] = Ending(fields["ending"])
            for side in Side:
                self._ends.pop(subject(number, side), None)
        observation: Observation = _KINDS[name](**fields)
        yield observation

    def _gap(self, about: int, count: int) -> dict[str, Any]:
        start = self._ends.get(about, 0)
        self._ends[about] = start + count
        self.lost_bytes += count
        return {"side": body_of(about)[1], "start": start}


def _headers(pairs: list[list[str]]) -> Headers:
    return tuple((name, value) for name, value in pairs)
