"""Normalize a recording: what differs between two recordings of the same traffic becomes equal.

Ids are numbered, times are rounded, each frame of a stream is one chunk, and bodies are decoded.  Exchanges that share
ids are a conversation, which stays together; conversations that overlapped are sorted by their content.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wiretape.content_encoding import decode_beginning, is_identity
from wiretape.errors import InputError
from wiretape.event import TimedFrame, make_event
from wiretape.files import size_error
from wiretape.json_codec import read_json
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
from wiretape.recording.formats import find_format
from wiretape.recording.formats.tape_schema import STEP_NS
from wiretape.recording.opener import open_recording
from wiretape.recording.recording_builder import (
    RecordingMetadata,
    RecordingSource,
    build_recording,
    move_observation,
    order_observations,
)
from wiretape.recording.recording_reader import Recording
from wiretape.recording.redactor import REDACTED_PATTERN
from wiretape.recording.table_rows import Exchange
from wiretape.recording.varying_values import STARTED_NS, VaryingIds, VaryingTimes, ids_in, round_gap
from wiretape.sse import FrameKind, Parser

MAX_BYTES = 64 * 1024 * 1024
"""Bytes of all bodies; they are held in memory."""
_REQUEST_IDS = re.compile(r"idempotency-key|.*(?:request|correlation)-id", re.IGNORECASE)
"""Headers of requests that have another value in each."""
_FINGERPRINT = re.compile(REDACTED_PATTERN)
_LOCAL = re.compile(r"(?:127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+")
"""The address of a service for a test, whose port differs."""
_LOCAL_NAME = "service.test"


def normalized_tape(recording: Recording) -> bytes:
    """Return a recording as a normalized tape.  Raises InputError if it is too large for one."""
    with TemporaryDirectory(prefix="wiretape-") as folder:
        path = Path(folder, "run.db")
        build_recording(normalize(recording), path)
        with open_recording(path) as normalized:
            return b"".join(find_format("tape").write(normalized, None))


def normalize(recording: Recording) -> RecordingSource:
    """Return a recording without what differs in another recording of the same traffic.  Raises InputError."""
    return _Normalization(recording).source()


@dataclass(slots=True)
class _ReadExchange:
    """An exchange, with its observations: each chunk is a part that belongs together."""

    exchange: Exchange
    seen: list[Observation]
    earlier: "_ReadExchange | None" = None
    """Another one of its conversation, if it is not the first."""

    @property
    def began_ns(self) -> int:
        return self.seen[0].time_ns

    @property
    def ended_ns(self) -> int:
        return self.seen[-1].time_ns

    @property
    def first(self) -> "_ReadExchange":
        """The first one of its conversation."""
        found = self
        while found.earlier is not None:
            # The next search takes half as long.
            found.earlier = found.earlier.earlier or found.earlier
            found = found.earlier
        return found


class _Normalization:
    def __init__(self, recording: Recording) -> None:
        self._info = recording.info
        exchanges = list(recording.exchanges())
        if sum(each.request_bytes + each.response_bytes for each in exchanges) > MAX_BYTES:
            hint = " Use `wiretape trim` to keep part of it."
            raise InputError(size_error(recording.path, "a normalized tape", MAX_BYTES, hint))
        self._read = [_ReadExchange(each, _read_exchange(recording, each)) for each in exchanges]
        self._ids = VaryingIds()
        ended_ns = max((each.ended_ns for each in self._read), default=0)
        self._times = VaryingTimes(self._info.started_unix_ns, self._info.started_unix_ns + ended_ns)
        self._find_values()
        self._find_conversations()

    def source(self) -> RecordingSource:
        """Return the normalized recording."""
        info = self._info
        metadata = RecordingMetadata(
            _LOCAL.sub(_LOCAL_NAME, info.upstream), STARTED_NS, (), info.redacted, info.contracts, info.probe
        )
        return RecordingSource(metadata, order_observations(list(self._exchanges()), step_ns=1))

    def _find_values(self) -> None:
        """Find ids and times, in the order in which they arrived."""
        for seen in self._all_seen():
            for data in _texts(seen):
                self._times.add(data)
            if isinstance(seen, RequestStarted | ResponseStarted):
                self._find_in_head(seen)
            elif isinstance(seen, BytesArrived) and seen.side is Side.REQUEST:
                self._ids.add_request(seen.data.decode("utf-8", "replace"))
            elif isinstance(seen, BytesArrived):
                self._find_in_body(seen.data)
        self._ids.prepare()
        self._times.prepare()

    def _find_in_head(self, seen: RequestStarted | ResponseStarted) -> None:
        for name, value in seen.headers:
            for fingerprint in _FINGERPRINT.findall(value):
                self._ids.add(fingerprint, name)
            if isinstance(seen, RequestStarted):
                if _REQUEST_IDS.fullmatch(name):
                    self._ids.add(value, "request_id")
                else:
                    self._ids.add_request(value)
            elif name.lower().endswith("-id"):
                self._ids.add(value, "request_id")
        if isinstance(seen, RequestStarted):
            self._ids.add_request(seen.target)

    def _find_in_body(self, data: bytes) -> None:
        if data[:1] in {b"{", b"["}:
            self._add_ids(read_json(data))
            return
        parser = Parser()
        for frame in (*parser.feed(data), *parser.close()):
            if frame.kind is FrameKind.MESSAGE:
                event = make_event(0, frame, 0, 0)
                self._ids.add(event.id or "", "event_id")
                self._add_ids(event.value)

    def _add_ids(self, value: Any) -> None:
        for text, name in ids_in(value):
            self._ids.add(text, name)

    def _find_conversations(self) -> None:
        """Join exchanges whose requests have an id with the one that has it first."""
        makers: dict[str, _ReadExchange] = {}
        by_number = {each.exchange.number: each for each in self._read}
        for seen in self._all_seen():
            own = by_number[seen.exchange]
            found = (text for data in _texts(seen) for text in self._ids.find(data))
            for text in (text for text in found if not _FINGERPRINT.fullmatch(text)):
                if isinstance(seen, ResponseStarted) or (isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE):
                    makers.setdefault(text, own)
                elif text in makers:
                    one, other = sorted((own.first, makers[text].first), key=lambda each: each.exchange.number)
                    other.earlier = one if one is not other else None

    def _all_seen(self) -> list[Observation]:
        return sorted((seen for each in self._read for seen in each.seen), key=lambda seen: seen.time_ns)

    def _conversations(self) -> list[list[_ReadExchange]]:
        """Return the conversations: in their order, or if any overlapped, by their content."""
        groups: dict[int, list[_ReadExchange]] = {}
        for each in self._read:
            groups.setdefault(each.first.exchange.number, []).append(each)
        found = [list(chain(*(sorted(race, key=self._line) for race in _races(group)))) for group in groups.values()]
        ends = accumulate((max(each.ended_ns for each in group) for group in found), max)
        if any(min(each.began_ns for each in later) < ended for ended, later in zip(ends, found[1:], strict=False)):
            found.sort(key=lambda group: [part for each in group for part in (self._line(each), *self._bodies(each))])
        return found

    def _line(self, each: _ReadExchange) -> bytes:
        return self._masked(_encode(f"{each.exchange.request.method} {each.exchange.request.target}"))

    def _bodies(self, each: _ReadExchange) -> Iterator[bytes]:
        return (self._masked(seen.data) for seen in each.seen if isinstance(seen, BytesArrived))

    def _masked(self, data: bytes) -> bytes:
        """Return some bytes without what differs between recordings."""
        return self._times.move(self._ids.rename(data, lambda _: "*"))

    def _exchanges(self) -> Iterator[list[Observation]]:
        """Yield the observations of each exchange, those of the conversations one after the other."""
        number = now = 0
        for conversation in self._conversations():
            self._ids.begin_conversation()
            for each, times in zip(conversation, _schedule(conversation, now), strict=True):
                number += 1
                yield self._rewrite(each, number, times)
                now = max(now, *times)

    def _rewrite(self, each: _ReadExchange, number: int, times: list[int]) -> list[Observation]:
        rewritten, ends = list[Observation](), dict.fromkeys(Side, 0)
        read, written = dict.fromkeys(Side, 0), dict.fromkeys(Side, 0)
        for seen, time_ns in zip(each.seen, times, strict=True):
            moved = replace(move_observation(seen, time_ns), exchange=number)
            if isinstance(moved, BytesLost):
                moved = replace(moved, start=ends[moved.side])
                ends[moved.side] = moved.end
            elif isinstance(moved, BytesArrived):
                data = self._rewrite_bytes(moved.data)
                start = ends[moved.side]
                ends[moved.side] = end = start + len(data)
                read[moved.side] += len(moved.data)
                written[moved.side] += len(data)
                moved = BytesArrived(number, moved.side, start, data, (end,), moved.times)
            elif isinstance(moved, RequestStarted):
                target = self._rewrite_text(moved.target)
                moved = replace(moved, target=target, authority=_LOCAL.sub(_LOCAL_NAME, moved.authority))
            rewritten.append(moved)
        recorded = {Side.REQUEST: each.exchange.request_bytes, Side.RESPONSE: each.exchange.response_bytes}
        return [
            self._rewrite_headers(seen, written[side] - recorded[side], is_decoded=read[side] != recorded[side])
            if isinstance(seen, RequestStarted | ResponseStarted)
            else seen
            for seen in rewritten
            for side in [Side.REQUEST if isinstance(seen, RequestStarted) else Side.RESPONSE]
        ]

    def _rewrite_headers(
        self, seen: RequestStarted | ResponseStarted, longer: int, *, is_decoded: bool
    ) -> RequestStarted | ResponseStarted:
        headers = list[tuple[str, str]]()
        for name, value in seen.headers:
            if name.lower() == "content-length" and value.isdecimal():
                headers.append((name, str(max(0, int(value[:18]) + longer))))
            elif not (is_decoded and name.lower() == "content-encoding"):
                headers.append((name, _LOCAL.sub(_LOCAL_NAME, self._rewrite_text(value))))
        return replace(seen, headers=tuple(headers))

    def _rewrite_text(self, text: str) -> str:
        return self._rewrite_bytes(_encode(text)).decode("utf-8", "surrogatepass")

    def _rewrite_bytes(self, data: bytes) -> bytes:
        return self._times.move(self._ids.rename(data))


def _races(conversation: list[_ReadExchange]) -> Iterator[list[_ReadExchange]]:
    """Yield requests that a client sent at once, without waiting for a response."""
    race, until = list[_ReadExchange](), 0
    for each in conversation:
        if race and (each.began_ns > until or round_gap(each.began_ns - race[0].began_ns)):
            yield race
            race = []
        response = each.exchange.response
        answered = each.ended_ns if response is None else response.time_ns
        until = min(until, answered) if race else answered
        race.append(each)
    yield race


def _schedule(conversation: list[_ReadExchange], now: int) -> list[list[int]]:
    """Return the times of the observations of each exchange.

    The requests divide a conversation into epochs.  Within one, what came from several exchanges at about the same time
    is in the order of the exchanges; what follows something else of its exchange at once stays with it.
    """
    begins = sorted(each.began_ns for each in conversation)
    raw = sorted(seen.time_ns for each in conversation for seen in each.seen)
    steps: list[tuple[int, int, bool, int, int, int]] = []
    for index, each in enumerate(conversation):
        epoch, offset, before = index, 0, each.began_ns
        for step, seen in enumerate(each.seen):
            gap, latest = round_gap(seen.time_ns - before), bisect_right(begins, seen.time_ns) - 1
            is_frame = each.exchange.is_stream and isinstance(seen, BytesArrived) and seen.side is Side.RESPONSE
            if (gap or is_frame) and latest > epoch:
                epoch, offset, gap = latest, round_gap(seen.time_ns - begins[latest]), -1
            else:
                offset += gap
            steps.append((epoch, offset, index != epoch, index, step, gap))
            before = seen.time_ns
    times = [[0] * len(each.seen) for each in conversation]
    began = now
    for epoch, offset, _, index, step, gap in sorted(steps):
        if step == 0:
            at = bisect_left(raw, begins[epoch])
            began = now + STEP_NS + (round_gap(begins[epoch] - raw[at - 1]) if at else 0)
        earliest = began + offset if gap < 0 else times[index][step - 1] + gap if step else began
        now = times[index][step] = max(now + STEP_NS, earliest)
    return times


def _texts(seen: Observation) -> Iterator[bytes]:
    """Yield the texts of an observation, as bytes."""
    if isinstance(seen, BytesArrived):
        yield seen.data
    elif isinstance(seen, RequestStarted | ResponseStarted):
        yield from (_encode(value) for _, value in seen.headers)
        if isinstance(seen, RequestStarted):
            yield _encode(seen.target)


def _encode(text: str) -> bytes:
    """Return the text of a head as bytes, from which it can be decoded again."""
    return text.encode("utf-8", "surrogatepass")


def _read_exchange(recording: Recording, exchange: Exchange) -> list[Observation]:
    number, ended_ns = exchange.number, exchange.request_ended_ns
    seen: list[Observation] = [exchange.request, *_read_body(recording, exchange, Side.REQUEST)]
    seen += [] if ended_ns is None else [RequestEnded(number, ended_ns)]
    seen += [] if exchange.response is None else [exchange.response, *_read_body(recording, exchange, Side.RESPONSE)]
    seen.sort(key=lambda each: each.time_ns)
    if exchange.ended_ns is not None:
        seen.append(ExchangeEnded(number, exchange.ended_ns, exchange.ending, exchange.detail))
    return seen


def _read_body(recording: Recording, exchange: Exchange, side: Side) -> Iterator[BytesArrived | BytesLost]:
    """Yield a body, decoded if possible: each frame of a stream as one chunk, otherwise what arrived at once."""
    parts = list(recording.body(exchange.number, side))
    encoding = exchange.encoding_of(side)
    if side is Side.RESPONSE and exchange.is_stream:
        frames = _read_frames(exchange, parts)
        if frames is not None:
            yield from frames
            return
    arrived = [part for part in parts if isinstance(part, BytesArrived)]
    if arrived and len(arrived) == len(parts) and not is_identity(encoding):
        data, problem = decode_beginning(encoding, (part.data for part in arrived), MAX_BYTES + 1)
        if not problem and len(data) <= MAX_BYTES:
            yield _chunk(arrived[0], arrived[0].time_ns, data)
            return
    held: BytesArrived | None = None
    before = 0
    for part in parts:
        for time_ns, data in part.chunks() if isinstance(part, BytesArrived) else ():
            if held is not None and not round_gap(time_ns - before):
                held = _chunk(held, held.time_ns, held.data + data)
            else:
                yield from () if held is None else (held,)
                held = _chunk(part, time_ns, data)
            before = time_ns
        if isinstance(part, BytesLost):
            yield from (part,) if held is None else (held, part)
            held = None
    yield from () if held is None else (held,)


def _read_frames(
    exchange: Exchange, parts: Iterable[BytesArrived | BytesLost]
) -> list[BytesArrived | BytesLost] | None:
    """Return the frames of a stream, and its lost bytes; None if it cannot be decoded."""
    reader, found = exchange.make_reader(), list[BytesArrived | BytesLost]()

    def add(frames: Iterable[TimedFrame]) -> None:
        for each in frames:
            last = found[-1] if found and each.frame.kind is FrameKind.BLANK else None
            if isinstance(last, BytesArrived):  # a comment
                found[-1] = _chunk(last, last.time_ns, last.data + each.frame.raw)
            else:
                raw = each.frame.raw
                found.append(BytesArrived(exchange.number, Side.RESPONSE, 0, raw, (len(raw),), (each.time_ns,)))

    for part in parts:
        if isinstance(part, BytesLost):
            add(reader.skip(part))
            found.append(part)
        else:
            add(reader.feed(part))
    add(reader.close())
    return found if reader.undecodable is None else None


def _chunk(like: BytesArrived | BytesLost, time_ns: int, data: bytes) -> BytesArrived:
    """Return a chunk of a body; it has its offset when it is written."""
    return BytesArrived(like.exchange, like.side, 0, data, (len(data),), (time_ns,))
