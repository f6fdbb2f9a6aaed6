"""JSON for other programs, safe to look at on a terminal too."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import orjson

from wiretape.content_encoding import is_identity
from wiretape.frame_reader import SeenFrame
from wiretape.observations import Headers
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape.safe_text import escape_json
from wiretape_inspect import place, timeline
from wiretape_inspect.place import Around, Chunk
from wiretape_inspect.view.filter_match import Match
from wiretape_inspect.view.resume import Resume
from wiretape_inspect.view.rows import CutRow, DeltaRow, EndRow, EventRow, LostRow, OversizedRow, PauseRow, StreamRow
from wiretape_inspect.view.state import State
from wiretape_inspect.words import ending_label

_LONE = re.compile("[\ud800-\udfff]")
_NAMES: dict[type, str] = {
    EventRow: "event",
    DeltaRow: "deltas",
    PauseRow: "pause",
    CutRow: "cut",
    OversizedRow: "oversized",
    LostRow: "lost",
    EndRow: "end",
}


def dump(value: Any, *, indent: bool = False) -> str:
    """`value` as JSON in which no control or direction character stands unescaped."""
    option = orjson.OPT_INDENT_2 if indent else 0
    try:
        text = orjson.dumps(value, option=option)
    except orjson.JSONEncodeError:
        text = orjson.dumps(_spelt(value), option=option)
    return escape_json(text.decode())


def _spelt(value: Any) -> Any:
    """`value` with what JSON can hold but orjson cannot write already written: lone surrogates, long integers."""
    if isinstance(value, str):
        return orjson.Fragment(json.dumps(value)) if _LONE.search(value) else value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else orjson.Fragment(str(value))
    if isinstance(value, dict):
        return {key: _spelt(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelt(item) for item in value]
    if is_dataclass(value):
        return {field.name: _spelt(getattr(value, field.name)) for field in fields(value)}
    return value


def head(exchange: Exchange) -> dict[str, Any]:
    """What is known of an exchange without its bodies."""
    request, response = exchange.request, exchange.response
    return {
        "exchange": exchange.number,
        "time_ns": request.time_ns,
        "ended_ns": exchange.ended_ns,
        "method": request.method,
        "scheme": request.scheme,
        "authority": request.authority,
        "target": request.target,
        "request_headers": _headers(request.headers),
        "status": response.status if response else None,
        "response_headers": _headers(response.headers) if response else None,
        "stream": exchange.is_stream,
        "operation": exchange.operation,
        "session_id": exchange.session_id,
        "run_id": exchange.run_id,
        "ending": exchange.ending,
        "ending_words": ending_label(exchange.ending, stream=exchange.is_stream),
        "detail": exchange.detail,
        "request_bytes": exchange.request_bytes,
        "response_bytes": exchange.response_bytes,
        "lost_bytes": exchange.lost_bytes,
    }


def row(exchange: int, shown: StreamRow) -> dict[str, Any]:
    """A row of a stream: `row` names its kind, the other keys are its fields."""
    held = {field.name: getattr(shown, field.name) for field in fields(shown)}
    return {"row": _NAMES[type(shown)], "exchange": exchange, **held}


def row_text(exchange: int, shown: StreamRow) -> str:
    """`row` as `dump` writes it, which is twice as quick."""
    try:
        held = orjson.dumps(shown)
    except orjson.JSONEncodeError:
        return dump(row(exchange, shown))
    return escape_json(f'{{"row":"{_NAMES[type(shown)]}","exchange":{exchange},{held[1:].decode()}')


def rows(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: Match | None = None
) -> Iterator[dict[str, Any]]:
    """Everything that `wiretape show` tells of an exchange: nothing where `take` takes nothing of it."""
    shown = timeline.taken(recording, exchange, findings, take)
    if shown is None:
        return
    if exchange.is_stream:
        yield {"row": "exchange", **head(exchange)}
        for one in shown:
            yield row(exchange.number, one)
        return
    yield {"row": "exchange", **head(exchange), **timeline.previews(recording, exchange), "findings": findings}


def joined(resume: Resume) -> Iterator[dict[str, Any]]:
    """The resume view: one object for the two connections (`row` is `resume`), then one for each id (`joined`)."""
    said = {field.name: getattr(resume, field.name) for field in fields(resume) if field.name != "rows"}
    yield {"row": "resume", **said}
    for one in resume.rows:
        yield {"row": "joined", "status": one.status, "id": one.id, "first": one.first, "second": one.second}


def closely(
    recording: Recording, exchange: Exchange, around: Around, findings: Sequence[Finding], state: State
) -> dict[str, Any]:
    """One event with all its bytes, and what a client knew just after it.

    The keys of its row, and `fields` (`[[name, value]]`), `cursor`, `chunks` (`[[start, end, time_ns]]` of the body as
    it came; null where that is encoded), `data` as text, `base64` (all its bytes), and `state`.
    """
    seen, before = around.seen, around.before
    began = exchange.response.time_ns if exchange.response else exchange.request.time_ns
    came = place.chunks(recording, exchange, seen.frame.start, seen.frame.end)
    found = tuple(finding for finding in findings if finding.event == seen.event)
    since_ns = before.time_ns if before else began
    raw = b64encode(seen.frame.raw).decode()
    return {**detail(exchange, seen, since_ns, found, list(came)), "base64": raw, "state": state}


def detail(
    exchange: Exchange, seen: SeenFrame, since_ns: int, findings: tuple[Finding, ...], came: Sequence[Chunk]
) -> dict[str, Any]:
    """The same without `base64` and `state`; `since_ns` is when the message before came, `findings` are its own."""
    return {
        **row(exchange.number, replace(place.row(seen, since_ns), findings=findings)),
        "fields": [[_decoded(name), _decoded(value)] for name, value in seen.frame.fields],
        "cursor": _decoded(seen.frame.last_event_id),
        "chunks": _came(exchange, came),
        "data": _decoded(seen.frame.data),
    }


def cut(recording: Recording, exchange: Exchange, seen: SeenFrame) -> dict[str, Any]:
    """The bytes of a message that was cut off, all but `base64`."""
    frame = seen.frame
    came = place.chunks(recording, exchange, frame.start, frame.end)
    return {"start": frame.start, "end": frame.end, "chunks": _came(exchange, list(came))}


def _came(exchange: Exchange, came: Sequence[Chunk]) -> Sequence[Chunk] | None:
    """Chunks, where they say something about bytes of the decoded body."""
    return came if is_identity(exchange.content_encoding) else None


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _headers(headers: Headers) -> list[list[str]]:
    return [[name, value] for name, value in headers]
