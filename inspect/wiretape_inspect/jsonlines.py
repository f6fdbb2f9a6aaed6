"""JSON for other programs, safe to look at on a terminal too."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import orjson

from wiretape.observe import Headers
from wiretape.recording import Exchange, Recording
from wiretape.rules import Finding
from wiretape_inspect import timeline
from wiretape_inspect.rows import CutRow, DeltaRow, EndRow, EventRow, LostRow, OversizedRow, PauseRow, StreamRow
from wiretape_inspect.words import ending

_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
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
    # Outside of strings JSON is ASCII, so what is replaced stands in a string.
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text.decode())


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
        "ending_words": ending(exchange.ending, stream=exchange.is_stream),
        "detail": exchange.detail,
        "request_bytes": exchange.request_bytes,
        "response_bytes": exchange.response_bytes,
        "lost_bytes": exchange.lost_bytes,
    }


def row(exchange: int, shown: StreamRow) -> dict[str, Any]:
    """A row of a stream: `row` names its kind, the other keys are its fields."""
    held = {field.name: getattr(shown, field.name) for field in fields(shown)}
    return {"row": _NAMES[type(shown)], "exchange": exchange, **held}


def rows(recording: Recording, exchange: Exchange, findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    """Everything that `wiretape show` tells of an exchange."""
    if exchange.is_stream:
        yield {"row": "exchange", **head(exchange)}
        for shown in timeline.rows(recording, exchange, findings):
            yield row(exchange.number, shown)
        return
    yield {"row": "exchange", **head(exchange), **timeline.previews(recording, exchange), "findings": findings}


def _headers(headers: Headers) -> list[list[str]]:
    return [[name, value] for name, value in headers]
