"""A recording as JSON, as `wiretape show --json` prints it and as the page loads it, from a server or a file."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import orjson

from wiretape.checker import Settings
from wiretape.content_encoding import is_identity
from wiretape.contract.vocabulary import Vocabulary
from wiretape.event import TimedFrame
from wiretape.event_preview import is_utf8
from wiretape.json_codec import UnreadableJson, dump_json, members_of, read_json
from wiretape.labels import ending_label
from wiretape.recording import Exchange, Recording, known_rules, settings_of
from wiretape.rules import Finding, Rule
from wiretape.rules.exchange import may_be_unread
from wiretape_inspect.diff.reconnection import compare_connections
from wiretape_inspect.event_detail import Chunk, EventContext, chunks
from wiretape_inspect.exchange_selection import channels_of, name_channels
from wiretape_inspect.rule_output import explain_command
from wiretape_inspect.timeline_text import matching_rows, previews, stored_findings
from wiretape_inspect.view.accumulated_state import state_at
from wiretape_inspect.view.filters import CompiledFilter
from wiretape_inspect.view.timeline_rows import (
    CutRow,
    DeltaRow,
    EndRow,
    EventRow,
    LostRow,
    OversizedRow,
    PauseRow,
    StreamRow,
    event_rows,
)

_ROW_NAMES: dict[type, str] = {
    EventRow: "event",
    DeltaRow: "deltas",
    PauseRow: "pause",
    CutRow: "cut",
    OversizedRow: "oversized",
    LostRow: "lost",
    EndRow: "end",
}


def exchange_document(exchange: Exchange, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return everything about an exchange except its bodies."""
    request, response, stream = exchange.request, exchange.response, exchange.is_stream
    return {
        "exchange": exchange.number,
        **members_of(request, "time_ns", "client", "method", "scheme", "authority", "target"),
        "request_version": request.http_version,
        "request_headers": request.headers,
        "status": response.status if response else None,
        "response_version": response.http_version if response else None,
        "response_headers": response.headers if response else None,
        "stream": stream,
        "ending_label": ending_label(exchange.ending, stream=stream),
        **members_of(exchange, "ended_ns", "operation", "ending", "detail"),
        "contract": vocabulary.contract,
        "cursor": exchange.cursor,
        **vocabulary.columns(exchange.keys, exchange.channel),
        **members_of(exchange, "request_bytes", "response_bytes", "lost_bytes"),
    }


def listed_exchange(recording: Recording, exchange: Exchange) -> dict[str, Any]:
    """Return an exchange for a list of exchanges: with the number of its events, which is None without a stream."""
    document = exchange_document(exchange, exchange.vocabulary)
    return {**document, "events": recording.event_count(exchange.number) if document["stream"] else None}


