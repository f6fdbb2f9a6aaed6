"""The timeline as JSON: exchanges, rows, event details and reconnections as `wiretape show --json` prints them."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

import orjson

from wiretape.content_encoding import is_identity
from wiretape.frame_reader import SeenFrame
from wiretape.json_output import dump_json
from wiretape.observations import Headers
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape.safe_text import escape_json
from wiretape_inspect import event_detail, timeline
from wiretape_inspect.event_detail import Around, Chunk
from wiretape_inspect.humanize import ending_label
from wiretape_inspect.view.filter_match import Match
from wiretape_inspect.view.reconnection import Reconnection
from wiretape_inspect.view.state_at_event import State
from wiretape_inspect.view.timeline_rows import (
    CutRow,
    DeltaRow,
    EndRow,
    EventRow,
    LostRow,
    OversizedRow,
    PauseRow,
    StreamRow,
)

_NAMES: dict[type, str] = {
    EventRow: "event",
    DeltaRow: "deltas",
    PauseRow: "pause",
    CutRow: "cut",
    OversizedRow: "oversized",
    LostRow: "lost",
    EndRow: "end",
}


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
        "ending_label": ending_label(exchange.ending, stream=exchange.is_stream),
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
    """`row` as `dump_json` writes it, which is twice as quick."""
    try:
        held = orjson.dumps(shown)
    except orjson.JSONEncodeError:
        return dump_json(row(exchange, shown))
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


def joined(resume: Reconnection) -> Iterator[dict[str, Any]]:
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
    came = event_detail.chunks(recording, exchange, seen.frame.start, seen.frame.end)
    found = tuple(finding for finding in findings if finding.event == seen.event)
    since_ns = before.time_ns if before else began
    raw = b64encode(seen.frame.raw).decode()
    return {**detail(exchange, seen, since_ns, found, list(came)), "base64": raw, "state": state}


def detail(
    exchange: Exchange, seen: SeenFrame, since_ns: int, findings: tuple[Finding, ...], came: Sequence[Chunk]
) -> dict[str, Any]:
    """The same without `base64` and `state`; `since_ns` is when the message before came, `findings` are its own."""
    return {
        **row(exchange.number, replace(event_detail.row(seen, since_ns), findings=findings)),
        "fields": [[_decoded(name), _decoded(value)] for name, value in seen.frame.fields],
        "cursor": _decoded(seen.frame.last_event_id),
        "chunks": _came(exchange, came),
        "data": _decoded(seen.frame.data),
    }


def cut(recording: Recording, exchange: Exchange, seen: SeenFrame) -> dict[str, Any]:
    """The bytes of a message that was cut off, all but `base64`."""
    frame = seen.frame
    came = event_detail.chunks(recording, exchange, frame.start, frame.end)
    return {"start": frame.start, "end": frame.end, "chunks": _came(exchange, list(came))}


def _came(exchange: Exchange, came: Sequence[Chunk]) -> Sequence[Chunk] | None:
    """Chunks, where they say something about bytes of the decoded body."""
    return came if is_identity(exchange.content_encoding) else None


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _headers(headers: Headers) -> list[list[str]]:
    return [[name, value] for name, value in headers]
