"""Writer of tapes: describes the exchanges of a recording one after the other, while it reads them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from wiretape.content_encoding import is_identity
from wiretape.errors import InputError
from wiretape.event import Event, make_event
from wiretape.files import size_error
from wiretape.observations import BytesArrived, BytesLost, Ending, Headers, Side, reason_phrase
from wiretape.recording.formats.tape_deltas import DeltaJoiner, JoinedSize
from wiretape.recording.formats.tape_schema import (
    DEFAULT_CLIENT,
    DEFAULT_FRAMING,
    DEFAULT_HTTP,
    DEFAULT_TOOL,
    MAX_TAPE_BYTES,
    SECOND_NS,
    STEP_NS,
    STREAM_HEADERS,
    VERSION,
    Description,
    Framing,
    describe_body,
    describe_bytes,
    describe_frames,
    infer_framing,
    is_target,
    split_upstream,
)
from wiretape.recording.formats.tape_yaml import Items, Plain, dump_document, format_seconds
from wiretape.recording.recording_builder import MIN_STATUS
from wiretape.recording.recording_reader import Recording
from wiretape.recording.table_rows import Exchange
from wiretape.sse import Frame, FrameKind, Parser

_OMITTED = object()
"""The value of a key that is not written."""
_COMMENT = "# A wiretape tape; docs/tape.md describes the format.\n"
_PREVIEW_BYTES = 256 * 1024
"""Bytes of a stream that its framing is inferred from."""
_MAX_GROUP_BYTES = 64 * 1024
"""If the ends of chunks and frames do not meet within this many bytes, a frame is cut."""


def write(recording: Recording, exchanges: Iterable[Exchange] | None) -> Iterator[bytes]:
    """Return the tape of a recording, or of some of its exchanges.  Raises InputError if it is too large."""
    hint = " Use `wiretape trim` to keep part of it."
    too_large = InputError(size_error(recording.path, "a tape", MAX_TAPE_BYTES, hint))
    size = 0
    for text in _texts(recording, recording.exchanges() if exchanges is None else exchanges, too_large):
        data = text.encode()
        size += len(data)
        if size > MAX_TAPE_BYTES:
            raise too_large
        yield data


def _texts(recording: Recording, exchanges: Iterable[Exchange], too_large: InputError) -> Iterator[str]:
    yield _COMMENT + dump_document(_describe_header(recording), explicit=False)
    before = began_ns = ended_ns = 0
    joined = JoinedSize()
    for exchange in exchanges:
        # The lines `event` and `id` and escapes are left out, so the text can be shorter than the bodies.
        if exchange.request_bytes + exchange.response_bytes > 4 * MAX_TAPE_BYTES:
            raise too_large
        number = {} if exchange.number == before + 1 else {"number": exchange.number}
        before = exchange.number
        writer = _ExchangeWriter(recording, exchange, joined)
        described = writer.describe(began_ns, ended_ns)
        yield dump_document(number | described)
        began_ns, ended_ns = exchange.request.time_ns, writer.last_ns


def _describe_header(recording: Recording) -> Description:
    info = recording.info
    second, fraction = divmod(info.started_unix_ns, SECOND_NS)
    header: Description = {
        "tape": VERSION,
        "upstream": info.upstream,
    }
    if info.started_unix_ns:
        part = f".{fraction:09d}".rstrip("0") if fraction else ""
        header["started"] = Plain(f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}{part}Z")
    if info.tool != DEFAULT_TOOL or not _ends_by_default(recording):
        header["ended"] = None if info.ended_ns is None else format_seconds(info.ended_ns)
        header["tool"] = info.tool
    header |= {"redacted": info.redacted} if info.redacted else {}
    contracts = msgspec.to_builtins(info.contract_texts)
    return header | ({"contracts": contracts} if contracts else {})


def _ends_by_default(recording: Recording) -> bool:
    """Whether a recording ended just after everything else, as a tape that does not say when."""
    is_closed = all(exchange.ended_ns is not None for exchange in recording.exchanges())
    return is_closed and recording.info.ended_ns == recording.tail_position().time_ns + STEP_NS


def _unless(default: str, value: str) -> Any:
    """Return the value of a key, which can be omitted if it is the default."""
    return _OMITTED if value == default else value


def _seconds_unless(default_ns: int, ns: int) -> Any:
    """Return the value of a time, which can be omitted if it is the default."""
    return _OMITTED if ns == default_ns else format_seconds(ns)


def _plain(option: Any) -> Any:
    """Return the value of a key of `framing`, with its words unquoted."""
    if isinstance(option, str):
        return Plain(option)
    return [Plain(word) for word in option] if isinstance(option, tuple) else option


def _describe_headers(headers: Headers) -> Items:
    items = Items()
    for name, value in headers:
        is_number = value.isascii() and value.isdigit() and str(int(value[:18])) == value
        items.append({name: Plain(value) if is_number else value})
    return items


class _ExchangeWriter:
    """Describes one exchange."""

    def __init__(self, recording: Recording, exchange: Exchange, joined: JoinedSize) -> None:
        self._recording = recording
        self._exchange = exchange
        self._joined = joined
        self._at_ns = self.last_ns = exchange.request.time_ns
        self._as_events = exchange.is_stream and is_identity(exchange.content_encoding)
        self._framing = self._infer_framing() if self._as_events else DEFAULT_FRAMING
        self._format = exchange.contracts.format_of(exchange.request)

    def describe(self, began_ns: int, ended_ns: int) -> Description:
        """Return the keys and values of the exchange, without those that a tape need not have.

        The exchange above began and ended at these times.
        """
        request = self._exchange.request
        has_target = is_target(request.method, request.target)
        scheme, authority = split_upstream(self._recording.info.upstream)
        framing = msgspec.to_builtins(self._framing)
        described: Description = {
            "request": f"{request.method} {request.target}" if has_target else request.method,
            "target": _OMITTED if has_target else request.target,
            "after": _seconds_unless(ended_ns + STEP_NS - began_ns, request.time_ns - began_ns),
            "client": _unless(DEFAULT_CLIENT, request.client),
            "scheme": _unless(scheme, request.scheme),
            "authority": _unless(authority, request.authority),
            "http": _unless(DEFAULT_HTTP, request.http_version),
            "headers": None if request.is_invented else _describe_headers(request.headers) or _OMITTED,
            "framing": {Plain(key): _plain(value) for key, value in framing.items()} or _OMITTED,
            "body": self._describe_body(Side.REQUEST, self._at_ns) or _OMITTED,
            **self._describe_response(),
            **self._describe_end(),
        }
        return {key: value for key, value in described.items() if value is not _OMITTED}

    def _describe_response(self) -> Description:
        ended_ns, response = self._exchange.request_ended_ns, self._exchange.response
        # Until here, the last observation is that of the request.
        default_ns = self.last_ns + STEP_NS - self._at_ns
        request_ended = None if ended_ns is None else _seconds_unless(default_ns, ended_ns - self._at_ns)
        default_ns = STEP_NS + (0 if ended_ns is None else ended_ns - self._at_ns)
        self.last_ns = max(self.last_ns, ended_ns or 0)
        if response is None:
            return {"request-ended": request_ended, "response": None}
        is_usual = response.reason == reason_phrase(response.status) and response.status >= MIN_STATUS
        self.last_ns = max(self.last_ns, response.time_ns)
        body = self._describe_body(Side.RESPONSE, response.time_ns)
        default = STREAM_HEADERS if self._as_events and body else ()
        return {
            "request-ended": request_ended,
            "response": response.status if is_usual else f"{response.status} {response.reason}",
            "responded": _seconds_unless(default_ns, response.time_ns - self._at_ns),
            "response-http": _unless(DEFAULT_HTTP, response.http_version),
            "response-headers": _OMITTED if response.headers == default else _describe_headers(response.headers),
            "events" if self._as_events else "response-body": body or _OMITTED,
        }

    def _describe_end(self) -> Description:
        exchange, after = self._exchange, _OMITTED
        if exchange.ended_ns is not None:
            default_ns = -1 if exchange.ending is Ending.OPEN else STEP_NS
            after = _seconds_unless(default_ns, exchange.ended_ns - self.last_ns)
            self.last_ns = exchange.ended_ns
        ending = _unless("complete", str(exchange.ending))
        return {"ending": ending, "ended": after, "detail": exchange.detail or _OMITTED}

    def _describe_body(self, side: Side, now_ns: int) -> Items:
        as_events = self._as_events and side is Side.RESPONSE
        items = Items()
        # In the order of offsets, empty chunks that arrived just before a loss come after it.
        parts = sorted(self._recording.body(self._exchange.number, side), key=lambda part: part.time_ns)
        joiner = DeltaJoiner(self._framing, self._joined)
        for group in _group_chunks(parts, as_events=as_events):
            item = self._describe_group(group, now_ns, as_events=as_events)
            items += joiner.add(item, self._find_delta(group), group.time_ns - now_ns)
            now_ns = group.time_ns if isinstance(group, BytesLost) else group.times[-1]
            self.last_ns = max(self.last_ns, now_ns)
        items += joiner.close()
        return items

    def _find_delta(self, group: "_Group | BytesLost") -> Event | None:
        """Return the delta that a chunk is; None for anything else."""
        if isinstance(group, BytesLost) or len(group.frames) != 1 or len(group.ends) != 1:
            return None
        frame = group.frames[0]
        if frame.kind is not FrameKind.MESSAGE:
            return None
        event = make_event(self._exchange.number, frame, group.time_ns, 0, self._format)
        return event if event.is_delta else None

    def _describe_group(self, group: "_Group | BytesLost", now_ns: int, *, as_events: bool) -> Description:
        after_ns = group.time_ns - now_ns
        item: Description = {} if after_ns == STEP_NS else {"after": format_seconds(after_ns)}
        if isinstance(group, BytesLost):
            return item | {"lost": group.count} | ({"why": group.why} if group.why else {})
        pieces = list(describe_frames(group.frames, self._framing)) if as_events else [describe_body(group.data)]
        pieces = pieces or [describe_bytes(b"")]
        item |= pieces[0] if len(pieces) == 1 else {"pieces": Items(pieces)}
        if len(group.ends) > 1:
            gaps = (later - earlier for earlier, later in zip(group.times, group.times[1:], strict=False))
            item["cut"] = [[end, format_seconds(gap)] for end, gap in zip(group.ends, gaps, strict=False)]
        return item

    def _infer_framing(self) -> Framing:
        parser, size = Parser(), 0
        events: list[Frame] = []
        for part in self._recording.body(self._exchange.number, Side.RESPONSE):
            if isinstance(part, BytesLost) or size > _PREVIEW_BYTES:
                break
            size += len(part.data)
            events += (frame for frame in parser.feed(part.data) if frame.kind is FrameKind.MESSAGE)
        return infer_framing(events)


@dataclass(slots=True)
class _Group:
    """Chunks that become one element, and the frames of a stream in them."""

    times: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """For each chunk: where it ends, counted from the beginning of the group."""
    data: bytes = b""
    frames: list[Frame] = field(default_factory=list)
    framed: int = 0
    """How many bytes are in complete frames."""

    @property
    def time_ns(self) -> int:
        """When the first chunk arrived."""
        return self.times[0]

    def add(self, time_ns: int, data: bytes, frames: Sequence[Frame]) -> None:
        """Add a chunk, and the frames that it completes."""
        self.times.append(time_ns)
        self.data += data
        self.ends.append(len(self.data))
        self.frames += frames
        self.framed += sum(len(frame.raw) for frame in frames)

    def cut(self) -> "_Group":
        """Return the group, whose last frame may be incomplete."""
        if rest := self.data[self.framed :]:
            self.frames.append(Frame(FrameKind.TAIL, 0, rest))
        return self


def _group_chunks(body: Iterable[BytesArrived | BytesLost], *, as_events: bool) -> Iterator[_Group | BytesLost]:
    """Return each chunk as a group, or in a stream groups that end where both a chunk and a frame end.

    In most streams each event arrived in one chunk, and is one group.
    """
    group, parser = _Group(), Parser()
    for part in body:
        if isinstance(part, BytesLost):
            if group.times:
                yield group.cut()
            group, parser = _Group(), Parser(start=max(part.end, 1), midstream=True)
            yield part
            continue
        for time_ns, data in part.chunks():
            group.add(time_ns, data, parser.feed(data) if as_events else ())
            if as_events and group.framed < len(group.data):
                if len(group.data) <= _MAX_GROUP_BYTES:
                    continue
                parser = Parser(start=1, midstream=True)
            yield group.cut()
            group = _Group()
    if group.times:
        yield group.cut()
