"""Reader of HAR 1.2 files of browsers, Playwright and mitmproxy: their objects become observations and chunks.

Unknown keys are ignored, and null counts as absent.  `docs/import.md` lists what a HAR file cannot store.
"""

import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from wiretape.content_encoding import is_identity
from wiretape.contract.recorded_contracts import RecordedContracts, dump_contracts
from wiretape.errors import InputError
from wiretape.files import read_limited
from wiretape.http_headers import AUTHORIZATION
from wiretape.input_validation import KeyPath, Source, validate
from wiretape.json_codec import UnreadableJson, read_json
from wiretape.observations import (
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
    header,
)
from wiretape.recording.formats import FormatReader
from wiretape.recording.recording_builder import (
    MAX_HELD_BYTES,
    MAX_STATUS,
    Chunk,
    RecordingMetadata,
    RecordingSource,
    list_exchanges,
    observe_body,
    order_observations,
)
from wiretape.safe_text import printable
from wiretape.sse import Frame, FrameKind, Parser, is_event_stream

_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:\s*\{')
_JOINED = frozenset({FrameKind.BLANK, FrameKind.BOM})
"""Frames that belong to the frame before them."""
_LINE_END = re.compile(r"\r\n?|\n")
"""The line ends of event streams; `str.splitlines` knows more."""
_WINDOWS_1252 = {
    ord(bytes([byte]).decode("cp1252")): byte for byte in range(0x80, 0xA0) if byte not in b"\x81\x8d\x8f\x90\x9d"
}
"""Characters that windows-1252 has, and latin-1 has not, with their bytes."""
_CHROMIUM = frozenset({"WebInspector", "Playwright"})
"""Creators of HAR files with bodies that Chromium decoded."""
_SCHEMES = frozenset({"http", "https"})
_VERSIONS = {"http/1.0": "HTTP/1.0", "http/1.1": "HTTP/1.1", "h2": "HTTP/2.0", "http/2": "HTTP/2.0", "h3": "HTTP/3"}
_UNTIL_SENT = ("blocked", "dns", "connect", "send")
_CODING_HEADERS = frozenset({"content-encoding", "content-length"})
"""Headers that do not apply to a decoded body."""
_IN_TARGET = "".join(map(chr, range(0x21, 0x7F)))
_MAX_DETAIL = 500

_ALWAYS = (
    "A HAR file does not contain chunks, endings, the times of comments, or client addresses: "
    "docs/import.md lists what replaces them."
)
_NOTES = {
    "rebuilt": (
        "The bytes of {} were built from the listed events; comments and gaps (KAL001) are missing or have changed"
    ),
    "no data": "Events of {} have no data, because the file is sanitised",
    "no times": "The events of {} have no times in the file; they are assumed to arrive with the start of the response",
    "mismatch": "The listed events differ from the body of {}; the rest of the body is assumed to arrive at once",
    "reencoded": "Chromium had decoded the UTF-8 of {} as windows-1252; this was undone",
    "absent": "The body of {} is not in the file",
    "truncated": (
        "The body of {} is shorter than its declared size; "
        "Firefox keeps 1 MiB of each body (devtools.netmonitor.responseBodyLimit)"
    ),
    "separate": "The body of {} is in a separate file, which is not read; record with embedded content instead",
    "decoded": "The body of {} was compressed; it is stored decoded, without Content-Encoding and Content-Length",
    "form": "The request body of {} was built from the fields of a form",
}
_BOM = b"\xef\xbb\xbf"
_MAX_NUMBER = 2**62
_MAX_YEAR = 2200
"""Nanoseconds since 1970 fit into 64 bits until 2262."""
_MAX_DURATION_MS = 366 * 24 * 3600 * 1000
"""No part of an exchange takes longer than a year."""


class _Object(msgspec.Struct, rename="camel", frozen=True):
    """An object of a HAR file."""


class _NameValue(_Object, frozen=True):
    name: str = ""
    value: str = ""


class _PostData(_Object, frozen=True):
    text: str | None = None
    params: list[_NameValue] = []


class _Request(_Object, frozen=True):
    url: str = ""
    method: str = "GET"
    http_version: str = ""
    headers: list[_NameValue] = []
    post_data: _PostData = _PostData(text="")


class _Content(_Object, frozen=True):
    size: float | None = None
    mime_type: str = ""
    text: str | None = None
    encoding: str = ""
    file: Any = msgspec.field(default=None, name="_file")
    """Name of another file that contains the body."""


class _Response(_Object, frozen=True):
    """A response; its status is 0 if there was none."""

    status: float = 0
    status_text: str = ""
    http_version: str = ""
    headers: list[_NameValue] = []
    content: _Content = _Content(size=0)
    error: Any = msgspec.field(default=None, name="_error")
    failure_text: Any = msgspec.field(default=None, name="_failureText")


class _Timings(_Object, frozen=True):
    """Durations in milliseconds; -1 if they do not apply."""

    blocked: float = 0
    dns: float = 0
    connect: float = 0
    """Includes `ssl`."""
    send: float = 0
    wait: float = 0
    receive: float = 0


class _EventSourceMessage(_Object, frozen=True):
    """An event of a stream, as Chromium's DevTools list it."""

    time: float = 0
    """Seconds since 1970."""
    event_name: str = ""
    event_id: str = ""
    data: str | None = None
    """None in a sanitised file."""


class _Entry(_Object, frozen=True):
    request: _Request
    response: _Response
    started_date_time: str = ""
    timings: _Timings = _Timings()
    resource_type: Any = msgspec.field(default=None, name="_resourceType")
    event_source_messages: list[_EventSourceMessage] | None = msgspec.field(default=None, name="_eventSourceMessages")
    web_socket_messages: Any = msgspec.field(default=None, name="_webSocketMessages")


class _Creator(_Object, frozen=True):
    name: str = ""


class _Wiretape(_Object, frozen=True):
    """What wiretape writes about the recording."""

    contracts: RecordedContracts = []


class _Log(_Object, frozen=True):
    creator: _Creator = _Creator()
    entries: list[_Entry] = []
    wiretape: _Wiretape = msgspec.field(default=_Wiretape(), name="_wiretape")


class _File(_Object, frozen=True):
    log: _Log


def _load(path: Path) -> _Log:
    """Read a file.  Raises InputError."""
    value = read_json(read_limited(path, "a HAR file", MAX_HELD_BYTES).removeprefix(_BOM))
    if value is UnreadableJson.NOT_JSON:
        raise InputError(f"{path} is not a HAR file: it is not JSON, or it is truncated.")
    if isinstance(value, UnreadableJson):
        raise InputError(f"{path} cannot be read as HAR: it is nested too deeply, or a number in it is too long.")
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a HAR file: it must be a JSON object with a log.")
    return validate(_clean(value), _File, Source(str(path))).log


def _clean(value: Any) -> Any:
    """Return a JSON value without null members, and with U+FFFD for half a surrogate pair."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not value.isascii() else value
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items() if item is not None}
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _positive(number: float) -> float:
    """Return a number; 0 if it is negative."""
    return max(min(number, _MAX_NUMBER), 0)


def _parse_time(text: str, source: Source, path: KeyPath) -> int:
    """Return a wall clock time, to the microsecond, as nanoseconds since 1970.  Raises InputError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        shown = f", got {printable(repr(text[:60]))}" if text else ""
        raise source.error(path, f"expected a time such as 2026-11-21T12:00:00.000Z{shown}") from None
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    if since < timedelta(0) or when.year >= _MAX_YEAR:
        raise source.error(path, f"expected a year from 1970 to {_MAX_YEAR - 1}, got {when.year}")
    return since // timedelta(microseconds=1) * 1000


def read(path: Path) -> RecordingSource:
    """Start to read a file.  Raises InputError."""
    log = _load(path)
    notes = _ImportNotes(list)
    by_chromium = log.creator.name in _CHROMIUM
    source = Source(str(path))
    exchanges = [
        _EntryReader(entry, source, ("log", "entries", index), notes, by_chromium=by_chromium)
        for index, entry in enumerate(log.entries)
        if entry.resource_type != "websocket" and entry.web_socket_messages is None
    ]
    http = sorted((each for each in exchanges if each.is_http), key=lambda each: each.began_ns)
    notes.skipped = len(log.entries) - len(http)
    if not http:
        raise InputError(f"{path} contains no HTTP requests.")
    contracts = dump_contracts(log.wiretape.contracts)
    recording = RecordingSource(RecordingMetadata("", http[0].began_ns, contracts=contracts), iter(()))
    recording.observations = _observations(http, notes, recording)
    return recording


def _observations(
    exchanges: "Sequence[_EntryReader]", notes: "_ImportNotes", recording: RecordingSource
) -> Iterator[Observation]:
    each = (exchange.observations(number) for number, exchange in enumerate(exchanges, 1))
    yield from order_observations(each, recording.metadata.started_unix_ns)
    recording.notes += notes.sentences()


class _ImportNotes(defaultdict[str, list[int]]):
    """The exchanges that each of `_NOTES` is about."""

    skipped = 0
    has_keys = False

    def sentences(self) -> Iterator[str]:
        """Return all notes: what the file does not contain, and what replaces it."""
        yield _ALWAYS
        if self.skipped:
            entries = "entry that is not an HTTP request" if self.skipped == 1 else "entries that are not HTTP requests"
            yield f"Skipped {self.skipped} {entries}."
        if not self.has_keys:
            yield "No request has a key, as usual in a sanitised HAR file: findings about keys (AUTH) are meaningless."
        yield from (f"{_NOTES[note].format(list_exchanges(self[note]))}." for note in _NOTES if note in self)


class _EntryReader:
    """Reads one entry.  Its methods raise InputError if the entry is invalid."""

    def __init__(self, entry: _Entry, source: Source, path: KeyPath, notes: _ImportNotes, *, by_chromium: bool) -> None:
        self._entry = entry
        self._source = source
        self._path = path
        self._notes = notes
        self._by_chromium = by_chromium
        try:
            url = urlsplit(entry.request.url)
        except ValueError:
            raise source.error((*path, "request", "url"), "not a URL") from None
        self.is_http = url.scheme in _SCHEMES
        self.scheme = url.scheme
        self.authority = _latin_1(url.netloc.rpartition("@")[2])
        self._target = quote((url.path or "/") + (f"?{url.query}" if url.query else ""), safe=_IN_TARGET)
        self.began_ns = 0
        if self.is_http:
            self.began_ns = _parse_time(entry.started_date_time, source, (*path, "startedDateTime"))

    def observations(self, number: int) -> Iterator[Observation]:
        """Return the observations of exchange `number`, in time order, with wall clock times that may be equal."""
        sent_ns = self.began_ns + sum(map(self._duration, _UNTIL_SENT))
        yield from self._request(number, sent_ns)
        responded_ns = sent_ns + self._duration("wait")
        ended_ns = receive_end_ns = responded_ns + self._duration("receive")
        if self._status:
            for seen in self._response(number, responded_ns, receive_end_ns):
                yield seen
                ended_ns = max(ended_ns, seen.time_ns)
        yield self._end(number, ended_ns)

    def _duration(self, part: str) -> int:
        """Return a duration in nanoseconds."""
        milliseconds = _positive(getattr(self._entry.timings, part))
        if milliseconds > _MAX_DURATION_MS:
            raise self._source.error((*self._path, "timings", part), "expected milliseconds that are less than a year")
        return round(milliseconds * 1_000_000)

    def _request(self, number: int, sent_ns: int) -> Iterator[Observation]:
        request = self._entry.request
        headers = _headers(request.headers)
        self._notes.has_keys = self._notes.has_keys or header(headers, AUTHORIZATION) is not None
        yield RequestStarted(
            exchange=number,
            time_ns=self.began_ns,
            client="",
            method=request.method,
            scheme=self.scheme,
            authority=self.authority,
            target=self._target,
            http_version=_version(request.http_version),
            headers=headers,
            is_invented=not headers,
        )
        body = self._request_body(request.post_data, number)
        yield from observe_body(number, Side.REQUEST, [(sent_ns, body)] if body else [])
        yield RequestEnded(number, sent_ns)

    def _request_body(self, posted: _PostData, number: int) -> bytes:
        if posted.text is None and posted.params:
            self._notes["form"].append(number)
            return urlencode([(field.name, field.value) for field in posted.params]).encode()
        return (posted.text or "").encode()

    @property
    def _status(self) -> int:
        """The status; 0 without a response."""
        status = int(_positive(self._entry.response.status))
        if status > MAX_STATUS:
            raise self._source.error(
                (*self._path, "response", "status"), f"expected at most {MAX_STATUS}, got {status}"
            )
        return status

    @property
    def _content_type(self) -> str:
        """The type of the body: that of the header, or else that of the browser."""
        response = self._entry.response
        return header(_headers(response.headers), "content-type") or response.content.mime_type

    def _response(self, number: int, responded_ns: int, receive_end_ns: int) -> Iterator[Observation]:
        response, content = self._entry.response, self._entry.response.content
        headers, content_type = _headers(response.headers), self._content_type
        if header(headers, "content-type") is None and content_type not in {"", "x-unknown"}:
            headers = (*headers, ("Content-Type", content_type))
        body = self._response_body(content, number)
        encoded = not is_identity(header(headers, "content-encoding"))
        # If a body was compressed, some programs write its compressed size.  Browsers leave out a byte order mark.
        if body and not encoded and (content.size or 0) > len(body) + len(_BOM):
            self._notes["truncated"].append(number)
        chunks = [(receive_end_ns, body)] if body else []
        if is_event_stream(content_type):
            chunks = list(self._stream_chunks(body, number, responded_ns, receive_end_ns))
        if chunks and encoded:
            headers = tuple(pair for pair in headers if pair[0].lower() not in _CODING_HEADERS)
            self._notes["decoded"].append(number)
        has_body = self._status not in {204, 304} and content.size != 0
        if not chunks and body is None and has_body:
            self._notes["absent"].append(number)
        reason, version = response.status_text, _version(response.http_version)
        yield ResponseStarted(number, responded_ns, self._status, reason, version, headers)
        yield from observe_body(number, Side.RESPONSE, chunks)

    def _response_body(self, content: _Content, number: int) -> bytes | None:
        if content.text is None:
            if content.file is not None:
                self._notes["separate"].append(number)
                return b""
            return None
        if content.encoding.lower() != "base64":
            return content.text.encode()
        try:
            return b64decode(content.text, validate=True)
        except ValueError:
            raise self._source.error((*self._path, "response", "content", "text"), "invalid base64") from None

    def _stream_chunks(self, body: bytes | None, number: int, began_ns: int, ended_ns: int) -> Iterable[Chunk]:
        events = self._entry.event_source_messages
        if not body:
            if not events:
                return []
            if any(event.data is None for event in events):
                self._notes["no data"].append(number)
            self._notes["rebuilt"].append(number)
            return _build_body(events, began_ns)
        restored = _undo_windows_1252(body) if self._by_chromium else None
        chosen = body if restored is None else restored
        if events is None:
            self._notes["no times"].append(number)
            chunks = [(began_ns, chosen)]
        else:
            chunks, matches = _split_body(chosen, events, began_ns, ended_ns)
            if not matches and chosen is restored:
                chosen = body
                chunks, matches = _split_body(body, events, began_ns, ended_ns)
            if not matches:
                self._notes["mismatch"].append(number)
        if chosen is restored:
            self._notes["reencoded"].append(number)
        return chunks

    def _end(self, number: int, ended_ns: int) -> Observation:
        """Return the end; that of a stream, and of an exchange without a response, is unknown."""
        response = self._entry.response
        ending = Ending.COMPLETE if self._status and not is_event_stream(self._content_type) else Ending.OPEN
        error = response.error or response.failure_text
        detail = error[:_MAX_DETAIL].encode("utf-8", "replace").decode() if isinstance(error, str) else ""
        return ExchangeEnded(number, ended_ns, ending, detail)


def _version(name: str) -> str:
    return _VERSIONS.get(name.lower(), name) or "HTTP/1.1"


def _headers(pairs: Iterable[_NameValue]) -> Headers:
    """Return headers without the pseudo-headers of HTTP/2; a value with line feeds becomes several headers."""
    return tuple(
        (_latin_1(pair.name), _latin_1(part))
        for pair in pairs
        if not pair.name.startswith(":")
        for part in pair.value.split("\n")
    )


def _latin_1(text: str) -> str:
    """Return a text in which each character stands for a byte of its latin-1 encoding, or else of its UTF-8."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode().decode("latin-1")
    return text


def _undo_windows_1252(body: bytes) -> bytes | None:
    """Return a body whose UTF-8 was decoded as windows-1252 as it was before; None if that did not happen.

    Chromium passes event streams without a charset to DevTools, and so to HAR files, in this way.
    """
    try:
        data = body.decode().translate(_WINDOWS_1252).encode("latin-1")
        data.decode()
    except UnicodeError:
        return None
    return None if data == body else data


def _split_body(
    body: bytes, events: Sequence[_EventSourceMessage], began_ns: int, ended_ns: int
) -> tuple[list[Chunk], bool]:
    """Cut a body after each event; everything between two events is spread evenly over the time between them.

    Also returns whether the events are those in the body.
    """
    left = iter(events)
    at, matches = began_ns, True
    parts, chunks = list[bytes](), list[Chunk]()
    for part, frame in _split_frames(body):
        parts.append(part)
        if not frame.is_dispatched or not matches:
            continue
        event = next(left, None)
        if event is None or not _is_same_event(event, frame):
            matches = False
            continue
        until = _event_time(event, at, began_ns)
        chunks += _spread(parts, at, until)
        at, parts = until, []
    chunks += _spread(parts, at, max(at, ended_ns) if matches else at)
    return chunks, matches and next(left, None) is None


def _build_body(events: Sequence[_EventSourceMessage], began_ns: int) -> Iterator[Chunk]:
    """Write the bytes of each event as a chunk."""
    at, last_id = began_ns, ""
    for event in events:
        at = _event_time(event, at, began_ns)
        yield at, _write_event(event, event.event_id if event.event_id != last_id else "")
        last_id = event.event_id or last_id


def _event_time(event: _EventSourceMessage, at: int, began_ns: int) -> int:
    """Return the time of an event, limited to the range from the event before to the longest duration."""
    unix_ns = round(_positive(event.time) * 1_000_000_000)
    return min(max(at, unix_ns), began_ns + _MAX_DURATION_MS * 1_000_000)


def _is_same_event(event: _EventSourceMessage, frame: Frame) -> bool:
    """Return whether a browser lists a frame as this event."""
    name = frame.event or "message"
    return event.event_name == name and event.data in {None, frame.data.decode("utf-8", "replace")}


def _split_frames(body: bytes) -> Iterator[tuple[bytes, Frame]]:
    """Split a body into frames; blank lines are joined to the frame before, unless that is an event.

    It is unknown when the blank lines after an event arrived.
    """
    parser = Parser()
    part, first = b"", None
    for frame in (*parser.feed(body), *parser.close()):
        if first is not None and (first.is_dispatched or frame.kind not in _JOINED):
            yield part, first
            part, first = b"", None
        part, first = part + frame.raw, first or frame
    if first is not None:
        yield part, first


def _spread(parts: Sequence[bytes], after: int, until: int) -> Iterator[Chunk]:
    """Spread parts evenly over a time, with the last one at its end."""
    for index, part in enumerate(parts, 1):
        yield after + (until - after) * index // len(parts), part


def _write_event(event: _EventSourceMessage, id_: str) -> bytes:
    lines = [f"event: {_one_line(event.event_name)}"] if event.event_name not in {"", "message"} else []
    lines += [f"id: {_one_line(id_)}"] if id_ else []
    lines += [f"data: {line}" for line in _LINE_END.split(event.data or "")]
    return ("\n".join(lines) + "\n\n").encode()


def _one_line(text: str) -> str:
    return _LINE_END.sub(" ", text)


READER = FormatReader(_BEGINNING.match, read)
