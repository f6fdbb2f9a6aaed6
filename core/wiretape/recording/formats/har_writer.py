"""Writer of HAR files, with event streams as Chromium reads them.

Writes entries while it reads the recording, and never holds a whole stream.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

import msgspec
import orjson

from wiretape import __version__
from wiretape.content_encoding import DecodingError, decoder
from wiretape.credential_names import SECRET_HEADERS
from wiretape.event import Event
from wiretape.json_codec import base64_parts, dump_json
from wiretape.observations import BytesArrived, Ending, Headers, RequestStarted, Side, header
from wiretape.recording.recording_reader import Recording
from wiretape.recording.table_rows import Exchange
from wiretape.safe_text import escape_json

_IN_URL = "!$%&'()*+,-./:;=?@[]_~"
"""Characters that need no escape in a URL, besides letters and digits; a number sign would begin a fragment."""
_UNKNOWN_TYPE = "x-unknown"


def write(
    recording: Recording, exchanges: Iterable[Exchange] | None = None, *, sensitive: bool = False
) -> Iterator[bytes]:
    """Return the HAR file of a recording, or of some of its exchanges.

    Unless `sensitive`, the headers with credentials and cookies are left out, as in the sanitised files of DevTools.
    """
    head: dict[str, Any] = {"version": "1.2", "creator": {"name": "wiretape", "version": __version__}, "pages": []}
    if contracts := recording.info.contract_texts:
        head["_wiretape"] = {"contracts": msgspec.to_builtins(contracts)}
    yield b'{"log":' + _open_object(head) + b',"entries":['
    for index, exchange in enumerate(recording.exchanges() if exchanges is None else exchanges):
        yield b",\n" if index else b"\n"
        yield from _entry(recording, exchange, sensitive=sensitive)
    yield b"\n]}}\n"


def _entry(recording: Recording, exchange: Exchange, *, sensitive: bool) -> Iterator[bytes]:
    yield _open_object(_summary(recording, exchange)) + b',"request":'
    yield from _request(recording, exchange, sensitive=sensitive)
    yield b',"response":'
    yield from _response(recording, exchange, sensitive=sensitive)
    if exchange.is_stream:
        yield b',"_eventSourceMessages":['
        yield from _items(_message(recording, event) for event in _events(recording, exchange))
        yield b'],"_wiretape":['
        yield from _items(map(_event_details, _events(recording, exchange)))
        yield b"]"
    yield b"}"


def _summary(recording: Recording, exchange: Exchange) -> dict[str, Any]:
    timings = _timings(exchange)
    return {
        "startedDateTime": _time(recording.info.started_unix_ns + exchange.request.time_ns),
        "time": round(sum(timings.values()), 6),
        "cache": {},
        "timings": {"blocked": -1, "dns": -1, "connect": -1, "ssl": -1, **timings},
        "_resourceType": "eventsource" if exchange.is_stream else "fetch",
    }


def _time(unix_ns: int) -> str:
    """Return a wall clock time, ISO 8601 UTC, to the microsecond."""
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=unix_ns // 1000):%Y-%m-%dT%H:%M:%S.%fZ}"


def _timings(exchange: Exchange) -> dict[str, float]:
    """Return durations in milliseconds.

    In a HAR file no response begins before the end of its request: such a request counts as sent when the response
    began.
    """
    began = exchange.request.time_ns
    response_ns = exchange.response.time_ns if exchange.response else None
    ended = max(filter(None, (exchange.ended_ns, response_ns, exchange.request_ended_ns)), default=began)
    responded = ended if response_ns is None else response_ns
    sent = min(exchange.request_ended_ns or began, responded)
    return {
        "send": (sent - began) / 1_000_000,
        "wait": (responded - sent) / 1_000_000,
        "receive": (ended - responded) / 1_000_000,
    }


def _request(recording: Recording, exchange: Exchange, *, sensitive: bool) -> Iterator[bytes]:
    request = exchange.request
    url = _url(request)
    query = parse_qsl(url.partition("?")[2], keep_blank_values=True)
    yield _open_object(
        {
            "method": request.method,
            "url": url,
            "httpVersion": request.http_version,
            "cookies": [],
            "headers": _headers(request.headers, sensitive=sensitive),
            "queryString": [{"name": name, "value": value} for name, value in query],
            "headersSize": -1,
            "bodySize": exchange.request_bytes,
        }
    )
    if exchange.request_bytes:
        body = _read_body(recording, exchange, Side.REQUEST)
        content_type = header(request.headers, "content-type") or ""
        yield b',"postData":' + _open_object({"mimeType": content_type, **body.comment}) + b',"text":"'
        yield from _json_text(body.decoded(), "replace")
        yield b'"}'
    yield b"}"


def _url(request: RequestStarted) -> str:
    """Return the URL of a request; characters that a URL cannot contain are percent-encoded."""
    target = request.target if request.target.startswith("/") else f"/{request.target}"
    return f"{request.scheme}://{_quote(request.authority)}{_quote(target)}"


def _quote(text: str) -> str:
    return quote(text, safe=_IN_URL, encoding="latin-1", errors="replace")


def _response(recording: Recording, exchange: Exchange, *, sensitive: bool) -> Iterator[bytes]:
    """Write a response; without one, the status is 0, as browsers write it."""
    response = exchange.response
    headers = response.headers if response else ()
    body = _read_body(recording, exchange, Side.RESPONSE)
    has_text = response is not None and not body.error
    content = {"size": body.size, "mimeType": header(headers, "content-type") or _UNKNOWN_TYPE, **body.comment}
    if has_text and not body.is_utf8:
        content["encoding"] = "base64"
    yield _open_object(
        {
            "status": response.status if response else 0,
            "statusText": response.reason if response else "",
            "httpVersion": response.http_version if response else "",
            "cookies": [],
            "headers": _headers(headers, sensitive=sensitive),
            "redirectURL": header(headers, "location") or "",
            "headersSize": -1,
            "bodySize": exchange.response_bytes,
            **_ending(exchange),
        }
    )
    yield b',"content":' + _open_object(content)
    if has_text:
        yield b',"text":"'
        yield from _json_text(body.decoded()) if body.is_utf8 else base64_parts(body.decoded())
        yield b'"'
    yield b"}}"


def _ending(exchange: Exchange) -> dict[str, str]:
    if exchange.ending is Ending.COMPLETE:
        return {}
    return {"_error": f"{exchange.ending}: {exchange.detail}" if exchange.detail else str(exchange.ending)}


def _headers(headers: Headers, *, sensitive: bool) -> list[dict[str, str]]:
    kept = (pair for pair in headers if sensitive or pair[0].lower() not in SECRET_HEADERS)
    return [{"name": name, "value": value} for name, value in kept]


def _events(recording: Recording, exchange: Exchange) -> Iterator[Event]:
    """Return the events that a browser dispatches: those with data."""
    return (event for event in recording.events(exchange.number) if event.has_data)


def _message(recording: Recording, event: Event) -> dict[str, Any]:
    return {
        "time": (recording.info.started_unix_ns + event.time_ns) / 1_000_000_000,
        "eventName": event.name or "message",
        "eventId": event.id or "",
        "data": event.data.decode("utf-8", "replace"),
    }


def _event_details(event: Event) -> dict[str, Any]:
    return {"event": event.number, "sequence": event.sequence, "byteOffset": event.frame.start, "kind": event.kind}


def _items(items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for index, item in enumerate(items):
        yield b",\n" if index else b"\n"
        yield dump_json(item).encode()


def _open_object(members: dict[str, Any]) -> bytes:
    """Return a JSON object without its closing brace."""
    return escape_json(orjson.dumps(members)[:-1].decode()).encode()


class _Body(NamedTuple):
    """A recorded body that was read once to measure it."""

    decoded: Callable[[], Iterator[bytes]]
    """Returns the body, a part at a time: decoded, unless that is not possible."""
    size: int
    is_utf8: bool
    error: str
    """Why it cannot be decoded."""
    comment: dict[str, str]
    """The comment about what is missing, if anything is."""


def _read_body(recording: Recording, exchange: Exchange, side: Side) -> _Body:
    """Read a body to find out how large it is, and whether it is text."""
    decoded, error = partial(_decode, recording, exchange, side, exchange.encoding_of(side)), ""
    try:
        size, is_utf8 = _measure(decoded())
    except DecodingError as problem:
        decoded, error = partial(_decode, recording, exchange, side, None), str(problem)
        size, is_utf8 = _measure(decoded())
    sentences = [f"left out, because it cannot be decoded: {error}"] if error else []
    if exchange.lost_bytes:
        sentences.append(f"{exchange.lost_bytes} bytes of this exchange were not recorded")
    return _Body(decoded, size, is_utf8, error, {"comment": "; ".join(sentences)} if sentences else {})


def _decode(recording: Recording, exchange: Exchange, side: Side, encoding: str | None) -> Iterator[bytes]:
    decoding = decoder(encoding)
    for part in recording.body(exchange.number, side):
        if isinstance(part, BytesArrived):
            yield from decoding.slices(part.data)


def _measure(parts: Iterator[bytes]) -> tuple[int, bool]:
    """Return the number of bytes, and whether they are UTF-8."""
    utf8 = codecs.getincrementaldecoder("utf-8")()
    size = 0
    try:
        for part in parts:
            size += len(part)
            utf8.decode(part)
        utf8.decode(b"", final=True)
    except UnicodeDecodeError:
        return size + sum(map(len, parts)), False
    return size, True


def _json_text(parts: Iterable[bytes], errors: str = "strict") -> Iterator[bytes]:
    """Return the inside of a JSON string with this text."""
    utf8 = codecs.getincrementaldecoder("utf-8")(errors)
    for part in parts:
        yield _escape(utf8.decode(part))
    yield _escape(utf8.decode(b"", final=True))


def _escape(text: str) -> bytes:
    return escape_json(orjson.dumps(text)[1:-1].decode()).encode()
