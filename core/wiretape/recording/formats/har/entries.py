"""An entry of a HAR as observations."""

from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from wiretape.content_encoding import is_identity
from wiretape.contract import AUTHORIZATION, is_event_stream
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
from wiretape.recording.formats.har.notes import Notes
from wiretape.recording.formats.har.streams import Course, Listed, as_utf8, listed
from wiretape.recording.formats.har.values import (
    headers,
    member,
    members,
    ms,
    needed,
    number,
    text,
    unix_ns,
    web_address,
)
from wiretape.recording.recording_source import MAX_STATUS, Chunk, observe_body
from wiretape.toml import Table

_VERSIONS = {"http/1.0": "HTTP/1.0", "http/1.1": "HTTP/1.1", "h2": "HTTP/2.0", "http/2": "HTTP/2.0", "h3": "HTTP/3"}
_BEFORE = ("blocked", "dns", "connect", "send")
"""What passes before a request is sent; `connect` holds `ssl`."""
_CODING = frozenset({"content-encoding", "content-length"})
"""Headers that are not true of a decoded body."""
_LONGEST_ERROR = 500
_BOM_BYTES = 3
"""Browsers leave a byte order mark out of the text."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry, and where it stands in the recording.  What it yields raises InputError."""

    table: Table
    began_ns: int
    """When it began, on the clock on the wall."""
    scheme: str
    authority: str
    target: str
    by_chromium: bool

    def observations(self, number_: int, notes: Notes) -> Iterator[Observation]:
        """In order of time, which is that on the wall still and may stand still."""
        sent_ns = self.began_ns + sum(self._took(part) for part in _BEFORE)
        yield from self._request(number_, sent_ns, notes)
        answered_ns = sent_ns + self._took("wait")
        course = Course(answered_ns, answered_ns + self._took("receive"))
        response = needed(self.table, "response")
        ended_ns = course.ended_ns
        if _status(response):
            for seen in self._answer(response, number_, course, notes):
                yield seen
                ended_ns = max(ended_ns, seen.time_ns)
        yield _end(response, number_, ended_ns)

    def _took(self, part: str) -> int:
        timings = member(self.table, "timings")
        return ms(timings, part) if timings else 0

    def _request(self, number_: int, sent_ns: int, notes: Notes) -> Iterator[Observation]:
        request = needed(self.table, "request")
        method, version, head = text(request, "method", "GET"), _version(request), headers(request)
        notes.keys = notes.keys or header(head, AUTHORIZATION) is not None
        yield RequestStarted(
            number_, self.began_ns, "", method, self.scheme, self.authority, self.target, version, head
        )
        body = _posted(request, number_, notes)
        yield from observe_body(number_, Side.REQUEST, [(sent_ns, body)] if body else [])
        yield RequestEnded(number_, sent_ns)

    def _answer(self, response: Table, number_: int, course: Course, notes: Notes) -> Iterator[Observation]:
        head, content = headers(response), member(response, "content")
        kind = _kind(response)
        if header(head, "content-type") is None and kind not in {"", "x-unknown"}:
            head = (*head, ("Content-Type", kind))
        body = _content(content, number_, notes)
        if content is not None and _is_cut(content, head, body):
            notes.add("cut", number_)
        chunks = [(course.ended_ns, body)] if body else []
        if is_event_stream(kind):
            chunks = list(self._stream(body, number_, course, notes))
        if chunks and not is_identity(header(head, "content-encoding")):
            head = tuple(pair for pair in head if pair[0].lower() not in _CODING)
            notes.add("decoded", number_)
        if not chunks and body is None and not _is_empty(content, response):
            notes.add("absent", number_)
        reason = text(response, "statusText")
        yield ResponseStarted(number_, course.began_ns, _status(response), reason, _version(response), head)
        yield from observe_body(number_, Side.RESPONSE, chunks)

    def _stream(self, body: bytes | None, number_: int, course: Course, notes: Notes) -> Iterator[Chunk]:
        events = listed(self.table)
        if events and any(event.data is None for event in events) and not body:
            notes.add("blank", number_)
        mended = as_utf8(body) if body and self.by_chromium else None
        if body and events is not None:
            yield from self._timed([body] if mended is None else [mended, body], events, number_, course, notes)
        elif body:
            notes.add("timeless", number_)
            if mended is not None:
                notes.add("mended", number_)
            yield course.began_ns, mended or body
        elif events:
            notes.add("rebuilt", number_)
            yield from course.rebuilt(events)

    def _timed(
        self, bodies: Sequence[bytes], events: Sequence[Listed], number_: int, course: Course, notes: Notes
    ) -> Iterable[Chunk]:
        """The first of what the body may be that the events fit, or the last."""
        for body in bodies:
            course.astray = False
            chunks = list(course.timed(body, events))
            if not course.astray:
                break
        if body is not bodies[-1]:
            notes.add("mended", number_)
        if course.astray:
            notes.add("astray", number_)
        return chunks


