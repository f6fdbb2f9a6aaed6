"""JSON lines: a recording as an object for everything that was observed, in order of time.

The first line is the recording, then come the runs of recorders, the observations, and the live findings.
Nothing is lost but the key of the fingerprints, and what is derived from the rest.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from wiretape.observations import (
    BytesArrived,
    BytesLost,
    ExchangeEnded,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
)
from wiretape.recording.formats.jsonl_reading import KIND, VERSION, begins, read
from wiretape.recording.formats.registry import FormatReader, FormatWriter
from wiretape.recording.recording_reader import Recording
from wiretape.recording.recording_types import Exchange
from wiretape.safe_text import escape_json


def lines(recording: Recording, exchanges: Iterable[Exchange] | None) -> Iterator[bytes]:
    """The lines for a recording, or for some of its exchanges."""
    chosen = None if exchanges is None else {exchange.number for exchange in exchanges}
    info = recording.info
    yield _line(
        kind=KIND,
        format=VERSION,
        upstream=info.upstream,
        started=info.started.isoformat().replace("+00:00", "Z"),
        started_unix_ns=info.started_unix_ns,
        redacted=info.redacted,
    )
    for run in recording.captures():
        yield _line(kind="capture", tool=run.tool, began_ns=run.began_ns, ended_ns=run.ended_ns)
    for seen in recording.observations():
        if chosen is None or seen.exchange in chosen:
            yield from _chunks(seen) if isinstance(seen, BytesArrived) else (_line(**_said(seen)),)
    for finding in recording.findings():
        if chosen is None or finding.exchange in chosen:
            yield _line(kind="finding", exchange=finding.exchange, **{name: getattr(finding, name) for name in FINDING})


def _line(**fields: Any) -> bytes:
    return _escaped(orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE))


def _chunks(run: BytesArrived) -> Iterator[bytes]:
    start = run.start
    for time_ns, data in run.chunks():
        line = {"kind": "chunk", "exchange": run.exchange, "time_ns": time_ns, "side": run.side, "start": start}
        yield _escaped(orjson.dumps(line | content(data), option=orjson.OPT_APPEND_NEWLINE))
        start += len(data)


def _escaped(line: bytes) -> bytes:
    return line if line.isascii() else escape_json(line.decode()).encode()


def content(data: bytes) -> dict[str, str]:
    """Bytes as `text`, or as `base64` where they are no UTF-8."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _said(seen: Observation) -> dict[str, Any]:
    where = {"exchange": seen.exchange, "time_ns": seen.time_ns}
    match seen:
        case RequestStarted():
            return {"kind": "request", **where, **_fields(seen, *REQUEST)}
        case RequestEnded():
            return {"kind": "request-ended", **where}
        case ResponseStarted():
            return {"kind": "response", **where, **_fields(seen, *RESPONSE)}
        case BytesLost():
            return {"kind": "lost", **where, **_fields(seen, "side", "start", "count", "why")}
        case ExchangeEnded():
            return {"kind": "ended", **where, **_fields(seen, "ending", "detail")}
    raise AssertionError(seen)


REQUEST = ("client", "method", "scheme", "authority", "target", "http_version", "headers")
FINDING = ("event", "code", "severity", "side", "sequence", "byte_offset", "time_ns", "message")
RESPONSE = ("status", "reason", "http_version", "headers")


def _fields(seen: Observation, *names: str) -> dict[str, Any]:
    return {name: getattr(seen, name) for name in names}


READER = FormatReader(begins, read)
WRITER = FormatWriter(lines)
