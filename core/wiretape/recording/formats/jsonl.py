"""JSON lines: one object per observation, in time order.

The first line describes the recording. The captures, the observations and the live findings follow. All of it comes
back when the file is read. Only the key of the fingerprints, and what is derived from the bytes, is not in the file.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType

from wiretape.decode import Source, decode
from wiretape.errors import InputError
from wiretape.files import read_error
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
from wiretape.recording.builder import (
    MAX_HELD_BYTES,
    MAX_REDACTED,
    MAX_STATUS,
    RecordingMetadata,
    RecordingSource,
)
from wiretape.recording.formats.registry import FormatReader, FormatWriter, SourcePosition
from wiretape.recording.recording_reader import Recording
from wiretape.recording.table_rows import Capture, Exchange
from wiretape.rules import Finding, Party, Severity
from wiretape.safe_text import escape_json, printable

VERSION = 1
_BEGINNING = re.compile(rb'\s*\{\s*"kind"\s*:\s*"recording"')
_DATA = re.compile(rb'"(?:text|base64)"\s*:\s*"')
_MAX_INT = 2**63 - 1
_Count = Annotated[int, Meta(ge=0, le=_MAX_INT)]
_Number = Annotated[int, Meta(ge=1, le=_MAX_INT)]


class _Line(msgspec.Struct, tag_field="kind", forbid_unknown_fields=True, kw_only=True, gc=False):
    """A line of a file."""


class _RecordingLine(_Line, tag="recording", kw_only=True):
    format: Annotated[int, Meta(ge=1)]
    upstream: str
    started: str = ""
    started_unix_ns: _Count
    redacted: Annotated[int, Meta(ge=0, le=MAX_REDACTED)] = 0


class _CaptureLine(_Line, tag="capture", kw_only=True):
    tool: str
    began_ns: _Count
    ended_ns: _Count | None = None


class _ExchangeLine(_Line, kw_only=True):
    """A line about an exchange."""

    exchange: _Number
    time_ns: _Count


class _RequestLine(_ExchangeLine, tag="request", kw_only=True):
    client: str
    method: str
    scheme: str
    authority: str
    target: str
    http_version: str
    headers: Headers | None
    """None if an import invented the request."""


class _RequestEndedLine(_ExchangeLine, tag="request-ended"):
    pass


class _ResponseLine(_ExchangeLine, tag="response", kw_only=True):
    status: Annotated[int, Meta(ge=0, le=MAX_STATUS)]
    reason: str
    http_version: str
    headers: Headers


class _ChunkLine(_ExchangeLine, tag="chunk", kw_only=True):
    side: Side = Side.RESPONSE
    start: _Count | UnsetType = UNSET
    text: str | UnsetType = UNSET
    base64: bytes | UnsetType = UNSET


class _LostLine(_ExchangeLine, tag="lost", kw_only=True):
    side: Side = Side.RESPONSE
    start: _Count | UnsetType = UNSET
    count: _Count
    why: str


class _EndedLine(_ExchangeLine, tag="ended", kw_only=True):
    ending: Ending
    detail: str = ""


class _FindingLine(_Line, tag="finding", kw_only=True):
    exchange: _Number
    event: _Count | None = None
    code: Annotated[str, Meta(min_length=1)]
    severity: Severity
    side: Party
    sequence: Annotated[int, Meta(ge=-(2**63), le=_MAX_INT)] | None = None
    byte_offset: _Count | None = None
    time_ns: _Count
    message: str


_ObservationLine = _RequestLine | _RequestEndedLine | _ResponseLine | _ChunkLine | _LostLine | _EndedLine
_AnyLine = _RecordingLine | _CaptureLine | _ObservationLine | _FindingLine
_ANY_LINE: Any = _AnyLine  # type checkers do not take a union for a type
_DECODER: msgspec.json.Decoder[_AnyLine] = msgspec.json.Decoder(_ANY_LINE)
_ENCODER = msgspec.json.Encoder()
_KINDS: dict[type[Observation], str] = {
    RequestStarted: "request",
    RequestEnded: "request-ended",
    ResponseStarted: "response",
    BytesLost: "lost",
    ExchangeEnded: "ended",
}


def matches(data: bytes) -> bool:
    """Return whether a file that begins with `data` is a JSON lines file."""
    return _BEGINNING.match(data) is not None


def read(path: Path) -> RecordingSource:
    """Start to read a file.  Raises InputError."""
    reader = _Reader(path)
    lines = reader.lines()
    first = next(lines, None)
    if not isinstance(first, _RecordingLine):
        raise reader.error("kind", "the first line must have the kind recording")
    if first.format > VERSION:
        problem = f"version {first.format} is not supported; this version of wiretape reads versions up to {VERSION}"
        raise reader.error("format", problem)
    captures: list[Capture] = []
    line = next(lines, None)
    while isinstance(line, _CaptureLine):
        captures.append(Capture(line.tool, line.began_ns, line.ended_ns))
        line = next(lines, None)
    metadata = RecordingMetadata(first.upstream, first.started_unix_ns, tuple(captures), first.redacted)
    findings: list[Finding] = []
    rest = chain([] if line is None else [line], lines)
    return RecordingSource(metadata, reader.observations(rest, findings), findings)


def positions(path: Path) -> Iterator[SourcePosition]:
    """Yield the positions of requests, responses and chunks in a file that `read` accepts.  Raises InputError."""
    reader = _Reader(path)
    for line in reader.lines():
        if isinstance(line, _RequestLine | _ResponseLine):
            side = Side.REQUEST if isinstance(line, _RequestLine) else Side.RESPONSE
            yield SourcePosition(line.exchange, side, None, reader.line, 1)
        if isinstance(line, _ExchangeLine):
            reader.check_order(line)
            seen = reader.observe(line)
            if isinstance(seen, BytesArrived):
                yield SourcePosition(seen.exchange, seen.side, seen.start, reader.line, reader.data_column)


class _Reader:
    """Reads the lines of one file, and checks that they belong together."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.line = 1
        """Number of the current line."""
        self._text = b""
        self._last_ns = self._last_exchange = 0
        self._exchanges = set[int]()
        self._ends: dict[int, dict[Side, int]] = {}
        """For each open exchange: where its bodies end so far."""

    def error(self, key: str | None, problem: str) -> InputError:
        """Return an error about the current line."""
        return self._source().error(() if key is None else (key,), problem)

    def _source(self) -> Source:
        return Source(str(self._path), lambda _: self.line)

    @property
    def data_column(self) -> int:
        """The column in which the data of the current line, which is a chunk, begins."""
        match = _DATA.search(self._text)
        return len(self._text[: match.end()].decode()) + 1 if match else 1

    def lines(self) -> Iterator[_AnyLine]:
        """Decode the lines that are not empty."""
        try:
            with self._path.open("rb") as file:
                for self.line, text in enumerate(iter(lambda: file.readline(MAX_HELD_BYTES + 1), b""), 1):
                    self._text = text
                    if len(text) > MAX_HELD_BYTES:
                        raise self.error(None, f"the line is longer than {MAX_HELD_BYTES >> 20} MiB")
                    if not text.isspace():
                        yield self._decode(text)
        except OSError as error:
            raise InputError(read_error(self._path, error)) from None

    def _decode(self, text: bytes) -> _AnyLine:
        try:
            return _DECODER.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            problem = str(error)
        # Decode the line again, this time for a good error message.
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise self.error(None, f"invalid JSON: {printable(error.msg)} (column {error.colno})") from None
        decode(value, _ANY_LINE, self._source())
        raise self.error(None, printable(problem))

    def observations(self, lines: Iterable[_AnyLine], findings: list[Finding]) -> Iterator[Observation]:
        """Return the observations, and add the findings to `findings`."""
        for line in lines:
            if isinstance(line, _FindingLine):
                findings.append(self._read_finding(line))
            elif isinstance(line, _RecordingLine | _CaptureLine):
                raise self.error("kind", "all lines of kind recording or capture must come before the others")
            else:
                self.check_order(line)
                yield self.observe(line)

    def check_order(self, line: _ObservationLine) -> None:
        """Raise InputError if a line does not follow from the lines before it."""
        if line.time_ns <= self._last_ns:
            raise self.error("time_ns", f"expected a time later than {self._last_ns}, the time of the previous line")
        self._last_ns = line.time_ns
        if not isinstance(line, _RequestLine):
            if line.exchange not in self._ends:
                raise self.error("exchange", f"exchange {line.exchange} has no request before this line, or has ended")
            return
        if line.exchange <= self._last_exchange:
            raise self.error(
                "exchange", f"expected a number greater than {self._last_exchange}, the number of the previous request"
            )
        self._last_exchange = line.exchange
        self._exchanges.add(line.exchange)
        self._ends[line.exchange] = dict.fromkeys(Side, 0)

    def observe(self, line: _ObservationLine) -> Observation:
        """Return the observation of a line.  Raises InputError."""
        match line:
            case _ChunkLine():
                return self._observe_chunk(line)
            case _RequestLine():
                headers = line.headers or ()
                self._check_headers(headers)
                is_invented = line.headers is None
                return RequestStarted(**msgspec.structs.asdict(line) | {"headers": headers, "is_invented": is_invented})
            case _RequestEndedLine():
                return RequestEnded(line.exchange, line.time_ns)
            case _ResponseLine():
                self._check_headers(line.headers)
                return ResponseStarted(**msgspec.structs.asdict(line))
            case _LostLine():
                start = self._advance(line, line.count)
                return BytesLost(line.exchange, line.time_ns, line.side, start, line.count, line.why)
            case _EndedLine():
                del self._ends[line.exchange]
                return ExchangeEnded(line.exchange, line.time_ns, line.ending, line.detail)

    def _observe_chunk(self, line: _ChunkLine) -> BytesArrived:
        if isinstance(line.text, str) and line.base64 is UNSET:
            data = line.text.encode()
        elif isinstance(line.base64, bytes) and line.text is UNSET:
            data = line.base64
        else:
            raise self.error(None, "a chunk needs either text or base64")
        start = self._advance(line, len(data))
        return BytesArrived(line.exchange, line.side, start, data, (start + len(data),), (line.time_ns,))

    def _advance(self, line: _ChunkLine | _LostLine, count: int) -> int:
        """Return where the bytes of a line begin in their body."""
        ends = self._ends[line.exchange]
        end = ends[line.side]
        start = end if isinstance(line.start, UnsetType) else line.start
        if start < end:
            raise self.error("start", f"expected at least {end}, where the previous bytes end")
        ends[line.side] = start + count
        return start

    def _check_headers(self, headers: Headers) -> None:
        if any(ord(character) > 255 for pair in headers for part in pair for character in part):
            raise self.error("headers", "each character stands for one byte, so none can be above U+00FF")

    def _read_finding(self, line: _FindingLine) -> Finding:
        if line.exchange not in self._exchanges:
            raise self.error("exchange", f"exchange {line.exchange} has no request before this line")
        return Finding(**msgspec.structs.asdict(line))


