"""A recording in the forms that other programs read: the bytes of a stream, or a JSON object a line."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from wiretape.content_encoding import DecodingError, decoder
from wiretape.errors import InputError
from wiretape.event_facts import facts_of, is_utf8
from wiretape.frame_reader import FrameReader, SeenFrame
from wiretape.json_output import dump_json
from wiretape.json_reader import UnreadableJson, read_json
from wiretape.observations import BytesArrived, Side, header
from wiretape.recording import Exchange, Recording
from wiretape.sse import FrameKind
from wiretape_inspect import timeline_json

BODY_LIMIT = 16 * 1024 * 1024
"""Decoded bytes of an ordinary body that a line of JSON may hold."""
_SLICE = 64 * 1024


def stream_bytes(recording: Recording, exchange: Exchange, *, encoded: bool) -> Iterator[bytes]:
    """The bytes of a stream, decoded unless `encoded`.  Raises InputError where they cannot be decoded."""
    decoding = decoder(None)
    try:
        decoding = decoder(None if encoded else exchange.content_encoding)
        for part in recording.body(exchange.number, Side.RESPONSE):
            if isinstance(part, BytesArrived):
                yield decoding.feed(part.data)
    except DecodingError as error:
        raise InputError(
            f"The body of exchange {exchange.number} cannot be decoded ({error}): --encoded exports it as it came."
        ) from None


def json_lines(recording: Recording, exchanges: Iterator[Exchange]) -> Iterator[str]:
    """A line for each exchange, followed by one for each event of a stream."""
    started = recording.info.started
    for exchange in exchanges:
        whole = {"kind": "exchange", **timeline_json.head(exchange), "time": wall(started, exchange.request.time_ns)}
        if not exchange.is_stream:
            whole |= {
                "request_body": _body(recording, exchange, Side.REQUEST),
                "response_body": _body(recording, exchange, Side.RESPONSE),
            }
        yield dump_json(whole)
        if exchange.is_stream:
            yield from _events(recording, exchange)


def _events(recording: Recording, exchange: Exchange) -> Iterator[str]:
    reader = FrameReader(exchange.content_encoding)
    for part in recording.body(exchange.number, Side.RESPONSE):
        frames = reader.feed(part) if isinstance(part, BytesArrived) else reader.skip(part)
        yield from (dump_json(_event(recording, exchange, seen)) for seen in frames if _told(seen))
    last = [seen for seen in reader.close() if _told(seen)]
    yield from (dump_json(_event(recording, exchange, seen)) for seen in last)
    if reader.undecodable is not None:
        yield dump_json({"kind": "undecodable", "exchange": exchange.number, "text": reader.undecodable})


def _told(seen: SeenFrame) -> bool:
    return seen.frame.kind not in {FrameKind.BLANK, FrameKind.BOM}


def _event(recording: Recording, exchange: Exchange, seen: SeenFrame) -> dict[str, Any]:
    frame = seen.frame
    message = frame.kind is FrameKind.MESSAGE
    facts = facts_of(frame) if message else None
    return {
        "kind": facts.kind if facts else frame.kind,
        "exchange": exchange.number,
        "event": seen.event,
        "time_ns": seen.time_ns,
        "time": wall(recording.info.started, seen.time_ns),
        "id": frame.id if message else None,
        "name": frame.event if message else None,
        "sequence": facts.sequence if facts else None,
        "start": frame.start,
        "end": frame.end,
        **(content(frame.data) if message else content(frame.raw, parse=False)),
    }


def content(data: bytes, *, parse: bool = True) -> dict[str, Any]:
    """Bytes under the key that tells what they are: `data` (JSON, exactly as it was), `text` or `base64`."""
    if not is_utf8(data):
        return {"base64": b64encode(data).decode()}
    if parse and not isinstance(read_json(data), UnreadableJson):
        # In valid JSON a line feed stands only between tokens.
        return {"data": orjson.Fragment(data.replace(b"\n", b" ").replace(b"\r", b" "))}
    return {"text": data.decode()}


def bodies(recording: Recording, exchange: Exchange) -> dict[str, dict[str, Any] | None]:
    """What an exchange said in its `request` and its `response`, as `text` or `base64`; None where that is nothing.

    The response of a stream is left out: it has rows instead.
    """
    return {
        "request": _body(recording, exchange, Side.REQUEST, parse=False),
        "response": None if exchange.is_stream else _body(recording, exchange, Side.RESPONSE, parse=False),
    }


def _body(recording: Recording, exchange: Exchange, side: Side, *, parse: bool = True) -> dict[str, Any] | None:
    """A whole body, decoded where it can be; None where there is none."""
    if not (exchange.request_bytes if side is Side.REQUEST else exchange.response_bytes):
        return None
    data = b"".join(part.data for part in recording.body(exchange.number, side) if isinstance(part, BytesArrived))
    decoded = bytearray()
    try:
        decoding = decoder(_encoding(exchange, side))
        for at in range(0, len(data), _SLICE):
            decoded += decoding.feed(data[at : at + _SLICE])
            if len(decoded) > BODY_LIMIT:
                return {"omitted": f"more than {BODY_LIMIT} bytes"}
    except DecodingError:
        return {**content(data, parse=False), "encoded": True}
    return content(bytes(decoded), parse=parse)


def _encoding(exchange: Exchange, side: Side) -> str | None:
    if side is Side.REQUEST:
        return header(exchange.request.headers, "content-encoding")
    return exchange.content_encoding


def wall(started: datetime, time_ns: int) -> str:
    """A time of the recording on the wall clock, ISO 8601 UTC, to the microsecond."""
    return f"{(started + timedelta(microseconds=time_ns // 1000)).astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