def entry(table: Table, *, by_chromium: bool) -> Entry | None:
    """An entry, or None where it is no request over HTTP, or one that became a WebSocket.  Raises InputError."""
    if table.values.get("_resourceType") == "websocket" or table.values.get("_webSocketMessages") is not None:
        return None
    address = web_address(needed(table, "request"))
    return Entry(table, unix_ns(table, "startedDateTime"), *address, by_chromium) if address else None


def _status(response: Table) -> int:
    """The status; 0 where no answer came."""
    said = int(number(response, "status"))
    if said > MAX_STATUS:
        raise response.wrong("status", f"it has to be {MAX_STATUS} at most")
    return said


def _kind(response: Table) -> str:
    """The type of the body: what the header says, or what the browser made of it."""
    content = member(response, "content")
    said = text(content, "mimeType") if content else ""
    return header(headers(response), "content-type") or said


def _end(response: Table, number_: int, ended_ns: int) -> Observation:
    """How it ended: nobody says that of a stream, nor of what was not answered."""
    ending = Ending.COMPLETE if _status(response) and not is_event_stream(_kind(response)) else Ending.OPEN
    error = response.values.get("_error") or response.values.get("_failureText")
    detail = error[:_LONGEST_ERROR].encode("utf-8", "replace").decode() if isinstance(error, str) else ""
    return ExchangeEnded(number_, ended_ns, ending, detail)


def _version(table: Table) -> str:
    said = text(table, "httpVersion")
    return _VERSIONS.get(said.lower(), said) or "HTTP/1.1"


def _posted(request: Table, number_: int, notes: Notes) -> bytes:
    posted = member(request, "postData")
    if posted is None:
        return b""
    if posted.values.get("text") is None and (fields := members(posted, "params")):
        notes.add("form", number_)
        return urlencode([(text(field, "name"), text(field, "value")) for field in fields]).encode()
    return text(posted, "text").encode()


def _content(content: Table | None, number_: int, notes: Notes) -> bytes | None:
    if content is None or content.values.get("text") is None:
        if content is not None and "_file" in content:
            notes.add("elsewhere", number_)
            return b""
        return None
    said = text(content, "text")
    if text(content, "encoding").lower() != "base64":
        return said.encode()
    try:
        return b64decode(said, validate=True)
    except ValueError:
        raise content.wrong("text", "it is no base64") from None


def _is_cut(content: Table, head: Headers, body: bytes | None) -> bool:
    """Whether a body is shorter than it is said to be.  Of one that was compressed, some say how long that was."""
    if not body or not is_identity(header(head, "content-encoding")):
        return False
    return number(content, "size") > len(body) + _BOM_BYTES


def _is_empty(content: Table | None, response: Table) -> bool:
    """Whether there was no body to begin with."""
    return _status(response) in {204, 304} or content is None or content.values.get("size") == 0