def write(recording: Recording, exchanges: Iterable[Exchange] | None) -> Iterator[bytes]:
    """Return the lines for a recording, or for some of its exchanges."""
    chosen = None if exchanges is None else {exchange.number for exchange in exchanges}
    info = recording.info
    yield _encode(
        _RecordingLine(
            format=VERSION,
            upstream=info.upstream,
            started=info.started.isoformat().replace("+00:00", "Z"),
            started_unix_ns=info.started_unix_ns,
            redacted=info.redacted,
        )
    )
    for capture in recording.captures():
        yield _encode(_CaptureLine(tool=capture.tool, began_ns=capture.began_ns, ended_ns=capture.ended_ns))
    for seen in recording.observations():
        if chosen is None or seen.exchange in chosen:
            yield from map(_encode, _lines_of(seen))
    for finding in recording.findings():
        if chosen is None or finding.exchange in chosen:
            yield _encode(_FindingLine(**_fields(finding)))


def _encode(line: _Line | dict[str, Any]) -> bytes:
    text = _ENCODER.encode(line) + b"\n"
    return text if text.isascii() else escape_json(text.decode()).encode()


def _lines_of(seen: Observation) -> Iterator[_Line | dict[str, Any]]:
    if not isinstance(seen, BytesArrived):
        values = _fields(seen)
        if values.pop("is_invented", False):
            values["headers"] = None
        yield {"kind": _KINDS[type(seen)], **values}
        return
    start = seen.start
    for time_ns, data in seen.chunks():
        line = _ChunkLine(exchange=seen.exchange, time_ns=time_ns, side=seen.side, start=start)
        try:
            line.text = data.decode()
        except UnicodeDecodeError:
            line.base64 = data
        yield line
        start += len(data)


def _fields(record: Observation | Finding) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


READER = FormatReader(matches, read, positions)
WRITER = FormatWriter(write)
