"""HAR entries, written while the recording is read: a stream is never held."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from wiretape import __version__
from wiretape.event_facts import facts_of
from wiretape.frame_reader import SeenFrame
from wiretape.json_output import dump_json
from wiretape.observations import Side, header
from wiretape.recording import Exchange, Recording
from wiretape.safe_text import escape_json
from wiretape_inspect.archive import heads
from wiretape_inspect.archive.texts import Body, body


def write(
    recording: Recording, exchanges: Iterable[Exchange] | None = None, *, sensitive: bool = False
) -> Iterator[bytes]:
    """A HAR of a recording, or of some of its exchanges.

    Without `sensitive` the headers that carry credentials and cookies are left out, as DevTools leaves them out of a
    sanitised HAR.
    """
    creator = {"name": "wiretape", "version": __version__}
    yield b'{"log":' + _begun({"version": "1.2", "creator": creator, "pages": []}) + b',"entries":['
    for index, exchange in enumerate(recording.exchanges() if exchanges is None else exchanges):
        yield b",\n" if index else b"\n"
        yield from _entry(recording, exchange, sensitive=sensitive)
    yield b"\n]}}\n"


def _entry(recording: Recording, exchange: Exchange, *, sensitive: bool) -> Iterator[bytes]:
    yield _begun(heads.facts(recording, exchange)) + b',"request":'
    yield from _request(recording, exchange, sensitive=sensitive)
    yield b',"response":'
    yield from _response(recording, exchange, sensitive=sensitive)
    if exchange.is_stream:
        yield b',"_eventSourceMessages":['
        yield from _listed(_message(recording, seen) for seen in _dispatched(recording, exchange))
        yield b'],"_wiretape":['
        yield from _listed(_place(seen) for seen in _dispatched(recording, exchange))
        yield b"]"
    yield b"}"


def _request(recording: Recording, exchange: Exchange, *, sensitive: bool) -> Iterator[bytes]:
    yield _begun(heads.request(exchange, sensitive=sensitive))
    if exchange.request_bytes:
        sent = body(recording, exchange, Side.REQUEST)
        kind = header(exchange.request.headers, "content-type") or ""
        yield b',"postData":' + _begun({"mimeType": kind, **_comment(sent)}) + b',"text":"'
        yield from sent.replaced()
        yield b'"}'
    yield b"}"


def _response(recording: Recording, exchange: Exchange, *, sensitive: bool) -> Iterator[bytes]:
    came = body(recording, exchange, Side.RESPONSE)
    kind = header(exchange.response.headers, "content-type") if exchange.response else None
    content = {"size": came.size, "mimeType": kind or heads.UNKNOWN, **_comment(came)}
    whole = exchange.response is not None and not came.trouble
    if whole and not came.utf8:
        content["encoding"] = "base64"
    yield _begun(heads.response(exchange, sensitive=sensitive)) + b',"content":' + _begun(content)
    if whole:
        yield b',"text":"'
        yield from came.pieces()
        yield b'"'
    yield b"}}"


def _comment(shown: Body) -> dict[str, str]:
    said = [f"cannot be decoded, and so is left out: {shown.trouble}"] if shown.trouble else []
    if shown.exchange.lost_bytes:
        said.append(f"{shown.exchange.lost_bytes} bytes of this exchange were not recorded")
    return {"comment": "; ".join(said)} if said else {}


def _dispatched(recording: Recording, exchange: Exchange) -> Iterator[SeenFrame]:
    """The messages that a browser would hand on: those with data."""
    for seen in recording.frames(exchange.number):
        if seen.frame.dispatched:
            yield seen


def _message(recording: Recording, seen: SeenFrame) -> dict[str, Any]:
    frame = seen.frame
    return {
        "time": (recording.info.started_unix_ns + seen.time_ns) / 1_000_000_000,
        "eventName": frame.event or "message",
        "eventId": frame.id or "",
        "data": frame.data.decode("utf-8", "replace"),
    }


def _place(seen: SeenFrame) -> dict[str, Any]:
    facts = facts_of(seen.frame)
    return {"event": seen.event, "sequence": facts.sequence, "byteOffset": seen.frame.start, "kind": facts.kind}


def _listed(items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    for index, item in enumerate(items):
        yield b",\n" if index else b"\n"
        yield dump_json(item).encode()


def _begun(members: dict[str, Any]) -> bytes:
    """A JSON object that is not closed yet."""
    return escape_json(orjson.dumps(members)[:-1].decode()).encode()