def exchange_row(exchange: Exchange, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the row that begins an exchange."""
    return {"row": "exchange", **exchange_document(exchange, vocabulary)}


def row_document(exchange: int, row: StreamRow, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return a row of a stream: `row` names its type, the other keys are its fields."""
    if not isinstance(row, EventRow):
        values = members_of(row)
        keys = vocabulary.columns(values.pop("keys")) if isinstance(row, DeltaRow) else {}
        return {"row": _ROW_NAMES[type(row)], "exchange": exchange, **values, **keys}
    event, frame = row.event, row.event.frame
    return {
        "row": "event",
        "exchange": exchange,
        "event": event.number,
        "time_ns": event.time_ns,
        "type": event.type,
        "kind": event.kind,
        "id": event.id,
        "sequence": event.sequence,
        "note": event.note,
        **vocabulary.columns(event.keys),
        "gap_ns": row.gap_ns,
        "preview": row.preview,
        "start": frame.start,
        "end": frame.end,
        "findings": row.findings,
    }


def row_json(exchange: int, row: StreamRow, vocabulary: Vocabulary) -> str:
    """Return the JSON of a row."""
    return dump_json(row_document(exchange, row, vocabulary))


def exchange_json_lines(
    recording: Recording, exchange: Exchange, findings: Sequence[Finding], take: CompiledFilter | None = None
) -> Iterator[str]:
    """Yield an exchange and its matching rows, one JSON object per line; nothing if nothing of it matches."""
    rows = matching_rows(recording, exchange, findings, take)
    if rows is None:
        return
    vocabulary = exchange.vocabulary
    head = exchange_row(exchange, vocabulary)
    if not exchange.is_stream:
        yield dump_json({**head, **previews(recording, exchange), "findings": findings})
        return
    yield dump_json(head)
    for row in rows:
        yield row_json(exchange.number, row, vocabulary)


def reconnection_json_lines(recording: Recording, first: Exchange, second: Exchange) -> Iterator[str]:
    """Return the row `reconnection` about two connections, then a row `cursor` for each.  Raises InputError at once."""
    view = compare_connections(recording, first, second)
    about = members_of(view)
    del about["rows"]
    cursors = ({"row": "cursor"} | members_of(row) for row in view.rows)
    return map(dump_json, chain([{"row": "reconnection", **about}], cursors))


def detail_document(recording: Recording, exchange: Exchange, context: EventContext) -> dict[str, Any]:
    """Return one event in detail, with the state of the client just after it.

    Has the keys of its row, and `fields` (`[[name, value]]`), `cursor`, `chunks` (`[[start, end, time_ns]]` of the body
    as it arrived; null if that is encoded), `data` as text, `base64` (all its bytes), and `state`.
    """
    event = context.row.event
    findings = tuple(finding for finding in recording.findings(exchange.number) if finding.event == event.number)
    event_chunks = chunks(recording, exchange, event.frame.start, event.frame.end)
    row, vocabulary = replace(context.row, findings=findings), exchange.vocabulary
    document = event_document(exchange, row, event_chunks, vocabulary)
    state = state_at(recording, exchange, event.number)
    return {**document, "base64": b64encode(event.raw).decode(), "state": state}


def event_document(
    exchange: Exchange, row: EventRow, event_chunks: Iterable[Chunk], vocabulary: Vocabulary
) -> dict[str, Any]:
    """Return one event in detail without `base64` and `state`."""
    event = row.event
    return {
        **row_document(exchange.number, row, vocabulary),
        "fields": [[_decode(name), _decode(value)] for name, value in event.frame.fields],
        "cursor": _decode(event.frame.last_event_id),
        "may_be_unread": may_be_unread(event.time_ns, exchange.ending, exchange.ended_ns),
        "chunks": _plain_chunks(exchange, event_chunks),
        "data": _decode(event.data),
    }


def cut_event_document(recording: Recording, exchange: Exchange, seen: TimedFrame) -> dict[str, Any]:
    """Return the location of the bytes of an event that was cut off."""
    frame = seen.frame
    found = chunks(recording, exchange, frame.start, frame.end)
    return {"start": frame.start, "end": frame.end, "chunks": _plain_chunks(exchange, found)}


def _plain_chunks(exchange: Exchange, found: Iterable[Chunk]) -> list[Chunk] | None:
    """Return the chunks, unless the body is encoded: then their offsets are not those of the decoded body."""
    return list(found) if is_identity(exchange.content_encoding) else None


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def content(data: bytes, *, parse: bool = True) -> dict[str, Any]:
    """Return bytes under the key `data` (JSON, unchanged), `text` or `base64`, whichever holds them."""
    if not is_utf8(data):
        return {"base64": b64encode(data).decode()}
    if parse and not isinstance(read_json(data), UnreadableJson):
        # In valid JSON, line feeds occur only between tokens.
        return {"data": orjson.Fragment(data.replace(b"\n", b" ").replace(b"\r", b" "))}
    return {"text": data.decode()}


def recording_document(
    recording: Recording,
    exchanges: Iterable[Exchange] | None = None,
    findings: Mapping[int, Sequence[Finding]] | None = None,
) -> dict[str, Any]:
    """Return the recording without its rows: its head, the heads of its exchanges, and the findings.

    By default, these are all exchanges and the findings of the live checks.
    """
    chosen = list(recording.exchanges() if exchanges is None else exchanges)
    named = name_channels(recording, chosen, channels_of(chosen))
    by_exchange = stored_findings(recording) if findings is None else findings
    found = [finding for exchange in chosen for finding in by_exchange.get(exchange.number, ())]
    info = recording.info
    return {
        "file": recording.path.name,
        **members_of(info, "upstream", "tool", "started", "ended_ns"),
        "exchanges": [listed_exchange(recording, exchange) for exchange in named],
        "findings": found,
        "contracts": info.contract_names,
        "vocabularies": {each.contract: each.document() for each in recording.vocabularies},
        "rules": rules_of(recording, found),
    }


def rules_of(recording: Recording, findings: Iterable[Finding]) -> Mapping[str, Any]:
    """Return the rules of some findings, by code."""
    rules = known_rules(recording.info.contracts)
    codes = sorted({finding.code for finding in findings})
    found = [rules[code] for code in codes if code in rules]
    facts = {each.code: members_of(each, "name", "severity", "side", "clause") for each in found}
    settings = settings_of(recording.info.contracts)
    return {each.code: facts[each.code] | explained_rule(each, settings) for each in found}


def explained_rule(rule: Rule, settings: Settings) -> dict[str, str]:
    """Return what explains a rule: `about`, `why` it matters, the usual `fix`, and the command to `explain` it."""
    texts = rule.explanation
    return {"about": rule.about, "why": texts.why, "fix": texts.fix, "explain": explain_command(rule, settings)}


def event_lines(recording: Recording, exchange: Exchange, first: int, last: int) -> Iterator[str]:
    """Yield a row for each message of a stream from number `first` to `last`, including deltas."""
    vocabulary = exchange.vocabulary
    for row in event_rows(recording, exchange, first):
        if row.event.number > last:
            return
        yield dump_json(row_document(exchange.number, row, vocabulary))
